from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.patheffects import withStroke

from keras_bpn.evaluation import compare
from keras_bpn.plots.inputs import Matrices
from keras_bpn.plots.inputs import as_matrices
from keras_bpn.plots.inputs import by_method
from keras_bpn.plots.inputs import check_error
from keras_bpn.plots.inputs import means_and_errors
from keras_bpn.plots.style import axes_or_new
from keras_bpn.plots.style import fill_style
from keras_bpn.plots.style import finish

_LEVELS = ((0.001, "***"), (0.01, "**"), (0.05, "*"))
_WIDTH = 0.84


def accuracy_by_group(
    histories_by_method: dict[str, Matrices],
    group_size: int = 10,
    ax: Axes | None = None,
    reference: str | None = None,
    over: str = "seeds",
    paired: bool = True,
    error: str = "std",
    legend: bool = True,
) -> Axes:
    """Draws the accuracy after the last task, by groups of tasks.

    As figure 7 (b) of the paper: for each group of tasks that were learned one
    after the other, a bar per method, with its error bar. Where `reference` is
    given, stars above a bar mark where a two-sided t-test finds it to differ
    from the bar of the reference: `*` for p < 0.05, `**` for p < 0.01, `***`
    for p < 0.001. The levels are not corrected for the number of tests.

    Args:
        histories_by_method: Dictionary from the name of a method to its
            `LearningHistory` or `AccuracyMatrix`, or to a list with one for
            each seed. All were measured after the same number of tasks.
        group_size: Number of tasks in a group; the last may have fewer.
        ax: `matplotlib.axes.Axes` to draw on, or `None` for a new figure.
        reference: Name of the method that the others are tested against.
        over: What varies in error bars and tests: `"seeds"`, the means of a
            group from seed to seed, or `"tasks"`, the accuracies of the tasks
            in a group, each averaged over seeds. Tasks share a network, so only
            seeds are independent.
        paired: Whether the runs of two methods, or their tasks, belong
            together in pairs, as in `keras_bpn.evaluation.compare`.
        error: What error bars reach up and down to: `"std"`, the standard
            deviation, `"standard_error"`, that of the mean, or `"interval"`,
            the confidence interval of the mean at 95%.
        legend: Whether to put a legend to the right of the axes.

    Returns:
        The axes.

    Example:

    >>> history = keras_bpn.evaluation.LearningHistory(["a", "b"])
    >>> history.record_task("a", {"a": 1.0})
    >>> history.record_task("b", {"a": 0.5, "b": 1.0})
    >>> ax = keras_bpn.plots.accuracy_by_group({"EWC": history}, group_size=1)
    >>> ax.get_ylabel()
    'accuracy after 2 tasks'
    """
    methods = by_method(histories_by_method, as_matrices)
    check_error(error)
    _check_arguments(methods, group_size, reference, over)
    rows = _last_rows(methods)
    size = len(rows[next(iter(rows))][0])
    starts = range(0, size, group_size)
    samples = {
        method: [_sample(row[:, s : s + group_size], over) for s in starts]
        for method, row in rows.items()
    }
    marks = _marks(samples, reference, paired)
    ax = axes_or_new(ax)
    tops = [
        _draw_method(ax, i, method, groups, marks[method], len(samples), error)
        for i, (method, groups) in enumerate(samples.items())
    ]
    ax.set_xticks(range(len(starts)), _labels(starts, size))
    ax.tick_params(axis="x", length=0)
    ax.set_xlabel("tasks, in the order of learning")
    ax.set_ylabel(f"accuracy after {size} task{'s' if size > 1 else ''}")
    # Room for the stars, which are no part of the data.
    ax.set_ylim(0, max(tops) * (1.05 if reference is None else 1.12) or 1)
    title = None
    if reference is not None:
        levels = [f"{mark} p < {level}" for level, mark in _LEVELS[::-1]]
        title = "\n".join([f"against {reference}:", *levels])
    return finish(ax, legend, title=title, alignment="left")


def _check_arguments(methods, group_size, reference, over):
    if type(group_size) is not int or group_size < 1:
        raise ValueError(
            "Expected `group_size` to be a positive integer. "
            f"Received: group_size={group_size!r}"
        )
    if reference is not None and reference not in methods:
        raise ValueError(
            f"Expected `reference` to be one of {list(methods)}. "
            f"Received: reference={reference!r}"
        )
    if over not in ("seeds", "tasks"):
        raise ValueError(
            f"Expected `over` to be 'seeds' or 'tasks'. Received: over={over!r}"
        )


def _last_rows(methods):
    """Returns arrays of shape `(runs, tasks)` after the last task."""
    lasts = {
        method: [matrix.last for matrix in matrices]
        for method, matrices in methods.items()
    }
    distinct = {last for group in lasts.values() for last in group}
    if len(distinct) > 1 or None in distinct:
        raise ValueError(
            "Expected runs whose last measured task is the same. "
            f"Received: last measured tasks at the positions {lasts}"
        )
    (last,) = distinct
    return {
        method: np.array([m.values[last, : last + 1] for m in matrices])
        for method, matrices in methods.items()
    }


def _sample(accuracies, over):
    return np.mean(accuracies, axis=1 if over == "seeds" else 0)


def _marks(samples, reference, paired):
    """Returns the stars of each method, one string per group."""
    marks = {method: [""] * len(groups) for method, groups in samples.items()}
    for method, groups in samples.items():
        if reference in (None, method):
            continue
        for i, (group, other) in enumerate(zip(groups, samples[reference])):
            p = compare(group, other, paired=paired).p
            stars = [mark for level, mark in _LEVELS if p < level]
            marks[method][i] = stars[0] if stars else ""
    return marks


def _labels(starts: Sequence[int], size: int):
    ends = [*starts[1:], size]
    return [
        str(end) if end == start + 1 else f"{start + 1}–{end}"
        for start, end in zip(starts, ends)
    ]


def _draw_method(ax, i, method, groups, marks, methods, error):
    """Returns how high the highest bar reaches, with its error bar."""
    values = [means_and_errors(group[:, None], error) for group in groups]
    means = np.array([mean[0] for mean, _ in values])
    errors = np.array([error[0] for _, error in values])
    width = _WIDTH / methods
    x = np.arange(len(groups)) + (i - (methods - 1) / 2) * width
    ax.bar(x, means, 0.92 * width, label=method, **fill_style(i))
    measured = ~np.isnan(errors)
    ax.errorbar(
        x[measured],
        means[measured],
        errors[measured],
        fmt="none",
        ecolor="black",
        elinewidth=0.9,
        capsize=1.5,
        label="_errors",
    )
    tops = means + np.where(measured, errors, 0)
    for place, top, mark in zip(x, tops, marks):
        if mark:
            ax.annotate(
                mark,
                (place, top),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                va="bottom",
                rotation=90,
                fontsize="small",
                path_effects=[withStroke(linewidth=1.5, foreground="white")],
            )
    return np.nanmax([0, *tops])
