"""Where stored examples are: in memory, or in a stream that is read anew."""

import functools
import hashlib

import numpy as np
import tensorflow as tf

from keras_bpn.scenarios.images import image_scale
from keras_bpn.scenarios.transform import Transform

# Examples for which it pays to compile what is done to them. XLA compiles anew
# for each number of examples, so it is not for the last batch of an epoch.
_MANY = 2048


class Source:
    """The examples of one split of a data set, as they were decoded.

    Attributes:
        y: int32 vector of all labels.
        shape: Shape of one `x`.
        dtype: NumPy dtype of `x`.
        in_memory: Boolean.
    """

    in_memory: bool
    y: np.ndarray
    shape: tuple[int, ...]
    dtype: np.dtype

    @functools.cached_property
    def ranks(self) -> np.ndarray:
        """The place of each example in an order that its content gives.

        However the same examples were stored, the same are drawn for
        validation, and they come in the same order.
        """
        order = np.lexsort((np.arange(len(self.y)), self.y, self.keys))
        ranks = np.empty(len(order), "int64")
        ranks[order] = np.arange(len(order))
        return ranks

    @property
    def keys(self) -> np.ndarray:
        """uint64 vector with a hash of each `x`."""
        raise NotImplementedError

    def fixed_order(self, indices: np.ndarray) -> np.ndarray:
        """Returns indices in the order that batches have without a seed."""
        raise NotImplementedError

    def batches(
        self,
        indices: np.ndarray,
        transform: Transform,
        batch_size: int,
        seed: int | None,
        epoch,
        skip,
    ) -> tf.data.Dataset:
        """Returns batches of transformed examples; see `Examples.batches`."""
        raise NotImplementedError


class MemorySource(Source):
    """Examples in memory.

    Args:
        x: Array with a row per example.
        y: Vector of labels.

    Attributes:
        x: Tensor of all examples.
    """

    in_memory = True

    def __init__(self, x, y):
        self.x = tf.convert_to_tensor(x)
        self.y = np.asarray(y, "int32")
        self._labels = tf.constant(self.y)
        self.shape = tuple(self.x.shape[1:])
        self.dtype = np.dtype(self.x.dtype.as_numpy_dtype)

    @functools.cached_property
    def keys(self):
        return hash_rows(np.asarray(memoryview(self.x)))

    def fixed_order(self, indices):
        return indices[np.argsort(self.ranks[indices])]

    def order(self, indices, seed, epoch):
        """Returns the order of an epoch; see `Examples.order`."""
        indices = tf.convert_to_tensor(indices, tf.int64)
        if seed is None:
            return indices
        return tf.random.experimental.stateless_shuffle(
            indices, seed=_seeds(seed, epoch)
        )

    def take(self, indices, transform):
        """Returns some transformed examples; see `Examples.take`."""
        many = indices.shape[0] >= _MANY
        return (transform.compiled if many else transform)(
            tf.gather(self.x, indices), tf.gather(self._labels, indices)
        )

    def batches(self, indices, transform, batch_size, seed, epoch, skip):
        size = len(indices)
        full = size // batch_size * batch_size
        indices = tf.constant(indices, tf.int64)

        # Without autograph, which takes a good part of the time to trace.
        @tf.autograph.experimental.do_not_convert
        def batches_of_indices(_=None):
            order = self.order(indices, seed, epoch)
            start = now(skip) * batch_size
            batches = tf.data.Dataset.from_tensor_slices(
                tf.reshape(order[start:full], (-1, batch_size))
            )
            if full == size:
                return batches
            rest = tf.data.Dataset.from_tensors(order[full:])
            if not isinstance(start, int) or start > full:
                rest = rest.take(tf.cast(start <= full, tf.int64))
            return batches.concatenate(rest)

        @tf.autograph.experimental.do_not_convert
        def take(indices, arrays):
            x, y = arrays
            return transform(tf.gather(x, indices), tf.gather(y, indices))

        if seed is None and isinstance(skip, int):
            batches = batches_of_indices()
        else:
            # What may change is read anew in each pass.
            batches = tf.data.Dataset.range(1).flat_map(batches_of_indices)
        # The arrays flow in as one element, so that they are not copied into
        # the graph of `take`.
        dataset = tf.data.Dataset.zip(
            batches,
            tf.data.Dataset.from_tensors((self.x, self._labels)).repeat(),
        )
        dataset = dataset.map(take, num_parallel_calls=tf.data.AUTOTUNE)
        return finish(dataset, size, batch_size, skip)


