import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bpn
from keras_bpn.consolidation.combination import Combination
from keras_bpn.consolidation.ewc import EWC
from keras_bpn.consolidation.lwf import LwF
from keras_bpn.consolidation.psp import PSP
from keras_bpn.layers.task_scope import record_calls
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import values

FIT = {"epochs": 2, "batch_size": 8, "verbose": 0}
LOGITS = {"loss": keras.losses.SparseCategoricalCrossentropy(from_logits=True)}


def softmax(z):
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def crossentropy(teacher, student, temperature):
    """The mean over a batch, one example after the other."""
    terms = []
    for t, s in zip(np.float64(teacher), np.float64(student)):
        p, q = softmax(t / temperature), softmax(s / temperature)
        terms.append(-sum(p[c] * np.log(q[c]) for c in range(len(p))))
    return np.mean(terms)


def forward(weights, x, biases=None, keys=None):
    """A network with ReLUs in double precision; returns all activations."""
    kernels, shared = weights[::2], weights[1::2]
    h, activations = np.float64(x), []
    for i, (kernel, bias) in enumerate(zip(kernels, shared)):
        if keys is not None:
            h = h * keys[i]
        activations.append(h)
        h = h @ kernel + bias + (0 if biases is None else biases[i])
        if i < len(kernels) - 1:
            h = np.maximum(h, 0)
    return activations + [h]


def heads_model(hidden_dim=0, softmax_layer=False, **kwargs):
    x = inputs = keras.Input((6,))
    for units in (12, 9):
        x = keras_bpn.layers.BPNDense(
            units, activation="relu", hidden_dim=hidden_dim
        )(x)
    x = keras_bpn.layers.TaskHeads(**kwargs)(x)
    if softmax_layer:
        x = keras.layers.Activation("softmax")(x)
    return keras_bpn.BPNModel(inputs, x)


def heads_data(task):
    """Tasks of two, three, two, ... classes that count from 0."""
    classes = 2 + task % 2
    x, y = make_data(10 * task, classes=classes)
    return x, y % classes


def term(model, x):
    """What the method adds to the loss of a batch, and the outputs."""
    with record_calls() as calls:
        y_pred = model._call_in_row(model._open_row, x, training=True)
    loss = model.consolidation.loss(model, x, None, y_pred, calls)
    return float(loss), np.asarray(y_pred)


def head_of(model, features, row, size):
    """Returns the logits of a stored head."""
    head = np.float64(model.task_heads[0].table)[row, :, :size]
    return features @ head[:-1] + head[-1]


def shared_features(weights, x):
    (w1, b1, w2, b2), h = weights, np.float64(x)
    h = np.maximum(h @ w1 + b1, 0)
    return np.maximum(h @ w2 + b2, 0)


@pytest.mark.parametrize(
    "temperature, strength, softmax_layer",
    [(1.0, 1.0, False), (2.0, 3.0, False), (2.0, 3.0, True)],
)
def test_every_head_has_a_term(temperature, strength, softmax_layer):
    loss = "sparse_categorical_crossentropy"
    model = compile_model(
        heads_model(softmax_layer=softmax_layer),
        direction=None,
        consolidation=LwF(strength, temperature),
        **({"loss": loss} if softmax_layer else LOGITS),
    )
    for task in range(2):
        model.fit(*heads_data(task), task=str(task), **FIT)
    before = values(model.shared_variables)
    model.fit(*heads_data(2), task="2", consolidate=False, **FIT)
    now = values(model.shared_variables)
    x, _ = make_data(9)
    expected = 0.0
    for row, size in ((1, 2), (2, 3)):
        expected += crossentropy(
            head_of(model, shared_features(before, x), row, size),
            head_of(model, shared_features(now, x), row, size),
            temperature,
        )
    assert term(model, x)[0] == pytest.approx(strength * expected, rel=1e-5)
    moved = [abs(a - b).max() for a, b in zip(now, before)]
    assert min(moved) > 1e-3


