import copy

import numpy as np

from keras_bpn.scenarios.data import Data
from keras_bpn.scenarios.data import fingerprint
from keras_bpn.scenarios.images import resize_array
from keras_bpn.scenarios.sources import MemorySource

# Images that are kept as they are and scaled batch by batch.
_IMAGE_DTYPES = ("uint8", "uint16")


class ArrayData(Data):
    """Arrays `(x, y)`, or `((x_train, y_train), (x_test, y_test))`.

    Args:
        arrays: See above.
        image_size: Height and width to resize images to, or `None`.
        name: String.
        class_names: Names of the labels, or `None`.
    """

    labels_known = True

    def __init__(
        self, arrays, image_size=None, name="arrays", class_names=None
    ):
        pairs = _as_pairs(arrays)
        checked = {
            split: _check_pair(split, *pair) for split, pair in pairs.items()
        }
        _check_alike(checked)
        self.name = name
        self.class_names = class_names
        self.splits = tuple(checked)
        self._sources = {
            split: MemorySource(_resized(x, image_size), y)
            for split, (x, y) in checked.items()
        }
        labels = np.concatenate([s.y for s in self._sources.values()])
        self.classes = tuple(int(c) for c in np.unique(labels))

    def load(self, classes):
        return self._sources

    def labels(self):
        return {split: s.y for split, s in self._sources.items()}

    def resized(self, image_size):
        other = copy.copy(self)
        other._sources = {
            split: MemorySource(_resized(s.x.numpy(), image_size), s.y)
            for split, s in self._sources.items()
        }
        return other

    def shape(self):
        return self._sources["train"].shape

    def get_config(self):
        return {"name": self.name, "fingerprint": fingerprint(self._sources)}


def _as_pairs(arrays):
    if not isinstance(arrays, (tuple, list)) or len(arrays) != 2:
        raise ValueError(
            "Expected arrays as `(x, y)` or `((x_train, y_train), (x_test, "
            f"y_test))`. Received: {_describe(arrays)}"
        )
    if all(isinstance(a, (tuple, list)) and len(a) == 2 for a in arrays):
        return {"train": arrays[0], "test": arrays[1]}
    return {"train": arrays}


def _describe(value):
    if isinstance(value, (tuple, list)):
        return f"{type(value).__name__} of length {len(value)}"
    return type(value).__name__


def _check_pair(split, x, y):
    x, y = np.asarray(x), np.asarray(y)
    if x.dtype.kind not in "buif" or x.ndim < 2 or 0 in x.shape:
        raise ValueError(
            f"Expected `x` of the {split} data to be an array of numbers with "
            "a row of at least one number for each example. "
            f"Received: x of dtype {x.dtype} and shape {x.shape}"
        )
    if x.dtype.kind == "f" and not np.all(np.isfinite(x)):
        raise ValueError(
            f"Expected `x` of the {split} data to be finite. "
            "Received: x with NaN or infinity"
        )
    if y.ndim == 2 and y.shape[1] == 1:
        # As in `keras.datasets.cifar10`.
        y = y[:, 0]
    if y.dtype.kind not in "ui" or y.ndim != 1:
        raise ValueError(
            f"Expected `y` of the {split} data to be a vector of integers, "
            f"one label per example. Received: y of dtype {y.dtype} and shape "
            f"{y.shape}"
        )
    if len(x) != len(y):
        raise ValueError(
            f"Expected `x` and `y` of the {split} data to have the same "
            f"length. Received: x of length {len(x)}, y of length {len(y)}"
        )
    if y.min() < 0 or y.max() >= 2**31:
        raise ValueError(
            f"Expected the labels of the {split} data to be at least 0 and "
            f"below 2**31. Received: labels from {y.min()} to {y.max()}"
        )
    if x.dtype not in _IMAGE_DTYPES:
        x = x.astype("float32")
    return x, y.astype("int32")


def _check_alike(pairs):
    kinds = {(x.shape[1:], x.dtype.name) for x, _ in pairs.values()}
    if len(kinds) > 1:
        received = ", ".join(
            f"{split} of shape {x.shape} and dtype {x.dtype}"
            for split, (x, _) in pairs.items()
        )
        raise ValueError(
            "Expected training and test data to have the same shape and dtype. "
            f"Received: {received}"
        )


def _resized(x, image_size):
    if image_size is None:
        return x
    if x.ndim != 4:
        raise ValueError(
            "Expected images of shape (examples, height, width, channels) "
            f"where `image_size` is given. Received: x of shape {x.shape}"
        )
    return resize_array(x, image_size)
