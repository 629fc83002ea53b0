"""What there is to know of the tasks of a model."""

import dataclasses
from collections import namedtuple

_COLUMNS = ("task", "state", "parameters", "bytes", "trained", "accuracy")
_LONGEST = 40

TaskRecord = namedtuple(
    "TaskRecord",
    ["state", "parameters", "bytes", "trained", "accuracy", "active"],
)
TaskRecord.__doc__ = """What there is to know of a task; see `TaskSummary`."""


@dataclasses.dataclass(frozen=True)
class TaskSummary:
    """What there is to know of the tasks of a model, one by one.

    Printed, it is a table, with a star at the task whose mode is active.

    Attributes:
        tasks: Dictionary from the name of each task to a named tuple of
            `state`, which is `"new"`, `"open"` or `"ended"`; `parameters` and
            `bytes`, those that layers store for the task alone; `trained`,
            when it ended, in UTC as in ISO 8601, or `None`; `accuracy`, as
            `evaluate(task=...)` measured it last, or `None`; and `active`,
            whether the model is in its mode.
    """

    tasks: dict

    def __str__(self):
        lines = [_COLUMNS]
        for name, record in self.tasks.items():
            accuracy = record.accuracy
            lines.append(
                (
                    _short(name) + " *" * record.active,
                    record.state,
                    f"{record.parameters:,}",
                    f"{record.bytes:,}",
                    record.trained or "",
                    "" if accuracy is None else f"{accuracy:.4f}",
                )
            )
        widths = [max(map(len, column)) for column in zip(*lines)]
        aligned = "<<>><>"
        return "\n".join(
            "  ".join(
                f"{cell:{a}{w}}" for cell, a, w in zip(line, aligned, widths)
            ).rstrip()
            for line in lines
        )


def summarize(model):
    """Returns the `TaskSummary` of a `BPNModel`."""
    registry, tasks = model._registry, {}
    tables = model.task_tables
    for name in model.tasks:
        rows = [table.read_row(registry.row(name)) for table in tables]
        rows = [row for row in rows if row is not None]
        tasks[name] = TaskRecord(
            registry.state(name),
            sum(row.size for row in rows),
            sum(row.nbytes for row in rows),
            registry.trained(name),
            registry.accuracy(name),
            name == model.task,
        )
    return TaskSummary(tasks)


def _short(name):
    text = name if name.isprintable() else repr(name)
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
