"""A `LearningHistory` as a table to read."""

import math

import numpy as np

_HEADS = (
    "task",
    "learned",
    "now",
    "forgotten",
    "seconds",
    "stored bytes",
    "parameters",
)
_COST_FORMATS = {
    "seconds": ".1f",
    "peak_memory": ",.0f",
    "stored_bytes_per_task": ",.0f",
    "added_parameters_per_task": ",.0f",
}


def make_table(history):
    """Returns a line for each task and the metrics below.

    `learned` is the accuracy just after a task was learned, `now` that after
    the last task, `forgotten` how far the latter is below the best so far.
    """
    lines = [_HEADS, *_task_lines(history)]
    widths = [max(map(len, column)) for column in zip(*lines)]
    table = [
        "  ".join(
            [line[0].ljust(widths[0])]
            + [cell.rjust(width) for cell, width in zip(line[1:], widths[1:])]
        ).rstrip()
        for line in lines
    ]
    return "\n".join([*table, "", *_metric_lines(history)])


def _task_lines(history):
    matrix = history.matrix
    size, last = len(history.tasks), matrix.last
    unknown = np.full(size, np.nan)
    now = unknown if last is None else matrix.values[last]
    learned = np.diag(matrix.values)
    forgotten = unknown.copy()
    by_task = matrix.forgetting_by_task()
    forgotten[: len(by_task)] = by_task
    for i, task in enumerate(history.tasks):
        cost = history.costs[i] if i < len(history.costs) else {}
        yield (
            task,
            _text(learned[i], ".3f"),
            _text(now[i], ".3f"),
            _text(forgotten[i], ".3f"),
            _text(cost.get("seconds"), ".1f"),
            _text(cost.get("stored_bytes"), ",d"),
            _text(cost.get("added_parameters"), ",d"),
        )


def _metric_lines(history):
    last = history.matrix.last
    if last is None:
        yield "Nothing was measured yet."
        return
    yield f"After {history.tasks[last]!r}, {last + 1} of {len(history.tasks)}:"
    for name, value in history.summary().items():
        text = _text(value, _COST_FORMATS.get(name, ".3f"))
        yield f"  {name.replace('_', ' '):<25}  {text}"


def _text(value, form):
    if value is None or math.isnan(value):
        return "-"
    return format(value, form)
