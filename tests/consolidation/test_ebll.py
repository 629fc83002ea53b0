import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bpn
from keras_bpn.consolidation.combination import Combination
from keras_bpn.consolidation.ebll import EBLL
from keras_bpn.consolidation.ebll import Autoencoder
from keras_bpn.consolidation.lwf import LwF
from keras_bpn.consolidation.psp import PSP
from keras_bpn.layers.task_scope import record_calls
from keras_bpn.models.task_data import TaskData
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import values

FIT = {"epochs": 2, "batch_size": 8, "verbose": 0}


def heads_model():
    x = inputs = keras.Input((6,))
    for units in (12, 9):
        x = keras_bpn.layers.BPNDense(units, "relu", hidden_dim=0)(x)
    return keras_bpn.BPNModel(inputs, keras_bpn.layers.TaskHeads()(x))


def heads_data(task):
    x, y = make_data(task)
    return x, y % 2


def features(weights, x, biases=(0, 0), keys=(1, 1, 1)):
    """What enters the last layer, in double precision."""
    h = np.float64(x)
    for i, (kernel, bias) in enumerate(zip(weights[:4:2], weights[1:4:2])):
        h = np.maximum((h * keys[i]) @ kernel + bias + biases[i], 0)
    return h * keys[2]


def sigmoid(z):
    return 1 / (1 + np.exp(-z))


def code_loss(method, i, before, now):
    kernel, bias = (
        np.float64(method.variables[f"encoder/{i}/{name}"])
        for name in ("kernel", "bias")
    )
    return np.mean(
        (sigmoid(now @ kernel + bias) - sigmoid(before @ kernel + bias)) ** 2
    )


def terms(model, x, *methods):
    """What each method adds to the loss of a batch."""
    with record_calls() as calls:
        y_pred = model._call_in_row(model._open_row, x, training=True)
    return [float(m.loss(model, x, None, y_pred, calls)) for m in methods]


def without_codes(method):
    """Returns an `LwF` with the state of an `EBLL`."""
    other = LwF(method.strength, method.temperature)
    other._variables = dict(method.variables)
    return other


def test_codes_of_every_earlier_task_are_kept():
    model = compile_model(
        heads_model(),
        direction=None,
        consolidation=EBLL(3.0, 1.5, code_strength=50.0, code_units=4),
    )
    for task in range(2):
        model.fit(*heads_data(task), task=str(task), **FIT)
    before = values(model.shared_variables)
    x, y = heads_data(2)
    model.fit(x, y, task="2", consolidate=False, **FIT)
    now = values(model.shared_variables)
    method = model.consolidation
    codes = [
        code_loss(method, i, features(before, x), features(now, x))
        for i in range(2)
    ]
    found, outputs = terms(model, x, method, without_codes(method))
    assert min(codes) > 1e-5 and codes[0] != codes[1]
    assert found - outputs == pytest.approx(50.0 * sum(codes), rel=1e-3)


def test_codes_are_taken_in_the_mode_of_their_task():
    method = EBLL(1.0, 2.0, code_strength=50.0, code_units=4)
    model = compile_model(
        make_model(), consolidation=Combination([PSP(seed=2), method])
    )
    for task in range(2):
        model.fit(*make_data(task), task=str(task), **FIT)
    before = values(model.shared_variables)
    x, y = make_data(2)
    model.fit(x, y, task="2", consolidate=False, **FIT)
    now = values(model.shared_variables)
    expected = 0.0
    for i in range(2):
        row = i + 1
        mode = (
            [np.asarray(b.table)[row] for b in model.task_biases],
            [np.asarray(m.task_keys.table)[row] for m in model.layers[1:]],
        )
        expected += code_loss(
            method, i, features(before, x, *mode), features(now, x, *mode)
        )
    found, outputs = terms(model, x, method, without_codes(method))
    assert found - outputs == pytest.approx(50.0 * expected, rel=1e-3)


def open_model(data=heads_data, model=None, method=None, **kwargs):
    model = compile_model(
        model or heads_model(),
        consolidation=method or EBLL(code_units=4, seed=1),
        **{"direction": None, **kwargs},
    )
    model.fit(*data(0), task="a", consolidate=False, **FIT)
    return model


def make_autoencoder(model, strength=1.0, seed=5):
    return Autoencoder(model, 4, strength, np.random.SeedSequence(seed))


