import keras
from keras import ops

from keras_bpn.layers.task_layer import TaskLayer
from keras_bpn.layers.task_layer import check_hidden_dim
from keras_bpn.layers.task_scope import given_weights
from keras_bpn.layers.task_scope import report_call
from keras_bpn.layers.task_table import expand_rows


@keras.saving.register_keras_serializable("keras_bpn")
class BPNDense(TaskLayer, keras.layers.Dense):
    """Densely-connected layer with task-dependent bias units.

    `BPNDense` implements the operation

    `output = activation(dot(input * key_t, kernel) + bias + BIAS_t)`

    where `kernel` and `bias` are shared by all tasks, `BIAS_t` are the bias
    units of task `t` (Wen et al., equation 1), and `key_t` is the binary key
    of the task, if the model is compiled with `PSP`. The task is the mode that
    the `keras_bpn.BPNModel` around the layer is in. In any other model, and
    before a task exists, the layer computes what `keras.layers.Dense` does.

    While a task is trained, `BIAS_t` is the product `M_t W_t` of the factors
    in `layer.task_bias`; see `keras_bpn.layers.TaskBias`.

    Args:
        units: Positive integer, dimensionality of the output space.
        activation: Activation function to use.
        use_bias: Boolean, whether the layer has a bias vector that all tasks
            share.
        hidden_dim: Integer, the inner dimension `H` of the product `M_t W_t`.
            The harder a task, the larger: the paper uses 25 to 900. 0 gives
            the layer no bias units. Memory during training grows with it; what
            is stored per task does not.
        perturbation_initializer: Initializer of `M_t`.
        projection_initializer: Initializer of `W_t`. Defaults to a normal
            distribution with standard deviation `10 / sqrt(hidden_dim)`, or
            `1 / (3 * sqrt(hidden_dim))` in a layer whose activation is linear
            or a softmax, which is taken to give outputs. See
            `keras_bpn.layers.TaskBias` for why.
        seed: Integer from which the factors of each task are drawn, or
            `None`.
        **kwargs: All other arguments of `keras.layers.Dense`: initializers,
            regularizers and constraints of `kernel` and `bias`, `name`,
            `dtype`, and so on.

    Input shape:
        N-D tensor with shape `(batch_size, ..., input_dim)`.

    Output shape:
        N-D tensor with shape `(batch_size, ..., units)`.

    Example:

    >>> inputs = keras.Input((784,))
    >>> x = keras_bpn.layers.BPNDense(300, activation="relu")(inputs)
    >>> outputs = keras_bpn.layers.BPNDense(10)(x)
    >>> model = keras_bpn.BPNModel(inputs, outputs)

    Reference:

    - [Wen et al., 2021](https://doi.org/10.1109/TNNLS.2021.3054423)
    """

    def __init__(
        self,
        units,
        activation=None,
        use_bias=True,
        hidden_dim=100,
        perturbation_initializer="zeros",
        projection_initializer=None,
        seed=None,
        **kwargs,
    ):
        check_hidden_dim(hidden_dim)
        super().__init__(
            units, activation=activation, use_bias=use_bias, **kwargs
        )
        self.check_not_quantized()
        self.add_task_bias(
            units,
            hidden_dim,
            perturbation_initializer,
            projection_initializer,
            seed,
        )

    def build(self, input_shape):
        self.build_task_parts(input_shape[-1])
        super().build(input_shape)

    def call(self, inputs, training=None):
        weights = given_weights(self, inputs)
        if weights is not None:
            return self._call_with(inputs, **weights)
        inputs = self.task_keys.multiply(inputs)
        outputs = self.add_biases(ops.matmul(inputs, self.kernel))
        report_call(self, inputs, outputs)
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    def _call_with(self, inputs, bias, key=None, kernel=None):
        if key is not None:
            key = expand_rows(ops.cast(key, inputs.dtype), len(inputs.shape))
            inputs = ops.multiply(inputs, key)
        kernel = self.kernel if kernel is None else kernel
        outputs = ops.matmul(inputs, ops.cast(kernel, inputs.dtype))
        outputs = self.add_given_bias(outputs, bias)
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    def gradient_moments(self, call, output_gradients, weights, transform):
        """Sums a function of the per-example gradients of the shared weights.

        The gradient of one example's loss with respect to the kernel is the
        outer product of what entered it and the gradient at the output. A
        function that maps products to products (a square, an absolute value)
        can be applied to both before they are multiplied, so that the sum over
        the batch is one matrix product.

        Args:
            call: `LayerCall` of this layer.
            output_gradients: Gradients of the summed loss at `call.outputs`.
            weights: Tensor of shape `(batch,)`, the weight of each example.
            transform: Function of a tensor with
                `transform(a * b) == transform(a) * transform(b)`.

        Returns:
            List of pairs of a shared weight and the weighted sum over the
            batch of `transform(gradient)`.
        """
        if self.lora_enabled:
            return []
        inputs = ops.cast(call.inputs, "float32")
        deltas = ops.cast(output_gradients, "float32")
        weights = ops.expand_dims(weights, -1)
        if len(inputs.shape) == 2:
            scaled = ops.multiply(weights, transform(deltas))
            kernel = ops.matmul(ops.transpose(transform(inputs)), scaled)
            bias = ops.sum(scaled, axis=0)
        else:
            # The kernel is used at several positions of one example, whose
            # gradients add up before the transform.
            positions = (ops.shape(inputs)[0], -1)
            inputs = ops.reshape(inputs, (*positions, inputs.shape[-1]))
            deltas = ops.reshape(deltas, (*positions, self.units))
            kernel = transform(ops.einsum("bpi,bpo->bio", inputs, deltas))
            kernel = ops.sum(ops.expand_dims(weights, -1) * kernel, axis=0)
            bias = transform(ops.sum(deltas, axis=1))
            bias = ops.sum(weights * bias, axis=0)
        moments = [(self.kernel, kernel)]
        if self.bias is not None:
            moments.append((self.bias, bias))
        return moments