class StreamSource(Source):
    """Examples that are read and decoded anew in each pass.

    Args:
        records: `tf.data.Dataset` of pairs of a stored example and its label,
            in the same order in every pass.
        decode: Function from a stored example to a tensor.
        y: Vector of the labels, in the order of `records`.
        shape: Shape of a decoded example.
        dtype: Its dtype.
        shuffle_buffer: Number of records that are mixed at a time.
    """

    in_memory = False

    def __init__(self, records, decode, y, shape, dtype, shuffle_buffer):
        self.records = records
        self.decode = decode
        self.y = np.asarray(y, "int32")
        self.shape = tuple(shape)
        self.dtype = np.dtype(dtype)
        self.shuffle_buffer = shuffle_buffer

    @functools.cached_property
    def keys(self):
        images = self.records.map(
            lambda record, _: self.decode(record),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        batches = images.batch(256).prefetch(1).as_numpy_iterator()
        return np.concatenate([hash_rows(batch) for batch in batches])

    def fixed_order(self, indices):
        return np.sort(indices)

    def batches(self, indices, transform, batch_size, seed, epoch, skip):
        size = len(indices)
        wanted = np.zeros(len(self.y), bool)
        wanted[indices] = True
        buffer = min(size, self.shuffle_buffer)
        records = self.records.enumerate().filter(
            lambda i, _: tf.gather(wanted, i)
        )
        records = records.map(self._check_label).take(size)

        def in_order(_):
            chosen = records
            if seed is not None:
                shuffle_seed = tf.random.stateless_uniform(
                    (), _seeds(seed, epoch), None, None, tf.int64
                )
                chosen = chosen.shuffle(
                    buffer, shuffle_seed, reshuffle_each_iteration=False
                )
            return chosen.skip(now(skip) * batch_size)

        dataset = tf.data.Dataset.range(1).flat_map(in_order)
        dataset = dataset.map(
            lambda record, label: (self.decode(record), label),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        dataset = dataset.batch(batch_size).map(transform)
        return finish(dataset, size, batch_size, skip)

    def _check_label(self, i, pair):
        record, label = pair
        label = tf.cast(label, tf.int32)
        check = tf.debugging.assert_equal(
            label,
            tf.gather(self.y, i),
            message="Expected data that is streamed to come in the same order "
            "in every pass.",
        )
        with tf.control_dependencies([check]):
            return record, tf.identity(label)


def now(value):
    """Returns the value that a number, variable or function has now."""
    if isinstance(value, int):
        return value
    return tf.cast(value() if callable(value) else value, tf.int64)


def _seeds(seed, epoch):
    return tf.convert_to_tensor([seed, now(epoch)], tf.int64)


def finish(dataset, size, batch_size, skip):
    """Adds what all pipelines end in."""
    if isinstance(skip, int) and skip == 0:
        dataset = dataset.apply(
            tf.data.experimental.assert_cardinality(-(-size // batch_size))
        )
    # As Keras does for arrays: there is nothing here to optimize, and the
    # attempt would be made anew for each epoch.
    options = tf.data.Options()
    options.experimental_optimization.apply_default_optimizations = False
    # Of several workers, each takes its part of every batch.
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.DATA
    )
    return dataset.with_options(options).prefetch(tf.data.AUTOTUNE)


def hash_rows(x: np.ndarray) -> np.ndarray:
    """Returns a uint64 hash of what a network would see of each row.

    Images in integers and the same images scaled have the same hashes.
    """
    hashes = []
    for start in range(0, len(x), 1024):
        rows = x[start : start + 1024]
        scale = np.float32(image_scale(rows.dtype))
        rows = np.asarray(rows, "<f4") / scale
        for row in rows.reshape(len(rows), -1).view("uint8"):
            digest = hashlib.blake2b(row, digest_size=8).digest()
            hashes.append(int.from_bytes(digest, "little"))
    return np.array(hashes, "uint64")
