import dataclasses
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from keras_bpn.scenarios.images import image_scale


@dataclasses.dataclass(frozen=True, eq=False)
class Transform:
    """What is done to a batch between the stored examples and a network.

    A call takes a batch `(x, y)` as it is stored and returns `x` in float32
    and `y` in int32. It is made of operations on tensors that work in any
    `tf.function`, on any device. The steps, in order; those that are not set
    are left out:

    1. The pixels, all channels, are put into another order.
    2. Images in uint8 and uint16 are scaled to [0, 1]; other numbers stay as
       they are.
    3. Grey images are repeated in three channels.
    4. `preprocess` is called.
    5. `x` gets another shape.
    6. Labels are replaced.

    Args:
        permutation: Vector of integers: pixel `i` of the flattened output is
            pixel `permutation[i]` of the input.
        channels: Integer, the number of channels of the output.
        preprocess: Function of a batch of floats.
        shape: Tuple of integers, the shape of one `x`.
        labels: Tuple of integers: label `labels[i]` is replaced by `i`.
    """

    permutation: np.ndarray | None = None
    channels: int | None = None
    preprocess: Callable[[Any], Any] | None = None
    shape: tuple[int, ...] | None = None
    labels: tuple[int, ...] | None = None

    def replace(self, **changes) -> "Transform":
        """Returns a transform with some steps changed."""
        return dataclasses.replace(self, **changes)

    def __call__(self, x, y):
        x = _to_floats(x, self.permutation, self.channels)
        return self._finish(x, y)

    def compiled(self, x, y):
        """Returns the same as a call; faster, for many examples at once.

        Pixels are read, moved and scaled in one pass.
        """
        permutation = self.permutation
        if permutation is not None:
            # Not as a constant: the same code serves all permutations.
            permutation = tf.convert_to_tensor(permutation)
        return self._finish(_to_floats_by_xla(x, permutation, self.channels), y)

    def _finish(self, x, y):
        if self.preprocess is not None:
            # A function of its own, so that autograph converts it.
            x = tf.cast(tf.function(self.preprocess)(x), tf.float32)
        if self.shape is not None:
            x = tf.reshape(x, (-1, *self.shape))
        return x, self.relabel(y)

    def relabel(self, y):
        """Returns the labels of the task as an int32 tensor."""
        if self.labels is None:
            return tf.cast(y, tf.int32)
        table = np.full(max(self.labels) + 1, -1, "int32")
        table[list(self.labels)] = np.arange(len(self.labels))
        return tf.gather(table, y)

    def output_shape(self, shape: tuple[int, ...], dtype) -> tuple[int, ...]:
        """Returns the shape of one `x` for stored examples of a shape."""
        x, _ = (
            tf.function(self)
            .get_concrete_function(
                tf.TensorSpec((None, *shape), dtype),
                tf.TensorSpec((None,), tf.int32),
            )
            .structured_outputs
        )
        return tuple(x.shape[1:])


def _to_floats(x, permutation, channels):
    """Does the first three steps of a `Transform`."""
    if permutation is not None:
        shape = x.shape[1:]
        x = tf.reshape(x, (-1, math.prod(shape)))
        x = tf.gather(x, permutation, axis=1)
        x = tf.reshape(x, (-1, *shape))
    scale = image_scale(x.dtype.as_numpy_dtype)
    x = tf.cast(x, tf.float32)
    if scale > 1:
        x = x / scale
    if channels is not None and x.shape[-1] != channels:
        x = tf.repeat(x, channels, axis=-1)
    return x


_to_floats_by_xla = tf.function(_to_floats, autograph=False, jit_compile=True)
