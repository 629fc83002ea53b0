import keras
import numpy as np
import pytest
import tensorflow as tf
from keras import losses

import keras_bpn
from keras_bpn.consolidation import loss_gradients as module
from keras_bpn.consolidation.loss_gradients import loss_gradients

LABELS = np.array([0, 3, 1, 2, 3, 3, 0], "int32")
ONE_HOT = np.eye(4, dtype="float32")[LABELS]
GENERATOR = np.random.default_rng(0)
SCORES = GENERATOR.normal(size=(7, 4)).astype("float32")
SHARES = np.exp(SCORES) / np.exp(SCORES).sum(-1, keepdims=True)
# Classes that a task does not have.
MASKED = np.where([True, True, True, False], SCORES, -1e4).astype("float32")


def make(loss, outputs=1, model_class=keras_bpn.BPNModel, **kwargs):
    inputs = keras.Input((4,))
    heads = [keras_bpn.layers.BPNDense(4)(inputs) for _ in range(outputs)]
    model = model_class(inputs, heads if outputs > 1 else heads[0])
    model.compile("sgd", loss, **kwargs)
    return model


def one_after_the_other(model, y, y_pred):
    """Gradients of losses of batches of one."""
    rows = []
    for i in range(len(LABELS)):
        example = keras.tree.map_structure(lambda a: a[i : i + 1], (y, y_pred))
        y_one, out = keras.tree.map_structure(tf.convert_to_tensor, example)
        with tf.GradientTape() as tape:
            tape.watch(out)
            loss = model.compute_loss(y=y_one, y_pred=out, training=False)
        rows.append(tape.gradient(loss, out))
    return keras.tree.map_structure(lambda *a: np.concatenate(a), *rows)


def check(model, y, y_pred, direct):
    """Checks gradients, and which way they were computed."""
    y, y_pred = keras.tree.map_structure(tf.convert_to_tensor, (y, y_pred))
    assert module._is_mean_over_examples(model, y_pred) == direct
    found = loss_gradients(model, y, y_pred)
    expected = one_after_the_other(model, y, y_pred)
    for a, b in zip(keras.tree.flatten(found), keras.tree.flatten(expected)):
        assert np.abs(b).max() > 0
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "loss, y, y_pred",
    [
        (losses.SparseCategoricalCrossentropy(True), LABELS, SCORES),
        (losses.SparseCategoricalCrossentropy(True), LABELS[:, None], SCORES),
        (losses.SparseCategoricalCrossentropy(True), LABELS % 3, MASKED),
        ("sparse_categorical_crossentropy", LABELS, SHARES),
        (
            losses.CategoricalCrossentropy(True, label_smoothing=0.2),
            ONE_HOT,
            SCORES,
        ),
        ("categorical_crossentropy", ONE_HOT, SHARES),
        (
            losses.BinaryCrossentropy(True, label_smoothing=0.1),
            ONE_HOT,
            SCORES,
        ),
        ("mse", ONE_HOT, SCORES),
        (losses.MeanAbsoluteError(reduction="mean"), ONE_HOT, SCORES),
    ],
)
def test_known_means(loss, y, y_pred):
    check(make(loss), y, y_pred, direct=True)


def contrast(y, y_pred):
    """A loss in which examples depend on one another."""
    return keras.ops.sum(keras.ops.square(y_pred - y), -1) * keras.ops.mean(
        keras.ops.exp(y_pred)
    )


@pytest.mark.parametrize(
    "loss, y",
    [
        (losses.SparseCategoricalCrossentropy(True, ignore_class=3), LABELS),
        (losses.SparseCategoricalCrossentropy(True, reduction="sum"), LABELS),
        (losses.CategoricalFocalCrossentropy(from_logits=True), ONE_HOT),
        (contrast, ONE_HOT),
    ],
)
def test_all_else_is_computed_one_by_one(loss, y):
    check(make(loss), y, SCORES, direct=False)


def test_several_outputs_with_loss_weights():
    loss = [losses.SparseCategoricalCrossentropy(True), "mse"]
    model = make(loss, outputs=2, loss_weights=[0.3, 2.0])
    check(model, [LABELS, ONE_HOT], [SCORES, SCORES], direct=True)


def test_a_loss_of_the_users_own_model():
    class Model(keras_bpn.BPNModel):
        def compute_loss(self, x=None, y=None, y_pred=None, **kwargs):
            return keras.ops.max(keras.ops.square(y - y_pred))

    model = make("mse", model_class=Model)
    check(model, ONE_HOT, SCORES, direct=False)


def test_positions_of_an_example():
    y = np.stack([LABELS, LABELS[::-1]], axis=1)
    y_pred = np.stack([SCORES, SCORES[:, ::-1]], axis=1)
    model = make(losses.SparseCategoricalCrossentropy(True))
    check(model, y, y_pred, direct=True)


def test_a_mask_is_kept():
    model = make(losses.SparseCategoricalCrossentropy(True))
    y_pred = tf.stack([SCORES, SCORES[:, ::-1]], axis=1)
    y_pred._keras_mask = tf.constant([[True, False]] * 7)
    assert not module._is_mean_over_examples(model, y_pred)


def test_half_precision_loses_nothing_to_the_size_of_a_block():
    # Divided by the 4096 examples of the block, gradients of 1e-4 would be
    # below what half precision can tell from zero.
    y_pred = np.tile([[12.0, 3.0, 2.0, 2.5]], (4096, 1)).astype("float16")
    y = np.zeros(4096, "int32")
    model = make(losses.SparseCategoricalCrossentropy(True))
    found = loss_gradients(model, tf.constant(y), tf.constant(y_pred))
    p = tf.nn.softmax(y_pred[0].astype("float32")).numpy()
    expected = (p - [1, 0, 0, 0]).astype("float16")
    np.testing.assert_allclose(found[0], expected, rtol=2e-3)
    np.testing.assert_array_equal(found[0], found[-1])