def test_the_autoencoder_follows_the_gradient_of_its_objective():
    model = open_model()
    x, y = heads_data(0)
    weights = np.linspace(0.5, 1.5, len(x)).astype("float32")
    autoencoder = make_autoencoder(model, strength=3.0)
    autoencoder.optimizer = keras.optimizers.SGD(0.2)
    w, b, v, c = (np.float64(a) for a in values(autoencoder.variables))
    autoencoder.step(*map(tf.constant, (x, y, weights)))

    f = features(values(model.shared_variables), x)
    head, shift = (np.float64(a) for a in values(model.task_heads[0].factors))
    code = sigmoid(f @ w + b)
    decoded = code @ v + c
    p = np.exp(decoded @ head + shift)
    p /= p.sum(1, keepdims=True)
    slope = weights[:, None] * (p - np.eye(2)[y]) / len(x) @ head.T
    slope += 3.0 * 2 * (decoded - f) / f.size
    back = slope @ v.T * code * (1 - code)
    gradients = [f.T @ back, back.sum(0), code.T @ slope, slope.sum(0)]
    for variable, old, gradient in zip(
        autoencoder.variables, (w, b, v, c), gradients
    ):
        np.testing.assert_allclose(
            variable, old - 0.2 * gradient, rtol=1e-4, atol=1e-6
        )


def test_the_autoencoder_learns_to_reconstruct():
    model = open_model()
    autoencoder = make_autoencoder(model, strength=10.0)
    x, y = heads_data(0)
    f = features(values(model.shared_variables), x).astype("float32")

    def errors():
        decoded = autoencoder.decoder(autoencoder.encoder(f))
        outputs = autoencoder.outputs_of(decoded)
        crossentropy = model.compute_loss(y=y, y_pred=outputs)
        return np.mean((decoded - f) ** 2), float(crossentropy)

    first = errors()
    autoencoder.fit(TaskData(x, y, batch_size=8), epochs=60)
    last = errors()
    assert last[0] < 0.3 * first[0]
    assert last[1] < first[1]


def test_decoded_features_take_the_way_of_the_features():
    inner = make_model()
    outputs = keras_bpn.layers.ClassMask("seen")(inner.output)
    outputs = keras.layers.Softmax()(outputs)
    model = open_model(
        make_data,
        keras_bpn.BPNModel(inner.input, outputs),
        Combination([PSP(seed=4), EBLL(code_units=4)]),
        direction="beneficial",
        loss="sparse_categorical_crossentropy",
    )
    x, _ = make_data()
    with record_calls() as calls:
        expected = model(x, task="a")
    found = make_autoencoder(model).outputs_of(calls[-1].inputs)
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)
    assert np.all(np.asarray(found)[:, 2:] == 0)


def encoders(model):
    state = model.consolidation.get_state()
    return [state[name] for name in sorted(state) if "encoder" in name]


def test_encoders_depend_on_seed_and_task_and_leave_the_model_alone():
    found = []
    for seed in (1, 1, 2):
        keras.utils.set_random_seed(0)
        model = open_model(method=EBLL(code_units=4, seed=seed))
        # No task learns anything more: the encoders alone may differ.
        model.optimizer.learning_rate = 0.0
        before = values(model.shared_variables + model.optimizer.variables)
        model.consolidate(*heads_data(0))
        after = values(model.shared_variables + model.optimizer.variables)
        assert_equal(after, before)
        model.fit(*heads_data(0), task="b", **FIT)
        found.append(encoders(model))
    assert_equal(found[0], found[1])
    assert [e.shape for e in found[0]] == [(4,), (9, 4)] * 2
    assert abs(found[0][1] - found[2][1]).max() > 0.1
    assert abs(found[0][1] - found[0][3]).max() > 0.1


