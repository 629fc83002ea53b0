import numpy as np
from matplotlib.axes import Axes

from keras_bpn.evaluation.checks import task_index
from keras_bpn.plots.inputs import Matrices
from keras_bpn.plots.inputs import as_matrices
from keras_bpn.plots.inputs import by_method
from keras_bpn.plots.inputs import check_error
from keras_bpn.plots.lines import draw_methods
from keras_bpn.plots.style import axes_or_new


def task_accuracy(
    histories_by_method: dict[str, Matrices],
    task: int | str = 0,
    ax: Axes | None = None,
    error: str = "std",
    legend: bool = True,
) -> Axes:
    """Draws the accuracy of one task against the number of tasks.

    As figure 6 (c) of the paper, which follows the first task: one line per
    method, through what was measured. With several seeds, it is their mean, in
    a band.

    Args:
        histories_by_method: Dictionary from the name of a method to its
            `LearningHistory` or `AccuracyMatrix`, or to a list with one for
            each seed.
        task: Position or name of the task.
        ax: `matplotlib.axes.Axes` to draw on, or `None` for a new figure.
        error: What the band reaches up and down to: `"std"`, the standard
            deviation over seeds, `"standard_error"`, that of the mean, or
            `"interval"`, the confidence interval of the mean at 95%.
        legend: Whether to put a legend to the right of the axes.

    Returns:
        The axes.

    Example:

    >>> history = keras_bpn.evaluation.LearningHistory(["a", "b"])
    >>> history.record_task("a", {"a": 1.0})
    >>> history.record_task("b", {"a": 0.5, "b": 1.0})
    >>> ax = keras_bpn.plots.task_accuracy({"EWC": history})
    >>> ax.get_ylabel()
    'accuracy on task a'
    """
    methods = by_method(histories_by_method, as_matrices)
    check_error(error)
    names = next(iter(methods.values()))[0].tasks
    task = task_index(names, task)
    samples = {
        method: np.array([matrix.values[:, task] for matrix in matrices])
        for method, matrices in methods.items()
    }
    ax = draw_methods(axes_or_new(ax), samples, error, legend)
    ax.set_ylabel(f"accuracy on task {names[task]}")
    return ax
