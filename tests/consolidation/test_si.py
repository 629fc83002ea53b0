import os
import subprocess
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bpn
from keras_bpn.consolidation.si import SI
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values

RATE, STRENGTH, DAMPING = 0.3, 3.0, 0.05


def gradients_by_hand(weights, x, y):
    """Backpropagation of the mean crossentropy through tanh and softmax."""
    w1, b1, w2, b2 = weights
    h = np.tanh(x @ w1 + b1)
    logits = h @ w2 + b2
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    delta = (p - np.eye(p.shape[1])[y]) / len(y)
    back = (delta @ w2.T) * (1 - h**2)
    return [x.T @ back, back.sum(0), h.T @ delta, delta.sum(0)]


def si_by_hand(weights, tasks, implicit, epochs=2, batch_size=8):
    """The whole method in double precision, with plain gradient descent."""
    weights = [np.float64(w) for w in weights]
    omega = [np.zeros_like(w) for w in weights]
    anchor = [w.copy() for w in weights]
    for x, y in tasks:
        start = [w.copy() for w in weights]
        path = [np.zeros_like(w) for w in weights]
        for first in list(range(0, len(x), batch_size)) * epochs:
            batch = slice(first, first + batch_size)
            gradients = gradients_by_hand(
                weights, np.float64(x[batch]), y[batch]
            )
            for i, g in enumerate(gradients):
                h = 2 * STRENGTH * omega[i]
                push = g + h * (weights[i] - anchor[i])
                move = -RATE * push / (1 + RATE * h * implicit)
                path[i] -= g * move
                weights[i] = weights[i] + move
        for i, w in enumerate(weights):
            way = w - start[i]
            omega[i] += np.maximum(path[i], 0) / (way**2 + DAMPING)
        anchor = [w.copy() for w in weights]
    return weights, omega


def small_model(step="auto", **kwargs):
    model = make_model(units=(7,), hidden_dim=0, activation="tanh")
    return compile_model(
        model,
        keras.optimizers.SGD(RATE),
        direction=None,
        consolidation=SI(STRENGTH, DAMPING, step=step),
        **kwargs,
    )


