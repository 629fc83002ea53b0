"""From gradients to new weights: one step of the paper's algorithms 2 and 4."""

import tensorflow as tf
from keras import ops

from keras_bpn.models.optimizer_state import loss_scale
from keras_bpn.models.replicas import spread_not_finite
from keras_bpn.models.replicas import sum_over_replicas


def update_weights(model, gradients, guard):
    """Updates the trainable variables of a model from their gradients.

    Shared weights and `W_t` follow the optimizer, the shared weights after
    `consolidation.adjust_gradients`. `M_t` follows the optimizer too with
    `direction="gradient"`; with `direction="beneficial"` it moves by epsilon
    against the sign of its gradient.

    Args:
        model: `BPNModel`.
        gradients: Gradients of the scaled loss, one per trainable variable.
        guard: `StepGuard` that refuses steps with gradients that are not
            finite.
    """
    variables = model.trainable_variables
    scale = loss_scale(model.optimizer)
    if scale is not None:
        # Whoever adjusts gradients sees them as they are without the scale.
        gradients = [_multiply(g, 1.0 / scale) for g in gradients]
    gradients = {id(v): g for v, g in zip(variables, gradients)}

    shared = model.shared_variables
    task_gradients = [gradients[id(v)] for v in shared]
    if model.consolidation is not None:
        adjusted = model.consolidation.adjust_gradients(model, task_gradients)
        gradients.update((id(v), g) for v, g in zip(shared, adjusted))
    if scale is not None:
        gradients = {i: _multiply(g, scale) for i, g in gradients.items()}

    if model.direction == "beneficial":
        for variable in model.perturbations:
            if gradients.get(id(variable)) is not None:
                gradients[id(variable)] = _beneficial_step(
                    variable, gradients[id(variable)], model.epsilon
                )

    def apply(gradients):
        # Keras overwrites the perturbations by what stands for their gradient.
        model.optimizer.apply(gradients, variables)

    def after():
        if model.consolidation is not None:
            model.consolidation.after_update(model, task_gradients)

    gradients = [gradients[id(v)] for v in variables]
    # An optimizer that scales the loss refuses such steps by itself.
    if scale is not None:
        apply(spread_not_finite(gradients))
        after()
    else:
        guard.update(model, gradients, apply, after)


def _beneficial_step(variable, gradient, epsilon):
    # The sign is that of the whole batch, wherever its parts were computed.
    gradient = sum_over_replicas(gradient)
    return ops.subtract(variable, epsilon * ops.sign(gradient))


def _multiply(gradient, factor):
    if gradient is None:
        return None
    if isinstance(gradient, tf.IndexedSlices):
        return tf.IndexedSlices(
            gradient.values * factor, gradient.indices, gradient.dense_shape
        )
    return gradient * ops.cast(factor, gradient.dtype)
