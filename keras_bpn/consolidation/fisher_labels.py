"""The labels for which a Fisher information is computed."""

import keras
import tensorflow as tf
from keras import ops

LABELS = ("true", "sampled", "exact")


def fisher_targets(model, labels, seed):
    """Returns the function that gives the targets of a batch.

    Args:
        model: Compiled model.
        labels: `"true"`, `"sampled"` or `"exact"`.
        seed: Function that returns the integer from which labels are sampled.
            It is called inside the compiled function, which outlives a task.
    """
    if labels == "true":
        return lambda y, y_pred, step: [(y, 1.0)]
    loss = _crossentropy(model)

    def sampled(y, y_pred, step):
        classes = tf.random.stateless_categorical(
            ops.log(_probabilities(loss, y_pred)),
            num_samples=1,
            seed=ops.stack(
                [ops.cast(seed(), "int32"), ops.cast(step, "int32")]
            ),
        )[:, 0]
        return [(_as_targets(loss, classes, y_pred), 1.0)]

    def exact(y, y_pred, step):
        probabilities = _probabilities(loss, y_pred)
        targets = []
        for c in range(y_pred.shape[-1]):
            classes = ops.full(ops.shape(y_pred)[:1], c, dtype="int32")
            target = _as_targets(loss, classes, y_pred)
            targets.append((target, probabilities[:, c]))
        return targets

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