@pytest.mark.parametrize("step", ["implicit", "explicit"])
@pytest.mark.parametrize(
    "options, as_dataset",
    [
        ({}, False),
        ({"run_eagerly": True}, False),
        ({"jit_compile": True}, False),
        ({"jit_compile": True, "steps_per_execution": 4}, False),
        ({"steps_per_execution": 4}, True),
    ],
)
def test_weights_and_importances_equal_those_computed_by_hand(
    step, options, as_dataset
):
    model = small_model(step, **options)
    tasks = [make_data(task) for task in range(3)]
    weights, omega = si_by_hand(
        values(model.shared_variables), tasks, step == "implicit"
    )
    # The penalty of the earlier tasks is as strong as the loss is.
    assert max(o.max() for o in omega) > 0.3
    for i, (x, y) in enumerate(tasks):
        data = {"x": x, "y": y, "batch_size": 8, "shuffle": False}
        if as_dataset:
            data = {"x": tf.data.Dataset.from_tensor_slices((x, y)).batch(8)}
        model.fit(**data, epochs=2, task=str(i), verbose=0)
    si = model.consolidation
    for v, w, o in zip(model.shared_variables, weights, omega):
        np.testing.assert_allclose(v, w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(si.anchor(v), w, rtol=1e-4, atol=1e-5)
        np.testing.assert_allclose(
            si.importance(v), o, rtol=1e-3, atol=1e-5 * o.max()
        )


def check_path(model, batches):
    """Recomputes the path integral from what can be seen from outside."""
    shared = model.shared_variables
    expected = values(map(model.consolidation.path, shared))
    model.run_eagerly = True
    model.make_train_function(force=True)
    for x, y in batches:
        with tf.GradientTape() as tape:
            loss = model.loss(y, model(x, training=True))
        gradients = tape.gradient(loss, [v.value for v in shared])
        before = values(shared)
        model.train_on_batch(x, y)
        for path, g, old, new in zip(
            expected, gradients, before, values(shared)
        ):
            path -= tf.convert_to_tensor(g).numpy() * (new - old)
    for v, path in zip(shared, expected):
        assert abs(path).max() > 1e-4
        np.testing.assert_allclose(
            model.consolidation.path(v),
            path,
            rtol=1e-4,
            atol=1e-5 * abs(path).max(),
        )


@pytest.mark.parametrize("direction", ["beneficial", "gradient"])
@pytest.mark.parametrize("optimizer", ["adam", "sgd"])
def test_path_has_the_gradient_of_the_task_and_the_move_of_the_optimizer(
    direction, optimizer
):
    # The springs are so stiff that their gradient would show.
    model = compile_model(
        make_model(activation="tanh"),
        optimizer,
        direction=direction,
        consolidation=SI(100.0),
    )
    model.optimizer.learning_rate = 0.01
    train_tasks(model, "ab")
    x, y = make_data(2)
    model.fit(x, y, task="c", batch_size=8, verbose=0, consolidate=False)
    check_path(model, [(x[i : i + 8], y[i : i + 8]) for i in range(0, 40, 8)])


def test_path_of_an_embedding_whose_gradients_are_slices():
    inputs = keras.Input((3,), dtype="int32")
    x = keras.layers.Embedding(5, 4)(inputs)
    x = keras.layers.Flatten()(x)
    outputs = keras_bpn.layers.BPNDense(2, hidden_dim=3)(x)
    model = compile_model(
        keras_bpn.BPNModel(inputs, outputs),
        keras.optimizers.Adam(0.01),
        consolidation=SI(),
    )
    x = np.random.randint(5, size=(40, 3))
    y = (x[:, 0] > 2).astype("int32")
    model.fit(x, y, task="a", verbose=0, consolidate=False)
    check_path(model, [(x, y)] * 3)


def test_a_variable_without_a_gradient_has_no_path():
    model = compile_model(make_model(), consolidation=SI())
    nothing = [None] * len(model.shared_variables)
    model.consolidation.adjust_gradients(model, nothing)
    model.consolidation.after_update(model, nothing)
    for v in model.shared_variables:
        assert not np.any(model.consolidation.path(v))


def test_only_what_lowered_the_loss_makes_a_weight_important():
    model = compile_model(make_model(units=()), consolidation=SI(damping=0.5))
    model.fit(*make_data(), task="a", verbose=0, consolidate=False)
    si, kernel = model.consolidation, model.layers[1].kernel
    path = np.random.normal(size=kernel.shape)
    way = np.random.normal(size=kernel.shape)
    si.path(kernel).assign(path)
    si.start(kernel).assign(np.asarray(kernel) - way)
    model.consolidate()
    expected = np.where(path > 0, path / (way**2 + 0.5), 0)
    np.testing.assert_allclose(si.importance(kernel), expected, rtol=1e-5)


def test_penalty_of_two_tasks_has_the_gradient_of_its_definition():
    model = compile_model(make_model(), consolidation=SI(7.0))
    train_tasks(model)
    si = model.consolidation
    anchors = values(model.shared_variables)
    for variable in model.shared_variables:
        variable.assign_add(0.1 * np.random.normal(size=variable.shape))
    gradients = si.adjust_gradients(model, [None] * len(model.shared_variables))
    for v, anchor, gradient in zip(model.shared_variables, anchors, gradients):
        omega = np.asarray(si.importance(v))
        assert omega.max() > 0
        expected = 2 * 7.0 * omega * (np.asarray(v) - anchor)
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-7)


@pytest.mark.parametrize("jit_compile", [False, True])
def test_skipped_steps_of_a_scaled_loss_leave_no_trace(jit_compile):
    keras.config.set_dtype_policy("mixed_float16")
    # So large a scale that gradients overflow for about forty steps.
    optimizer = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.Adam(0.01), initial_scale=2.0**60
    )
    model = compile_model(
        make_model(), optimizer, consolidation=SI(), jit_compile=jit_compile
    )
    si, shared = model.consolidation, model.shared_variables
    before = values(shared)
    x, y = make_data()
    model.fit(
        x, y, task="a", batch_size=8, epochs=2, verbose=0, consolidate=False
    )
    assert_equal(values(shared), before)
    for v in shared:
        assert not np.any(si.path(v))
    model.fit(x, y, batch_size=8, epochs=20, verbose=0)
    train_tasks(model, "b")
    for v in shared:
        assert np.all(np.isfinite(si.importance(v)))
        assert np.max(si.importance(v)) > 0


