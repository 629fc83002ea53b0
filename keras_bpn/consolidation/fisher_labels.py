"""The labels for which a Fisher information is computed."""

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation.per_example import loss_gradients

LABELS = ("true", "sampled", "exact")


def fisher_objectives(model, labels, seed):
    """Returns the `objectives` of `mean_moments` for a Fisher information.

    They are the losses of the examples for the targets in question.

    Args:
        model: Compiled model.
        labels: `"true"`, `"sampled"` or `"exact"`.
        seed: Function that returns the integer from which labels are sampled.
            It is called inside the compiled function, which outlives a task.
    """

    def true(y, y_pred, step):
        return [(loss_gradients(model, y, y_pred), 1.0)]

    if labels == "true":
        return true
    loss = _crossentropy(model)

    def sampled(y, y_pred, step):
        classes = tf.random.stateless_categorical(
            ops.log(_probabilities(loss, y_pred)),
            num_samples=1,
            seed=ops.stack(
                [ops.cast(seed(), "int32"), ops.cast(step, "int32")]
            ),
        )[:, 0]
        return true(_as_targets(loss, classes, y_pred), y_pred, step)

    def exact(y, y_pred, step):
        probabilities = _probabilities(loss, y_pred)
        pairs = []
        for c in range(y_pred.shape[-1]):
            classes = ops.full(ops.shape(y_pred)[:1], c, dtype="int32")
            target = _as_targets(loss, classes, y_pred)
            gradients = loss_gradients(model, target, y_pred)
            pairs.append((gradients, probabilities[:, c]))
        return pairs

    return sampled if labels == "sampled" else exact


def _crossentropy(model):
    loss = model.loss
    if isinstance(loss, str):
        loss = {
            "sparse_categorical_crossentropy": (
                keras.losses.SparseCategoricalCrossentropy()
            ),
            "categorical_crossentropy": keras.losses.CategoricalCrossentropy(),
        }.get(loss)
    kinds = (
        keras.losses.SparseCategoricalCrossentropy,
        keras.losses.CategoricalCrossentropy,
    )
    if not isinstance(loss, kinds) or len(model.outputs) != 1:
        raise ValueError(
            "Labels can be drawn from the model only where it has one output "
            "and is compiled with `SparseCategoricalCrossentropy` or "
            "`CategoricalCrossentropy`. Use `labels='true'` otherwise. "
            f"Received: loss={model.loss!r}"
        )
    return loss


def _probabilities(loss, y_pred):
    y_pred = ops.cast(y_pred, "float32")
    return ops.softmax(y_pred) if loss.from_logits else y_pred


def _as_targets(loss, classes, y_pred):
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        return classes
    return ops.one_hot(classes, y_pred.shape[-1])
