"""A batch whose parts are computed on the replicas of a `tf.distribute`
strategy. All functions are called in a step, by each replica."""

import keras
import tensorflow as tf
from keras import ops


def num_replicas():
    """Returns over how many replicas a batch is spread."""
    return tf.distribute.get_strategy().num_replicas_in_sync


def sum_over_replicas(tensors):
    """Returns the sums over all replicas of what each of them has.

    Args:
        tensors: Tensor, or list of tensors and `None`.
    """
    if num_replicas() == 1:
        return tensors
    context = tf.distribute.get_replica_context()
    if not isinstance(tensors, list):
        return context.all_reduce(tf.distribute.ReduceOp.SUM, tensors)
    given = [tf.convert_to_tensor(t) for t in tensors if t is not None]
    sums = iter(context.all_reduce(tf.distribute.ReduceOp.SUM, given))
    return [t if t is None else next(sums) for t in tensors]


def spread_not_finite(gradients):
    """Puts NaN into the gradients of all replicas if it is in those of any.

    The optimizer of Keras that scales losses skips a step if the gradients of
    the first replica are not finite, and does not look at the others'.

    Args:
        gradients: List of tensors and `None`.
    """
    given = [g for g in gradients if g is not None]
    if num_replicas() == 1 or not given:
        return gradients
    totals = [tf.reduce_sum(getattr(g, "values", g)) for g in given]
    total = sum_over_replicas(tf.add_n(totals))
    # Zero where it is finite.
    spread = tf.where(tf.math.is_finite(total), 0.0, float("nan"))
    return [
        g if g is None else tf.convert_to_tensor(g) + spread for g in gradients
    ]


def fill_empty(batch):
    """Fills a part of a batch that has no examples with one of zeros.

    That happens where the last batch of an epoch has fewer examples than there
    are replicas. A mean over no examples is no number, and would spread to all
    weights. `weigh_part` lets the example of zeros count nothing.

    Args:
        batch: `x`, `y` and `sample_weight`, or fewer of them.
    """
    if num_replicas() == 1:
        return batch

    def fill(tensor):
        if tensor is None:
            return None
        missing = tf.maximum(1 - tf.shape(tensor)[0], 0)
        padding = [[0, missing]] + [[0, 0]] * (len(tensor.shape) - 1)
        return tf.pad(tensor, padding)

    return keras.tree.map_structure(fill, batch)


def without_filling(y_pred, x):
    """Returns the outputs for inputs as they were before `fill_empty`."""
    if num_replicas() == 1:
        return y_pred
    size = _num_examples(x)
    return keras.tree.map_structure(lambda t: t[:size], y_pred)


def weigh_part(loss, x):
    """Returns a replica's loss as its share of the mean over the batch.

    Keras divides the mean over a replica's examples by the number of replicas.
    That is right where all have the same number of examples, which is not so
    for the last batch of an epoch.

    Args:
        loss: Scalar, a mean over the examples, divided by the number of
            replicas.
        x: Inputs of the replica, as they were before `fill_empty`.
    """
    if num_replicas() == 1:
        return loss
    size = tf.cast(_num_examples(x), "float32")
    share = num_replicas() * size / sum_over_replicas(size)
    return loss * ops.cast(share, loss.dtype)


def _num_examples(x):
    return ops.shape(keras.tree.flatten(x)[0])[0]
