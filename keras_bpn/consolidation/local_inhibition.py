import functools

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation.block_sums import BlockSums
from keras_bpn.consolidation.consolidation import Consolidation
from keras_bpn.consolidation.per_example import norm_gradients
from keras_bpn.layers.task_scope import record_calls


@keras.saving.register_keras_serializable("keras_bpn")
class LocalInhibition(Consolidation):
    """Neurons that are active together inhibit their neighbours.

    The objective of a task is

    `loss + strength * sum over hidden layers, i != j of
    e_ij * g_ij * mean over examples of h_i * h_j`

    with `h_i` the activation of neuron `i` of a hidden layer with ReLU, over
    the examples of the batch. It makes activations sparse, so that later tasks
    find neurons that are free.

    - `g_ij = exp(-(i - j)^2 / (2 * sigma^2))` with `sigma = scale * width`:
      a neuron inhibits those near it in its layer.
    - `e_ij = min(exp(-a_i), exp(-a_j))` leaves out neurons that earlier tasks
      need. `a_i` is the mean over examples of
      `|d(sum of squared outputs) / d z_i|`, with `z_i` the neuron before its
      activation, added up over tasks. It is 0 in the first task. The minimum
      is what the authors' code takes.

    This is the part of `SLNID` that acts on activations. By itself it protects
    no weight: combine it with a method that does. The positions of a layer
    that is used at several of them, such as those of an image, count as
    further examples. Outputs of the model are not inhibited.

    Args:
        strength: Number of at least 0, the factor lambda of the term, the
            authors' lambda for a mean over the examples and a sum over all
            pairs of neurons and all layers.
        scale: Positive number, the reach of the inhibition as a fraction of
            the width of a layer.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss="sparse_categorical_crossentropy",
    ...     consolidation=keras_bpn.consolidation.Combination(
    ...         [
    ...             keras_bpn.consolidation.LocalInhibition(1e-3),
    ...             keras_bpn.consolidation.PSP(),
    ...         ]
    ...     ),
    ... )

    Reference:

    - [Aljundi et al., 2019](https://arxiv.org/abs/1806.05421)
    """

    needs_data = True

    def __init__(self, strength=1e-3, scale=1 / 6):
        super().__init__()
        if isinstance(strength, bool) or not strength >= 0:
            raise ValueError(
                "Expected `strength`, the factor lambda of the term, to be at "
                f"least 0. Received: strength={strength!r}"
            )
        if isinstance(scale, bool) or not scale > 0:
            raise ValueError(
                "Expected `scale`, a fraction of the width of a layer, to be "
                f"positive. Received: scale={scale!r}"
            )
        self.strength = float(strength)
        self.scale = float(scale)
        self._keys = {}
        self._nearness = {}

    def check(self, model):
        if not _hidden_layers(model):
            raise ValueError(
                f"`{type(self).__name__}` inhibits hidden layers such as "
                "`keras_bpn.layers.BPNDense(units, activation='relu')`. "
                "Received: a model without any"
            )

    def build(self, model):
        self._keys = {}
        for i, layer in enumerate(_hidden_layers(model)):
            # By place: the names of layers may differ between models.
            self._keys[id(layer)] = key = f"importance/{i}"
            width = layer.kernel.shape[-1]
            if key not in self._variables:
                self.add_variable(key, ops.zeros((width,)))
            self._nearness[key] = _nearness(width, self.scale * width)

    def importance(self, layer):
        """Returns the variable with the importance of a layer's neurons."""
        return self._variables[self._keys[id(layer)]]

    def loss(self, model, x, y, y_pred, calls):
        total = 0.0
        for call in self._hidden_calls(calls):
            key = self._keys[id(call.layer)]
            active = ops.relu(_neurons_last(call.layer, call.outputs))
            active = ops.reshape(active, (-1, active.shape[-1]))
            size = ops.cast(ops.shape(active)[0], "float32")
            together = ops.matmul(ops.transpose(active), active) / size
            free = ops.exp(-self._variables[key])
            free = ops.minimum(free[:, None], free[None, :])
            total += ops.sum(free * self._nearness[key] * together)
        return self.strength * total

    def end_task(self, model, task, data):
        sums = self.function(
            "neurons",
            lambda: BlockSums(
                model,
                functools.partial(self._block_importance, model),
                [self._variables[key].shape for key in self._keys.values()],
            ),
        )
        added = sums.mean(data)
        for key, importance in zip(self._keys.values(), added):
            self._variables[key].assign_add(importance)

    def _block_importance(self, model, x, y, weights, first):
        """Returns the sums over a block, one per hidden layer."""
        with tf.GradientTape() as tape, record_calls() as calls:
            y_pred = model(x, training=False)
        calls = self._hidden_calls(calls)
        deltas = tape.gradient(
            y_pred,
            [call.outputs for call in calls],
            output_gradients=norm_gradients(y_pred),
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        sums = {
            key: ops.zeros_like(self._variables[key])
            for key in self._keys.values()
        }
        for call, delta in zip(calls, deltas):
            delta = ops.absolute(_neurons_last(call.layer, delta))
            shape = (ops.shape(weights)[0], -1, delta.shape[-1])
            delta = ops.mean(ops.reshape(delta, shape), axis=1)
            sums[self._keys[id(call.layer)]] += ops.matmul(weights, delta)
        return list(sums.values())

    def _hidden_calls(self, calls):
        return [call for call in calls if id(call.layer) in self._keys]

    def get_config(self):
        return {"strength": self.strength, "scale": self.scale}


def _hidden_layers(model):
    """Returns the layers with ReLU whose calls are recorded, but outputs."""
    outputs = [
        layer for layer in model.layers if layer.name in model.output_names
    ]
    return [
        layer
        for layer in model._flatten_layers(include_self=False)
        if hasattr(layer, "gradient_moments")
        and layer.activation is keras.activations.relu
        and layer not in outputs
    ]


def _neurons_last(layer, values):
    if getattr(layer, "data_format", None) == "channels_first":
        values = ops.moveaxis(values, 1, -1)
    # Sums over a batch can be too large for half precision.
    return ops.cast(values, "float32")


def _nearness(width, sigma):
    """Returns the factors `g` of all pairs, 0 of a neuron and itself."""
    places = np.arange(width)
    distances = places[:, None] - places[None, :]
    near = np.exp(-np.square(distances) / (2 * sigma**2))
    np.fill_diagonal(near, 0.0)
    return ops.convert_to_tensor(near, "float32")
