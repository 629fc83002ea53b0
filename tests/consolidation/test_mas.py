import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bpn
from keras_bpn.consolidation.ewc import EWC
from keras_bpn.consolidation.mas import MAS
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values


def slow_omega(model, x, weights=None):
    """The mean of absolute gradients, one example after the other."""
    weights = np.ones(len(x)) if weights is None else weights
    sums = [np.zeros(v.shape) for v in model.shared_variables]
    for i in range(len(x)):
        with tf.GradientTape() as tape:
            outputs = keras.tree.flatten(model(x[i : i + 1]))
            norm = sum(tf.reduce_sum(tf.square(out)) for out in outputs)
        gradients = tape.gradient(
            norm,
            [v.value for v in model.shared_variables],
            unconnected_gradients="zero",
        )
        for total, gradient in zip(sums, gradients):
            total += weights[i] * np.abs(gradient)
    return [total / weights.sum() for total in sums]


def omega_of(model):
    return values(map(model.consolidation.importance, model.shared_variables))


def check_omega(model, expected):
    assert min(e.max() for e in expected) > 0
    for variable, omega, e in zip(
        model.shared_variables, omega_of(model), expected
    ):
        np.testing.assert_allclose(
            omega, e, rtol=1e-5, atol=1e-5 * e.max(), err_msg=variable.path
        )


def open_task(model, x, y, **kwargs):
    model.fit(x, y, task="a", epochs=2, verbose=0, consolidate=False, **kwargs)


def mas_model(model=None, strength=1.0, **kwargs):
    return compile_model(
        model or make_model(), consolidation=MAS(strength), **kwargs
    )


def test_omega_of_a_linear_layer_by_hand():
    model = mas_model(make_model(units=(), hidden_dim=0), direction=None)
    x, y = make_data()
    model.fit(x, y, task="a", verbose=0)
    kernel, bias = map(
        np.asarray, (model.layers[1].kernel, model.layers[1].bias)
    )
    outputs = x @ kernel + bias
    # sum_k o_k^2 with o = x W + b has the derivatives 2 x_i o_j and 2 o_j.
    products = np.abs(2 * x[:, :, None] * outputs[:, None, :])
    check_omega(model, [products.mean(0), np.abs(2 * outputs).mean(0)])
    # Before the mean, not after it: signs differ between examples.
    assert not np.allclose(
        omega_of(model)[0], np.abs(2 * x.T @ outputs / len(x)), rtol=0.1
    )


@pytest.mark.parametrize("direction", ["beneficial", "gradient", None])
def test_omega_equals_a_loop_over_examples_in_the_mode_of_the_task(direction):
    model = mas_model(direction=direction)
    x, y = make_data()
    open_task(model, x, y)
    expected = slow_omega(model, x)
    model.task = None
    model.consolidate(x, y, batch_size=7)
    check_omega(model, expected)


def test_omega_of_any_layer_and_of_a_layer_used_twice():
    inputs = keras.Input((6,))
    x = keras.layers.Reshape((6, 1))(inputs)
    x = keras.layers.Conv1D(3, 2, activation="tanh")(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras_bpn.layers.BPNDense(4, hidden_dim=2)(x)  # At five positions.
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dropout(0.5)(x)
    twice = keras_bpn.layers.BPNDense(20, activation="tanh", hidden_dim=2)
    x = twice(twice(x))
    outputs = keras.layers.Dense(2)(x)
    model = mas_model(
        keras_bpn.BPNModel(inputs, outputs), optimizer=keras.optimizers.SGD(0.1)
    )
    x, y = make_data()
    open_task(model, x, y)
    expected = slow_omega(model, x)
    model.consolidate(x, y, batch_size=16)
    check_omega(model, expected)


@pytest.mark.parametrize("names", [False, True])
def test_omega_with_several_outputs(names):
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=2)(inputs)
    first = keras_bpn.layers.BPNDense(2, hidden_dim=2, name="one")(x)
    second = keras.layers.Dense(3, name="another")(x)
    outputs = {"one": first, "another": second} if names else [first, second]
    model = keras_bpn.BPNModel(inputs, outputs)
    losses = {"one": "mse", "another": "mae"} if names else ["mse", "mae"]
    model.compile("adam", losses, consolidation=MAS())
    x, _ = make_data()
    y = {"one": x[:, :2], "another": x[:, 2:5]}
    y = y if names else list(y.values())
    open_task(model, x, y)
    expected = slow_omega(model, x)
    model.consolidate(x, y)
    check_omega(model, expected)


@pytest.mark.parametrize("method, counts", [(MAS, True), (EWC, False)])
def test_an_output_without_a_loss(method, counts):
    """It matters to what the model computes, not to the loss."""
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=2)(inputs)
    outputs = [keras_bpn.layers.BPNDense(2, hidden_dim=0)(x) for _ in "ab"]
    model = keras_bpn.BPNModel(inputs, outputs)
    model.compile("adam", ["mse", None], consolidation=method())
    x, _ = make_data()
    model.fit(x, [x[:, :2], x[:, :2]], task="a", verbose=0)
    assert np.any(omega_of(model)[-2] > 0) == counts
    if counts:
        check_omega(model, slow_omega(model, x))


