import abc
import copy
import functools
import math
import weakref

import numpy as np
import tensorflow as tf

from keras_bpn.scenarios.data import Data
from keras_bpn.scenarios.data import default_memory_limit
from keras_bpn.scenarios.images import resize
from keras_bpn.scenarios.sources import MemorySource
from keras_bpn.scenarios.sources import StreamSource

# What was decoded for a scenario that is still in use serves others too.
_decoded = weakref.WeakValueDictionary()
# Decoded examples of this size are mixed at a time where data is streamed.
_SHUFFLE_BYTES = 256 * 2**20
_ONE_SIZE = (
    "Expected all examples to have one shape. Images that differ in size are "
    "resized by `image_size=(height, width)`."
)


class RecordData(Data):
    """Data in records that have to be read and decoded.

    What fits into memory is decoded once; all else is streamed.

    Args:
        image_size: Height and width to resize images to, or `None`.
        memory_limit: Bytes that decoded examples may take, or `None`.
    """

    def __init__(self, image_size=None, memory_limit=None):
        self.image_size = image_size
        self.memory_limit = memory_limit
        self._sources = {}

    @abc.abstractmethod
    def records(self, split: str) -> tf.data.Dataset:
        """Returns pairs of an encoded example and its label.

        They have to come in the same order in every pass.
        """

    @abc.abstractmethod
    def decode(self, record):
        """Returns an encoded example as a tensor."""

    def cache_key(self, split: str):
        """Returns what tells a split from others of the process, or `None`."""
        return None

    def read_labels(self, split: str) -> np.ndarray:
        """Returns the labels of all records of a split."""
        labels = self.records(split).map(lambda _, label: label).batch(1024)
        return np.concatenate(
            [np.empty(0, "int32"), *labels.as_numpy_iterator()]
        )

    @functools.cached_property
    def _labels(self):
        return {split: self.read_labels(split) for split in self.splits}

    def count(self) -> int:
        """Returns the number of all examples."""
        return sum(len(labels) for labels in self._labels.values())

    def _fits(self, classes):
        """Whether the examples of some classes may be held in memory."""
        shape, dtype = self.example_spec
        limit = self.memory_limit
        if limit is None:
            limit = default_memory_limit()
        count = limit // (math.prod(shape) * dtype.itemsize)
        if self.count() <= count:
            return True
        chosen = [np.isin(y, classes).sum() for y in self._labels.values()]
        return sum(chosen) <= count

    def load(self, classes):
        if classes not in self._sources:
            self._sources[classes] = self._load(classes)
        return self._sources[classes]

    def _load(self, classes):
        if self._fits(classes):
            return {s: self._in_memory(s, classes) for s in self.splits}
        shape, dtype = self.example_spec
        return {
            split: StreamSource(
                self.records(split),
                self._decode,
                self._labels[split],
                shape,
                dtype,
                self.shuffle_buffer(),
            )
            for split in self.splits
        }

    def shuffle_buffer(self) -> int:
        """Returns how many records are mixed at a time in a stream.

        The order must not depend on the memory that happens to be free.
        """
        shape, dtype = self.example_spec
        return max(256, _SHUFFLE_BYTES // (math.prod(shape) * dtype.itemsize))

    def resized(self, image_size):
        other = copy.copy(self)
        other.image_size = image_size
        other._sources = {}
        vars(other).pop("example_spec", None)
        return other

    def shape(self):
        return self.example_spec[0]

    @functools.cached_property
    def example_spec(self) -> tuple[tuple[int, ...], np.dtype]:
        """Shape and dtype of decoded examples, from the first of them."""
        for record, _ in self.records("train").take(1):
            x = self._resized(record)
            return tuple(x.shape), np.dtype(x.dtype.as_numpy_dtype)
        raise ValueError(
            f"Expected training data in '{self.name}'. "
            "Received: no training examples"
        )

    def _resized(self, record):
        x = tf.convert_to_tensor(self.decode(record))
        if not (x.dtype.is_integer or x.dtype.is_floating or x.dtype.is_bool):
            raise ValueError(
                f"Expected '{self.name}' to hold images or vectors of numbers. "
                f"Received: examples of dtype {x.dtype.name}"
            )
        if x.dtype not in (tf.uint8, tf.uint16):
            x = tf.cast(x, tf.float32)
        if self.image_size is not None:
            if x.shape.rank != 3:
                raise ValueError(
                    "Expected images of shape (height, width, channels) where "
                    "`image_size` is given. "
                    f"Received: examples of shape {x.shape}"
                )
            x = resize(x, self.image_size)
        return x

    def _decode(self, record):
        x = self._resized(record)
        shape = self.example_spec[0]
        if x.shape.as_list() != list(shape):
            check = tf.debugging.assert_equal(
                tf.shape(x), tf.constant(shape, tf.int32), message=_ONE_SIZE
            )
            with tf.control_dependencies([check]):
                x = tf.ensure_shape(tf.identity(x), shape)
        return x

    def _in_memory(self, split, classes):
        key = self.cache_key(split)
        if key is not None:
            key = (key, split, self.image_size, tuple(classes))
            if key in _decoded:
                return _decoded[key]
        source = self._read(split, classes)
        if key is not None:
            _decoded[key] = source
        return source

    def _read(self, split, classes):
        records = self.records(split)
        if len(classes) < len(self.classes):
            records = records.filter(
                lambda _, label: tf.reduce_any(
                    tf.cast(label, tf.int64) == tf.constant(classes, tf.int64)
                )
            )
        examples = records.map(
            lambda record, label: (self._decode(record), label),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        shape, dtype = self.example_spec
        x, y = [np.empty((0, *shape), dtype)], [np.empty(0, "int32")]
        try:
            for batch in examples.batch(1024).prefetch(1).as_numpy_iterator():
                x.append(batch[0])
                y.append(batch[1])
        except tf.errors.InvalidArgumentError as error:
            if _ONE_SIZE not in str(error):
                raise
            raise ValueError(
                f"{_ONE_SIZE} Received: images of different shapes in "
                f"'{self.name}'"
            ) from error
        return MemorySource(np.concatenate(x), np.concatenate(y))
