"""Figures of the paper's kind."""

import pathlib

import matplotlib

import keras_bpn

matplotlib.use("Agg")
from matplotlib import pyplot as plt  # noqa: E402


def accuracy_over_epochs(
    histories: dict[str, keras_bpn.evaluation.LearningHistory],
    title: str,
    path: pathlib.Path,
) -> None:
    """Draws the accuracy of every task while task after task is learned.

    As figure 6 (a, b) of the paper, with one panel per method.

    Args:
        histories: Dictionary from a method to its history.
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
    for axis in axes.flat[len(histories) :]:
        axis.set_axis_off()
    for axis, (method, history) in zip(axes.flat, histories.items()):
        keras_bpn.plots.accuracy_over_epochs(history, ax=axis, legend=False)
        axis.set_title(method, fontsize=10)
        axis.label_outer()
    for axis in axes.flat[: len(histories)][-columns:]:
        # The lowest of its column, even if the grid goes on below it.
        axis.tick_params(labelbottom=True)
        axis.set_xlabel("epoch")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(
        handles,
        labels,
        title="task",
        loc="lower right",
        ncols=2 if rows > 1 else len(labels),
        frameon=False,
    )
    figure.suptitle(title)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
