import itertools
import math
import types

import keras
import numpy as np
import tensorflow as tf

from keras_bpn.models.epoch_data import ArrayEpochs
from keras_bpn.models.epoch_data import EpochData
from keras_bpn.models.epoch_data import as_tensors

_BOTH_WEIGHTS = "Expected `sample_weight` or `class_weight`, not both."


class TaskData:
    """The training data of a task, in any form that `fit` accepts.

    Iterating gives batches `(x, y, sample_weight)`, in a fixed order, as often
    as wanted, unless the data is a generator.

    Args:
        x, y, sample_weight, batch_size, class_weight: As in
            `keras.Model.fit`.
        steps_per_epoch: Number of batches to read, needed where the data does
            not end by itself.
    """

    def __init__(
        self,
        x,
        y=None,
        sample_weight=None,
        batch_size=None,
        class_weight=None,
        steps_per_epoch=None,
    ):
        if sample_weight is not None and class_weight is not None:
            raise ValueError(_BOTH_WEIGHTS)
        arrays = keras.tree.map_structure(_as_array, (x, y, sample_weight))
        self.x, self.y, self.sample_weight = arrays
        self.class_weight = class_weight
        self.steps_per_epoch = steps_per_epoch
        self.in_memory = _is_in_memory(arrays)
        if self.in_memory:
            _check_lengths(arrays)
        if not batch_size and self.in_memory and steps_per_epoch:
            batch_size = math.ceil(self.num_examples / steps_per_epoch)
        if isinstance(x, EpochData):
            batch_size = x.batch_size
        self.batch_size = batch_size or 32

    @property
    def num_examples(self):
        if isinstance(self.x, EpochData):
            return self.x.num_examples
        return len(keras.tree.flatten(self.x)[0])

    @property
    def indexed(self):
        """Whether any examples can be had without reading those before."""
        return self.in_memory or isinstance(self.x, EpochData)

    @property
    def read_once(self):
        """Whether the data is gone once it was iterated over."""
        return isinstance(self.x, types.GeneratorType)

    @property
    def endless(self):
        """Whether the data does not end by itself."""
        if self.steps_per_epoch:
            return False
        if isinstance(self.x, tf.data.Dataset):
            return self.x.cardinality() == tf.data.INFINITE_CARDINALITY
        if isinstance(self.x, keras.utils.PyDataset):
            return self.x.num_batches is None
        return False

    def classes(self, one_hot=None):
        """Returns the sorted labels in the data, or `None`.

        Data that is not in memory is read to its end.

        Args:
            one_hot: Boolean, whether targets are one-hot rows instead of
                integers. By default the targets tell.
        """
        if self.in_memory:
            return _labels_in(self.y, one_hot)
        found = set()
        for _, y, _ in self:
            labels = _labels_in(y, one_hot)
            if labels is None:
                return None
            found.update(labels)
        return tuple(sorted(found))

    def split(self, fraction):
        """Splits arrays into the first examples and the last `fraction`.

        Returns:
            The `TaskData` of the first part, and the second part as the
            `validation_data` of `keras.Model.fit`.
        """
        if not self.in_memory:
            raise ValueError(
                "Expected arrays where `validation_split` is given. "
                f"Received: x of type {type(self.x).__name__}"
            )
        size = math.floor(self.num_examples * (1.0 - fraction))
        if not 0 < size < self.num_examples:
            raise ValueError(
                "Expected `validation_split` to leave examples for training "
                f"and for validation. Received: validation_split={fraction} "
                f"of {self.num_examples} examples"
            )
        arrays = (self.x, self.y, self.sample_weight)
        first = keras.tree.map_structure(lambda a: _slice(a, 0, size), arrays)
        last = keras.tree.map_structure(lambda a: _slice(a, size), arrays)
        data = TaskData(
            *first,
            batch_size=self.batch_size,
            class_weight=self.class_weight,
            steps_per_epoch=self.steps_per_epoch,
        )
        return data, keras.utils.pack_x_y_sample_weight(*last)

    def epochs(self, shuffle, seed=None, epoch=None):
        """Returns the `EpochData` of arrays, or `None` of other data.

        Args:
            shuffle: As in `keras.Model.fit`.
            seed: Integer, with which arrays are shuffled.
            epoch: `tf.Variable` with the number of the epoch.
        """
        if isinstance(self.x, EpochData):
            return self.x
        if not self.in_memory or not isinstance(shuffle, bool):
            return None
        # Kept, so that the end of the task need not copy them once more.
        arrays = as_tensors((self.x, self.y, self.sample_weight))
        self.x, self.y, self.sample_weight = arrays
        weights = self.sample_weight
        if self.class_weight is not None:
            if keras.tree.is_nested(self.y):
                raise ValueError(
                    "Expected a model with one output where `class_weight` is "
                    f"given. Received: y of type {type(self.y).__name__}"
                )
            weights = self._class_weights(self.y)
        return ArrayEpochs(
            keras.utils.pack_x_y_sample_weight(self.x, self.y, weights),
            self.batch_size,
            seed if shuffle else None,
            epoch,
        )

    def __iter__(self):
        batches = self._batches()
        if self.steps_per_epoch:
            batches = itertools.islice(batches, self.steps_per_epoch)
        yield from map(self._with_weights, batches)

    def pieces(self, size):
        """Yields what iterating gives, in pieces of any size.

        Only where `indexed`.

        Args:
            size: Integer, the number of examples per piece.
        """
        stop = self.num_examples
        if self.steps_per_epoch:
            stop = min(stop, self.steps_per_epoch * self.batch_size)
        yield from map(self._with_weights, self._slices(size, stop))

    def _batches(self):
        if self.indexed:
            yield from self._slices(self.batch_size, self.num_examples)
        elif isinstance(self.x, keras.utils.PyDataset):
            step = 0
            while self.x.num_batches is None or step < self.x.num_batches:
                yield self.x[step]
                step += 1
        else:
            yield from self.x

    def _slices(self, size, stop):
        if isinstance(self.x, EpochData):
            order = self.x.order()
            for start in range(0, stop, size):
                yield self.x.take(order[start : min(start + size, stop)])
            return
        arrays = (self.x, self.y, self.sample_weight)
        for start in range(0, stop, size):
            yield keras.tree.map_structure(
                lambda a: _slice(a, start, min(start + size, stop)), arrays
            )

    def _with_weights(self, batch):
        """Returns a batch as `(x, y, sample_weight)`."""
        x, y, weight = keras.utils.unpack_x_y_sample_weight(batch)
        if self.class_weight is not None and y is not None:
            if weight is not None:
                raise ValueError(_BOTH_WEIGHTS)
            weight = self._class_weights(y)
        return x, y, weight

    def _class_weights(self, y):
        classes, places = np.unique(_labels(y), return_inverse=True)
        weights = [self.class_weight.get(int(c), 1.0) for c in classes]
        return np.array(weights, "float32")[places]


