from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes

from keras_bpn.plots.inputs import Histories
from keras_bpn.plots.inputs import as_histories
from keras_bpn.plots.inputs import as_matrices
from keras_bpn.plots.inputs import check_error
from keras_bpn.plots.inputs import means_and_errors
from keras_bpn.plots.style import START_OF_TASK
from keras_bpn.plots.style import axes_or_new
from keras_bpn.plots.style import count_from_one
from keras_bpn.plots.style import draw_line
from keras_bpn.plots.style import finish
from keras_bpn.plots.style import line_style
from keras_bpn.plots.style import sequence

# With more tasks, colours follow the order of tasks.
_MOST_COLORS = 7
# With more, markers would hide the lines.
_MOST_MARKERS = 20
_MOST_IN_LEGEND = 10


def accuracy_over_epochs(
    history: Histories,
    ax: Axes | None = None,
    tasks: Sequence[str] | None = None,
    error: str = "std",
    legend: bool = True,
) -> Axes:
    """Draws the accuracy of every task while task after task is learned.

    As figure 6 (a, b) of the paper: one line per task over all epochs, and a
    dashed vertical line where each task starts. With several seeds, a line is
    their mean, in a band. At the last epoch of a task, what was measured after
    the task stands in for what was not measured at that epoch.

    Args:
        history: `LearningHistory`, or a list with one for each seed. All have
            the same epochs.
        ax: `matplotlib.axes.Axes` to draw on, or `None` for a new figure.
        tasks: Names of the tasks to draw, as the first history has them. By
            default, all are drawn.
        error: What the band reaches up and down to: `"std"`, the standard
            deviation over seeds, `"standard_error"`, that of the mean, or
            `"interval"`, the confidence interval of the mean at 95%.
        legend: Whether to put a legend to the right of the axes. With many
            tasks, it shows some of them.

    Returns:
        The axes.

    Example:

    >>> history = keras_bpn.evaluation.LearningHistory(["a", "b"])
    >>> history.record_epoch("a", 0, {"loss": 0.7}, {"a": 0.5})
    >>> history.record_epoch("a", 1, {"loss": 0.2}, {"a": 1.0})
    >>> ax = keras_bpn.plots.accuracy_over_epochs(history)
    >>> ax.get_xlabel()
    'epoch'
    """
    histories = as_histories(history)
    as_matrices(histories, "history")
    check_error(error)
    names = histories[0].tasks
    chosen = _positions(names, tasks)
    starts = _starts_of_tasks(histories)
    curves = np.array([_curves(each) for each in histories])
    if np.isnan(curves[:, :, chosen]).all():
        raise ValueError(
            "Expected a history with accuracies of the tasks to draw. "
            "Received: one where none was measured"
        )
    ax = axes_or_new(ax)
    width = 0.8 if len(starts) <= _MOST_MARKERS else 0.3
    for start in starts:
        ax.axvline(start, zorder=0, linewidth=width, **START_OF_TASK)
    for i, task in enumerate(chosen):
        _draw_task(ax, curves[:, :, task], names[task], i, len(chosen), error)
    ax.set_xlabel("epoch")
    ax.set_ylabel("test accuracy")
    ax.set_ylim(-0.03, 1.03)
    ax.set_xlim(0, curves.shape[1] * 1.01)
    ax.xaxis.set_major_locator(count_from_one(curves.shape[1])[0])
    return finish(ax, legend, title="task")


def _positions(names, tasks):
    if tasks is None:
        return list(range(len(names)))
    tasks = [tasks] if isinstance(tasks, str) else list(tasks)
    unknown = [task for task in tasks if task not in names]
    if unknown or not tasks:
        raise ValueError(
            f"Expected `tasks` to be among {list(names)}. "
            f"Received: tasks={tasks}"
        )
    return [names.index(task) for task in tasks]


def _starts_of_tasks(histories):
    """Returns how many epochs came before each task."""
    orders = [
        [(h.tasks.index(e["task"]), e["epoch"]) for e in h.epochs]
        for h in histories
    ]
    if not orders[0] or any(order != orders[0] for order in orders):
        raise ValueError(
            "Expected histories with the same epochs, at least one. "
            f"Received: histories with {[len(o) for o in orders]} epochs"
        )
    tasks = [task for task, _ in orders[0]]
    return [i for i, task in enumerate(tasks) if task not in tasks[:i]]


def _curves(history):
    """Returns an array of accuracies of shape `(epochs, tasks)`."""
    positions = {task: i for i, task in enumerate(history.tasks)}
    curves = np.full((len(history.epochs), len(history.tasks)), np.nan)
    last_epochs = {}
    for i, epoch in enumerate(history.epochs):
        last_epochs[epoch["task"]] = i
        for task, accuracy in epoch["accuracy"].items():
            curves[i, positions[task]] = accuracy
    for cost in history.costs:
        task = positions[cost["task"]]
        if cost["task"] in last_epochs:
            curve = curves[last_epochs[cost["task"]], : task + 1]
            row = history.matrix.values[task, : task + 1]
            curve[:] = np.where(np.isnan(curve), row, curve)
    return curves


def _draw_task(ax, curves, name, i, size, error):
    means, errors = means_and_errors(curves, error)
    style = line_style(i)
    if size > _MOST_COLORS:
        style["color"] = sequence(size)[i]
    if size > _MOST_MARKERS:
        style.update(linestyle="-", marker="", linewidth=1)
    # Lines that lie on each other have their markers at different places.
    step = max(1, np.count_nonzero(~np.isnan(means)) // 6)
    style["markevery"] = (i % step, step)
    shown = i % -(-size // _MOST_IN_LEGEND) == 0 or i == size - 1
    label = name if shown else f"_{name}"
    draw_line(ax, means, errors, label=label, **style)
