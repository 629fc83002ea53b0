import math

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.layers.task_layer import TaskLayer
from keras_bpn.layers.task_layer import check_hidden_dim
from keras_bpn.layers.task_scope import given_weights
from keras_bpn.layers.task_scope import report_call

# How many values of single examples' gradients and patches there may be at a
# time when their moments are summed: 64 MB.
_VALUES = 2**24


@keras.saving.register_keras_serializable("keras_bpn")
class BPNConv2D(TaskLayer, keras.layers.Conv2D):
    """2D convolution layer with task-dependent bias units.

    What `keras_bpn.layers.BPNDense` is to a dense layer, with a bias unit for
    each output channel: `BIAS_t` is added at every place of the image. If the
    model is compiled with `PSP`, a key has a sign for each input channel and
    tap of the kernel, `output = activation(conv(input, kernel * key_t) + bias +
    BIAS_t)`, as if every patch that the kernel meets were multiplied by it.

    Args:
        filters: Integer, the number of output channels.
        kernel_size: Integer, or tuple of two, the size of the kernel.
        strides, padding, activation, use_bias: As in `keras.layers.Conv2D`.
        hidden_dim, perturbation_initializer, projection_initializer, seed: As
            in `keras_bpn.layers.BPNDense`.
        **kwargs: All other arguments of `keras.layers.Conv2D`, but for
            `groups` and for `data_format="channels_first"`.

    Input shape:
        4D tensor with shape `(batch_size, height, width, channels)`.

    Output shape:
        4D tensor with shape `(batch_size, new_height, new_width, filters)`.

    Example:

    >>> inputs = keras.Input((28, 28, 1))
    >>> x = keras_bpn.layers.BPNConv2D(16, 3, activation="relu")(inputs)
    >>> x = keras.layers.GlobalAveragePooling2D()(x)
    >>> outputs = keras_bpn.layers.BPNDense(10)(x)
    >>> model = keras_bpn.BPNModel(inputs, outputs)

    Reference:

    - [Wen et al., 2021](https://doi.org/10.1109/TNNLS.2021.3054423)
    """

    def __init__(
        self,
        filters,
        kernel_size,
        strides=(1, 1),
        padding="valid",
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
            filters,
            kernel_size,
            strides=strides,
            padding=padding,
            activation=activation,
            use_bias=use_bias,
            **kwargs,
        )
        if self.groups != 1 or self.data_format != "channels_last":
            raise ValueError(
                "Expected `groups` to be 1 and `data_format` to be "
                f"'channels_last'. Received: groups={self.groups}, "
                f"data_format={self.data_format!r}"
            )
        self.check_not_quantized()
        self.add_task_bias(
            filters,
            hidden_dim,
            perturbation_initializer,
            projection_initializer,
            seed,
        )

    def build(self, input_shape):
        self.build_task_parts(math.prod(self.kernel_size) * input_shape[-1])
        super().build(input_shape)

    def call(self, inputs):
        weights = given_weights(self, inputs)
        if weights is not None:
            return self._call_with(inputs, **weights)
        outputs = self._convolve(inputs, self.kernel, self.task_keys.current())
        outputs = self.add_biases(outputs)
        report_call(self, inputs, outputs)
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    def _call_with(self, inputs, bias, key=None, kernel=None):
        kernel = self.kernel if kernel is None else kernel
        kernel = ops.cast(kernel, inputs.dtype)
        outputs = self.add_given_bias(self._convolve(inputs, kernel, key), bias)
        if self.activation is not None:
            outputs = self.activation(outputs)
        return outputs

    def _convolve(self, inputs, kernel, key):
        """Returns the convolution with a kernel times a key, or times a key for
        each example."""
        if key is None:
            return self.convolution_op(inputs, kernel)
        key = ops.cast(key, kernel.dtype)
        if len(key.shape) == 1:
            key = ops.reshape(key, (*kernel.shape[:-1], 1))
            return self.convolution_op(inputs, ops.multiply(kernel, key))
        patches = ops.multiply(self._patches(inputs), key[:, None, None])
        return ops.matmul(patches, ops.reshape(kernel, (-1, self.filters)))

    def _patches(self, inputs):
        """Returns what the kernel meets at each place, as vectors."""
        return ops.image.extract_patches(
            inputs,
            self.kernel_size,
            strides=self.strides,
            dilation_rate=self.dilation_rate,
            padding=self.padding,
            data_format=self.data_format,
        )

    def gradient_moments(self, call, output_gradients, weights, transform):
        """Sums a function of the per-example gradients of the shared weights.

        The gradient of one example's loss with respect to the kernel is a
        product of its patches and the gradients at its outputs, summed over
        places. Few examples' are there at a time. Signs of a key do not matter:
        `transform` is to be the same for both.

        Args:
            call: `LayerCall` of this layer.
            output_gradients: Gradients of the summed loss at `call.outputs`.
            weights: Tensor of shape `(batch,)`, the weight of each example.
            transform: Function of a tensor with
                `transform(a * b) == transform(a) * transform(b)` and
                `transform(-a) == transform(a)`.

        Returns:
            List of pairs of a shared weight and the weighted sum over the
            batch of `transform(gradient)`.
        """
        if self.lora_enabled:
            return []
        inputs = ops.cast(call.inputs, "float32")
        deltas = ops.cast(output_gradients, "float32")
        length = math.prod(self.kernel.shape[:-1])
        places = math.prod(size or 64 for size in deltas.shape[1:3])
        values = length * (self.filters + places)
        together = max(1, _VALUES // values)
        size = ops.shape(deltas)[0]

        def add_some(start, kernel, bias):
            some = slice(start, start + together)
            patches = self._patches(inputs[some])
            count = ops.shape(patches)[0]
            patches = ops.reshape(patches, (count, -1, length))
            delta = ops.reshape(deltas[some], (count, -1, self.filters))
            gradients = ops.matmul(ops.transpose(patches, (0, 2, 1)), delta)
            kernel += ops.tensordot(weights[some], transform(gradients), 1)
            delta = transform(ops.sum(delta, axis=1))
            bias += ops.tensordot(weights[some], delta, 1)
            return start + together, kernel, bias

        _, kernel, bias = tf.while_loop(
            lambda start, *_: start < size,
            add_some,
            (
                tf.constant(0),
                tf.zeros((length, self.filters)),
                tf.zeros((self.filters,)),
            ),
        )
        moments = [(self.kernel, ops.reshape(kernel, self.kernel.shape))]
        if self.bias is not None:
            moments.append((self.bias, bias))
        return moments
