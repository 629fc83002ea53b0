"""Sums of functions of per-example gradients, over the data of a task."""

import collections

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.layers.task_scope import record_calls


def mean_moments(model, data, transform, targets, function):
    """Averages a function of each example's gradients over a task's data.

    The gradients are those of one example's loss with respect to the shared
    weights, in inference mode. Squaring or taking absolute values must happen
    before gradients of different examples are added, so a batch gradient is of
    no use here.

    Args:
        model: `BPNModel`, in the mode of the task.
        data: Iterable of batches `(x, y, sample_weight)`. The mean is weighted
            where weights are given.
        transform: Function of a tensor with
            `transform(a * b) == transform(a) * transform(b)`, such as a
            square.
        targets: Function of `(y, y_pred, step)` that returns a list of pairs
            of targets and their weights of shape `(batch,)`: what the loss of
            an example is computed for. `step` is the number of the batch.
        function: Function of a name and a maker that caches compiled
            functions.

    Returns:
        List of tensors, one per shared variable.
    """
    # XLA compiles the map over examples anew for each batch and gains nothing.
    step_function = function(
        "moments",
        lambda: tf.function(
            lambda *batch: _batch_moments(model, transform, targets, *batch),
            autograph=False,
            reduce_retracing=True,
        ),
    )
    totals = None
    for step, (x, y, weights) in enumerate(data):
        x, y, weights = keras.tree.map_structure(
            lambda a: a if a is None else ops.convert_to_tensor(a),
            (x, y, weights),
        )
        size = ops.shape(keras.tree.flatten(x)[0])[0]
        if weights is None:
            weights = ops.ones((size,))
        weights = _one_per_example(weights)
        sums = step_function(x, y, weights, ops.convert_to_tensor(step))
        sums = [*sums, ops.sum(weights)]
        totals = sums if totals is None else list(map(ops.add, totals, sums))
    if totals is None:
        raise ValueError(
            "Expected the data of the task to hold at least one batch. "
            "Received: no batch. Data that can be read only once is used up "
            "when the task ends"
        )
    return [total / totals[-1] for total in totals[:-1]]


def _batch_moments(model, transform, targets, x, y, weights, step):
    y_pred = model(x, training=False)
    totals = None
    for target, factor in targets(y, y_pred, step):
        sums = _target_moments(model, transform, x, target, weights * factor)
        totals = sums if totals is None else list(map(ops.add, totals, sums))
    return totals


def _target_moments(model, transform, x, y, weights):
    """Returns the sums over a batch, one per shared variable."""
    sums = _closed_form(model, transform, x, y, weights)
    others = [v for v in model.shared_variables if id(v) not in sums]
    if others:
        looped = _loop(model, transform, x, y, weights, others)
        sums.update((id(v), s) for v, s in zip(others, looped))
    return [sums[id(v)] for v in model.shared_variables]


def _closed_form(model, transform, x, y, weights):
    """Returns sums by variable for the layers that know theirs."""
    with tf.GradientTape() as tape, record_calls() as calls:
        y_pred = model(x, training=False)
    counts = collections.Counter(id(call.layer) for call in calls)
    # A layer that was used twice has gradients that are sums over its uses.
    calls = [call for call in calls if counts[id(call.layer)] == 1]
    shared = {id(v) for v in model.shared_variables}
    calls = [
        call
        for call in calls
        if any(id(v) in shared for v in call.layer.trainable_variables)
    ]
    deltas = tape.gradient(
        y_pred,
        [call.outputs for call in calls],
        output_gradients=_loss_gradients(model, x, y, y_pred),
        unconnected_gradients=tf.UnconnectedGradients.ZERO,
    )
    return {
        id(variable): total
        for call, delta in zip(calls, deltas)
        for variable, total in call.layer.gradient_moments(
            call, delta, weights, transform
        )
        if id(variable) in shared
    }


def _loop(model, transform, x, y, weights, variables):
    """Returns the sums for any variables, one example after the other."""

    def body(i, sums):
        example_x, example_y = keras.tree.map_structure(
            lambda a: a if a is None else a[i : i + 1], (x, y)
        )
        with tf.GradientTape() as tape:
            y_pred = model(example_x, training=False)
        gradients = tape.gradient(
            y_pred,
            [v.value for v in variables],
            output_gradients=_loss_gradients(
                model, example_x, example_y, y_pred
            ),
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


def _loss_gradients(model, x, y, y_pred):
    """Gradients of the sum of the examples' own losses at the outputs.

    Each example's loss is computed as that of a batch of one, which is right
    for every loss, reduction and number of outputs. Regularizers are left out:
    they do not depend on the data.
    """

    def example_loss(example):
        y, y_pred = keras.tree.map_structure(
            lambda a: a if a is None else a[None], example
        )
        loss = model.compute_loss(x=None, y=y, y_pred=y_pred, training=False)
        return ops.cast(loss, "float32")

    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        losses = tf.vectorized_map(example_loss, (y, y_pred))
    return tape.gradient(losses, y_pred)


def _one_per_example(weights):
    if keras.tree.is_nested(weights):
        weights = keras.tree.flatten(weights)[0]
    weights = ops.cast(weights, "float32")
    return ops.mean(ops.reshape(weights, (ops.shape(weights)[0], -1)), axis=1)
