import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bpn
from keras_bpn.consolidation.combination import Combination
from keras_bpn.consolidation.ewc import EWC
from keras_bpn.consolidation.local_inhibition import LocalInhibition
from keras_bpn.consolidation.mas import MAS
from keras_bpn.consolidation.psp import PSP
from keras_bpn.consolidation.slnid import SLNID
from keras_bpn.layers.task_scope import record_calls
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values


def forward(model, x):
    """Returns the activations of a network without bias units, by hand."""
    activations = [np.float64(x)]
    for layer in model.layers[1:]:
        z = activations[-1] @ np.asarray(layer.kernel) + np.asarray(layer.bias)
        activations.append(np.maximum(z, 0))
    return activations[:-1], z


def importance_by_hand(model, x):
    """Returns the mean of |d(sum of squares) / dz| of each hidden layer."""
    activations, outputs = forward(model, x)
    delta, importances = 2 * outputs, []
    for layer, h in list(zip(model.layers[1:], activations))[:0:-1]:
        delta = delta @ np.asarray(layer.kernel).T * (h > 0)
        importances.insert(0, np.abs(delta).mean(0))
    return importances


def pair_factors(importance, scale):
    """Returns `e_ij * g_ij`, pair by pair."""
    width = len(importance)
    factors = np.zeros((width, width))
    for i in range(width):
        for j in range(width):
            if i != j:
                e = min(np.exp(-importance[i]), np.exp(-importance[j]))
                sigma = scale * width
                factors[i, j] = e * np.exp(-((i - j) ** 2) / (2 * sigma**2))
    return factors


def term_by_hand(model, x, importances, strength, scale):
    """Returns the term, and its gradient for the first kernel."""
    activations, _ = forward(model, x)
    total = 0.0
    back = 0.0
    layers = model.layers[1:-1]
    for layer, h, a in list(zip(layers, activations[1:], importances))[::-1]:
        factors = pair_factors(a, scale)
        total += strength * np.sum(factors * (h.T @ h)) / len(x)
        # d/dh of h' F h with a symmetric F is 2 F h.
        back = back + 2 * strength * (h @ factors) / len(x)
        back = back * (h > 0)
        if layer is not layers[0]:
            back = back @ np.asarray(layer.kernel).T
    return total, np.float64(x).T @ back


def plain_model(method, units=(12, 9), optimizer=None, **kwargs):
    keras.utils.set_random_seed(0)
    return compile_model(
        make_model(units=units, hidden_dim=0),
        optimizer or keras.optimizers.SGD(0.1),
        consolidation=method,
        direction=None,
        **kwargs,
    )


def inhibition_of(method):
    if isinstance(method, Combination):
        method = method.consolidations[0]
    assert isinstance(method, LocalInhibition)
    return method


def importances_of(model):
    inhibition = inhibition_of(model.consolidation)
    return values(inhibition.get_state().values())


def current_term(model, x):
    with record_calls() as calls:
        y_pred = model(x)
    return model.consolidation.loss(model, x, None, y_pred, calls)


@pytest.mark.parametrize("scale", [1 / 6, 0.5])
def test_term_and_its_gradient_by_hand_over_two_tasks(scale):
    model = plain_model(LocalInhibition(0.3, scale=scale))
    importances = [np.zeros(12), np.zeros(9)]
    for i, task in enumerate("ab"):
        x, y = make_data(i)
        model.fit(x, y, task=task, verbose=0, consolidate=False)
        with tf.GradientTape() as tape:
            term = current_term(model, x)
        gradient = tape.gradient(term, model.layers[1].kernel.value)
        expected = term_by_hand(model, x, importances, 0.3, scale)
        assert expected[0] > 0.01
        np.testing.assert_allclose(term, expected[0], rtol=1e-5)
        np.testing.assert_allclose(gradient, expected[1], rtol=1e-4, atol=1e-6)

        added = importance_by_hand(model, x)
        importances = [a + b for a, b in zip(importances, added)]
        model.consolidate(x, y, batch_size=7)
        for found, a in zip(importances_of(model), importances):
            assert a.max() > 0.1
            np.testing.assert_allclose(found, a, rtol=1e-5, atol=1e-6)


def test_a_step_follows_the_term_and_the_logs_show_it():
    x, y = make_data()
    found = {}
    for strength in (0.0, 0.5):
        model = plain_model(LocalInhibition(strength), metrics=[])
        expected = term_by_hand(
            model, x, [np.zeros(12), np.zeros(9)], strength, 1 / 6
        )
        logs = model.fit(x, y, task="a", batch_size=40, verbose=0).history
        kernel = np.asarray(model.layers[1].kernel)
        found[strength] = logs["loss"][0], kernel, expected
    (loss, kernel, _), (more, moved, (term, gradient)) = found.values()
    assert term > 0.1
    np.testing.assert_allclose(more - loss, term, rtol=1e-4)
    np.testing.assert_allclose(moved - kernel, -0.1 * gradient, atol=1e-6)


