import numpy as np
from matplotlib.axes import Axes
from matplotlib.legend_handler import HandlerTuple
from matplotlib.lines import Line2D
from matplotlib.patches import Patch
from scipy.special import softmax

from keras_bpn.plots.style import COLORMAP
from keras_bpn.plots.style import COLORS
from keras_bpn.plots.style import HATCHES
from keras_bpn.plots.style import MARKERS
from keras_bpn.plots.style import axes_or_new
from keras_bpn.plots.style import finish
from keras_bpn.plots.style import tint

Limits = tuple[tuple[float, float], tuple[float, float]]


def decision_regions(
    model,
    task: str,
    x: np.ndarray | None = None,
    y: np.ndarray | None = None,
    ax: Axes | None = None,
    limits: Limits | None = None,
    probability_of: int | None = None,
    resolution: int = 200,
    legend: bool = True,
) -> Axes:
    """Draws which class a network with two inputs predicts where.

    As figure 5 of the paper, for one task: regions of classes with their
    boundaries or, with `probability_of`, how likely one class is.

    Args:
        model: `keras_bpn.BPNModel`, or another with `predict(x, task=...)`,
            that has two inputs and an output for each class.
        task: Name of the task whose mode to predict in.
        x: Points to draw, of shape `(points, 2)`.
        y: Integer classes of the points, of shape `(points,)`.
        ax: `matplotlib.axes.Axes` to draw on, or `None` for a new figure.
        limits: Two pairs of numbers, the range of the first and of the second
            input. By default, it has room for all points `x`.
        probability_of: Integer class. Its probability is drawn in place of
            regions, with the boundary of its region. Outputs that are not
            probabilities are put through a softmax.
        resolution: Number of places along each side at which to predict.
        legend: Whether to put a legend to the right of the axes.

    Returns:
        The axes.

    Example:

    >>> inputs = keras.Input((2,))
    >>> outputs = keras_bpn.layers.BPNDense(2, activation="softmax")(inputs)
    >>> model = keras_bpn.BPNModel(inputs, outputs)
    >>> model.compile(loss="sparse_categorical_crossentropy")
    >>> x, y = np.random.rand(20, 2), np.random.randint(2, size=20)
    >>> history = model.fit(x, y, task="a", verbose=0)
    >>> ax = keras_bpn.plots.decision_regions(model, "a", x, y)
    >>> ax.get_xlabel()
    'first input'
    """
    x, y = _check_points(x, y)
    limits = _check_limits(limits, x)
    if type(resolution) is not int or resolution < 2:
        raise ValueError(
            "Expected `resolution` to be an integer of at least 2. "
            f"Received: resolution={resolution!r}"
        )
    sides = [np.linspace(*pair, resolution) for pair in limits]
    outputs = _predict(model, task, sides)
    classes = outputs.shape[-1]
    if probability_of is not None and not (
        type(probability_of) is int and 0 <= probability_of < classes
    ):
        raise ValueError(
            f"Expected `probability_of` to be a class from 0 to {classes - 1}. "
            f"Received: probability_of={probability_of!r}"
        )
    ax = axes_or_new(ax)
    predicted = np.argmax(outputs, axis=-1)
    if probability_of is None:
        shown = [int(c) for c in np.unique(predicted)]
        for c in shown:
            _draw_region(ax, sides, predicted == c, c)
    else:
        shown = []
        _draw_probability(ax, limits, outputs, probability_of)
        _draw_boundary(ax, sides, predicted == probability_of)
    if x is not None:
        _draw_points(ax, x, y)
    ax.set(xlim=limits[0], ylim=limits[1])
    ax.set_xlabel("first input")
    ax.set_ylabel("second input")
    finish(ax)
    if legend:
        _put_legend(ax, shown, [] if y is None else np.unique(y).tolist())
    return ax


def _check_points(x, y):
    if x is None and y is None:
        return None, None
    x = None if x is None else np.asarray(x)
    y = None if y is None else np.asarray(y)
    if x is None or x.ndim != 2 or x.shape[1] != 2 or not np.isfinite(x).all():
        raise ValueError(
            "Expected `x` to be finite points of shape (points, 2). "
            f"Received: x={'None' if x is None else f'of shape {x.shape}'}"
        )
    if y is not None and (
        y.shape != x.shape[:1] or y.dtype.kind not in "iu" or np.any(y < 0)
    ):
        raise ValueError(
            f"Expected `y` to be {len(x)} classes, integers from 0 on. "
            f"Received: y of shape {y.shape} and dtype {y.dtype}"
        )
    return x, y