def _as_array(a):
    """Converts what looks like an array; leaves everything else alone."""
    if isinstance(a, tf.Tensor):
        return a
    if not hasattr(a, "__array__"):
        return a
    a = np.asarray(a)
    is_other_float = a.dtype.kind == "f" and a.dtype != keras.config.floatx()
    # As Keras does with arrays of double precision.
    return a.astype(keras.config.floatx()) if is_other_float else a


def _is_in_memory(arrays):
    leaves = [a for a in keras.tree.flatten(arrays) if a is not None]
    known = [isinstance(a, (np.ndarray, tf.Tensor)) for a in leaves]
    return bool(known) and all(known)


def _labels(y):
    """Returns integer or one-hot targets as a vector of labels."""
    y = np.asarray(y)
    y = y.reshape(len(y), -1)
    return y.argmax(-1) if y.shape[1] > 1 else y[:, 0]


def _labels_in(y, one_hot):
    if y is None or keras.tree.is_nested(y):
        return None
    y = np.asarray(y)
    if y.dtype.kind not in "biuf":
        return None
    if one_hot is None:
        one_hot = y.ndim > 1 and y.shape[-1] > 1 and np.all(y.sum(-1) == 1)
    labels = y.argmax(-1) if one_hot else y
    if not np.array_equal(labels, np.round(labels)):
        return None
    return tuple(int(c) for c in np.unique(labels))


def _check_lengths(arrays):
    leaves = [a for a in keras.tree.flatten(arrays) if a is not None]
    if any(len(a.shape) == 0 for a in leaves):
        raise ValueError("Expected arrays with one entry per example.")
    lengths = [a.shape[0] for a in leaves]
    if len(set(lengths)) != 1 or not lengths[0]:
        raise ValueError(
            "Expected `x`, `y` and `sample_weight` to hold the same number of "
            f"examples, at least one. Received: arrays of lengths {lengths}"
        )


def _slice(array, start, stop=None):
    return array if array is None else array[start:stop]