def test_inhibition_makes_activations_sparse():
    active = {}
    x, y = make_data()
    for strength in (0.0, 0.5):
        model = plain_model(LocalInhibition(strength), units=(40,))
        model.fit(x, y, task="a", epochs=30, verbose=0)
        (_, h), _ = forward(model, x)
        active[strength] = (h > 0.01).mean()
        assert model.evaluate(x, y, verbose=0)[1] > 0.9
    assert active[0.5] < 0.6 * active[0.0]


def test_importance_of_neurons_in_the_mode_of_the_task():
    """With bias units and layers that are not of keras_bpn, by a loop."""
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=3)(inputs)
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dense(7, activation="relu")(x)
    x = keras_bpn.layers.BPNDense(5, activation="tanh", hidden_dim=3)(x)
    first = keras_bpn.layers.BPNDense(2, hidden_dim=3)(x)
    second = keras.layers.Dense(3)(x)
    model = keras_bpn.BPNModel(inputs, [first, second])
    model.compile("adam", ["mse", "mse"], consolidation=SLNID(0.1))
    x, _ = make_data()
    y = [x[:, :2], x[:, :3]]
    weights = np.linspace(0.5, 2.0, len(x)).astype("float32")
    model.fit(x, y, task="a", verbose=0, consolidate=False)
    total = 0.0
    for i in range(len(x)):
        with record_calls() as calls, tf.GradientTape() as tape:
            outputs = model(x[i : i + 1])
            norm = sum(tf.reduce_sum(tf.square(out)) for out in outputs)
        total += weights[i] * np.abs(tape.gradient(norm, calls[0].outputs))[0]
    model.consolidate(x, y, sample_weight=weights)
    (found,) = importances_of(model)
    np.testing.assert_allclose(found, total / weights.sum(), rtol=1e-5)


