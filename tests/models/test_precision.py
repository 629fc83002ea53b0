"""The same training under every way to run it."""

import keras
import numpy as np
import pytest
from sklearn.datasets import load_digits

import keras_bpn

EWC, PSP = keras_bpn.consolidation.EWC, keras_bpn.consolidation.PSP
OPTIONS = {
    "default": {},
    "jit": {"jit_compile": True},
    "no jit": {"jit_compile": False},
    "eager": {"run_eagerly": True},
    "many steps": {"steps_per_execution": 8},
    "jit, many steps": {"jit_compile": True, "steps_per_execution": 8},
}
SAME_ARITHMETIC = ("default", "no jit", "many steps")


def learn(method, policy="float32", epochs=4, **options):
    """Two tasks on the real digits; returns losses and accuracies."""
    keras.utils.clear_session()
    keras.config.set_dtype_policy(policy)
    keras.utils.set_random_seed(0)
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32")
    inputs = keras.Input((64,))
    h = keras_bpn.layers.BPNDense(40, activation="relu", hidden_dim=20)(inputs)
    outputs = keras_bpn.layers.BPNDense(10, hidden_dim=20)(h)
    model = keras_bpn.BPNModel(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(3e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        consolidation=method(),
        **options,
    )
    losses, accuracies = [], []
    for t in range(2):
        chosen = y // 2 == t
        history = model.fit(
            x[chosen],
            y[chosen],
            task=str(t),
            batch_size=16,
            epochs=epochs,
            verbose=0,
        )
        losses += history.history["loss"]
    for t in range(2):
        chosen = y // 2 == t
        accuracies.append(
            model.evaluate(x[chosen], y[chosen], task=str(t), verbose=0)[1]
        )
    return losses, accuracies


pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def reference():
    return {method: learn(method) for method in (EWC, PSP)}


@pytest.mark.parametrize("method", [EWC, PSP])
@pytest.mark.parametrize("option", OPTIONS)
def test_same_losses_where_the_arithmetic_is_the_same(
    reference, method, option
):
    losses, accuracies = learn(method, **OPTIONS[option])
    expected, expected_accuracies = reference[method]
    if option in SAME_ARITHMETIC:
        np.testing.assert_allclose(losses, expected, rtol=1e-6)
    # Elsewhere numbers are added in another order, and a sign can tip over;
    # the loss over an epoch differs little.
    np.testing.assert_allclose(losses, expected, rtol=0.05, atol=2e-3)
    np.testing.assert_allclose(losses[0], expected[0], rtol=1e-3)
    np.testing.assert_allclose(accuracies, expected_accuracies, atol=0.02)
    assert min(accuracies) > 0.95


@pytest.mark.parametrize("method", [EWC, PSP])
@pytest.mark.parametrize("policy", ["mixed_float16", "mixed_bfloat16"])
@pytest.mark.parametrize("jit_compile", [False, True])
def test_same_accuracy_in_mixed_precision(
    reference, method, policy, jit_compile
):
    losses, accuracies = learn(method, policy, jit_compile=jit_compile)
    expected, expected_accuracies = reference[method]
    np.testing.assert_allclose(losses[0], expected[0], rtol=0.05)
    np.testing.assert_allclose(accuracies, expected_accuracies, atol=0.03)
    assert min(accuracies) > 0.95
