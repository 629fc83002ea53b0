"""What a model needs to know of the state inside Keras optimizers."""

import keras


def inner_optimizers(optimizer):
    """Returns the optimizers that hold the slots of model variables."""
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return inner_optimizers(optimizer.inner_optimizer)
    if isinstance(optimizer, keras.optimizers.MultiOptimizer):
        return optimizer.optimizers
    return [optimizer]


def restart(optimizer):
    """Puts an optimizer back to where it was before its first step.

    Only the learning rate stays, and the scale of the loss.

    Args:
        optimizer: Keras optimizer; nothing happens if it is not built.
    """
    if not optimizer.built:
        return
    for inner in inner_optimizers(optimizer):
        fresh = type(inner).from_config(inner.get_config())
        # Keras has no public way to ask which variables it was built with.
        fresh.build(inner._trainable_variables)
        for variable, initial in zip(inner.variables, fresh.variables):
            variable.assign(initial)
    for variable in optimizer.variables:
        if variable.name == "iteration":
            variable.assign(0)


def rebuild(optimizer, variables):
    """Gives an optimizer other variables, and starts it anew.

    The object stays the same one, because users hold on to it, to set its
    learning rate for example.

    Args:
        optimizer: Keras optimizer.
        variables: List of the variables to train from now on.
    """
    fresh = type(optimizer).from_config(optimizer.get_config())
    fresh.build(variables)
    kept = {v.name: v for v in optimizer.variables if "scale" in v.name}
    for variable in fresh.variables:
        if variable.name in kept:
            variable.assign(kept[variable.name])
    optimizer.__dict__.clear()
    optimizer.__dict__.update(fresh.__dict__)


def check_sign_steps(optimizer):
    """Refuses what an optimizer cannot do exactly beside sign steps."""
    for inner in inner_optimizers(optimizer):
        steps = inner.gradient_accumulation_steps
        if steps:
            raise ValueError(
                '`direction="beneficial"` takes a sign step with every batch, '
                "which an accumulated gradient cannot give exactly. Use larger "
                'batches, or `direction="gradient"`. '
                f"Received: gradient_accumulation_steps={steps}"
            )
        if inner.use_ema:
            raise ValueError(
                '`direction="beneficial"` sets the perturbations by sign '
                "steps, of which Keras keeps no moving average. Use "
                '`direction="gradient"` with one. Received: use_ema=True'
            )


def loss_scale(optimizer):
    """Returns the factor in the optimizer's gradients, or `None` for one."""
    scaled = isinstance(optimizer, keras.optimizers.LossScaleOptimizer)
    if scaled or optimizer.loss_scale_factor is not None:
        return optimizer.scale_loss(keras.ops.ones(()))
    return None


def clips_values(optimizer):
    """Whether an optimizer may turn gradients into finite ones."""
    return any(inner.clipvalue for inner in inner_optimizers(optimizer))
