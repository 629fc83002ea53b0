"""Work on decoded images."""

import numpy as np
import tensorflow as tf


def image_scale(dtype) -> int:
    """Returns what numbers of a dtype are divided by to be in [0, 1]."""
    dtype = np.dtype(dtype)
    return np.iinfo(dtype).max if dtype in ("uint8", "uint16") else 1


def resize(images, size):
    """Returns images of another size and of the same dtype.

    Args:
        images: Tensor of shape `(..., height, width, channels)`.
        size: Height and width.
    """
    dtype = images.dtype
    if tuple(images.shape[-3:-1]) == tuple(size):
        return images
    images = tf.image.resize(images, size, antialias=True)
    if dtype.is_integer:
        # Antialiasing may overshoot by rounding errors.
        images = tf.clip_by_value(tf.round(images), dtype.min, dtype.max)
    return tf.cast(images, dtype)


def resize_array(images: np.ndarray, size) -> np.ndarray:
    """Resizes an array of images, some at a time."""
    if tuple(images.shape[1:3]) == tuple(size):
        return images
    return np.concatenate(
        [
            resize(tf.convert_to_tensor(images[i : i + 256]), size).numpy()
            for i in range(0, len(images), 256)
        ]
    )
