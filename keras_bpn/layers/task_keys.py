import keras
import numpy as np
from keras import ops

from keras_bpn.layers.task_scope import current_task
from keras_bpn.layers.task_table import TaskTable
from keras_bpn.layers.task_table import expand_rows
from keras_bpn.layers.task_table import read_rows
from keras_bpn.layers.task_table import write_rows


@keras.saving.register_keras_serializable("keras_bpn")
class TaskKeys(TaskTable):
    """Binary keys: one vector of signs per task, for a layer to hold.

    The key of the current task multiplies what enters the layer's kernel
    (parameter superposition, binary case). It does nothing until `enable()` is
    called. A key is a function of its origin, a seed and the serial number of a
    task, so that it is drawn again instead of being stored. Most have the seed
    of the layer. That of a copy has the serial number of the task it is a copy
    of, and that of a task from another model the seed of that one.

    Args:
        width: Positive integer, the size of the layer's input.

    Reference:

    - [Cheung et al., 2019](https://arxiv.org/abs/1902.05522)
    """

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.seed = None
        # Of the rows whose keys are not those of their tasks.
        self._origins = {}

    def build(self, input_shape=None):
        """Creates nothing: there are no keys until `enable()`."""

    def enable(self, seed):
        """Draws the keys of all tasks from `seed` and starts to use them."""
        if seed == self.seed:
            return
        self.seed = seed
        self._origins = {}
        self._set_table(self.initial_rows(0, self.capacity + 1))

    def initial_rows(self, start, stop):
        # The network without a task has no key.
        unkeyed = np.ones((1 if start == 0 else 0, self.width), "int8")
        rows = range(start + len(unkeyed), stop)
        serials = [self.serial(row) for row in rows]
        return np.concatenate(
            [unkeyed, draw_keys(self.seed, serials, self.width)]
        )

    @property
    def has_other_origins(self):
        """Whether a row has a key that is not that of its task."""
        return bool(self._origins)

    def origin(self, row):
        """Returns the seed and the serial number that a key was drawn from."""
        return self._origins.get(row, (self.seed, self.serial(row)))

    def set_origin(self, row, origin):
        """Gives a row the key of another origin."""
        self._origins[row] = tuple(origin)
        if self._origins[row] == (self.seed, self.serial(row)):
            del self._origins[row]
        self._draw_again([row])

    def set_serials(self, serials):
        rows = {*self._serials, *self._origins, *serials}
        super().set_serials(serials)
        self._origins = {}
        self._draw_again(rows)

    def give_row(self, row, serial):
        super().give_row(row, serial)
        self._draw_again([row])

    def clear(self, row):
        super().clear(row)
        self._origins.pop(row, None)
        self._draw_again([row])

    def _draw_again(self, rows):
        if self.seed is None or not rows:
            return
        origins = [self.origin(row) for row in rows]
        keys = [draw_keys(s, [serial], self.width)[0] for s, serial in origins]
        write_rows(self.table, list(rows), np.stack(keys))

    def key(self, row):
        """Returns the key of a row as an array, or `None` if there are none."""
        if self.seed is None:
            return None
        return ops.convert_to_numpy(read_rows(self.table, row))

    def current(self):
        """Returns the key of the current task, or the keys of the examples'
        tasks; `None` where there are no keys or no task."""
        task = current_task()
        if task is None or self.seed is None:
            return None
        return self.rows_of(task)

    def multiply(self, inputs):
        """Returns the inputs times the key of the current task."""
        keys = self.current()
        if keys is None:
            return inputs
        keys = expand_rows(keys, len(inputs.shape))
        return ops.multiply(inputs, ops.cast(keys, inputs.dtype))

    def save_own_variables(self, store):
        if self.seed is None:
            return
        store["seed"] = np.array(self.seed, "uint64")
        if self._origins:
            lines = [[row, *o] for row, o in sorted(self._origins.items())]
            store["origins"] = np.array(lines, "uint64")

    def load_own_variables(self, store):
        # The model has said whose rows they are, in `set_serials`.
        if "seed" in store.keys():
            self.enable(int(store["seed"]))
        if "origins" in store.keys():
            for row, *origin in np.array(store["origins"]).tolist():
                if not 0 < row <= self.capacity:
                    raise ValueError(
                        f"Expected origins of keys for '{self.path}' in rows "
                        f"from 1 to {self.capacity}. Received: row={row}"
                    )
                self.set_origin(row, origin)

    def get_config(self):
        return {**super().get_config(), "width": self.width}


def draw_keys(seed, serials, width):
    """Returns `width` signs for each of the tasks, one task's apart from any
    other's, and the same on every machine and for every version.

    NumPy keeps the raw output of a bit generator stable, which it does not
    promise for the distributions built on it.
    """
    generator = np.random.Philox(key=np.array([seed, 0], "uint64"))
    state = generator.state
    words = np.empty((len(serials), -(-width // 64)), "<u8")
    for line, serial in zip(words, serials):
        # Far less work than a new generator for each task.
        state["state"]["key"][1] = serial
        generator.state = state
        line[:] = generator.random_raw(len(line))
    bits = np.unpackbits(words.view("uint8"), axis=1)[:, :width]
    return 2 * bits.astype("int8") - 1
