import abc
import math

import keras
import tensorflow as tf

# Arrays that are larger stay in the memory of the host, if there is another.
_DEVICE_BYTES = 2**30


class EpochData(abc.ABC):
    """Training data whose examples can be had by their numbers.

    An epoch is an order of examples that is cut into batches. With the order
    and the examples apart, many batches can be gathered at once, and be trained
    on in one call.

    Args:
        batch_size: Positive integer.
        skip: Integer, how many batches to leave out at the start.
    """

    def __init__(self, batch_size, skip=0):
        self.batch_size = batch_size
        self.skip = skip

    @property
    @abc.abstractmethod
    def num_examples(self):
        """The number of examples in an epoch, skipped ones included."""

    @abc.abstractmethod
    def order(self):
        """Returns the numbers of the examples of the epoch that starts now, as
        an integer tensor, without those of batches to skip."""

    @abc.abstractmethod
    def take(self, order):
        """Returns the examples of some numbers, a part of `order()`, as one
        batch of tensors, `x`, `(x, y)` or `(x, y, sample_weight)`."""

    @abc.abstractmethod
    def example(self):
        """Returns a batch of one example, whichever comes first."""

    @abc.abstractmethod
    def batches(self):
        """Returns the batches of an epoch as a `tf.data.Dataset`, which is
        iterated over anew for each."""

    @property
    def num_batches(self):
        """The number of batches in an epoch, skipped ones included."""
        return math.ceil(self.num_examples / self.batch_size)


class ArrayEpochs(EpochData):
    """Arrays, in an order that may be random.

    Args:
        arrays: Structure of arrays, a row for each example.
        batch_size: Positive integer.
        seed: Integer, or `None` for the order of the arrays. The order of an
            epoch depends on `seed` and the number of the epoch alone: training
            that was stopped after some epochs sees the rest as it would have
            without the stop.
        epoch: `tf.Variable` with the number of the epoch.
    """

    def __init__(self, arrays, batch_size, seed, epoch):
        super().__init__(batch_size)
        self.arrays = keras.tree.lists_to_tuples(as_tensors(arrays))
        self.seed = seed
        self.epoch = epoch

    @property
    def num_examples(self):
        first = next(
            a for a in keras.tree.flatten(self.arrays) if a is not None
        )
        return first.shape[0]

    def order(self):
        order = tf.range(self.num_examples, dtype=tf.int64)
        if self.seed is None:
            return order
        return tf.random.experimental.stateless_shuffle(
            order, seed=[self.seed, self.epoch]
        )

    def take(self, order):
        return _gather(self.arrays, order)

    def example(self):
        return self.take(tf.range(1))

    def batches(self):
        size, batch_size = self.num_examples, self.batch_size

        def batches_of_indices(_):
            order = self.order()
            full = size // batch_size * batch_size
            batches = tf.data.Dataset.from_tensor_slices(
                tf.reshape(order[:full], (-1, batch_size))
            )
            if full < size:
                rest = tf.data.Dataset.from_tensors(order[full:])
                batches = batches.concatenate(rest)
            return batches

        # The arrays flow in as one element, so that they are not copied into
        # the graph of the function that gathers from them.
        indices = tf.data.Dataset.range(1).flat_map(batches_of_indices)
        source = tf.data.Dataset.from_tensors(self.arrays).repeat()
        dataset = tf.data.Dataset.zip(indices, source)
        dataset = dataset.map(
            lambda order, arrays: _gather(arrays, order),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
        dataset = dataset.apply(
            tf.data.experimental.assert_cardinality(self.num_batches)
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


def as_tensors(arrays):
    """Returns arrays as tensors, on the device where they fit."""
    leaves = [a for a in keras.tree.flatten(arrays) if a is not None]
    size = sum(math.prod(a.shape) * _itemsize(a) for a in leaves)
    with tf.device("CPU:0" if size > _DEVICE_BYTES else None):
        return keras.tree.map_structure(
            lambda a: a if a is None else tf.convert_to_tensor(a), arrays
        )


def _itemsize(array):
    return tf.as_dtype(array.dtype).size


def _gather(arrays, order):
    def gather(array):
        # Where the array is; what is gathered is moved when it is used.
        with tf.device(array.device):
            return tf.gather(array, order)

    return keras.tree.map_structure(
        lambda a: a if a is None else gather(a), arrays
    )
