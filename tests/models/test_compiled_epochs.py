"""Epochs that run in a few calls of a function that XLA compiles."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bpn
from keras_bpn.models.epoch_runner import watches_steps
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_model
from tests.helpers import values

SIZE, BATCH = 121, 2  # 60 full batches, and one of one example.


def make_data(seed=0):
    generator = np.random.default_rng(seed)
    x = generator.normal(size=(SIZE, 3)).astype("float32")
    return x, (x[:, 0] > 0).astype("int32") + 2 * (x[:, 1] > 0)


def built(**kwargs):
    """Returns a network that is compiled soon: without bias units."""
    keras.utils.set_random_seed(0)
    model = make_model(units=(), inputs=3, outputs=4, hidden_dim=0)
    kwargs = {"direction": None, "consolidation": None, **kwargs}
    return compile_model(model, **{"optimizer": "sgd", **kwargs})


def built_with_bias_units(**kwargs):
    keras.utils.set_random_seed(0)
    model = make_model(units=(5,), inputs=3, outputs=4, hidden_dim=3)
    return compile_model(model, keras.optimizers.Adam(1e-3), **kwargs)


def fit(model, x=None, y=None, **kwargs):
    x, y = make_data() if x is None else (x, y)
    kwargs = {"batch_size": BATCH, "verbose": 0, "consolidate": False, **kwargs}
    return model.fit(x, y, task="a", **kwargs)


def state(model):
    return values([*model.weights, *model.optimizer.variables])


def is_compiled(model):
    return model._train_loop is not None


@pytest.fixture(scope="module")
def trained():
    """A model after two compiled epochs, and the history of its training."""
    model = built_with_bias_units()
    history = fit(model, epochs=2)
    return model, history.history


def test_agrees_with_single_steps(trained):
    model, history = trained
    assert is_compiled(model)
    other = built_with_bias_units(steps_per_execution=1)
    other_history = fit(other, epochs=2).history
    assert not is_compiled(other)
    assert int(model.optimizer.iterations) == 2 * 61
    for a, b in zip(state(model), state(other)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    for name in ("loss", "accuracy"):
        np.testing.assert_allclose(history[name], other_history[name], 1e-5)


def test_same_seed_same_bits_and_epochs_one_by_one(trained):
    model, _ = trained
    other = built_with_bias_units()
    for _ in range(2):
        fit(other)
    assert_equal(state(other), state(model))


class Steps(keras.callbacks.Callback):
    def __init__(self):
        super().__init__()
        self.began, self.ended, self.counts = [], [], []

    def on_train_batch_begin(self, batch, logs=None):
        self.began.append(batch)

    def on_train_batch_end(self, batch, logs=None):
        self.ended.append((batch, logs["loss"]))
        self.counts.append(int(self.model.optimizer.iterations))


def test_callbacks_that_watch_steps_see_each(trained):
    model, history = trained
    steps = Steps()
    other = built_with_bias_units()
    fit(other, epochs=2, callbacks=[steps])
    assert is_compiled(other)
    assert steps.began == 2 * list(range(61))
    assert [batch for batch, _ in steps.ended] == 2 * list(range(61))
    assert steps.counts == list(range(1, 2 * 61 + 1))
    assert steps.ended[60][1] == pytest.approx(history["loss"][0])
    # Steps are the same however many are taken in a call.
    assert_equal(state(other), state(model))


def test_which_callbacks_watch_steps(tmp_path):
    callbacks = keras.callbacks

    class Epochs(callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            pass

    path = str(tmp_path / "m.weights.h5")
    by_epochs = [
        Epochs(),
        callbacks.CSVLogger(str(tmp_path / "log.csv")),
        callbacks.ModelCheckpoint(path, save_weights_only=True),
        callbacks.EarlyStopping(),
        callbacks.ProgbarLogger(),
        callbacks.LambdaCallback(on_epoch_end=lambda epoch, logs: None),
    ]
    assert not watches_steps(None, "train")
    assert not watches_steps(by_epochs, "train")
    assert not watches_steps(callbacks.CallbackList(by_epochs), "train")
    for callback in (
        Steps(),
        callbacks.ModelCheckpoint(path, save_weights_only=True, save_freq=5),
        callbacks.TerminateOnNaN(),
        callbacks.LambdaCallback(on_train_batch_end=lambda batch, logs: None),
    ):
        assert watches_steps([*by_epochs, callback], "train")
        assert watches_steps(callback, "train")
        assert not watches_steps(callback, "test")


def test_epoch_callbacks_stop_the_training():
    class Stop(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            self.model.stop_training = True

    model = built()
    fit(model, epochs=9, callbacks=[Stop()])
    assert int(model.optimizer.iterations) == 61


@pytest.mark.parametrize(
    "options",
    [
        {"steps_per_execution": 1},
        {"steps_per_execution": 7},
        {"jit_compile": False},
        {"run_eagerly": True},
    ],
)
def test_can_be_turned_off(options):
    model = built(**options)
    fit(model, x=make_data()[0][:110], y=make_data()[1][:110])
    assert not is_compiled(model)


def test_short_epochs_and_steps_per_epoch_run_as_usual():
    model = built()
    x, y = make_data()
    fit(model, x[:90], y[:90])
    fit(model, steps_per_epoch=3)
    assert not is_compiled(model)


def test_convolutions_run_as_usual_on_a_cpu():
    def made(**kwargs):
        inputs = keras.Input((4, 3))
        h = keras.layers.Conv1D(2, 2)(inputs)
        model = keras_bpn.BPNModel(inputs, keras.layers.Flatten()(h))
        return compile_model(
            model, direction=None, consolidation=None, **kwargs
        )

    has_gpu = bool(tf.config.list_physical_devices("GPU"))
    x, y = make_data()
    for options, expected in (({}, has_gpu), ({"jit_compile": True}, True)):
        model = made(**options)
        fit(model, np.stack([x] * 4, axis=1), y)
        assert is_compiled(model) is expected


def test_an_overridden_train_step_is_called():
    class Model(keras_bpn.BPNModel):
        def train_step(self, data):
            return {**super().train_step(data), "extra": tf.constant(3.0)}

    plain = built()
    model = compile_model(
        Model(plain.inputs, plain.outputs), direction=None, consolidation=None
    )
    history = fit(model).history
    assert history["extra"] == [3.0]


@pytest.mark.parametrize("kind", ["sample_weight", "class_weight"])
def test_weights(kind):
    x, y = make_data()
    weights = {
        "sample_weight": np.linspace(0, 2, SIZE),
        "class_weight": {0: 0.5, 2: 3.0},
    }
    models = built(), built(steps_per_execution=1)
    for model in models:
        fit(model, x, y, **{kind: weights[kind]})
    for a, b in zip(*map(state, models)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
    unweighted = built(steps_per_execution=1)
    fit(unweighted)
    assert not np.allclose(
        *values(m.layers[1].kernel for m in (unweighted, models[0]))
    )


def test_the_order_of_arrays_is_kept():
    """The last example of the epoch makes the last step."""
    x, y = make_data()
    models = built(), built()
    changed = x.copy()
    changed[-1] += 1
    steps = Steps(), Steps()
    for model, values_of_x, step in zip(models, (x, changed), steps):
        fit(model, values_of_x, y, shuffle=False, callbacks=[step])
    assert steps[0].ended[:60] == steps[1].ended[:60]
    assert steps[0].ended[60] != steps[1].ended[60]


def test_validation_within_fit():
    x, y = make_data()

    class TestSteps(keras.callbacks.Callback):
        ended = ()

        def on_test_batch_end(self, batch, logs=None):
            self.ended += (batch,)

    steps = TestSteps()
    model = built()
    history = fit(
        model,
        epochs=2,
        validation_data=(x[:10], y[:10]),
        callbacks=[steps],
    ).history
    assert steps.ended == (0, 1, 2, 3, 4) * 2
    logs = model.evaluate(
        x[:10], y[:10], batch_size=BATCH, return_dict=True, verbose=0
    )
    assert history["val_loss"][-1] == pytest.approx(logs["loss"])
    assert model.steps_per_execution == 1


def test_progress_ends_with_the_epoch(capsys):
    fit(built(), verbose=1)
    out = capsys.readouterr().out
    assert "61/61" in out
    assert all(f"{n}/61" not in out for n in range(62, 200))


def test_compile_options_are_saved_as_they_were_given(tmp_path):
    for options in (
        {},
        {"steps_per_execution": 3, "jit_compile": False},
        {"jit_compile": True},
    ):
        model = built(**options)
        model.save(tmp_path / "m.keras")
        loaded = keras.models.load_model(tmp_path / "m.keras")
        expected = {
            "steps_per_execution": "auto",
            "jit_compile": "auto",
            **options,
        }
        assert expected.items() <= loaded.get_compile_config().items()


@pytest.mark.parametrize("wrong", [0, -1, 1.5, "many", True])
def test_wrong_steps_per_execution(wrong):
    with pytest.raises(ValueError, match="steps_per_execution.*Received"):
        built(steps_per_execution=wrong)


# Evaluation.


def test_evaluation_in_compiled_calls(trained):
    model, _ = trained
    x, y = make_data(1)
    weights = np.linspace(0, 2, SIZE)
    calls = []

    class TestSteps(keras.callbacks.Callback):
        def on_test_batch_end(self, batch, logs=None):
            calls.append(batch)

    options = {"batch_size": BATCH, "return_dict": True, "verbose": 0}
    for arguments in ({}, {"sample_weight": weights}):
        logs = model.evaluate(x, y, **arguments, **options)
        assert model._test_loop is not None
        watched = model.evaluate(
            x, y, callbacks=[TestSteps()], **arguments, **options
        )
        assert watched == logs
        # One batch, which is no case for the loop.
        whole = {**options, "batch_size": SIZE}
        assert logs == pytest.approx(model.evaluate(x, y, **arguments, **whole))
    assert calls == 2 * list(range(61))


def test_evaluation_follows_the_mode(trained):
    model, _ = trained
    x, y = make_data(1)
    options = {"batch_size": BATCH, "return_dict": True, "verbose": 0}
    model.task = None
    without = model.evaluate(x, y, **options)
    logs = model.evaluate(x, y, task="a", **options)
    assert model.task is None
    assert logs["loss"] != without["loss"]
    model.task = "a"
    assert model.evaluate(x, y, **options) == logs


def test_evaluation_within_training():
    """As a callback may do, in the middle of an epoch."""
    x, y = make_data()
    steps = Steps()

    class Evaluate(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            if batch == 30:
                self.model.evaluate(x, y, batch_size=BATCH, verbose=0)

    model = built()
    fit(model, epochs=2, callbacks=[Evaluate(), steps])
    assert is_compiled(model) and model._test_loop is not None
    assert steps.began == 2 * list(range(61))
    assert steps.counts == list(range(1, 2 * 61 + 1))


# Steps that are refused.


@pytest.mark.parametrize("clipvalue", [None, 1.0])
def test_a_step_with_infinity_is_refused(clipvalue):
    x, y = make_data()
    broken = x.copy()
    broken[37 * BATCH, 1] = np.inf
    model, other = [
        built(optimizer=keras.optimizers.SGD(0.1, clipvalue=clipvalue))
        for _ in range(2)
    ]
    with pytest.raises(ValueError, match="step was refused.*'.*/kernel'"):
        fit(model, broken, y, shuffle=False)
    assert int(model.optimizer.iterations) == 37
    # The steps before it were taken.
    fit(other, x[: 37 * BATCH], y[: 37 * BATCH], shuffle=False)
    for a, b in zip(state(model), state(other)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)
    # And training goes on.
    fit(model, x, y)
    assert all(np.all(np.isfinite(v)) for v in state(model))


def test_a_first_step_that_is_refused_takes_the_task_back():
    x, y = make_data()
    model = built()
    before = state(model)
    with pytest.raises(ValueError, match="step was refused"):
        fit(model, np.full_like(x, np.nan), y)
    assert model.tasks == ()
    assert_equal(state(model), before)


# Networks that XLA cannot compile.


@keras.saving.register_keras_serializable("tests")
class OnHost(keras.layers.Layer):
    def call(self, inputs):
        return tf.ensure_shape(
            tf.py_function(lambda x: 2 * x, [inputs], tf.float32), inputs.shape
        )


def test_what_xla_cannot_compile_runs_step_by_step():
    def made(**kwargs):
        keras.utils.set_random_seed(0)
        inputs = keras.Input((3,))
        outputs = keras_bpn.layers.BPNDense(4, hidden_dim=0)(OnHost()(inputs))
        model = keras_bpn.BPNModel(inputs, outputs)
        return compile_model(
            model, direction=None, consolidation=None, **kwargs
        )

    models = made(), made(steps_per_execution=1)
    for model in models:
        fit(model, epochs=2)
    for a, b in zip(*map(state, models)):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


# Nested inputs.


def test_nested_inputs_and_outputs():
    x, y = make_data()

    def made(**kwargs):
        keras.utils.set_random_seed(0)
        inputs = {
            "a": keras.Input((2,), name="a"),
            "b": keras.Input((1,), name="b"),
        }
        h = keras.layers.Concatenate()([inputs["a"], inputs["b"]])
        outputs = [
            keras_bpn.layers.BPNDense(4, hidden_dim=0)(h),
            keras_bpn.layers.BPNDense(1, hidden_dim=0)(h),
        ]
        model = keras_bpn.BPNModel(inputs, outputs)
        losses = [
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "mse",
        ]
        kwargs |= {"direction": None, "consolidation": None, "metrics": None}
        return compile_model(model, loss=losses, **kwargs)

    models = made(), made(steps_per_execution=1)
    for model in models:
        fit(model, {"a": x[:, :2], "b": x[:, 2:]}, [y, x[:, 0]])
        assert is_compiled(model) is (model is models[0])
    for a, b in zip(*map(state, models)):
        np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)
