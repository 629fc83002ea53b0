import math
import os

import numpy as np

from keras_bpn.evaluation import history_files
from keras_bpn.evaluation.accuracy_matrix import AccuracyMatrix
from keras_bpn.evaluation.history_table import make_table
from keras_bpn.evaluation.records import make_cost
from keras_bpn.evaluation.records import make_epoch
from keras_bpn.evaluation.records import plain
from keras_bpn.evaluation.tensorboard import write_events


class LearningHistory:
    """What happened while a network learned task after task.

    Args:
        tasks: Distinct names of the tasks, in the order of learning.
        settings: Dictionary of what the run depends on, made of what JSON can
            hold. It is copied.

    Attributes:
        matrix: `AccuracyMatrix`, with a row for each task that has ended.
        epochs: List of dictionaries, one for each epoch, with its `"task"`, its
            number `"epoch"` within the task, from 0 on, the `"logs"` of
            training, and `"accuracy"`, a dictionary from names of tasks to
            accuracies, empty where none was measured.
        costs: List of dictionaries, one for each task that has ended, with
            `"task"`, `"seconds"`, `"peak_memory"`, `"stored_bytes"` and
            `"added_parameters"`, `None` where they were not measured.
        settings: Dictionary.

    Example:

    >>> history = keras_bpn.evaluation.LearningHistory(["a", "b"])
    >>> history.record_task("a", {"a": 1.0}, seconds=3.5)
    >>> history.record_task("b", {"a": 0.75, "b": 1.0}, seconds=2.5)
    >>> history.summary()["average_accuracy"]
    0.875
    >>> history.summary()["seconds"]
    6.0
    """

    def __init__(self, tasks, settings: dict | None = None):
        self.matrix = AccuracyMatrix(tasks)
        self.epochs = []
        self.costs = []
        self.settings = _plain_settings({} if settings is None else settings)

    @property
    def tasks(self) -> tuple[str, ...]:
        """Names of the tasks, in the order of learning."""
        return self.matrix.tasks

    def record_epoch(
        self,
        task: str,
        epoch: int,
        logs: dict | None = None,
        accuracy: dict[str, float] | None = None,
    ) -> None:
        """Adds an epoch of the task in training.

        Args:
            task: Name of the task, the first that has not ended.
            epoch: Number of the epoch within the task, from 0 on, larger than
                that of the epoch before.
            logs: Dictionary from names to numbers or arrays, as Keras gives
                it to callbacks.
            accuracy: Dictionary from names of tasks to accuracies. By default,
                none was measured.
        """
        record = make_epoch(self.tasks, task, epoch, logs, accuracy)
        self._check_in_training(task)
        previous = [e["epoch"] for e in self.epochs[-1:] if e["task"] == task]
        if previous and record["epoch"] <= previous[0]:
            raise ValueError(
                "Expected epochs in increasing order. Received: "
                f"epoch={epoch} of task {task!r} after epoch {previous[0]}"
            )
        self.epochs.append(record)

    def record_task(
        self,
        task: str,
        accuracy: dict[str, float],
        seconds: float | None = None,
        peak_memory: int | None = None,
        stored_bytes: int | None = None,
        added_parameters: int | None = None,
    ) -> None:
        """Ends the task in training, with a row of the matrix and its costs.

        Args:
            task: Name of the task, the first that has not ended.
            accuracy: Dictionary from names of tasks to accuracies, of those
                that were measured.
            seconds: How long the task took.
            peak_memory: Most bytes of memory that were in use meanwhile.
            stored_bytes: Bytes that have to be stored for this task.
            added_parameters: Number of parameters that this task added.
        """
        self._check_in_training(task)
        cost = make_cost(
            task, seconds, peak_memory, stored_bytes, added_parameters
        )
        self.matrix.set_row(task, accuracy)
        self.costs.append(cost)

    def _check_in_training(self, task):
        ended = len(self.costs)
        if ended == len(self.tasks):
            raise ValueError(
                f"All {ended} tasks have ended. Received: task={task!r}"
            )
        if task != self.tasks[ended]:
            raise ValueError(
                "Expected the first task that has not ended, which is "
                f"{self.tasks[ended]!r}. Received: task={task!r}"
            )

    def summary(self) -> dict[str, float]:
        """Returns every metric and cost as one number.

        Returns:
            Dictionary with the metrics of `AccuracyMatrix`, as they are after
            the last task for which there are any, and over the tasks that have
            ended: the sum of `"seconds"`, the largest `"peak_memory"`, and
            the means `"stored_bytes_per_task"` and
            `"added_parameters_per_task"`. A cost is NaN if it was not measured
            for each of these tasks.
        """
        matrix = self.matrix
        return {
            "average_accuracy": matrix.average_accuracy(),
            "learning_accuracy": matrix.learning_accuracy(),
            "forgetting": matrix.forgetting(),
            "backward_transfer": matrix.backward_transfer(),
            "forward_transfer": matrix.forward_transfer(),
            "seconds": self._cost("seconds", np.sum),
            "peak_memory": self._cost("peak_memory", np.max),
            "stored_bytes_per_task": self._cost("stored_bytes", np.mean),
            "added_parameters_per_task": self._cost(
                "added_parameters", np.mean
            ),
        }

    def _cost(self, name, over_tasks):
        values = [cost[name] for cost in self.costs]
        if not values or None in values:
            return math.nan
        return float(over_tasks(np.array(values, float)))

    def to_dict(self) -> dict:
        """Returns what strict JSON can hold.

        NaN becomes `None`, and infinite logs become `"Infinity"` and
        `"-Infinity"`.
        """
        return history_files.to_record(self)

    @classmethod
    def from_dict(cls, record: dict) -> "LearningHistory":
        """Returns the history that `to_dict()` was called on."""
        matrix, epochs, costs, settings = history_files.parts_of(record)
        history = cls(matrix.tasks, settings)
        for task in history.tasks:
            while epochs and epochs[0].get("task") == task:
                history.record_epoch(**epochs.pop(0))
            if not costs:
                break
            history.record_task(accuracy={}, **costs.pop(0))
        if epochs or costs:
            raise ValueError(
                "Expected epochs and costs of the tasks in their order. "
                f"Received: {(epochs + costs)[0]!r:.200}"
            )
        history.matrix = matrix
        return history

    def save(self, path: str | os.PathLike) -> None:
        """Writes a file, as its ending says.

        A file that is there already is replaced as a whole, once the new one
        has been written. Missing folders are made.

        Args:
            path: Path that ends in `.json`, for all of the history, or in
                `.csv`, for a table of what was measured after each task. Its
                columns are `schema_version`, `after` and `on`, two names of
                tasks, `quantity` and `value`. There is a line with the
                quantity `accuracy` for each value of the matrix that was
                measured, with nothing in `after` for the untrained network,
                and a line for each cost, with nothing in `on`.
        """
        history_files.write(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike) -> "LearningHistory":
        """Reads a `.json` file that `save()` has written.

        Args:
            path: Path of the file.
        """
        try:
            return cls.from_dict(history_files.read_json(path))
        except ValueError as error:
            raise ValueError(
                f"Cannot read a history from '{os.fspath(path)}'. {error}"
            ) from error

    def write_tensorboard(self, logdir: str | os.PathLike) -> None:
        """Writes an event file for TensorBoard.

        Scalars below `tasks/` have the number of learned tasks as their step,
        those below `epochs/` the number of epochs in all. The file that an
        earlier call wrote there is replaced; others are left alone.

        Args:
            logdir: Path of the folder to write to. It is made if needed.
        """
        write_events(self, logdir)

    def __str__(self):
        return make_table(self)

    def __repr__(self):
        return (
            f"{type(self).__name__}(tasks={list(self.tasks)}, "
            f"ended={len(self.costs)})"
        )


def _plain_settings(settings):
    if not isinstance(settings, dict):
        raise ValueError(
            "Expected `settings` to be a dictionary. "
            f"Received: settings={settings!r}"
        )
    return plain(settings)
