"""The labels for which a Fisher information is computed."""

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation.loss_gradients import loss_gradients

LABELS = ("true", "sampled", "exact")
# How many numbers are drawn from one seed.
_GROUP = 1024


def fisher_objectives(model, labels, seed):
    """Returns the `objectives` of `mean_moments` for a Fisher information.

    They are the losses of the examples for the targets in question.

    Args:
        model: Compiled model.
        labels: `"true"`, `"sampled"` or `"exact"`.
        seed: Function that returns the integer from which labels are sampled.
            It is called inside the compiled function, which outlives a task.
            A label depends on it and on the place of its example in the data.
    """

    def true(y, y_pred, first):
        return [(loss_gradients(model, y, y_pred), 1.0)]

    if labels == "true":
        return true
    loss = _crossentropy(model)

    def sampled(y, y_pred, first):
        probabilities = _probabilities(loss, y_pred)
        classes = _draw(probabilities, seed(), first)
        return true(_as_targets(loss, classes, y_pred), y_pred, first)

    def exact(y, y_pred, first):
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


def _draw(probabilities, seed, first):
    """Draws one class per example, the same however the data is cut."""
    size = ops.shape(probabilities)[0]
    groups = tf.range(first // _GROUP, (first + size - 1) // _GROUP + 1)
    numbers = tf.map_fn(
        lambda group: tf.random.stateless_uniform((_GROUP,), [seed, group]),
        groups,
        fn_output_signature=tf.TensorSpec((_GROUP,)),
    )
    start = first % _GROUP
    numbers = ops.reshape(numbers, (-1, 1))[start : start + size]
    # The first class whose share of the line from zero to their sum covers
    # the number. One without probability covers none.
    ends = ops.cumsum(probabilities, axis=-1)
    passed = ends <= numbers * ends[:, -1:]
    return ops.sum(ops.cast(passed, "int32"), axis=-1)


def _as_targets(loss, classes, y_pred):
    if isinstance(loss, keras.losses.SparseCategoricalCrossentropy):
        return classes
    return ops.one_hot(classes, y_pred.shape[-1])
