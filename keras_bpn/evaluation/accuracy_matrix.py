import numpy as np

from keras_bpn.evaluation.checks import as_float
from keras_bpn.evaluation.checks import check_accuracies
from keras_bpn.evaluation.checks import check_tasks
from keras_bpn.evaluation.checks import task_index


class AccuracyMatrix:
    """Accuracy on every task after every task, and what follows from it.

    `R[i, j]` is the accuracy on the test data of task `j` after tasks 0 to `i`
    were learned; `b[j]` is that of the network before it learned anything. NaN
    stands for what was not measured.

    Every metric can be asked for as it was after any task `k`. By default, `k`
    is `last`, the last task after which tasks learned so far were measured. A
    metric is NaN where a value of its formula was not measured, so that it is
    never a mean over only some of the tasks. The one formula that makes do with
    less is the maximum in `forgetting()`. Metrics that compare tasks are NaN
    for a single one, and all are NaN where nothing was measured.

    Args:
        tasks: Distinct names of the tasks, in the order of learning.
        values: Array of shape `(len(tasks), len(tasks))`, the matrix `R`, with
            values from 0 to 1 or NaN. By default, nothing was measured.
        untrained: Vector `b`, with one value for each task, from 0 to 1 or
            NaN. By default, it was not measured.

    Example:

    >>> matrix = keras_bpn.evaluation.AccuracyMatrix(["a", "b"])
    >>> matrix.set_row(0, {"a": 1.0})
    >>> matrix.set_row(1, {"a": 0.75, "b": 1.0})
    >>> matrix.average_accuracy()
    0.875
    >>> matrix.forgetting()
    0.25

    References:

    - [Lopez-Paz & Ranzato, 2017](https://arxiv.org/abs/1706.08840)
    - [Chaudhry et al., 2018](https://arxiv.org/abs/1801.10112)
    - [Riemer et al., 2019](https://arxiv.org/abs/1810.11910)
    """

    def __init__(self, tasks, values=None, untrained=None):
        self._tasks = check_tasks(tasks)
        size = len(self._tasks)
        self._values = _accuracies("values", values, (size, size))
        self._untrained = _accuracies("untrained", untrained, (size,))

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, in the order of learning."""
        return self._tasks

    @property
    def values(self) -> np.ndarray:
        """A copy of the matrix `R`."""
        return self._values.copy()

    @property
    def untrained(self) -> np.ndarray:
        """A copy of the vector `b`."""
        return self._untrained.copy()

    @property
    def last(self) -> int | None:
        """Position of the last task after which any learned one was measured.

        It is `None` if there is none. What was measured of tasks yet to come,
        for the forward transfer, does not count.
        """
        measured = np.tril(~np.isnan(self._values)).any(axis=1)
        return int(np.flatnonzero(measured)[-1]) if measured.any() else None

    def set_row(self, after: int | str, accuracy: dict[str, float]) -> None:
        """Sets what was measured after a task, in place of its whole row.

        Args:
            after: Position or name of the task that was learned last.
            accuracy: Dictionary from names of tasks, of any of them, to
                accuracies.
        """
        row = task_index(self._tasks, after)
        self._values[row] = self._vector(accuracy)

    def set_untrained(self, accuracy: dict[str, float]) -> None:
        """Sets what was measured before the first task.

        Args:
            accuracy: Dictionary from names of tasks to accuracies.
        """
        self._untrained[:] = self._vector(accuracy)

    def _vector(self, accuracy):
        checked = check_accuracies(self._tasks, accuracy)
        return [checked.get(task, np.nan) for task in self._tasks]

    def average_accuracy(self, after: int | str | None = None) -> float:
        """Returns the average over all tasks so far, after task `k`.

        `ACC = 1 / (k + 1) * sum_{j=0..k} R[k, j]`

        From Lopez-Paz & Ranzato, 2017.

        Args:
            after: Position or name of task `k`.
        """
        k = self._row(after)
        return _mean(self._values[k, : k + 1]) if k is not None else np.nan

    def average_so_far(self) -> np.ndarray:
        """Returns the vector of `average_accuracy(k)` for every task `k`."""
        size = len(self._tasks)
        return np.array([self.average_accuracy(k) for k in range(size)], float)

    def learning_accuracy(self, after: int | str | None = None) -> float:
        """Returns the average over tasks just after each was learned.

        `LA = 1 / (k + 1) * sum_{j=0..k} R[j, j]`

        From Riemer et al., 2019.

        Args:
            after: Position or name of task `k`.
        """
        k = self._row(after)
        return (
            _mean(np.diag(self._values)[: k + 1]) if k is not None else np.nan
        )

    def backward_transfer(self, after: int | str | None = None) -> float:
        """Returns what later tasks added to earlier ones, or took from them.

        `BWT = 1 / k * sum_{j=0..k-1} (R[k, j] - R[j, j])`

        From Lopez-Paz & Ranzato, 2017. It equals
        `(ACC - LA) * (k + 1) / k`.

        Args:
            after: Position or name of task `k`.
        """
        k = self._row(after)
        if not k:
            return np.nan
        return _mean(self._values[k, :k] - np.diag(self._values)[:k])

    def forward_transfer(self, after: int | str | None = None) -> float:
        """Returns what earlier tasks added to tasks that are yet to come.

        `FWT = 1 / k * sum_{j=1..k} (R[j - 1, j] - b[j])`

        From Lopez-Paz & Ranzato, 2017.

        Args:
            after: Position or name of task `k`.
        """
        k = self._row(after)
        if not k:
            return np.nan
        return _mean(np.diag(self._values, 1)[:k] - self._untrained[1 : k + 1])

    def forgetting(self, after: int | str | None = None) -> float:
        """Returns how far tasks are below the best that they ever were.

        `F = 1 / k * sum_{j=0..k-1} f[j]`

        `f[j] = max_{i=j..k-1} R[i, j] - R[k, j]`

        From Chaudhry et al., 2018. The last task, which nothing could have
        pushed out yet, is left out. The maximum is over what was measured, if
        at least one value was; with rows left out, `F` can only be smaller
        than with all of them. It is negative where later tasks helped.

        Args:
            after: Position or name of task `k`.
        """
        return _mean(self.forgetting_by_task(after))

    def forgetting_by_task(self, after: int | str | None = None) -> np.ndarray:
        """Returns the vector `f` of `forgetting()`, of tasks 0 to `k - 1`.

        Args:
            after: Position or name of task `k`.
        """
        k = self._row(after)
        if not k:
            return np.zeros(0)
        # What was measured before a task was learned does not count.
        earlier = self._values[:k, :k].copy()
        earlier[np.isnan(earlier)] = -np.inf
        earlier[np.triu_indices(k, 1)] = -np.inf
        best = earlier.max(axis=0)
        best[np.isinf(best)] = np.nan
        return best - self._values[k, :k]

    def _row(self, after):
        return self.last if after is None else task_index(self._tasks, after)

    def to_dict(self) -> dict:
        """Returns what JSON can hold, with `None` in place of NaN."""
        return {
            "tasks": list(self._tasks),
            "values": [_without_nan(row) for row in self._values],
            "untrained": _without_nan(self._untrained),
        }

    @classmethod
    def from_dict(cls, record: dict) -> "AccuracyMatrix":
        """Returns the matrix that `to_dict()` was called on."""
        keys = {"tasks", "values", "untrained"}
        if not isinstance(record, dict) or set(record) != keys:
            raise ValueError(
                "Expected a dictionary as `AccuracyMatrix.to_dict()` returns "
                f"it, with the keys {sorted(keys)}. Received: {record!r:.200}"
            )
        if not isinstance(record["tasks"], list):
            raise ValueError(
                "Expected `tasks` to be a list of names. "
                f"Received: tasks={record['tasks']!r}"
            )
        return cls(**record)

    def __repr__(self):
        return f"{type(self).__name__}(tasks={list(self._tasks)})"


def _accuracies(name, values, shape):
    """Returns a copy as an array of the given shape, if it holds accuracies."""
    if values is None:
        return np.full(shape, np.nan)
    try:
        array = np.array(values, object)
    except ValueError:
        array = np.empty(0, object)
    if 0 in shape and not array.size:
        return np.empty(shape)
    # JSON has null in place of NaN.
    numbers = [np.nan if v is None else as_float(v) for v in array.flat]
    if (
        array.shape != shape
        or None in numbers
        or any(n < 0 or n > 1 for n in numbers)
    ):
        raise ValueError(
            f"Expected `{name}` to have shape {shape}, with values from 0 to 1 "
            f"or NaN. Received: {name}={values!r:.500}"
        )
    return np.array(numbers).reshape(shape)


def _mean(values):
    return float(np.mean(values)) if len(values) else np.nan


def _without_nan(values):
    return [None if np.isnan(value) else float(value) for value in values]
