"""The data of a task in larger pieces than the user's batches."""

import math

import keras
import tensorflow as tf
from keras import ops

# How many values are copied at a time to where TensorFlow wants them. Memory
# of that size is used again from copy to copy, which fresh memory is not.
_COPIED = 2**22

# And of tensors, which may have to be moved to a device with less memory.
_MOVED = 2**28


def pieces(data, at_least=1):
    """Yields the examples of a task in order, many at a time.

    Args:
        data: Iterable of batches `(x, y, sample_weight)`, such as `TaskData`.
        at_least: Integer, in how many pieces to cut tensors in memory, which
            could be one.

    Yields:
        Pairs of `(x, y, sample_weight)` as tensors, and the size of the
        batches that they were in.
    """
    if getattr(data, "indexed", False):
        leaves = keras.tree.flatten((data.x, data.y, data.sample_weight))
        if all(a is None or tf.is_tensor(a) for a in leaves):
            size = math.ceil(data.num_examples / at_least)
            size = min(size, _piece_size(next(iter(data)), 1, _MOVED))
        else:
            size = _piece_size(next(iter(data)), data.batch_size)
        for piece in data.pieces(size):
            yield as_tensors(piece), data.batch_size
        return
    pending = []
    for batch in data:
        batch = as_tensors(batch)
        if pending and not _fits(pending, batch):
            yield _joined(pending), num_examples(pending[0])
            pending = []
        pending.append(batch)
    if pending:
        yield _joined(pending), num_examples(pending[0])


def as_tensors(batch):
    return keras.tree.map_structure(
        lambda a: a if a is None else ops.convert_to_tensor(a), batch
    )


def num_examples(batch):
    return int(ops.shape(keras.tree.flatten(batch)[0])[0])


def specs(batch):
    """Returns what batches have in common that differ in size only."""
    return keras.tree.map_structure(
        lambda a: (
            a if a is None else tf.TensorSpec((None, *a.shape[1:]), a.dtype)
        ),
        batch,
    )


def is_dense(batch):
    leaves = keras.tree.flatten(batch)
    return all(a is None or isinstance(a, tf.Tensor) for a in leaves)


def power_of_two(number):
    """Returns the largest power of two of at most `number`, or 1."""
    return 2 ** max(0, int(number).bit_length() - 1)


def _piece_size(batch, batch_size, most=_COPIED):
    leaves = [a for a in keras.tree.flatten(batch) if a is not None]
    values = sum(math.prod(a.shape[1:]) for a in leaves)
    return max(batch_size, power_of_two(most // values))


def _fits(pending, batch):
    """Whether a batch can be joined to those before it."""
    if not (is_dense(batch) and is_dense(pending[0])):
        return False
    if repr(specs(batch)) != repr(specs(pending[0])):
        return False
    size = num_examples(pending[0])
    together = sum(map(num_examples, pending)) + num_examples(batch)
    return together <= _piece_size(pending[0], size)


def _joined(batches):
    if len(batches) == 1:
        return batches[0]
    return keras.tree.map_structure(
        lambda *a: a[0] if a[0] is None else tf.concat(a, axis=0), *batches
    )
