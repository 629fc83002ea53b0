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
    save(figure, path)


def first_task(histories, title: str, path: pathlib.Path) -> None:
    """Draws the accuracy of the first task after each task, of all methods.

    As figure 6 (c) of the paper.

    Args:
        histories: Dictionary from a method to its histories, one per seed.
        title: Title of the figure.
        path: Where to write the PNG file.
    """
    figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
    keras_bpn.plots.task_accuracy(histories, ax=axis)
    axis.set_title(title)
    save(figure, path)


def storage(histories, title: str, path: pathlib.Path) -> None:
    """Draws what methods store against how well they do.

    Args:
        histories: Dictionary from a method to its histories, one per seed.
        title: Title of the figure.
        path: Where to write the PNG file.
    """
    figure, axis = plt.subplots(figsize=(8, 4.5), layout="constrained")
    keras_bpn.plots.storage_against_accuracy(histories, ax=axis)
    axis.set_title(title)
    save(figure, path)


def average_and_groups(
    histories,
    title: str,
    path: pathlib.Path,
    group_size: int,
    reference: str | None,
) -> None:
    """Draws averages over tasks so far, and accuracies by groups of tasks.

    As figure 7 of the paper.

    Args:
        histories: Dictionary from a method to its histories, one per seed.
        title: Title of the figure.
        path: Where to write the PNG file.
        group_size: How many tasks there are in a group.
        reference: Name of the method that the others are tested against.
    """
    figure, axes = plt.subplots(2, figsize=(8, 8), layout="constrained")
    keras_bpn.plots.average_accuracy(histories, ax=axes[0])
    keras_bpn.plots.accuracy_by_group(
        histories,
        group_size=group_size,
        ax=axes[1],
        reference=reference if reference in histories else None,
    )
    figure.suptitle(title)
    save(figure, path)


def settings(results, title: str, path: pathlib.Path) -> None:
    """Draws what becomes of the first task and of all, setting by setting.

    Args:
        results: Dictionary from the name of a setting to a dictionary from a
            method to pairs of a value and its `Result`.
        title: Title of the figure.
        path: Where to write the PNG file.
    """
    columns = 3
    rows = -(-len(results) // columns)
    figure, axes = plt.subplots(
        rows,
        columns,
        figsize=(3.4 * columns, 2.7 * rows + 0.5),
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for axis in axes.flat[len(results) :]:
        axis.set_axis_off()
    for axis, (setting, by_method) in zip(axes.flat, results.items()):
        for method, pairs in by_method.items():
            _draw_pairs(axis, method, pairs)
        values = [v for pairs in by_method.values() for v, _ in pairs if v]
        if values:
            # 0 has a place too.
            axis.set_xscale("symlog", linthresh=min(values), linscale=0.3)
        axis.set_xlabel(setting)
    for axis in axes[:, 0]:
        axis.set_ylabel("accuracy after all tasks")
    handles, labels = axes.flat[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=4)
    figure.suptitle(title)
    save(figure, path)


def norms(results, title: str, path: pathlib.Path) -> None:
    """Draws what becomes of the first task and of all against the norm of bias
    units.

    Args:
        results: Dictionary from a method to pairs of a norm and its `Result`.
        title: Title of the figure.
        path: Where to write the PNG file.
    """
    figure, axis = plt.subplots(figsize=(7, 4.5), layout="constrained")
    for method, pairs in results.items():
        _draw_pairs(axis, method, sorted(pairs, key=lambda pair: pair[0]))
    axis.set_xscale("log")
    axis.set_xlabel("norm of a task's bias units in a hidden layer")
    axis.set_ylabel("accuracy after all tasks")
    axis.legend()
    axis.set_title(title)
    save(figure, path)


def _draw_pairs(axis, method, pairs):
    """Draws the first task in a full line, and the mean in a dashed one."""
    color = "C1" if method.endswith("PSP") or method.startswith("GD") else "C0"
    for style, marker, name, of in (
        ("-", "o", "task 1", lambda result: result.first_task()),
        ("--", "s", "mean", lambda result: result.average()),
    ):
        summaries = [of(result) for _, result in pairs]
        axis.errorbar(
            [value for value, _ in pairs],
            [summary.mean for summary in summaries],
            [summary.std for summary in summaries],
            label=f"{method}, {name}",
            color=color,
            linestyle=style,
            marker=marker,
            markersize=4,
            capsize=2,
        )


def save(figure, path):
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=110)
    plt.close(figure)
