import numpy as np
from matplotlib.axes import Axes

from keras_bpn.plots.inputs import Matrices
from keras_bpn.plots.inputs import as_matrices
from keras_bpn.plots.style import COLORMAP
from keras_bpn.plots.style import axes_or_new
from keras_bpn.plots.style import count_from_one

_MOST_NUMBERS = 12


def accuracy_matrix(
    matrix_or_history: Matrices,
    ax: Axes | None = None,
    annotate: bool | None = None,
    colorbar: bool = True,
) -> Axes:
    """Draws the accuracy on every task after every task as a heat map.

    Rows are the tasks after which, and columns the tasks on which the accuracy
    was measured. Cells that were not measured are hatched.

    Args:
        matrix_or_history: `AccuracyMatrix` or `LearningHistory`, or a list with
            one for each seed, of which the mean is drawn.
        ax: `matplotlib.axes.Axes` to draw on, or `None` for a new figure.
        annotate: Whether to write the numbers into the cells. By default, they
            are written for up to 12 tasks.
        colorbar: Whether to put a bar with the scale of colours to the right.

    Returns:
        The axes.

    Example:

    >>> history = keras_bpn.evaluation.LearningHistory(["a", "b"])
    >>> history.record_task("a", {"a": 1.0})
    >>> history.record_task("b", {"a": 0.5, "b": 1.0})
    >>> ax = keras_bpn.plots.accuracy_matrix(history)
    >>> ax.get_ylabel()
    'after task'
    """
    matrices = as_matrices(matrix_or_history, "matrix_or_history")
    ax = axes_or_new(ax)
    values = np.mean([matrix.values for matrix in matrices], axis=0)
    size = len(values)
    image = ax.imshow(
        np.ma.masked_invalid(values), COLORMAP, vmin=0, vmax=1, zorder=1
    )
    ax.patch.set(facecolor="white", edgecolor="0.8", hatch="////")
    few = size <= _MOST_NUMBERS
    if few:
        names = matrices[0].tasks
        turn = sum(map(len, names)) > 40
        ax.set_xticks(
            range(size),
            names,
            rotation=45 if turn else 0,
            ha="right" if turn else "center",
            rotation_mode="anchor" if turn else None,
        )
        ax.set_yticks(range(size), names)
        ax.tick_params(length=0)
    else:
        _, numbers = count_from_one(size)
        places = [number - 1 for number in numbers]
        ax.set_xticks(places, numbers)
        ax.set_yticks(places, numbers)
    if few if annotate is None else annotate:
        _write_numbers(ax, values)
    ax.set_xlabel("accuracy on task")
    ax.set_ylabel("after task")
    ax.spines[:].set_visible(False)
    if colorbar:
        bar = ax.figure.colorbar(image, ax=ax, label="accuracy", shrink=0.85)
        bar.outline.set_visible(False)
    return ax


def _write_numbers(ax, values):
    for (row, column), value in np.ndenumerate(values):
        if not np.isnan(value):
            ax.text(
                column,
                row,
                f"{value:.2f}",
                ha="center",
                va="center",
                # White on the dark half of the colours.
                color="white" if value < 0.5 else "black",
                fontsize="small",
            )