@pytest.mark.parametrize("probabilities", [False, True])
def test_a_single_head_has_one_term_over_the_classes_so_far(probabilities):
    model = make_model(hidden_dim=0)
    if probabilities:
        outputs = keras.layers.Softmax()(model.output)
        model = keras_bpn.BPNModel(model.input, outputs)
    loss = "sparse_categorical_crossentropy"
    compile_model(
        model,
        direction=None,
        consolidation=LwF(2.0, 3.0),
        **({"loss": loss} if probabilities else LOGITS),
    )
    # Five classes are known after two tasks, and 3 is not.
    for task, shift in (("a", 0), ("b", 1)):
        x, y = make_data(shift)
        model.fit(x, np.where(y == 3, 5, y), task=task, **FIT)
    before = values(model.shared_variables)
    x, y = make_data(2)
    model.fit(x, y, task="c", consolidate=False, **FIT)
    now = values(model.shared_variables)
    old = [0, 1, 2, 5]
    expected = 2.0 * crossentropy(
        forward(before, x)[-1][:, old], forward(now, x)[-1][:, old], 3.0
    )
    assert term(model, x)[0] == pytest.approx(expected, rel=1e-5)


def rows_of(model, row):
    return [np.float64(bias.table)[row] for bias in model.task_biases]


def keys_of(model, row):
    layers = [layer for layer in model.layers if hasattr(layer, "task_keys")]
    return [np.float64(layer.task_keys.table)[row] for layer in layers]


@pytest.mark.parametrize("keys", [False, True])
def test_every_mode_has_a_term_over_the_classes_up_to_it(keys):
    method = LwF(2.0, 2.0)
    model = compile_model(
        make_model(),
        consolidation=Combination([PSP(seed=3), method]) if keys else method,
    )
    # Not trained in the order of their rows.
    model.add_task("b")
    model.add_task("a")
    for task in range(2):
        model.fit(*make_data(task), task="ab"[task], **FIT)
    before = values(model.shared_variables)
    x, y = make_data(2)
    model.fit(x, y, task="c", consolidate=False, **FIT)
    now = values(model.shared_variables)
    expected = 0.0
    for row, classes in ((2, 2), (1, 4)):
        task = rows_of(model, row), keys_of(model, row) if keys else None
        expected += crossentropy(
            forward(before, x, *task)[-1][:, :classes],
            forward(now, x, *task)[-1][:, :classes],
            2.0,
        )
    assert term(model, x)[0] == pytest.approx(2.0 * expected, rel=1e-5)


@pytest.mark.parametrize("activation", [None, "softmax"])
def test_a_task_oracle_leaves_each_task_its_own_classes(activation):
    inner = make_model(hidden_dim=0)
    outputs = keras_bpn.layers.ClassMask("task")(inner.output)
    loss = LOGITS["loss"]
    if activation:
        outputs = keras.layers.Softmax()(outputs)
        loss = "sparse_categorical_crossentropy"
    model = compile_model(
        keras_bpn.BPNModel(inner.input, outputs),
        direction=None,
        consolidation=LwF(),
        loss=loss,
    )
    for task in range(2):
        model.fit(*make_data(task), task=str(task), **FIT)
    before = values(model.shared_variables)
    x, y = make_data(2)
    model.fit(x, y, task="2", consolidate=False, **FIT)
    now = values(model.shared_variables)
    a, b = forward(before, x)[-1], forward(now, x)[-1]
    expected = sum(
        crossentropy(a[:, c], b[:, c], 2.0) for c in ([0, 1], [2, 3])
    )
    assert term(model, x)[0] == pytest.approx(expected, rel=1e-5)


