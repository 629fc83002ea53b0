import keras
from keras import ops

from keras_bpn.layers.task_bias import HIDDEN_GAIN
from keras_bpn.layers.task_bias import OUTPUT_GAIN
from keras_bpn.layers.task_bias import TaskBias
from keras_bpn.layers.task_bias import projection_normal
from keras_bpn.layers.task_keys import TaskKeys
from keras_bpn.layers.task_table import expand_rows

_OUTPUT_ACTIVATIONS = (
    keras.activations.linear,
    keras.activations.softmax,
    keras.activations.log_softmax,
)
_BIAS_ARGUMENTS = ("perturbation_initializer", "projection_initializer", "seed")


class TaskLayer:
    """What layers with a kernel, keys and bias units have in common.

    To be put before a layer of Keras among the bases of a class. The last axis
    of its kernel is that of its units, and all others together are as long as
    a key.
    """

    def add_task_bias(
        self,
        units,
        hidden_dim,
        perturbation_initializer,
        projection_initializer,
        seed,
    ):
        """Gives the layer bias units, unless `hidden_dim` is 0."""
        self.hidden_dim = hidden_dim
        self.task_keys = None
        self.task_bias = None
        if projection_initializer is None:
            is_output = self.activation in _OUTPUT_ACTIVATIONS
            gain = OUTPUT_GAIN if is_output else HIDDEN_GAIN
            projection_initializer = projection_normal(gain)
        if hidden_dim:
            self.task_bias = TaskBias(
                units,
                hidden_dim,
                perturbation_initializer=perturbation_initializer,
                projection_initializer=projection_initializer,
                seed=seed,
                name="task_bias",
                dtype=self.dtype_policy,
            )

    def build_task_parts(self, key_size):
        """Builds keys of a size, and the bias units."""
        self.task_keys = TaskKeys(key_size, name="task_keys")
        self.task_keys.build()
        if self.task_bias is not None:
            self.task_bias.build()

    def add_biases(self, outputs):
        """Returns outputs plus the shared bias and that of the task."""
        bias = self.bias
        if self.task_bias is not None:
            # Shared and task bias are added first and then once to the
            # product, so that a layer with both folded into one bias gives
            # the same bits.
            bias = self.task_bias.add_to(
                bias, len(outputs.shape), outputs.dtype
            )
        return outputs if bias is None else ops.add(outputs, bias)

    def add_given_bias(self, outputs, bias):
        """Returns outputs plus the bias of a mode, or of each example's."""
        if bias is None:
            return outputs
        bias = expand_rows(ops.cast(bias, outputs.dtype), len(outputs.shape))
        return ops.add(outputs, bias)

    def mode_weights(self, row):
        """Returns what of the weights is another in every mode.

        Args:
            row: Integer, the row of a task that has ended, or 0.

        Returns:
            Dictionary with the array `"bias"`, the shared bias and the bias
            units together, and the array `"key"`. Both may be `None`.
        """
        bias = self.bias
        if bias is not None:
            bias = ops.convert_to_numpy(bias)
        units = None
        if self.task_bias is not None:
            units = self.task_bias.read_row(row)
        if units is not None:
            bias = units if bias is None else bias + units
        return {"bias": bias, "key": self.task_keys.key(row)}

    def folded_weights(self, row):
        """Returns the weights of a layer without tasks that computes what this
        one does in a mode, to the bit.

        Args:
            row: Integer, the row of a task that has ended, or 0.

        Returns:
            Dictionary with the arrays `"kernel"` and `"bias"`; the latter may
            be `None`.
        """
        weights = self.mode_weights(row)
        kernel, key = ops.convert_to_numpy(self.kernel), weights["key"]
        if key is not None:
            key = key.reshape((*kernel.shape[:-1], 1))
            kernel = kernel * key.astype(kernel.dtype)
        return {"kernel": kernel, "bias": weights["bias"]}

    def quantize(self, mode=None, **kwargs):
        raise NotImplementedError(self._no_quantization(mode))

    def check_not_quantized(self):
        if self.quantization_mode is not None:
            raise NotImplementedError(
                self._no_quantization(self.quantization_mode)
            )

    def _no_quantization(self, mode):
        return (
            f"`{type(self).__name__}` cannot be quantized, because its bias "
            "changes with the task. Export a mode and quantize the exported "
            f"network. Received: mode={mode}"
        )

    def get_config(self):
        config = {**super().get_config(), "hidden_dim": self.hidden_dim}
        if self.task_bias is not None:
            task_bias = self.task_bias.get_config()
            config.update({name: task_bias[name] for name in _BIAS_ARGUMENTS})
        return config


def check_hidden_dim(hidden_dim):
    if type(hidden_dim) is not int or hidden_dim < 0:
        raise ValueError(
            "Expected `hidden_dim` to be a positive integer, or 0 for a "
            f"layer without bias units. Received: hidden_dim={hidden_dim}"
        )
