"""What a model needs to know of the state inside Keras optimizers."""

import keras


def inner_optimizers(optimizer):
    """Returns the optimizers that hold the slots of model variables."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return inner_optimizers(optimizer.inner_optimizer)
    if isinstance(optimizer, keras.optimizers.MultiOptimizer):
        return optimizer.optimizers
    return [optimizer]


def reset_slots(optimizer, variables):
    """Sets the slots of some variables to what a new optimizer gives them.

    Slots are found by the name that `add_variable_from_reference` gives them,
    which starts with the path of the model variable.

    Args:
        optimizer: Keras optimizer; nothing happens if it is not built.
        variables: Model variables whose values were drawn anew.
    """
    if not optimizer.built:
        return
    prefixes = tuple(v.path.replace("/", "_") + "_" for v in variables)
    for inner in inner_optimizers(optimizer):
        slots = {v.name: v for v in inner.variables}
        fresh = type(inner).from_config(inner.get_config())
        fresh.build(variables)
        for initial in fresh.variables:
            if initial.name.startswith(prefixes) and initial.name in slots:
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