def train_by_hand(weights, tasks, steps, rate, strength, temperature):
    """The method with gradient descent, by backpropagation in NumPy."""
    weights, seen, losses = [np.float64(w) for w in weights], [], []
    for x, y in tasks:
        teacher = [w.copy() for w in weights]
        for _ in range(steps):
            x1, h, z = forward(weights, x)
            p = softmax(z)
            loss = -np.log(p[np.arange(len(y)), y]).mean()
            delta = (p - np.eye(z.shape[1])[y]) / len(y)
            if seen:
                t = forward(teacher, x)[-1][:, seen]
                s = z[:, seen]
                loss += strength * crossentropy(t, s, temperature)
                slope = softmax(s / temperature) - softmax(t / temperature)
                delta[:, seen] += strength / temperature * slope / len(y)
            losses.append(loss)
            back = delta @ weights[2].T * (h > 0)
            gradients = [x1.T @ back, back.sum(0), h.T @ delta, delta.sum(0)]
            weights = [w - rate * g for w, g in zip(weights, gradients)]
        seen = sorted({*seen, *y.tolist()})
    return weights, losses


@pytest.mark.parametrize(
    "options, as_dataset",
    [
        ({}, False),
        ({"run_eagerly": True}, True),
        ({"jit_compile": True}, False),
        ({"jit_compile": True, "steps_per_execution": 2}, True),
    ],
)
def test_training_equals_the_method_by_hand(options, as_dataset):
    model = compile_model(
        make_model(units=(7,), hidden_dim=0),
        keras.optimizers.SGD(0.3),
        direction=None,
        consolidation=LwF(2.0, 1.5),
        **options,
    )
    tasks = [make_data(task) for task in range(3)]
    expected, losses = train_by_hand(
        values(model.shared_variables), tasks, 4, 0.3, 2.0, 1.5
    )
    found = []
    for task, (x, y) in enumerate(tasks):
        data = (x, y)
        if as_dataset:
            # The labels of a dataset are not known until the task ends.
            data = (tf.data.Dataset.from_tensors((x, y)),)
        history = model.fit(
            *data, task=str(task), epochs=4, batch_size=len(x), verbose=0
        )
        found += history.history["loss"]
    if options.get("steps_per_execution") is None:
        np.testing.assert_allclose(found, losses, rtol=1e-5)
    for variable, value in zip(model.shared_variables, expected):
        np.testing.assert_allclose(variable, value, rtol=1e-4, atol=1e-6)


def batch_norm_model(hidden_dim=0):
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(12, hidden_dim=hidden_dim)(inputs)
    x = keras.layers.BatchNormalization(momentum=0.5)(x)
    x = keras.layers.Activation("relu")(x)
    x = keras.layers.Dropout(0.3)(x)
    return keras_bpn.BPNModel(inputs, keras.layers.Dense(6)(x))


def test_the_teacher_is_the_network_at_the_start_of_the_task():
    model = compile_model(
        batch_norm_model(), direction=None, consolidation=LwF(1.0, 2.0)
    )
    model.fit(*make_data(), task="a", **FIT)
    x, y = make_data(1)
    teacher = np.asarray(model(x, training=False))
    model.fit(x + 3.0, y, task="b", consolidate=False, **FIT)
    found, outputs = term(model, x)
    expected = crossentropy(teacher[:, :2], outputs[:, :2], 2.0)
    assert found == pytest.approx(expected, rel=1e-5)
    # Moving statistics have moved far away since.
    assert abs(np.asarray(model(x, training=False)) - teacher).max() > 0.1