def test_sample_weights_weight_the_mean_and_labels_are_not_needed():
    x, y = make_data()
    weights = np.where(y == 1, 3.0, 1.0).astype("float32")
    model = mas_model()
    open_task(model, x, y)
    expected = slow_omega(model, x, weights)
    model.consolidate(x, sample_weight=weights)
    check_omega(model, expected)


def test_data_from_a_tf_dataset():
    x, y = make_data()
    found = []
    for data in ((x, y), (tf.data.Dataset.from_tensor_slices((x, y)),)):
        keras.utils.set_random_seed(0)
        model = mas_model()
        if len(data) == 1:
            data = (data[0].batch(8),)
        model.fit(
            *data,
            task="a",
            verbose=0,
            batch_size=None if len(data) == 1 else 8,
            shuffle=False,
        )
        found.append(omega_of(model))
    assert max(a.max() for a in found[0]) > 0
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("terms", ["online", "separate"])
def test_penalty_of_two_tasks_has_the_gradient_of_its_definition(terms):
    model = compile_model(
        make_model(),
        keras.optimizers.Adam(0.01),
        consolidation=MAS(3.0, terms=terms),
    )
    omegas, weights = [], []
    for i, task in enumerate("ab"):
        x, y = make_data(i)
        model.fit(x, y, task=task, verbose=0, consolidate=False)
        omegas.append(slow_omega(model, x))
        model.consolidate(x, y)
        weights.append(values(model.shared_variables))
    check_omega(model, [a + b for a, b in zip(*omegas)])
    for variable in model.shared_variables:
        variable.assign_add(0.1 * np.random.normal(size=variable.shape))
    gradients = model.consolidation.adjust_gradients(
        model, [None] * len(model.shared_variables)
    )
    if terms == "online":
        weights[0] = weights[1]
    for i, w in enumerate(values(model.shared_variables)):
        # The derivative of 3 * sum_k Omega_k (w - w_k)^2.
        expected = sum(
            2 * 3.0 * omega[i] * (w - anchor[i])
            for omega, anchor in zip(omegas, weights)
        )
        np.testing.assert_allclose(
            gradients[i], expected, rtol=1e-4, atol=1e-5 * abs(expected).max()
        )


def test_a_strong_penalty_keeps_the_weights():
    moved = []
    for strength in (0.0, 1e6):
        keras.utils.set_random_seed(0)
        model = mas_model(
            make_model(),
            strength=strength,
            optimizer=keras.optimizers.SGD(0.1),
        )
        train_tasks(model, "a")
        omega, before = omega_of(model), values(model.shared_variables)
        train_tasks(model, "b")
        moved.append(
            max(
                abs(v - b)[o > 1e-2].max()
                for v, b, o in zip(
                    values(model.shared_variables), before, omega
                )
            )
        )
    assert moved[1] < 1e-3 < 0.05 < moved[0]


@pytest.mark.parametrize(
    "options", [{"jit_compile": True}, {"run_eagerly": True}]
)
def test_compiled_and_eager_steps_agree(options):
    found = []
    for kwargs in ({"jit_compile": False}, options):
        keras.utils.set_random_seed(0)
        model = mas_model(optimizer=keras.optimizers.SGD(0.1), **kwargs)
        train_tasks(model, "ab")
        found.append(omega_of(model) + values(model.shared_variables))
    for a, b in zip(*found):
        np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-4)


def test_omega_in_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    model = mas_model()
    x, y = make_data()
    open_task(model, x, y)
    expected = slow_omega(model, x)
    model.consolidate(x, y)
    for omega, e in zip(omega_of(model), expected):
        assert omega.dtype == "float32"
        np.testing.assert_allclose(omega, e, rtol=0.02, atol=0.01 * e.max())


def test_a_loaded_model_goes_on_as_if_never_stopped(tmp_path):
    model = mas_model()
    train_tasks(model, "a")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert repr(loaded.consolidation) == repr(model.consolidation)
    assert_equal(omega_of(loaded), omega_of(model))
    for each in (model, loaded):
        train_tasks(each, "b")
    assert_equal(loaded.get_weights(), model.get_weights())
    assert_equal(omega_of(loaded), omega_of(model))


def test_config_round_trip_and_settings_outside_their_range():
    mas = MAS(3, terms="separate", step="explicit")
    assert mas.get_config() == {
        "strength": 3.0,
        "terms": "separate",
        "step": "explicit",
    }
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(mas)
    )
    assert type(again) is MAS and again.get_config() == mas.get_config()
    with pytest.raises(ValueError, match="Received: strength=-1"):
        MAS(-1)
    with pytest.raises(ValueError, match="Received: terms='both'"):
        MAS(terms="both")
