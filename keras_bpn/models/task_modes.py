import contextlib
import math
import numbers
from collections.abc import Mapping

import numpy as np

from keras_bpn.layers.task_keys import TaskKeys
from keras_bpn.models import task_summary
from keras_bpn.models.task_model import TaskModel


class TaskModes(TaskModel):
    """A functional model whose modes are things to handle by their names.

    This is the part of `BPNModel` that copies, renames, removes and combines
    single modes. None of this changes another one, or traces a function again,
    but where a table is full.
    """

    @contextlib.contextmanager
    def mode(self, task):
        """Puts the model into a mode for the calls in a block.

        At the end of the block, also where it fails, the model is back in the
        mode that it was in before. Blocks can be nested.

        Args:
            task: Name of the task, or `None` for the network without any.

        Example:

        >>> with model.mode("birds"):
        ...     outputs = model(np.zeros((1, 6)))
        """
        row = self._registry.row(task)
        previous = self.task
        before = int(self._mode.numpy())
        serial = None if previous is None else self._registry.serial(previous)
        self._mode.assign(row)
        try:
            yield self
        finally:
            name = self._registry.name(before)
            if name is None or self._registry.serial(name) != serial:
                # That task was removed.
                before = 0
            self._mode.assign(before)

    def rename_task(self, name, new_name):
        """Gives a task another name.

        Args:
            name: Name of the task.
            new_name: String, not the name of a task.

        Example:

        >>> model.rename_task("birds", "songbirds")
        """
        self._registry.check_name(name)
        self._registry.row(name)
        self._registry.check_new_name(new_name)
        if self.consolidation is not None:
            self.consolidation.rename_task(self, name, new_name)
        self._registry.rename(name, new_name)

    def copy_task(self, name, new_name):
        """Adds a task that is the same as one that has ended.

        With `PSP` it has the same keys.

        Args:
            name: Name of the task to copy.
            new_name: String, not the name of a task.

        Example:

        >>> model.copy_task("birds", "birds before the update")
        """
        self._registry.check_ended(name)
        self._registry.check_new_name(new_name)
        row = self._registry.row(name)
        self._add_ended_task(
            new_name,
            self._registry.classes.get(name),
            [(t, t.read_row(row)) for t in self.task_tables],
            [(k, k.origin(row)) for k in self._keys_in_use],
            self._registry.trained(name),
            self._registry.accuracy(name),
        )
        if self.consolidation is not None:
            self.consolidation.copy_task(self, name, new_name)

    def remove_task(self, name):
        """Removes a task, which must not be open.

        The shared weights stay as they are. The row of the task is cleared,
        and a later task gets it. A model that was in its mode is then in that
        of no task. With `ClassMask("seen")`, classes that no other task has are
        left out again.

        Args:
            name: Name of the task.

        Example:

        >>> model.remove_task("birds")
        """
        self._registry.check_not_open(name)
        row = self._registry.row(name)
        if self.consolidation is not None:
            self.consolidation.remove_task(self, name)
        self._clear_row(name)
        if int(self._mode.numpy()) == row:
            self._mode.assign(0)
        self._registry.remove(name)

    def combine_tasks(self, name, weights):
        """Adds a task whose row is a weighted sum of those of others.

        The weights are taken as they are; those of a mean add up to 1. The
        classes of the new task are those of all the others, if they are known.
        Heads can be combined where they have the same number of classes. The
        keys of `PSP` cannot be combined: tasks have to share theirs, as copies
        do.

        Args:
            name: String, not the name of a task.
            weights: Dictionary from the names of tasks that have ended to
                finite numbers.

        Example:

        >>> model.combine_tasks("animals", {"birds": 0.5, "fish": 0.5})
        """
        self._registry.check_new_name(name)
        _check_weights(weights)
        for task in weights:
            self._registry.check_ended(task)
        rows = [self._registry.row(task) for task in weights]
        origins = self._common_origins(rows, list(weights))
        classes = [self._registry.classes.get(task) for task in weights]
        classes = self._united_classes(dict(zip(weights, classes)))
        sums = [
            (t, _weighted_sum(t, rows, list(weights.values())))
            for t in self.task_tables
        ]
        self._add_ended_task(name, classes, sums, origins)

    def task_summary(self):
        """Returns what there is to know of each task, to be printed.

        Example:

        >>> summary = model.task_summary()
        >>> summary.tasks["birds"].state
        'ended'
        """
        return task_summary.summarize(self)

    # How an ended task is added.

    @property
    def _keys_in_use(self):
        return [
            t
            for t in self.task_tables
            if isinstance(t, TaskKeys) and t.seed is not None
        ]

    def _add_ended_task(
        self, name, classes, rows, origins, trained=None, accuracy=None
    ):
        """Adds a task that has ended, or nothing if that fails.

        Args:
            name: String, not the name of a task.
            classes: Tuple of labels, or `None`.
            rows: List of pairs of a table and what to write to its row, or
                `None`.
            origins: List of pairs of `TaskKeys` and the origin of their key.
            trained, accuracy: As in `TaskRegistry.end`.
        """
        size = len(self._registry)
        try:
            self.add_task(name, classes)
            row = self._registry.row(name)
            for table, values in rows:
                if values is not None:
                    table.write_row(row, values)
            for keys, origin in origins:
                keys.set_origin(row, origin)
        except BaseException:
            self._take_back_tasks(size)
            raise
        self._registry.end(name, trained, accuracy)

    def _common_origins(self, rows, tasks):
        origins = []
        for keys in self._keys_in_use:
            found = [keys.origin(row) for row in rows]
            if len(set(found)) > 1:
                raise ValueError(
                    "Expected tasks with the same keys, such as copies of one "
                    "task: keys are signs, and a weighted sum of two of them "
                    f"is none. Received: weights for {tasks}, whose keys "
                    f"differ in '{keys.path}'"
                )
            origins.append((keys, found[0]))
        return origins

    def _united_classes(self, classes):
        if None in classes.values():
            return None
        if self.task_heads and len(set(classes.values())) > 1:
            sizes = {task: len(labels) for task, labels in classes.items()}
            raise ValueError(
                "Expected heads with the same number of classes. "
                f"Received: tasks with so many classes: {sizes}"
            )
        return tuple(sorted({c for labels in classes.values() for c in labels}))


def _check_weights(weights):
    if not isinstance(weights, Mapping) or not weights:
        raise ValueError(
            "Expected `weights` to be a dictionary from names of tasks to "
            f"numbers. Received: weights={weights!r}"
        )
    if not all(_is_finite(weight) for weight in weights.values()):
        raise ValueError(
            "Expected the weights of tasks to be finite numbers. "
            f"Received: weights={weights!r}"
        )


def _is_finite(weight):
    if isinstance(weight, bool) or not isinstance(weight, numbers.Real):
        return False
    try:
        return math.isfinite(weight)
    except OverflowError:
        return False


def _weighted_sum(table, rows, weights):
    """Returns the weighted sum of rows of a table, if it has any."""
    values = [table.read_row(row) for row in rows]
    if values[0] is None:
        return None
    total = sum(float(w) * v.astype("float64") for w, v in zip(weights, values))
    # Too large a sum becomes infinite, which is looked for next.
    with np.errstate(over="ignore"):
        total = total.astype(values[0].dtype)
    if not np.isfinite(total.astype("float64")).all():
        raise ValueError(
            "Expected weights with which the sum of rows stays finite. "
            f"Received: weights={weights}, with which '{table.path}' has "
            "infinite values"
        )
    return total
