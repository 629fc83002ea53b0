"""Histories in as few characters as a file of many needs."""

from keras_bpn.evaluation import LearningHistory

# Of accuracies: enough to tell examples apart.
_DIGITS = 6


def pack(history: LearningHistory) -> dict:
    """Returns what JSON can hold: accuracies, and what a task stores.

    Args:
        history: `LearningHistory` of a run that has ended.
    """
    rows = [
        {j: v for j, v in enumerate(_rounded(row)) if v is not None}
        for row in history.matrix.values
    ]
    return {
        "tasks": list(history.tasks),
        # A row by the task that it was measured after. Most are complete up
        # to there, and need not name the tasks.
        "accuracy": [
            list(row.values()) if list(row) == list(range(i + 1)) else row[i]
            for i, row in enumerate(rows)
        ],
        "epochs": [
            [history.tasks.index(epoch["task"]), epoch["epoch"], accuracy]
            for epoch in history.epochs
            if (accuracy := _of_epoch(history, epoch))
        ],
        "stored_bytes": history.costs[-1]["stored_bytes"],
        "added_parameters": history.costs[-1]["added_parameters"],
    }


def unpack(record: dict) -> LearningHistory:
    """Returns the history that was packed."""
    tasks = record["tasks"]
    history = LearningHistory(tasks)
    epochs = list(record["epochs"])
    for i, row in enumerate(record["accuracy"]):
        while epochs and epochs[0][0] == i:
            _, epoch, accuracy = epochs.pop(0)
            history.record_epoch(
                tasks[i], epoch, {}, dict(zip(tasks, accuracy))
            )
        measured = (
            dict(zip(tasks, row)) if isinstance(row, list) else {tasks[i]: row}
        )
        history.record_task(
            tasks[i],
            measured,
            stored_bytes=record["stored_bytes"],
            added_parameters=record["added_parameters"],
        )
    return history


def _rounded(values):
    return [None if v != v else round(float(v), _DIGITS) for v in values]


def _of_epoch(history, epoch):
    """Returns the accuracies of the tasks so far, in order, or none."""
    seen = history.tasks[: history.tasks.index(epoch["task"]) + 1]
    accuracy = epoch["accuracy"]
    if not accuracy:
        return []
    return _rounded(accuracy[task] for task in seen)