def test_passes_in_other_modes_leave_moving_statistics_alone():
    found = []
    for method in (LwF(), None):
        keras.utils.set_random_seed(0)
        model = compile_model(
            batch_norm_model(hidden_dim=3),
            keras.optimizers.SGD(0.0),
            epsilon=0.0,
            consolidation=method,
        )
        for task in range(2):
            model.fit(*make_data(task), task=str(task), **FIT)
        found.append(values(model.non_trainable_variables))
    assert_equal(*found)


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}])
def test_warmup_trains_the_new_head_alone(options):
    rate, steps = 0.01, 7
    model = compile_model(
        heads_model(),
        keras.optimizers.AdamW(rate, weight_decay=0.1),
        direction=None,
        consolidation=LwF(warmup_steps=steps),
        **options,
    )
    start = values(model.shared_variables)
    model.fit(*heads_data(0), task="0", **FIT)
    before = values(model.shared_variables)
    # The first task has no warm-up.
    assert min(abs(a - b).max() for a, b in zip(before, start)) > 0.01
    x, y = (a[:8] for a in heads_data(2))
    heads = []
    for epoch in range(steps):
        model.fit(x, y, task="1", consolidate=False, verbose=0)
        heads.append(np.array(model.task_heads[0].kernel))
        assert_equal(values(model.shared_variables), before)
        assert epoch == 0 or abs(heads[-1] - heads[-2]).max() > rate / 10
    model.fit(x, y, task="1", consolidate=False, verbose=0)
    moves = [
        abs(a - b).max() for a, b in zip(values(model.shared_variables), before)
    ]
    assert min(moves) > rate / 100
    # With moments of zero, Adam's step would be more than three times as long
    # as the learning rate.
    assert max(moves) < 2 * rate


def test_warmup_of_a_single_head_trains_the_new_classes_alone():
    model = compile_model(
        make_model(),
        consolidation=LwF(warmup_steps=10),
    )
    model.fit(*make_data(0), task="a", **FIT)
    before = values(model.shared_variables)
    model.fit(*make_data(1), task="b", consolidate=False, **FIT)
    *hidden, kernel, bias = values(model.shared_variables)
    assert_equal(hidden, before[:-2])
    for now, then in ((kernel, before[-2]), (bias, before[-1])):
        np.testing.assert_array_equal(now[..., :2], then[..., :2])
        assert (abs(now - then)[..., 2:] > 0).mean() > 0.8
    assert all(abs(np.asarray(v)).max() > 0 for v in model.perturbations)
    model.fit(*make_data(1), task="b", consolidate=False, **FIT)
    for now, then in zip(values(model.shared_variables), before):
        assert (now != then).mean() > 0.5


def full_state(model):
    state = model.get_weights() + values(model.optimizer.variables)
    kept = model.consolidation.get_state()
    return state + [kept[name] for name in sorted(kept)]


@pytest.mark.parametrize(
    "kind, options, within",
    [
        ("heads", {"jit_compile": True}, True),
        ("modes", {}, False),
    ],
)
def test_a_loaded_model_goes_on_to_the_bit(tmp_path, kind, options, within):
    data = heads_data if kind == "heads" else make_data
    model = compile_model(
        heads_model() if kind == "heads" else make_model(),
        direction=None if kind == "heads" else "beneficial",
        consolidation=LwF(1.5, warmup_steps=7),
        **options,
    )
    for task in range(2):
        model.fit(*data(task), task=str(task), **FIT)
    if within:
        # Five steps of the warm-up.
        once = {**FIT, "epochs": 1}
        model.fit(*data(2), task="2", consolidate=False, **once)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert repr(loaded.consolidation) == repr(model.consolidation)
    assert_equal(full_state(loaded), full_state(model))
    for each in (model, loaded):
        each.fit(*data(2), task="2", **FIT)
    assert_equal(full_state(loaded), full_state(model))


def test_a_task_that_cannot_start_changes_nothing():
    model = compile_model(make_model(), consolidation=LwF(warmup_steps=2))
    for task in range(2):
        model.fit(*make_data(task), task=str(task), **FIT)
    before = model.get_weights(), model.consolidation.get_state()

    def fail(logs):
        raise KeyboardInterrupt

    callback = keras.callbacks.LambdaCallback(on_train_begin=fail)
    with pytest.raises(KeyboardInterrupt):
        model.fit(*make_data(2), task="2", callbacks=[callback], **FIT)
    after = model.get_weights(), model.consolidation.get_state()
    assert_equal(after[0], before[0])
    assert after[1].keys() == before[1].keys()
    assert_equal(after[1].values(), before[1].values())


