"""What a model needs to know of the state inside Keras optimizers."""

import keras


def inner_optimizers(optimizer):
    """Returns the optimizers that hold the slots of model variables."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return inner_optimizers(optimizer.inner_optimizer)
    if isinstance(optimizer, keras.optimizers.MultiOptimizer):
        return optimizer.optimizers
    return [optimizer]


def restart(optimizer, variables):
    """Puts an optimizer back to where it was before its first step.

    Only the learning rate stays, and the scale of the loss.

    Args:
        optimizer: Keras optimizer; nothing happens if it is not built.
        variables: The variables that it was built with.
    """
    if not optimizer.built:
        return
    reset_slots(optimizer, variables)
    for inner in inner_optimizers(optimizer):
        for variable in inner.variables:
            if variable.name == "iteration":
                variable.assign(0)


def reset_slots(optimizer, variables):
    """Sets the slots of some variables to what a new optimizer gives them.

    Slots are found by the name that `add_variable_from_reference` gives them,
    which starts with the path of the model variable.

    Args:
        optimizer: Keras optimizer; nothing happens if it is not built.
        variables: Model variables.
    """
    if not optimizer.built:
        return
    for inner in inner_optimizers(optimizer):
        slots = {v.name: v for v in inner.variables}
        for variable in variables:
            # One variable at a time, so that no second set of slots is held.
            fresh = type(inner).from_config(inner.get_config())
            fresh.build([variable])
            prefix = variable.path.replace("/", "_") + "_"
            for initial in fresh.variables:
                if initial.name.startswith(prefix) and initial.name in slots:
                    slots[initial.name].assign(initial)


def check_accumulation(optimizer):
    """Refuses to accumulate gradients where steps are taken by their sign."""
    for inner in inner_optimizers(optimizer):
        steps = inner.gradient_accumulation_steps
        if steps:
            raise ValueError(
                '`direction="beneficial"` takes a sign step with every batch, '
                "which an accumulated gradient cannot give exactly. Use larger "
                'batches, or `direction="gradient"`. '
                f"Received: gradient_accumulation_steps={steps}"
            )


def loss_scale(optimizer):
    """Returns the factor in the optimizer's gradients, or `None` for one."""
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if scaled or optimizer.loss_scale_factor is not None:
        return optimizer.scale_loss(keras.ops.ones(()))
    return None
