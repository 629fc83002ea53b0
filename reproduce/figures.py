"""Figures of the paper's kind."""

import pathlib

import matplotlib
import numpy as np

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402


def accuracy_over_epochs(
    histories: dict, tasks: list, epochs: int, title: str, path: pathlib.Path
) -> None:
    """Draws the accuracy of every task while task after task is learned.

    As figure 6 (a, b) of the paper: one panel per method, a line per task
    from the epoch where it starts, a dashed line where each task starts.

    Args:
        histories: Dictionary from a method to an array of shape
            `(total epochs, tasks)`, with NaN before a task starts.
        tasks: Names of the tasks.
        epochs: Epochs per task.
        title: Title of the figure.
        path: Where to write the PNG file.
    """
    columns = min(4, len(histories))
    rows = -(-len(histories) // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(3.2 * columns, 2.5 * rows + 0.6),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    colors = plt.get_cmap("viridis")(np.linspace(0, 0.9, len(tasks)))
    for axis in axes.flat[len(histories) :]:
        axis.set_axis_off()
    for axis, (method, history) in zip(axes.flat, histories.items()):
        history = np.asarray(history, float)
        for t, task in enumerate(tasks):
            axis.axvline(t * epochs, color="0.6", linestyle="--", linewidth=0.8)
            axis.plot(
                np.arange(1, len(history) + 1),
                history[:, t],
                color=colors[t],
                linewidth=1.6,
                label=task,
            )
        axis.set_title(method, fontsize=10)
        axis.set_ylim(-0.03, 1.03)
        axis.spines[["top", "right"]].set_visible(False)
    for axis in axes[:, 0]:
        axis.set_ylabel("test accuracy")
    for axis in axes[-1]:
        axis.set_xlabel("epoch")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        title="task",
        loc="lower right",
        ncols=2 if rows > 1 else len(tasks),
        frameon=False,
    )
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
