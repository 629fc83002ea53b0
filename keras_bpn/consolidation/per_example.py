"""Means of functions of per-example gradients, over the data of a task."""

import collections
import functools

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation.block_sums import BlockSums
from keras_bpn.layers.task_scope import record_calls


def mean_moments(model, data, transform, objectives, function):
    """Averages a function of each example's gradients over a task's data.

    The gradients are those of one example's objective with respect to the
    shared weights, in inference mode. Squaring or taking absolute values must
    happen before gradients of different examples are added, so a batch
    gradient is of no use here.

    Args:
        model: `BPNModel`, in the mode of the task.
        data: Iterable of batches `(x, y, sample_weight)`. The mean is weighted
            where weights are given.
        transform: Function of a tensor with
            `transform(a * b) == transform(a) * transform(b)`, such as a
            square.
        objectives: Function of `(y, y_pred, first)` that returns a list of
            pairs: the gradients of an objective, summed over the examples, at
            the outputs `y_pred`, in their structure, and the weights of the
            examples, of shape `(size,)` or a number. The moments of several
            objectives are added. `first` is the number of examples before.
        function: Function of a name and a maker that caches compiled
            functions, `Consolidation.function`.

    Returns:
        List of tensors, one per shared variable.
    """
    sums = function(
        "moments",
        lambda: BlockSums(
            model,
            functools.partial(_block_moments, model, transform, objectives),
            [v.shape for v in model.shared_variables],
        ),
    )
    return sums.mean(data)


def norm_gradients(y_pred):
    """Gradients of the sum of all squared outputs at the outputs."""
    return keras.tree.map_structure(lambda a: 2 * a, y_pred)


def _block_moments(model, transform, objectives, x, y, weights, first):
    """Returns the sums over a block, one per shared variable."""
    shared = model.shared_variables
    with tf.GradientTape(persistent=True) as tape, record_calls() as calls:
        y_pred = model(x, training=False)
    calls = _used_once(calls, shared)
    totals = None
    for output_gradients, factor in objectives(y, y_pred, first):
        factors = weights * factor
        deltas = tape.gradient(
            y_pred,
            [call.outputs for call in calls],
            output_gradients=output_gradients,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        sums = _closed_form(calls, deltas, factors, transform)
        others = [v for v in shared if id(v) not in sums]
        if others:
            looped = _loop(
                model, transform, x, output_gradients, factors, others
            )
            sums.update((id(v), s) for v, s in zip(others, looped))
        sums = [sums[id(v)] for v in shared]
        totals = sums if totals is None else list(map(ops.add, totals, sums))
    return totals


def _used_once(calls, shared):
    """Returns the calls of layers for which a closed form holds.

    A layer that was used twice has gradients that are sums over its uses.
    """
    counts = collections.Counter(id(call.layer) for call in calls)
    shared = {id(v) for v in shared}
    return [
        call
        for call in calls
        if counts[id(call.layer)] == 1
        and any(id(v) in shared for v in call.layer.trainable_variables)
    ]


def _closed_form(calls, deltas, weights, transform):
    """Returns sums by the ids of variables, of the layers that know theirs."""
    return {
        id(variable): total
        for call, delta in zip(calls, deltas)
        for variable, total in call.layer.gradient_moments(
            call, delta, weights, transform
        )
    }


def _loop(model, transform, x, output_gradients, weights, variables):
    """Returns the sums for any variables, one example after the other."""

    def body(i, sums):
        example_x, example_gradients = keras.tree.map_structure(
            lambda a: a if a is None else a[i : i + 1], (x, output_gradients)
        )
        with tf.GradientTape() as tape:
            y_pred = model(example_x, training=False)
        gradients = tape.gradient(
            y_pred,
            [v.value for v in variables],
            output_gradients=example_gradients,
            unconnected_gradients=tf.UnconnectedGradients.ZERO,
        )
        sums = [
            total + weights[i] * transform(tf.convert_to_tensor(gradient))
            for total, gradient in zip(sums, gradients)
        ]
        return i + 1, sums

    size = ops.shape(weights)[0]
    _, sums = tf.while_loop(
        lambda i, _: i < size,
        body,
        (tf.constant(0), [tf.zeros(v.shape, v.dtype) for v in variables]),
    )
    return sums
