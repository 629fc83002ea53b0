import random

import keras
import numpy as np
from keras import ops

from keras_bpn.layers.task_scope import current_task
from keras_bpn.layers.task_table import TaskTable
from keras_bpn.layers.task_table import expand_rows
from keras_bpn.layers.task_table import read_rows
from keras_bpn.layers.task_table import reseed
from keras_bpn.layers.task_table import write_rows

HIDDEN_GAIN = 10.0
OUTPUT_GAIN = 1 / 3


@keras.saving.register_keras_serializable("keras_bpn")
class TaskBias(TaskTable):
    """Bias units: one additive vector per task, for a layer to hold.

    While a task is being trained, its bias units are the product of two
    factors, `BIAS_t = M_t W_t` (Wen et al., section IV), with `M_t` of shape
    `(1, hidden_dim)` in `perturbation` and `W_t` of shape
    `(hidden_dim, units)` in `projection`. There is one pair of factors,
    whatever the number of tasks: when a task ends, `fold()` stores the product
    in the task's row of `table` and discards the pair, and the next task draws
    a new one. Rows of ended tasks are never written again.

    `M_t` starts at zero, so that a new task starts from the shared network as
    it is. `W_t` starts normal with standard deviation `gain / sqrt(H)`, where
    `H` is `hidden_dim`. A sign step of size epsilon then moves each bias unit
    by about `gain * epsilon`, and more where units agree.

    The gain decides whether a first task survives the next one. When a task
    starts, its loss is large, and bias units and shared weights compete for
    what all its examples have in common. The more of it the bias units take,
    the less is changed for earlier tasks. On incremental MNIST (784-300x5-10,
    Adam with 1e-3) gains of 3 and less in the hidden layers left the first
    task to chance, 5 lost some of it in one run of six, and 10 kept it in
    all; with twenty permuted tasks, though, 2 was better than 10. Bias
    units of the outputs are another matter: what they do goes straight to the
    loss, where sign steps, which do not get smaller, are noise. Gains of 10
    and more there lost the first task in some runs or all; a third kept it.
    Hence 10 here, and a third in `BPNDense` layers that give outputs.

    A pair is drawn from the layer's seed and the serial number of the task
    alone, so that training that was stopped and resumed draws the same one.

    Args:
        units: Positive integer, the number of bias units.
        hidden_dim: Positive integer, the inner dimension `H` of the product.
        perturbation_initializer: Initializer of `M_t`.
        projection_initializer: Initializer of `W_t`. Defaults to
            a normal distribution with standard deviation
            `10 / sqrt(hidden_dim)`.
        seed: Integer from which the pairs of all tasks are drawn. If `None`,
            one is drawn from Python's generator, which
            `keras.utils.set_random_seed()` seeds.

    Reference:

    - [Wen et al., 2021](https://doi.org/10.1109/TNNLS.2021.3054423)
    """

    def __init__(
        self,
        units,
        hidden_dim=100,
        perturbation_initializer="zeros",
        projection_initializer=None,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        for name, value, least in (
            ("units", units, 1),
            ("hidden_dim", hidden_dim, 1),
            ("seed", 0 if seed is None else seed, 0),
        ):
            if type(value) is not int or value < least:
                raise ValueError(
                    f"Expected `{name}` to be an integer of at least {least}. "
                    f"Received: {name}={value}"
                )
        if projection_initializer is None:
            projection_initializer = projection_normal(HIDDEN_GAIN)
        self.units = units
        self.hidden_dim = hidden_dim
        self.perturbation_initializer = keras.initializers.get(
            perturbation_initializer
        )
        self.projection_initializer = keras.initializers.get(
            projection_initializer
        )
        self.seed = random.randint(1, 10**9) if seed is None else seed
        self._active = True

    def build(self, input_shape=None):
        # Factors and rows stay in the variable dtype under mixed precision: a
        # folded row is then the very sum that training used.
        self.perturbation = self.add_weight(
            name="perturbation",
            shape=(1, self.hidden_dim),
            initializer="zeros",
            autocast=False,
        )
        self.projection = self.add_weight(
            name="projection",
            shape=(self.hidden_dim, self.units),
            initializer="zeros",
            autocast=False,
        )
        self._set_table(self.initial_rows(0, self.capacity + 1))

    def initial_rows(self, start, stop):
        return np.zeros((stop - start, self.units), self.variable_dtype)

    @property
    def active(self):
        """Whether the bias units take part in the forward pass."""
        return self._active

    @active.setter
    def active(self, value):
        self._active = bool(value)
        self.trainable = self._active

    @property
    def factors(self):
        """The variables `M_t` and `W_t` of the task in training."""
        return [self.perturbation, self.projection]

    def draw(self, row):
        """Draws the pair of factors with which the task of `row` starts."""
        initializers = (
            self.perturbation_initializer,
            self.projection_initializer,
        )
        for i, (variable, initializer) in enumerate(
            zip(self.factors, initializers)
        ):
            initializer = reseed(initializer, self.seed, self.serial(row), i)
            variable.assign(initializer(variable.shape, variable.dtype))

    def fold(self, row):
        """Stores the product of the factors in `row` and discards them."""
        if self._active:
            product = ops.matmul(self.perturbation, self.projection)
            write_rows(self.table, row, product[0])
        self.discard()

    def clear(self, row):
        super().clear(row)
        write_rows(self.table, row, self.initial_rows(row, row + 1)[0])

    def read_row(self, row):
        if not self._active:
            return None
        return ops.convert_to_numpy(read_rows(self.table, row))

    def write_row(self, row, values):
        write_rows(self.table, row, values)

    def bytes_per_task(self):
        if not self._active:
            return 0
        return self.units * np.dtype(self.table.dtype).itemsize

    def add_to(self, bias, ndim, dtype):
        """Returns `bias` plus the bias units of the current task.

        Args:
            bias: The shared bias of the layer, or `None`.
            ndim: Rank of the tensor that the sum will be added to.
            dtype: Data type of that tensor.

        Returns:
            The sum, or `bias` itself where no task is active.
        """
        task = current_task()
        if task is None or not self._active:
            return bias
        units = ops.matmul(self.perturbation, self.projection)
        units = ops.reshape(units, (self.units,))
        if task.row is not task.open_row:
            is_open = ops.expand_dims(ops.equal(task.row, task.open_row), -1)
            units = ops.where(is_open, units, self.rows_of(task))
        units = ops.cast(expand_rows(units, ndim), dtype)
        return units if bias is None else ops.add(bias, units)

    def save_own_variables(self, store):
        store["perturbation"] = self.perturbation
        store["projection"] = self.projection
        store["table"] = self.table
        store["active"] = np.array(self._active)
        store["seed"] = np.array(self.seed)

    def load_own_variables(self, store):
        self.reserve(store["table"].shape[0] - 1)
        for name in ("perturbation", "projection", "table"):
            variable = getattr(self, name)
            value = store[name]
            if value.shape != variable.shape:
                raise ValueError(
                    f"Expected `{name}` of '{self.path}' to have shape "
                    f"{variable.shape}. Received: shape={value.shape}"
                )
            variable.assign(value)
        self.active = bool(store["active"])
        self.seed = int(store["seed"])

    def get_config(self):
        return {
            **super().get_config(),
            "units": self.units,
            "hidden_dim": self.hidden_dim,
            "perturbation_initializer": keras.initializers.serialize(
                self.perturbation_initializer
            ),
            "projection_initializer": keras.initializers.serialize(
                self.projection_initializer
            ),
            "seed": self.seed,
        }


def projection_normal(gain):
    """Returns the initializer of `W_t` with which a sign step of size epsilon
    moves a bias unit by about `gain * epsilon`."""
    return keras.initializers.VarianceScaling(
        scale=gain**2, mode="fan_in", distribution="untruncated_normal"
    )
