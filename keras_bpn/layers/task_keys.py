import keras
import numpy as np
from keras import ops

from keras_bpn.layers.task_scope import current_task
from keras_bpn.layers.task_table import TaskTable
from keras_bpn.layers.task_table import expand_rows
from keras_bpn.layers.task_table import read_rows


@keras.saving.register_keras_serializable("keras_bpn")
class TaskKeys(TaskTable):
    """Binary keys: one vector of signs per task, for a layer to hold.

    The key of the current task multiplies what enters the layer's kernel
    (parameter superposition, binary case). It does nothing until `enable()` is
    called. Keys are a function of seed and row, so that they are drawn again
    instead of being stored.

    Args:
        width: Positive integer, the size of the layer's input.

    Reference:

    - [Cheung et al., 2019](https://arxiv.org/abs/1902.05522)
    """

    def __init__(self, width, **kwargs):
        super().__init__(**kwargs)
        self.width = width
        self.seed = None

    def build(self, input_shape=None):
        """Creates nothing: there are no keys until `enable()`."""

    def enable(self, seed):
        """Draws the keys of all tasks from `seed` and starts to use them."""
        if seed == self.seed:
            return
        self.seed = seed
        self._set_table(self.initial_rows(0, self.capacity + 1))

    def initial_rows(self, start, stop):
        # The network without a task has no key.
        unkeyed = np.ones((1 if start == 0 else 0, self.width), "int8")
        rows = range(start + len(unkeyed), stop)
        return np.concatenate([unkeyed, draw_keys(self.seed, rows, self.width)])

    def key(self, row):
        """Returns the key of a row as an array, or `None` if there are none."""
        if self.seed is None:
            return None
        return ops.convert_to_numpy(read_rows(self.table, row))

    def multiply(self, inputs):
        """Returns the inputs times the key of the current task."""
        task = current_task()
        if task is None or self.seed is None:
            return inputs
        keys = expand_rows(self.rows_of(task), len(inputs.shape))
        return ops.multiply(inputs, ops.cast(keys, inputs.dtype))

    def save_own_variables(self, store):
        if self.seed is not None:
            store["seed"] = np.array(self.seed, "uint64")

    def load_own_variables(self, store):
        if "seed" in store.keys():
            self.enable(int(store["seed"]))

    def get_config(self):
        return {**super().get_config(), "width": self.width}


def draw_keys(seed, rows, width):
    """Returns `width` signs for each of the rows, one row's apart from any
    other's, and the same on every machine and for every version.

    NumPy keeps the raw output of a bit generator stable, which it does not
    promise for the distributions built on it.
    """
    generator = np.random.Philox(key=np.array([seed, 0], "uint64"))
    state = generator.state
    words = np.empty((len(rows), -(-width // 64)), "<u8")
    for line, row in zip(words, rows):
        # Far less work than a new generator for each row.
        state["state"]["key"][1] = row
        generator.state = state
        line[:] = generator.random_raw(len(line))
    bits = np.unpackbits(words.view("uint8"), axis=1)[:, :width]
    return 2 * bits.astype("int8") - 1