def _check_limits(limits, x):
    if limits is None and x is not None and len(x):
        low, high = x.min(axis=0), x.max(axis=0)
        margin = 0.1 * np.where(high > low, high - low, 1)
        limits = np.transpose([low - margin, high + margin])
    try:
        pairs = np.array(limits, float)
    except (TypeError, ValueError):
        pairs = np.empty(0)
    if pairs.shape != (2, 2) or not np.all(pairs[:, 0] < pairs[:, 1]):
        raise ValueError(
            "Expected points `x`, or `limits` as two pairs of a lower and a "
            f"larger number. Received: limits={limits!r}"
        )
    return tuple(tuple(pair) for pair in pairs.tolist())


def _predict(model, task, sides):
    """Returns outputs of shape `(resolution, resolution, classes)`."""
    grid = np.stack(np.meshgrid(*sides), axis=-1).astype("float32")
    outputs = model.predict(
        grid.reshape(-1, 2), batch_size=4096, task=task, verbose=0
    )
    outputs = np.asarray(outputs)
    if outputs.ndim != 2 or outputs.shape[1] < 2:
        raise ValueError(
            "Expected a model with an output for each of at least two classes. "
            f"Received: outputs of shape {outputs.shape}"
        )
    return outputs.reshape(*grid.shape[:2], -1)


def _probabilities(outputs):
    are_probabilities = np.all(outputs >= 0) and np.allclose(
        outputs.sum(axis=-1), 1, atol=1e-3
    )
    return outputs if are_probabilities else softmax(outputs, axis=-1)


def _draw_region(ax, sides, inside, c):
    if inside.all():
        # There is no contour to fill.
        ax.patch.set(**_region_style(c))
        return
    style = _region_style(c)
    region = ax.contourf(
        *sides,
        inside,
        [0.5, 1.5],
        colors=[style["facecolor"]],
        hatches=[style["hatch"]],
    )
    region.set(edgecolor=style["edgecolor"], linewidth=0)
    _draw_boundary(ax, sides, inside)


def _region_style(c):
    color = COLORS[c % len(COLORS)]
    return {
        "facecolor": tint(color, 0.25),
        "edgecolor": tint(color, 0.5),
        "hatch": HATCHES[c % len(HATCHES)],
        "linewidth": 0,
    }


def _draw_boundary(ax, sides, inside):
    if 0 < inside.mean() < 1:
        ax.contour(*sides, inside, [0.5], colors="black", linewidths=1.2)


def _draw_probability(ax, limits, outputs, c):
    image = ax.imshow(
        _probabilities(outputs)[..., c],
        COLORMAP,
        vmin=0,
        vmax=1,
        origin="lower",
        extent=(*limits[0], *limits[1]),
        aspect="auto",
        interpolation="bilinear",
    )
    bar = ax.figure.colorbar(image, ax=ax, label=f"probability of class {c}")
    bar.outline.set_visible(False)


def _point_style(c):
    return {
        "marker": "o" if c is None else MARKERS[c % len(MARKERS)],
        "markerfacecolor": "0.5" if c is None else COLORS[c % len(COLORS)],
        "markeredgecolor": "white",
        "markeredgewidth": 0.6,
        "markersize": 5.5,
        "linestyle": "none",
    }


def _draw_points(ax, x, y):
    for c in [None] if y is None else np.unique(y).tolist():
        points = x if c is None else x[y == c]
        name = "_points" if c is None else f"class {c}"
        ax.plot(*points.T, label=name, **_point_style(c))


def _put_legend(ax, regions, points):
    """Shows a class by its marker, on the pattern of its region."""
    handles = []
    classes = sorted({*regions, *points})
    for c in classes:
        region = Patch(**_region_style(c)) if c in regions else None
        point = Line2D([], [], **_point_style(c)) if c in points else None
        handles.append(tuple(h for h in (region, point) if h is not None))
    if classes:
        finish(
            ax,
            legend=True,
            handles=handles,
            labels=[f"class {c}" for c in classes],
            handler_map={tuple: HandlerTuple(ndivide=1)},
        )