def full_state(model):
    state = model.get_weights() + values(model.optimizer.variables)
    kept = model.consolidation.get_state()
    return state + [kept[name] for name in sorted(kept)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "make, data, options",
    [
        (heads_model, heads_data, {"direction": None, "jit_compile": True}),
        (make_model, make_data, {"direction": "beneficial"}),
    ],
)
@pytest.mark.parametrize("within", [False, True])
def test_a_loaded_model_goes_on_to_the_bit(
    tmp_path, make, data, options, within
):
    model = compile_model(
        make(), consolidation=EBLL(code_units=4, warmup_steps=7), **options
    )
    model.fit(*data(0), task="0", **FIT)
    if within:
        once = {**FIT, "epochs": 1}
        model.fit(*data(1), task="1", consolidate=False, **once)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert repr(loaded.consolidation) == repr(model.consolidation)
    assert_equal(full_state(loaded), full_state(model))
    for each in (model, loaded):
        each.fit(*data(1), task="1", **FIT)
    assert_equal(full_state(loaded), full_state(model))
    assert len(encoders(loaded)) == 4


def test_jit_eager_and_datasets_give_the_same():
    found = []
    for options, as_dataset in (
        ({"run_eagerly": True}, False),
        ({"jit_compile": True, "steps_per_execution": 5}, False),
        ({}, True),
    ):
        keras.utils.set_random_seed(0)
        method = EBLL(code_strength=5.0, code_units=4, seed=1)
        model = compile_model(
            make_model(hidden_dim=0),
            keras.optimizers.SGD(0.1),
            direction=None,
            consolidation=method,
            **options,
        )
        for task in range(2):
            x, y = make_data(task)
            data = (x, y)
            if as_dataset:
                data = (tf.data.Dataset.from_tensors((x, y)),)
            # One batch, so that the order does not matter.
            model.fit(*data, task=str(task), epochs=3, batch_size=40, verbose=0)
        found.append(values(model.shared_variables) + encoders(model))
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_mixed_precision():
    keras.config.set_dtype_policy("mixed_float16")
    model = compile_model(make_model(), consolidation=EBLL(code_units=4))
    for task in range(2):
        history = model.fit(*make_data(task), task=str(task), **FIT)
        assert np.isfinite(history.history["loss"]).all()
    assert all(np.isfinite(v).all() for v in full_state(model))
    assert all(e.dtype == "float32" for e in encoders(model))


def test_class_weights_are_taken_into_account():
    found = []
    for weights in ({0: 1.0, 1: 1.0}, {0: 1.0, 1: 30.0}, None):
        keras.utils.set_random_seed(0)
        model = open_model(method=EBLL(code_units=4, seed=1))
        model.consolidate(*heads_data(0), class_weight=weights)
        found.append(encoders(model))
    assert_equal(found[0], found[2])
    assert abs(found[0][1] - found[1][1]).max() > 1e-3


def test_config_round_trip():
    method = EBLL(2.0, 3.0, 0.5, 7, 4.0, 6, 5, 8)
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(method)
    )
    assert type(copy) is EBLL
    assert copy.get_config() == {
        "strength": 2.0,
        "temperature": 3.0,
        "code_strength": 0.5,
        "code_units": 7,
        "reconstruction_strength": 4.0,
        "encoder_epochs": 6,
        "warmup_steps": 5,
        "seed": 8,
    }


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"temperature": -2}, "above 0. Received: temperature=-2"),
        ({"code_strength": -1.0}, "at least 0. Received: code_strength=-1.0"),
        (
            {"reconstruction_strength": float("inf")},
            "Received: reconstruction_strength=inf",
        ),
        ({"code_units": 0}, "at least 1. Received: code_units=0"),
        ({"encoder_epochs": 1.5}, "integer.*Received: encoder_epochs=1.5"),
        ({"seed": -1}, "at least 0. Received: seed=-1"),
    ],
)
def test_bad_settings(kwargs, message):
    with pytest.raises(ValueError, match=message):
        EBLL(**kwargs)


def test_the_last_layer_must_tell_what_enters_it():
    model = make_model(outputs=5)
    outputs = keras.layers.Dense(3, name="scores")(model.output)
    model = keras_bpn.BPNModel(model.input, outputs)
    with pytest.raises(ValueError, match="for `EBLL`.*Received: .*scores"):
        compile_model(model, consolidation=EBLL())


def test_labels_are_needed_at_the_end():
    model = open_model()
    before = model.consolidation.get_state()
    with pytest.raises(ValueError, match="Expected labels.*Received: y=None"):
        model.consolidate(heads_data(0)[0])
    after = model.consolidation.get_state()
    assert after.keys() == before.keys()
    assert_equal(after.values(), before.values())
    model.consolidate(*heads_data(0))