def full_state(model):
    return (
        model.get_weights()
        + values(model.optimizer.variables)
        + list(model.consolidation.get_state().values())
    )


@pytest.mark.parametrize("direction", ["beneficial", None])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_loaded_model_goes_on_as_if_never_stopped(
    tmp_path, direction, is_open
):
    model = compile_model(
        make_model(), direction=direction, consolidation=SI(5.0, 0.01)
    )
    train_tasks(model, "a")
    train_tasks(model, "b", consolidate=not is_open)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert repr(loaded.consolidation) == repr(model.consolidation)
    assert_equal(full_state(loaded), full_state(model))
    for each in (model, loaded):
        if is_open:
            each.fit(*make_data(1), initial_epoch=2, epochs=4, verbose=0)
        train_tasks(each, "c")
    assert_equal(full_state(loaded), full_state(model))


def test_a_task_that_cannot_be_started_changes_nothing():
    model = train_tasks(compile_model(make_model(), consolidation=SI()))

    class Failing(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            raise RuntimeError("no")

    before = model.get_weights(), model.consolidation.get_state()
    with pytest.raises(RuntimeError):
        model.fit(*make_data(), task="c", verbose=0, callbacks=[Failing()])
    assert_equal(model.get_weights(), before[0])
    after = model.consolidation.get_state()
    assert_equal(list(after.values()), list(before[1].values()))


def test_needs_no_data_to_end_a_task():
    model = compile_model(make_model(), consolidation=SI())
    model.fit(*make_data(), task="a", verbose=0, consolidate=False)
    model.consolidate()
    assert model.tasks == ("a",)
    assert np.max(model.consolidation.importance(model.shared_variables[0])) > 0


_TWO_REPLICAS = """
import keras
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
from keras_bpn.consolidation.si import SI
from tests.helpers import compile_model, make_model

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    model = compile_model(
        make_model(units=(), hidden_dim=0),
        keras.optimizers.SGD(0.5),
        direction=None,
        consolidation=SI(),
    )
si, shared = model.consolidation, model.shared_variables

@tf.function
def step():
    def replica_step():
        # Shares of 1 and 2 of the gradient of the whole batch, which is 3.
        context = tf.distribute.get_replica_context()
        share = tf.cast(context.replica_id_in_sync_group + 1, "float32")
        gradients = [share * tf.ones(v.shape) for v in shared]
        adjusted = si.adjust_gradients(model, gradients)
        model.optimizer.apply(adjusted, shared)
        si.after_update(model, gradients)
    strategy.run(replica_step)

step()
step()
# Two steps of -0.5 * 3 against a gradient of 3.
for v in shared:
    paths = strategy.experimental_local_results(si.path(v).value)
    assert len(paths) == 2
    for path in paths:
        np.testing.assert_allclose(path, np.full(v.shape, 2 * 3 * 1.5))
"""


def test_path_has_the_gradient_of_all_replicas():
    subprocess.run(
        [sys.executable, "-c", _TWO_REPLICAS],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"strength": -1.0}, "strength.*at least 0.*Received: strength=-1.0"),
        ({"damping": 0.0}, "damping.*positive.*Received: damping=0.0"),
        ({"damping": -0.1}, "damping.*Received: damping=-0.1"),
        ({"damping": float("nan")}, "damping"),
        ({"damping": float("inf")}, "damping"),
        ({"damping": True}, "damping"),
        ({"step": "long"}, "step.*Received: step='long'"),
    ],
)
def test_settings_outside_their_range(kwargs, message):
    with pytest.raises(ValueError, match=message):
        SI(**kwargs)


def test_config_round_trip():
    si = SI(2, damping=1e-3, step="explicit")
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(si)
    )
    assert type(again) is SI
    assert again.get_config() == si.get_config()
    assert again.get_config() == {
        "strength": 2.0,
        "damping": 1e-3,
        "step": "explicit",
    }
