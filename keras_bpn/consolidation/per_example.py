"""Means of functions of per-example gradients, over the data of a task."""

import collections

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.layers.task_scope import record_calls
from keras_bpn.models.workers import num_workers
from keras_bpn.models.workers import sum_over_workers
from keras_bpn.models.workers import worker_index


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
        objectives: Function of `(y, y_pred, step)` that returns a list of
            pairs: the gradients of an objective, summed over the batch, at
            the outputs `y_pred`, in their structure, and the weights of the
            examples, of shape `(batch,)` or a number. The moments of several
            objectives are added. `step` is the number of the batch.
        function: Function of a name and a maker that caches compiled
            functions, `Consolidation.function`.

    Returns:
        List of tensors, one per shared variable.
    """
    # XLA compiles the map over examples anew for each batch and gains nothing.
    step_function = function(
        "moments",
        lambda: tf.function(
            lambda *batch: _batch_moments(model, transform, objectives, *batch),
            autograph=False,
            reduce_retracing=True,
        ),
    )
    return weighted_mean(data, step_function, model.distribute_strategy)


def weighted_mean(data, step_function, strategy):
    """Averages over the examples of a task's data.

    Of several workers, each takes every so many batches.

    Args:
        data: Iterable of batches `(x, y, sample_weight)`.
        step_function: Function of `(x, y, weights, step)` that returns a list
            of weighted sums over the examples of a batch. `weights` has the
            shape `(batch,)`.
        strategy: The `tf.distribute.Strategy` of the model.

    Returns:
        List of the sums over all batches, divided by the sum of all weights.
    """
    count, index = num_workers(strategy), worker_index(strategy)
    totals = None
    for step, (x, y, weights) in enumerate(data):
        is_own = step % count == index
        if step and not is_own:
            continue
        x, y, weights = keras.tree.map_structure(
            lambda a: a if a is None else ops.convert_to_tensor(a),
            (x, y, weights),
        )
        size = ops.shape(keras.tree.flatten(x)[0])[0]
        if weights is None:
            weights = ops.ones((size,))
        weights = _one_per_example(weights)
        if not is_own:
            # The first batch tells the shapes to workers that have none.
            weights = ops.zeros_like(weights)
        sums = step_function(x, y, weights, ops.convert_to_tensor(step))
        sums = [*sums, ops.sum(weights)]
        totals = sums if totals is None else list(map(ops.add, totals, sums))
    if totals is None:
        raise ValueError(
            "Expected the data of the task to hold at least one batch. "
            "Received: no batch. Data that can be read only once is used up "
            "when the task ends"
        )
    totals = sum_over_workers(strategy, totals)
    return [total / totals[-1] for total in totals[:-1]]


def loss_gradients(model, y, y_pred):
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
    gradients = tape.gradient(
        losses, y_pred, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    # The map takes each example out of the batch, which gives slices.
    return keras.tree.map_structure(tf.convert_to_tensor, gradients)


def norm_gradients(y_pred):
    """Gradients of the sum of all squared outputs at the outputs."""
    return keras.tree.map_structure(lambda a: 2 * a, y_pred)


def _batch_moments(model, transform, objectives, x, y, weights, step):
    """Returns the sums over a batch, one per shared variable."""
    shared = model.shared_variables
    with tf.GradientTape(persistent=True) as tape, record_calls() as calls:
        y_pred = model(x, training=False)
    calls = _used_once(calls, shared)
    totals = None
    for output_gradients, factor in objectives(y, y_pred, step):
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


def _one_per_example(weights):
    if keras.tree.is_nested(weights):
        weights = keras.tree.flatten(weights)[0]
    weights = ops.cast(weights, "float32")
    return ops.mean(ops.reshape(weights, (ops.shape(weights)[0], -1)), axis=1)
