import keras
import numpy as np

INITIAL_CAPACITY = 8


class TaskTable(keras.layers.Layer):
    """Base of the components that keep one row of numbers per task.

    Row 0 belongs to the network without a task, row `t` to the `t`-th task.
    The table is one variable, so that a mode is an integer and switching modes
    retraces nothing. It is made larger by `reserve()`, which replaces the
    variable: functions traced before that must be traced again.
    """

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.capacity = INITIAL_CAPACITY
        self.table = None

    def initial_rows(self, start, stop):
        """Returns rows `start` to `stop` as they are before any training."""
        raise NotImplementedError

    def reserve(self, capacity):
        """Makes room for at least `capacity` tasks.

        Returns:
            Whether the variable was replaced.
        """
        if capacity <= self.capacity:
            return False
        self.capacity = capacity
        if self.table is None:
            return False
        old = keras.ops.convert_to_numpy(self.table)
        new = self.initial_rows(len(old), capacity + 1)
        self._set_table(np.concatenate([old, new]))
        return True

    def rows_of(self, task):
        """Returns the rows of an `ActiveTask`, of shape `(width,)` or
        `(batch, width)`."""
        return keras.ops.take(self.table, task.row, axis=0)

    def _set_table(self, values):
        # A built layer changes its variables only here.
        self._tracker.unlock()
        if self.table is not None:
            self._untrack_variable(self.table)
        self.table = self.add_weight(
            name="table",
            shape=values.shape,
            dtype=values.dtype.name,
            initializer="zeros",
            trainable=False,
            autocast=False,
        )
        self.table.assign(values)
        self._tracker.lock()


def expand_rows(rows, ndim):
    """Aligns rows with a tensor of rank `ndim`: `(batch, width)` becomes
    `(batch, 1, ..., width)`; a single row broadcasts as it is."""
    if len(rows.shape) == 1:
        return rows
    for _ in range(ndim - 2):
        rows = keras.ops.expand_dims(rows, axis=1)
    return rows