def test_positions_are_further_examples():
    inputs = keras.Input((3, 4))
    shared = keras_bpn.layers.BPNDense(4, activation="relu", hidden_dim=0)
    x = keras.layers.Flatten()(shared(inputs))
    outputs = keras_bpn.layers.BPNDense(2, hidden_dim=0)(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    model.compile("sgd", "mse", direction=None, consolidation=LocalInhibition())
    x = np.random.default_rng(0).normal(size=(10, 3, 4)).astype("float32")
    model.fit(x, x[:, 0, :2], task="a", verbose=0, consolidate=False)
    z = x @ np.asarray(shared.kernel) + np.asarray(shared.bias)
    h = np.maximum(z, 0).reshape(30, 4)
    expected = 1e-3 * np.sum(pair_factors(np.zeros(4), 1 / 6) * (h.T @ h)) / 30
    np.testing.assert_allclose(current_term(model, x), expected, rtol=1e-5)

    last = model.layers[-1]
    out = h.reshape(10, 12) @ np.asarray(last.kernel) + np.asarray(last.bias)
    delta = (2 * out @ np.asarray(last.kernel).T).reshape(30, 4) * (h > 0)
    model.consolidate(x)
    (found,) = importances_of(model)
    np.testing.assert_allclose(found, np.abs(delta).mean(0), rtol=1e-4)


def test_outputs_are_not_inhibited():
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(5, activation="relu", hidden_dim=0)(inputs)
    outputs = keras_bpn.layers.BPNDense(4, activation="relu", hidden_dim=0)(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    model.compile("sgd", "mse", direction=None, consolidation=LocalInhibition())
    assert [len(a) for a in importances_of(model)] == [5]


def test_a_frozen_layer_has_important_neurons_too():
    inputs = keras.Input((6,))
    options = {"activation": "relu", "hidden_dim": 0}
    x = keras_bpn.layers.BPNDense(5, trainable=False, **options)(inputs)
    x = keras_bpn.layers.BPNDense(4, **options)(x)
    outputs = keras_bpn.layers.BPNDense(2, hidden_dim=0)(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    compile_model(model, direction=None, consolidation=LocalInhibition())
    x, y = make_data()
    model.fit(x, y, task="a", verbose=0)
    for found, a in zip(importances_of(model), importance_by_hand(model, x)):
        assert a.max() > 0
        np.testing.assert_allclose(found, a, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("method", [MAS(0.1), EWC(10.0)])
def test_slnid_is_the_inhibition_and_a_penalty(method):
    slnid = SLNID(2e-3, method)
    assert slnid.consolidation is method
    model = plain_model(slnid)
    x, y = make_data()
    model.fit(x, y, task="a", verbose=0)
    # Each is what it would be by itself.
    twin = plain_model(method.from_config(method.get_config()))
    twin.set_weights(model.get_weights())
    twin.fit(x, y, task="a", epochs=0, verbose=0)
    for a, b in zip(model.shared_variables, twin.shared_variables):
        assert_equal(
            values([method.importance(a), method.anchor(a)]),
            values([twin.consolidation.importance(b), a]),
        )
    for found, a in zip(importances_of(model), importance_by_hand(model, x)):
        np.testing.assert_allclose(found, a, rtol=1e-4, atol=1e-6)
    # One step with both terms, from the penalty's anchor and off it.
    for variable in model.shared_variables:
        variable.assign_add(0.1 * np.random.normal(size=variable.shape))
    before = np.asarray(model.layers[1].kernel)
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x))
    kernel = model.layers[1].kernel
    gradient = np.asarray(tape.gradient(loss, kernel.value))
    _, term = term_by_hand(model, x, importances_of(model), 2e-3, 1 / 6)
    h = 2 * method.strength * np.asarray(method.importance(kernel))
    pull = h * (before - np.asarray(method.anchor(kernel)))
    model.fit(x, y, task="b", batch_size=40, verbose=0)
    expected = before - 0.1 * (gradient + term + pull) / (1 + 0.1 * h)
    np.testing.assert_allclose(kernel, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
    "options",
    [
        {"jit_compile": True},
        {"run_eagerly": True},
        {"steps_per_execution": 3},
        {"as_dataset": True},
    ],
)
def test_all_ways_to_run_agree(options):
    options = dict(options)
    as_dataset = options.pop("as_dataset", False)
    found = []
    for kwargs in ({}, options):
        model = plain_model(SLNID(0.1), **kwargs)
        for i, task in enumerate("ab"):
            x, y = make_data(i)
            if kwargs is options and as_dataset:
                data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
                model.fit(data, task=task, verbose=0)
            else:
                model.fit(
                    x, y, task=task, batch_size=8, shuffle=False, verbose=0
                )
        state = model.consolidation.get_state().values()
        found.append(values(model.shared_variables) + list(state))
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    model = plain_model(SLNID(0.1), optimizer="adam")
    x, y = make_data()
    model.fit(x, y, task="a", verbose=0, consolidate=False)
    expected = term_by_hand(model, x, [np.zeros(12), np.zeros(9)], 0.1, 1 / 6)
    np.testing.assert_allclose(current_term(model, x), expected[0], rtol=0.01)
    model.consolidate(x, y)
    for found, a in zip(importances_of(model), importance_by_hand(model, x)):
        np.testing.assert_allclose(found, a, rtol=0.02, atol=0.01 * a.max())


@pytest.mark.parametrize(
    "method", [lambda: SLNID(0.1), lambda: SLNID(0.1, EWC(10.0))]
)
def test_a_loaded_model_goes_on_as_if_never_stopped(tmp_path, method):
    model = compile_model(make_model(), consolidation=method())
    train_tasks(model, "a")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded.consolidation) is SLNID
    assert repr(loaded.consolidation) == repr(model.consolidation)
    assert_equal(importances_of(loaded), importances_of(model))
    for each in (model, loaded):
        train_tasks(each, "b")
    assert_equal(loaded.get_weights(), model.get_weights())
    states = [each.consolidation.get_state() for each in (model, loaded)]
    assert_equal(*[list(s.values()) for s in states])


def test_config_round_trip():
    for method in (
        SLNID(),
        SLNID(2e-3, EWC(10.0, seed=3)),
        LocalInhibition(0.2, scale=0.3),
    ):
        again = keras.saving.deserialize_keras_object(
            keras.saving.serialize_keras_object(method)
        )
        assert type(again) is type(method)
        assert again.get_config() == method.get_config()
        assert repr(again) == repr(method)
    assert SLNID().strength == 1e-3
    assert SLNID().consolidation.get_config() == MAS(0.1).get_config()
    assert repr(SLNID(0.5)).startswith("SLNID(strength=0.5, consolidation=MAS")


def test_slnid_goes_with_other_methods():
    method = Combination([SLNID(0.1), PSP(seed=1)])
    kinds = [type(c) for c in method.consolidations]
    assert kinds == [LocalInhibition, MAS, PSP]
    model = compile_model(make_model(), consolidation=method)
    train_tasks(model, "ab")


def test_settings_outside_their_range():
    with pytest.raises(ValueError, match="Received: strength=-1"):
        SLNID(-1)
    with pytest.raises(ValueError, match="Received: strength=True"):
        LocalInhibition(True)
    with pytest.raises(ValueError, match="Received: scale=0"):
        LocalInhibition(scale=0)
    with pytest.raises(ValueError, match="Received: consolidation=3"):
        SLNID(1e-3, 3)
    with pytest.raises(ValueError, match="different classes"):
        SLNID(1e-3, LocalInhibition())


def test_a_model_without_hidden_relu_layers_is_refused():
    for activation in ("tanh", None):
        with pytest.raises(ValueError, match="activation='relu'.*Received"):
            compile_model(
                make_model(activation=activation), consolidation=SLNID()
            )
