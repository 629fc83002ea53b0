import itertools
import math
from numbers import Real

from matplotlib.axes import Axes
from matplotlib.text import Text
from matplotlib.ticker import EngFormatter
from matplotlib.ticker import NullLocator
from matplotlib.transforms import Bbox

from keras_bpn.evaluation import summarize_histories
from keras_bpn.plots.inputs import Histories
from keras_bpn.plots.inputs import as_histories
from keras_bpn.plots.inputs import by_method
from keras_bpn.plots.inputs import check_error
from keras_bpn.plots.style import axes_or_new
from keras_bpn.plots.style import finish
from keras_bpn.plots.style import line_style

# Where a name may stand, as seen from its point: beside and below it at some
# distance in points, and above it only if there is no room elsewhere.
_BELOW = (
    ((1, 0), "left", "center"),
    ((-1, 0), "right", "center"),
    ((0, -1), "center", "top"),
    ((1, -1), "left", "top"),
    ((-1, -1), "right", "top"),
)
_ABOVE = (
    ((0, 1), "center", "bottom"),
    ((1, 1), "left", "bottom"),
    ((-1, 1), "right", "bottom"),
)
_LINE_TO_POINT = {
    "arrowstyle": "-",
    "color": "0.5",
    "linewidth": 0.6,
    "shrinkB": 4,
}
_DISTANCES = (7, 18, 30, 44, 60)
_PLACES = (
    *itertools.product(_DISTANCES, _BELOW),
    *itertools.product(_DISTANCES, _ABOVE),
)


def storage_against_accuracy(
    results: dict[str, Histories | tuple[float, float]],
    ax: Axes | None = None,
    error: str = "std",
) -> Axes:
    """Draws what methods store for a task against how well they do.

    Each method is a point with its name beside it: bytes stored per task, on a
    logarithmic scale, and the average accuracy after the last task. With
    several seeds, it is at their mean, with an error bar. If a method stores
    nothing, the scale begins at 0 with a linear part.

    Args:
        results: Dictionary from the name of a method to its `LearningHistory`,
            to a list with one for each seed, or to a pair of numbers
            `(stored_bytes, accuracy)`, as for what others have published.
        ax: `matplotlib.axes.Axes` to draw on, or `None` for a new figure.
        error: What error bars reach up and down to: `"std"`, the standard
            deviation over seeds, `"standard_error"`, that of the mean, or
            `"interval"`, the confidence interval of the mean at 95%.

    Returns:
        The axes.

    Example:

    >>> ax = keras_bpn.plots.storage_against_accuracy(
    ...     {"GEM": (4_718_592, 0.79), "BD+EWC": (4808, 0.845)}
    ... )
    >>> ax.get_xlabel()
    'stored bytes per task'
    """
    check_error(error)
    points = by_method(
        results, lambda value, name: _point(value, name, error), "results"
    )
    ax = axes_or_new(ax)
    _set_scale(ax, [size for size, _, _ in points.values()])
    for i, (method, (size, accuracy, length)) in enumerate(points.items()):
        style = {**line_style(i), "linestyle": "none", "markersize": 7}
        ax.errorbar(
            [size],
            [accuracy],
            None if math.isnan(length) else [length],
            label=method,
            capsize=2,
            elinewidth=1,
            **style,
        )
    ax.margins(0.12, 0.12)
    ax.set_xlabel("stored bytes per task")
    ax.set_ylabel("average accuracy")
    finish(ax)
    _write_names(ax, points)
    return ax


def _point(value, name, error):
    """Returns stored bytes, accuracy and the length of its error bar."""
    if _is_pair(value):
        size, accuracy, length = float(value[0]), float(value[1]), math.nan
    else:
        summaries = summarize_histories(as_histories(value, name))
        size = summaries["stored_bytes_per_task"].mean
        summary = summaries["average_accuracy"]
        accuracy = summary.mean
        length = (
            summary.interval[1] - accuracy
            if error == "interval"
            else getattr(summary, error)
        )
    if not 0 <= size < math.inf or not 0 <= accuracy <= 1:
        raise ValueError(
            f"Expected stored bytes of at least 0 and an accuracy from 0 to 1 "
            f"of `{name}`. Received: {size} bytes, accuracy {accuracy}"
        )
    return size, accuracy, length


def _is_pair(value):
    return (
        isinstance(value, (tuple, list))
        and len(value) == 2
        and all(isinstance(number, Real) for number in value)
    )


def _set_scale(ax, sizes):
    positive = [size for size in sizes if size > 0]
    if len(positive) == len(sizes):
        ax.set_xscale("log")
        if len(set(sizes)) == 1:
            # A range of its own: there is none in the data.
            ax.set_xlim(sizes[0] / 10, sizes[0] * 10)
    else:
        # One decade from 0 to the power of ten at or below the smallest.
        smallest = 10 ** math.floor(math.log10(min(positive, default=1)))
        ax.set_xscale("symlog", linthresh=smallest, linscale=0.7)
    ax.xaxis.set_minor_locator(NullLocator())
    ax.xaxis.set_major_formatter(EngFormatter("B"))


def _write_names(ax, points):
    """Writes each name where it is on no point and on no other name."""
    ax.autoscale_view()
    taken = [_marker_box(ax, *point) for point in points.values()]
    inside = ax.get_window_extent()
    # From the highest point down: names then stand in the order of points.
    ordered = sorted(points.items(), key=lambda item: -item[1][1])
    for method, (size, accuracy, _) in ordered:
        text = ax.annotate(
            method,
            (size, accuracy),
            xytext=(0, 0),
            textcoords="offset points",
            arrowprops=_LINE_TO_POINT,
        )
        for distance, direction in _PLACES:
            box = _move(text, distance, direction)
            outside = (
                box.x0 < inside.x0 or box.x1 > inside.x1 or box.y0 < inside.y0
            )
            if not outside and not box.count_overlaps(taken):
                break
        else:
            # There is no free place left.
            box = _move(text, *_PLACES[0])
        taken.append(box)


def _move(text, distance, direction):
    """Moves a name, and returns where it is drawn then."""
    (right, up), across, along = direction
    text.set(
        position=(right * distance, up * distance),
        horizontalalignment=across,
        verticalalignment=along,
    )
    text.arrow_patch.set_visible(distance > _DISTANCES[0])
    # Finds its place; what it returns has room for the line to the point too.
    text.get_window_extent()
    return Text.get_window_extent(text)


def _marker_box(ax, size, accuracy, length):
    """Returns where the marker and the error bar of a point are drawn."""
    length = 0 if math.isnan(length) else length
    ends = [(size, accuracy - length), (size, accuracy + length)]
    (x, low), (_, high) = ax.transData.transform(ends)
    radius = 4 / 72 * ax.figure.dpi
    return Bbox([[x - radius, low - radius], [x + radius, high + radius]])
