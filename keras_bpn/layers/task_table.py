import keras
import numpy as np
import tensorflow as tf

INITIAL_CAPACITY = 8


class TaskTable(keras.layers.Layer):
    """Base of the components that keep one row of numbers per task.

    Row 0 belongs to the network without a task, every other to one task. What
    is drawn at random for a task is drawn from its serial number, which is that
    of its row unless the row was another task's before.

    The table is one variable, so that a mode is an integer and switching modes
    retraces nothing. Rows are read by `read_rows()` and written by
    `write_rows()`, whose cost does not depend on how many there are. The table
    is made larger by `reserve()`, which replaces the variable: functions traced
    before that must be traced again.

    Attributes:
        needs_classes: Whether the labels of a task have to be known before it
            is trained.
    """

    needs_classes = False

    def __init__(self, **kwargs):
        super().__init__(**kwargs)
        self.capacity = INITIAL_CAPACITY
        self.table = None
        # Of the rows where they are not the number of the row.
        self._serials = {}

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
        return read_rows(self.table, task.row)

    # Whose rows they are.

    def serial(self, row):
        """Returns the serial number of the task of a row."""
        return self._serials.get(row, row)

    def set_serials(self, serials):
        """Gives all rows to the tasks with these serial numbers.

        Args:
            serials: Dictionary from rows to serial numbers. Those left out are
                the numbers of the rows.
        """
        self._serials = dict(serials)

    def give_row(self, row, serial):
        """Gives a row, which is clear, to the task with a serial number."""
        self._serials[row] = serial

    def clear(self, row):
        """Makes a row what it was before it was given to a task."""
        self._serials.pop(row, None)

    # What a row holds, for those that keep what was learned in it.

    def read_row(self, row):
        """Returns what was learned for the task of a row, or `None`."""
        return None

    def write_row(self, row, values):
        """Writes what `read_row()` returned, of a task with as many classes."""

    # What a task goes through. Components override what concerns them.

    @property
    def factors(self):
        """The variables that are trained for the open task alone."""
        return []

    def set_classes(self, classes):
        """Takes note of the labels of tasks.

        Args:
            classes: Dictionary from the row of each task to the tuple of its
                labels, an empty one to withdraw them.

        Returns:
            Whether a variable was replaced.
        """
        return False

    def draw(self, row):
        """Draws the factors with which the task of `row` starts."""

    def fold(self, row):
        """Stores what the factors came to in `row`, and discards them."""

    def discard(self):
        """Deletes the factors."""
        for variable in self.factors:
            variable.assign(keras.ops.zeros_like(variable))

    def bytes_per_task(self):
        """Returns the bytes that a task adds, on average over the tasks."""
        return 0

    def _set_table(self, values):
        self.table = self._replace_variable(
            self.table, "table", values, trainable=False
        )

    def _replace_variable(self, old, name, values, trainable, autocast=False):
        """Returns a new variable in place of `old`, which may be `None`.

        A built layer changes its variables only here.
        """
        self._tracker.unlock()
        if old is not None:
            self._untrack_variable(old)
        new = self.add_weight(
            name=name,
            shape=values.shape,
            dtype=values.dtype.name,
            initializer="zeros",
            trainable=trainable,
            autocast=autocast,
        )
        new.assign(values)
        self._tracker.lock()
        return new


def read_rows(variable, rows):
    """Returns rows of a variable, without a look at the others.

    Once a row was written in place, TensorFlow copies the whole of a variable
    wherever it is read as one tensor, to be indexed afterwards.

    Args:
        variable: `keras.Variable`.
        rows: Integer tensor, of which row or rows.
    """
    return tf.gather(variable.value, keras.ops.convert_to_tensor(rows))


def write_rows(variable, rows, values):
    """Writes rows of a variable in place, and leaves the others alone.

    Not to be called in a replica of a distribution strategy.

    Args:
        variable: `keras.Variable`.
        rows: Integer or sequence of integers.
        values: The new row or rows.
    """
    update = tf.IndexedSlices(
        keras.ops.convert_to_tensor(values, variable.dtype),
        keras.ops.convert_to_tensor(rows, "int32"),
    )
    # A mirrored variable is one variable on each of the replicas.
    for copy in getattr(variable.value, "values", [variable.value]):
        copy.scatter_update(update)


def expand_rows(rows, ndim):
    """Aligns rows with a tensor of rank `ndim`: `(batch, width)` becomes
    `(batch, 1, ..., width)`; a single row broadcasts as it is."""
    if len(rows.shape) == 1:
        return rows
    for _ in range(ndim - 2):
        rows = keras.ops.expand_dims(rows, axis=1)
    return rows


def reseed(initializer, *entropy):
    """Returns the initializer with a seed that is a function of some integers,
    if it has one."""
    if not isinstance(initializer, keras.initializers.Initializer):
        return initializer
    config = initializer.get_config()
    if "seed" not in config:
        return initializer
    seed = int(np.random.SeedSequence(entropy).generate_state(1)[0])
    return type(initializer).from_config({**config, "seed": seed})