@pytest.mark.slow
@pytest.mark.parametrize("jit_compile", [False, True])
def test_mixed_precision(jit_compile):
    keras.config.set_dtype_policy("mixed_float16")
    model = compile_model(
        heads_model(hidden_dim=3),
        consolidation=LwF(warmup_steps=3),
        jit_compile=jit_compile,
    )
    for task in range(2):
        history = model.fit(*heads_data(task), task=str(task), **FIT)
        assert np.isfinite(history.history["loss"]).all()
    assert all(np.isfinite(v).all() for v in full_state(model))


def test_it_combines_with_a_penalty_and_remembers():
    accuracies = []
    for strength in (0.0, 5.0):
        keras.utils.set_random_seed(1)
        model = compile_model(
            make_model(hidden_dim=0),
            keras.optimizers.Adam(0.02),
            direction=None,
            consolidation=Combination([LwF(strength), EWC(0.0)]),
        )
        x, y = make_data(0, size=80)
        model.fit(x, y, task="a", **{**FIT, "epochs": 8})
        # The same images under new names: only the old ones are lost.
        model.fit(x, y + 2, task="b", **{**FIT, "epochs": 8})
        scores = model.predict(x, verbose=0)[:, :2]
        accuracies.append(crossentropy(10 * np.eye(2)[y], scores, 1.0))
    assert accuracies[1] < 0.8 * accuracies[0]


def test_config_round_trip():
    method = LwF(3.0, 4.0, warmup_steps=5)
    copy = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(method)
    )
    assert type(copy) is LwF
    assert copy.get_config() == method.get_config()
    assert copy.get_config() == {
        "strength": 3.0,
        "temperature": 4.0,
        "warmup_steps": 5,
    }


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"strength": -1.0}, "at least 0. Received: strength=-1.0"),
        ({"strength": "1"}, "Received: strength='1'"),
        ({"temperature": 0.0}, "above 0. Received: temperature=0.0"),
        ({"temperature": float("nan")}, "Received: temperature=nan"),
        ({"warmup_steps": 0.5}, "integer.*Received: warmup_steps=0.5"),
        ({"warmup_steps": -1}, "Received: warmup_steps=-1"),
    ],
)
def test_bad_settings(kwargs, message):
    with pytest.raises(ValueError, match=message):
        LwF(**kwargs)


def test_bad_models():
    model = make_model()
    twice = keras_bpn.BPNModel(model.inputs, model.outputs * 2)
    with pytest.raises(ValueError, match="one output.*Received: 2 outputs"):
        compile_model(twice, consolidation=LwF())
    added = keras_bpn.BPNModel(
        model.inputs,
        keras.layers.Add()([model.outputs[0], model.layers[0].output]),
    )
    with pytest.raises(ValueError, match="`warmup_steps`.*6 outputs from.*Add"):
        compile_model(added, consolidation=LwF(warmup_steps=1))

    compile_model(model, loss="mse", metrics=[], consolidation=LwF())
    x, y = make_data()
    before = model.get_weights()
    with pytest.raises(ValueError, match="Crossentropy.*Received: loss='mse'"):
        model.fit(x, np.eye(6)[y], task="a", verbose=0)
    assert model.tasks == ()
    assert_equal(model.get_weights(), before)


def test_classes_have_to_be_known_at_the_end():
    model = compile_model(make_model(), consolidation=LwF())
    x, y = make_data()
    data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    model.fit(data, task="a", verbose=0, consolidate=False)
    with pytest.raises(ValueError, match="Received: task='a' without labels"):
        model.consolidate(x)
    model.consolidate(x, y)
    assert model.consolidation._old_tasks() == [(1, (0, 1))]
