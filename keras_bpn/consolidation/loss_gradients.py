"""Gradients of the losses of single examples at the outputs of a model."""

import keras
import tensorflow as tf
from keras import ops

# Their losses of a batch are those of its examples, one by one.
_LOSSES = (
    keras.losses.SparseCategoricalCrossentropy,
    keras.losses.CategoricalCrossentropy,
    keras.losses.BinaryCrossentropy,
    keras.losses.MeanSquaredError,
    keras.losses.MeanAbsoluteError,
)
_FUNCTIONS = (
    keras.losses.sparse_categorical_crossentropy,
    keras.losses.categorical_crossentropy,
    keras.losses.binary_crossentropy,
    keras.losses.mean_squared_error,
    keras.losses.mean_absolute_error,
)
_MEANS = ("sum_over_batch_size", "mean", "mean_with_sample_weight")


def loss_gradients(model, y, y_pred):
    """Gradients of the sum of the examples' own losses at the outputs.

    Each example's loss is that of a batch of one, which is right for every
    loss, reduction and number of outputs. Regularizers are left out: they do
    not depend on the data.
    """
    with tf.GradientTape() as tape:
        tape.watch(y_pred)
        if _is_mean_over_examples(model, y_pred):
            loss = model.compute_loss(
                x=None, y=y, y_pred=y_pred, training=False
            )
            size = ops.shape(keras.tree.flatten(y_pred)[0])[0]
            # Before the gradient, which half precision may be too coarse for.
            losses = ops.cast(loss, "float32") * ops.cast(size, "float32")
        else:
            losses = _one_by_one(model, y, y_pred)
        losses = losses * _replicas(model)
    gradients = tape.gradient(
        losses, y_pred, unconnected_gradients=tf.UnconnectedGradients.ZERO
    )
    # Taken one by one out of the block, they are slices.
    return keras.tree.map_structure(tf.convert_to_tensor, gradients)


def _one_by_one(model, y, y_pred):
    def example_loss(example):
        y, y_pred = keras.tree.map_structure(
            lambda a: a if a is None else a[None], example
        )
        loss = model.compute_loss(x=None, y=y, y_pred=y_pred, training=False)
        return ops.cast(loss, "float32")

    return tf.vectorized_map(example_loss, (y, y_pred))


def _replicas(model):
    """Returns by what Keras divides a mean in the scope of a strategy."""
    reductions = [getattr(loss, "reduction", "mean") for loss in _losses(model)]
    if any(reduction in _MEANS for reduction in reductions):
        return float(tf.distribute.get_strategy().num_replicas_in_sync)
    return 1.0


def _is_mean_over_examples(model, y_pred):
    """Whether the loss of a batch is known to be the mean of its examples'."""
    outputs = keras.tree.flatten(y_pred)
    losses = _losses(model)
    return (
        bool(losses)
        and keras.config.floatx() == "float32"
        and type(model).compute_loss is keras.Model.compute_loss
        # A mask may leave out other parts of other examples.
        and all(getattr(a, "_keras_mask", None) is None for a in outputs)
        and all(map(_is_mean, losses))
    )


def _losses(model):
    flat = keras.tree.flatten(model.loss)
    return [loss for loss in flat if loss is not None]


def _is_mean(loss):
    if isinstance(loss, str):
        try:
            loss = keras.losses.get(loss)
        except ValueError:
            return False
    if any(loss is function for function in _FUNCTIONS):
        return True
    return (
        type(loss) in _LOSSES
        and loss.reduction in _MEANS
        and loss.dtype == "float32"
        and getattr(loss, "ignore_class", None) is None
    )
