import random

import keras
import numpy as np
from keras import ops

from keras_bpn.layers.class_mask import mask_outputs
from keras_bpn.layers.task_scope import current_task
from keras_bpn.layers.task_scope import given_weights
from keras_bpn.layers.task_scope import report_call
from keras_bpn.layers.task_table import TaskTable
from keras_bpn.layers.task_table import expand_rows
from keras_bpn.layers.task_table import read_rows
from keras_bpn.layers.task_table import reseed
from keras_bpn.layers.task_table import write_rows


@keras.saving.register_keras_serializable("keras_bpn")
class TaskHeads(TaskTable):
    """Densely-connected outputs of their own for every task (multi-head).

    A task has a head with as many outputs as it has classes:

    `output = activation(dot(input, kernel_t) + bias_t)`

    with labels that count from 0 in each task. The number of classes is given
    by `model.add_task("birds", classes=200)`; where the labels are in memory,
    `fit` finds it out by itself.

    While a task is trained, its head is in `kernel` and `bias`. When it ends,
    the head is stored in the task's row of a table and frozen, so that no later
    task can change it. Heads belong to their tasks: no method protects,
    merges or shares them.

    The outputs of all heads have the width of the widest. What lies beyond the
    classes of a task is -10,000 before the activation, so that it has no
    probability and no gradient. `predict` with the name of one task leaves it
    out. A head that is wider than all before it makes the table wider, which
    traces functions once more, and needs all other tasks to have ended.

    Args:
        activation: Activation function to use.
        use_bias: Boolean, whether the heads have biases.
        kernel_initializer: Initializer of the kernel of each head.
        bias_initializer: Initializer of the biases.
        width: Positive integer, the number of outputs to begin with.
        seed: Integer from which the heads are drawn, or `None`.

    Input shape:
        N-D tensor with shape `(batch_size, ..., input_dim)`.

    Output shape:
        N-D tensor with shape `(batch_size, ..., classes)`, where `classes` are
        those of the widest head.

    Example:

    >>> inputs = keras.Input((784,))
    >>> x = keras_bpn.layers.BPNDense(300, activation="relu")(inputs)
    >>> outputs = keras_bpn.layers.TaskHeads()(x)
    >>> model = keras_bpn.BPNModel(inputs, outputs)
    >>> model.add_task("birds", classes=200)
    """

    needs_classes = True

    def __init__(
        self,
        activation=None,
        use_bias=True,
        kernel_initializer="glorot_uniform",
        bias_initializer="zeros",
        width=1,
        seed=None,
        **kwargs,
    ):
        super().__init__(**kwargs)
        if type(width) is not int or width < 1:
            raise ValueError(
                "Expected `width` to be a positive integer. "
                f"Received: width={width}"
            )
        self.activation = keras.activations.get(activation)
        self.use_bias = use_bias
        self.kernel_initializer = keras.initializers.get(kernel_initializer)
        self.bias_initializer = keras.initializers.get(bias_initializer)
        self.width = width
        self.seed = random.randint(1, 10**9) if seed is None else seed
        self.input_dim = None
        self.kernel = None
        self.bias = None
        self.sizes = None

    def build(self, input_shape):
        self.input_dim = input_shape[-1]
        self._set_factors()
        self._set_table(self.initial_rows(0, self.capacity + 1))
        self._set_sizes(np.zeros(self.capacity + 1, "int32"))
        self.built = True

    def _set_factors(self):
        shape = (self.input_dim, self.width)
        zeros = np.zeros(shape, self.variable_dtype)
        self.kernel = self._replace_variable(
            self.kernel, "kernel", zeros, trainable=True, autocast=True
        )
        if self.use_bias:
            self.bias = self._replace_variable(
                self.bias, "bias", zeros[0], trainable=True, autocast=True
            )

    def _set_sizes(self, values):
        self.sizes = self._replace_variable(
            self.sizes, "sizes", values, trainable=False
        )

    def initial_rows(self, start, stop):
        # The bias is the last line of a head.
        lines = self.input_dim + self.use_bias
        return np.zeros((stop - start, lines, self.width), self.variable_dtype)

    def reserve(self, capacity):
        replaced = super().reserve(capacity)
        if replaced:
            sizes = ops.convert_to_numpy(self.sizes)
            missing = self.capacity + 1 - len(sizes)
            self._set_sizes(np.pad(sizes, (0, missing)))
        return replaced

    @property
    def factors(self):
        return [self.kernel] if self.bias is None else [self.kernel, self.bias]

    def set_classes(self, classes):
        sizes = [len(labels) for labels in classes.values()]
        added = max(sizes) - self.width
        if added > 0:
            self.width += added
            self._set_factors()
            table = ops.convert_to_numpy(self.table)
            self._set_table(np.pad(table, ((0, 0), (0, 0), (0, added))))
            # In the order of `build`, in which weights are listed.
            self._set_sizes(ops.convert_to_numpy(self.sizes))
        write_rows(self.sizes, list(classes), sizes)
        return added > 0

    def clear(self, row):
        super().clear(row)
        self.set_classes({row: ()})
        write_rows(self.table, row, self.initial_rows(row, row + 1)[0])

    def read_row(self, row):
        size = int(read_rows(self.sizes, row))
        return ops.convert_to_numpy(read_rows(self.table, row))[:, :size]

    def write_row(self, row, values):
        missing = self.width - values.shape[-1]
        write_rows(self.table, row, np.pad(values, ((0, 0), (0, missing))))

    def draw(self, row):
        size = int(read_rows(self.sizes, row))
        initializers = (self.kernel_initializer, self.bias_initializer)
        for i, (variable, initializer) in enumerate(
            zip(self.factors, initializers)
        ):
            initializer = reseed(initializer, self.seed, self.serial(row), i)
            # Drawn for the head alone: its scale depends on its size.
            shape = (*variable.shape[:-1], size)
            values = ops.convert_to_numpy(initializer(shape, variable.dtype))
            padding = [(0, 0)] * (len(shape) - 1) + [(0, self.width - size)]
            variable.assign(np.pad(values, padding))

    def fold(self, row):
        write_rows(self.table, row, self._open_head())
        self.discard()

    def _open_head(self):
        """Returns kernel and bias as one row of the table."""
        if self.bias is None:
            return ops.cast(self.kernel, self.variable_dtype)
        head = ops.concatenate([self.kernel, ops.expand_dims(self.bias, 0)])
        return ops.cast(head, self.variable_dtype)

    def call(self, inputs):
        weights = given_weights(self, inputs)
        if weights is not None:
            return self._call_with(inputs, **weights)
        task = current_task()
        if task is None or task.row is task.open_row:
            outputs = self._multiply(inputs, self.kernel, self.bias)
        else:
            is_open = ops.equal(task.row, task.open_row)[..., None, None]
            heads = ops.where(is_open, self._open_head(), self.rows_of(task))
            outputs = self._multiply(inputs, *self._split(heads))
        if task is not None:
            outputs = self._mask(outputs, task.row)
        report_call(self, inputs, outputs)
        return self.activation(outputs)

    def mode_weights(self, row):
        """Returns the head of a task, as wide as the widest.

        Args:
            row: Integer, the row of a task that has ended.

        Returns:
            Dictionary with the arrays `"kernel"`, `"bias"`, which may be
            `None`, and `"mask"`, which is true for the classes of the task.
        """
        head = ops.convert_to_numpy(read_rows(self.table, row))
        kernel, bias = self._split(head)
        mask = np.arange(self.width) < int(read_rows(self.sizes, row))
        return {"kernel": kernel, "bias": bias, "mask": mask}

    def folded_weights(self, row):
        """Returns the weights of the dense layer that the head of a task is.

        Args:
            row: Integer, the row of a task that has ended.

        Returns:
            Dictionary with the arrays `"kernel"` and `"bias"`, as wide as the
            task has classes; the latter may be `None`.
        """
        weights = self.mode_weights(row)
        mask = weights.pop("mask")
        return {
            name: None if value is None else value[..., mask]
            for name, value in weights.items()
        }

    def _call_with(self, inputs, kernel, bias, mask=None):
        outputs = self._multiply(inputs, kernel, bias)
        if mask is not None:
            mask = expand_rows(mask, len(outputs.shape))
            outputs = mask_outputs(outputs, mask)
        return self.activation(outputs)

    def outputs_of(self, inputs, row):
        """Returns the outputs of the stored head of a task.

        Args:
            inputs: Tensor of shape `(batch_size, ..., input_dim)`.
            row: Integer, the row of a task that has ended.
        """
        head = read_rows(self.table, row)
        outputs = self._multiply(inputs, *self._split(head))
        return self.activation(self._mask(outputs, row))

    def _mask(self, outputs, row):
        size = read_rows(self.sizes, row)[..., None]
        mask = ops.arange(self.width, dtype="int32") < size
        return mask_outputs(outputs, expand_rows(mask, len(outputs.shape)))

    def _split(self, heads):
        """Returns the kernels and biases of rows of the table."""
        if not self.use_bias:
            return heads, None
        return heads[..., :-1, :], heads[..., -1, :]

    def _multiply(self, inputs, kernel, bias):
        kernel = ops.cast(kernel, inputs.dtype)
        if len(kernel.shape) == 2:
            outputs = ops.matmul(inputs, kernel)
        else:
            # A head for each example.
            shape = ops.shape(inputs)
            outputs = ops.matmul(
                ops.reshape(inputs, (shape[0], -1, self.input_dim)), kernel
            )
            outputs = ops.reshape(outputs, (*shape[:-1], self.width))
        if bias is None:
            return outputs
        bias = expand_rows(ops.cast(bias, inputs.dtype), len(outputs.shape))
        return ops.add(outputs, bias)

    def compute_output_spec(self, inputs):
        # Heads to come may be wider.
        return keras.KerasTensor((*inputs.shape[:-1], None), self.compute_dtype)

    def bytes_per_task(self):
        sizes = ops.convert_to_numpy(self.sizes)
        sizes = sizes[sizes > 0]
        if not len(sizes):
            return 0
        lines = self.input_dim + self.use_bias
        itemsize = np.dtype(self.table.dtype).itemsize
        return int(round(sizes.mean() * lines * itemsize))

    def save_own_variables(self, store):
        for name, variable in self._named_variables().items():
            store[name] = variable
        store["seed"] = np.array(self.seed)

    def load_own_variables(self, store):
        width = store["table"].shape[-1]
        if width != self.width:
            raise ValueError(
                f"Expected heads of {self.width} outputs for '{self.path}', as "
                "the classes of the tasks say. "
                f"Received: heads of {width} outputs"
            )
        self.reserve(store["table"].shape[0] - 1)
        for name, variable in self._named_variables().items():
            if store[name].shape != variable.shape:
                raise ValueError(
                    f"Expected `{name}` of '{self.path}' to have shape "
                    f"{variable.shape}. Received: shape={store[name].shape}"
                )
            variable.assign(store[name])
        self.seed = int(store["seed"])

    def _named_variables(self):
        names = {"kernel": self.kernel, "table": self.table}
        return names if self.bias is None else {**names, "bias": self.bias}

    def get_config(self):
        return {
            **super().get_config(),
            "activation": keras.activations.serialize(self.activation),
            "use_bias": self.use_bias,
            "kernel_initializer": keras.initializers.serialize(
                self.kernel_initializer
            ),
            "bias_initializer": keras.initializers.serialize(
                self.bias_initializer
            ),
            "width": self.width,
            "seed": self.seed,
        }
