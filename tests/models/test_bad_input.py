"""Every mistake is named before it changes anything."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bpn
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values

EWC, PSP = keras_bpn.consolidation.EWC, keras_bpn.consolidation.PSP


@pytest.fixture
def model():
    return train_tasks(compile_model(make_model()), ["birds", "cars"])


def state(model):
    return (
        model.tasks,
        model.task,
        model._registry.get_state(),
        model.direction,
        model.epsilon,
        model.consolidation,
        model.optimizer,
        values(model.weights),
        values(model.consolidation.variables.values()),
    )


class Unchanged:
    """Expects an error, and a model that is as it was."""

    def __init__(self, model, message, error=ValueError):
        self.model = model
        self.raises = pytest.raises(error, match=message)

    def __enter__(self):
        self.before = state(self.model)
        return self.raises.__enter__()

    def __exit__(self, *exception):
        handled = self.raises.__exit__(*exception)
        after = state(self.model)
        assert after[:-2] == self.before[:-2]
        assert_equal(after[-2], self.before[-2])
        assert_equal(after[-1], self.before[-1])
        return handled


@pytest.mark.parametrize("method", ["evaluate", "predict", "call", "set"])
def test_unknown_task_suggests_the_nearest_name(model, method):
    x, y = make_data()
    with Unchanged(
        model, "one of .*Received: task='brids'. Did you mean 'birds'?"
    ):
        if method == "evaluate":
            model.evaluate(x, y, task="brids", verbose=0)
        elif method == "predict":
            model.predict(x, task="brids", verbose=0)
        elif method == "call":
            model(x, task="brids")
        else:
            model.task = "brids"


def test_no_tasks_yet():
    model = compile_model(make_model())
    with Unchanged(model, "no tasks yet.*Received: task='a'"):
        model.predict(make_data()[0], task="a")


@pytest.mark.parametrize("names", [["birds"] * 39, ["birds"] * 41, []])
def test_per_example_names_of_the_wrong_length(model, names):
    x, _ = make_data()
    message = f"one per example. Received: {len(names)} names for 40 examples"
    with Unchanged(model, message):
        model(x, task=names)
    with Unchanged(model, message):
        model.predict(x, task=names, verbose=0)


def test_unknown_name_in_a_mixed_batch(model):
    x, _ = make_data()
    with Unchanged(model, "Did you mean 'cars'?"):
        model.predict(x, task=["birds"] * 39 + ["car"], verbose=0)


def test_mixed_batches_need_arrays(model):
    dataset = tf.data.Dataset.from_tensor_slices(make_data()[0]).batch(8)
    with Unchanged(model, "Expected arrays where one task per example"):
        model.predict(dataset, task=["birds"] * 40, verbose=0)


@pytest.mark.parametrize("task", ["", 3, ("birds",)])
def test_names_that_are_no_names(model, task):
    with Unchanged(model, "non-empty string"):
        model.fit(*make_data(), task=task, verbose=0)


def test_a_task_that_has_ended(model):
    with Unchanged(model, "has ended cannot be trained.*task='birds'"):
        model.fit(*make_data(), task="birds", verbose=0)


def test_fit_without_a_task(model):
    with Unchanged(model, r"needs the name of the task.*\['birds', 'cars'\]"):
        model.fit(*make_data(), verbose=0)


def test_a_second_open_task(model):
    model.fit(*make_data(), task="ships", verbose=0, consolidate=False)
    with Unchanged(model, "one task can be open.*open task is 'ships'"):
        model.fit(*make_data(), task="planes", verbose=0)


def test_training_on_a_batch_without_an_open_task(model):
    with Unchanged(model, "trains the open task.*no open task among"):
        model.train_on_batch(*make_data())


def test_ending_no_task(model):
    with Unchanged(model, "Only an open task can be ended"):
        model.consolidate(*make_data())


def test_adding_a_task_twice(model):
    with Unchanged(model, "does not exist yet.*name='birds'"):
        model.add_task("birds")


@pytest.mark.parametrize("wrong", [6, -1])
def test_labels_outside_the_output(model, wrong):
    x, y = make_data()
    y[7] = wrong
    with Unchanged(model, "integers from 0 to 5.*6 outputs"):
        model.fit(x, y, task="ships", verbose=0)


@pytest.mark.parametrize(
    "x, y",
    [
        (np.zeros((40, 5), "float32"), np.zeros(40, "int32")),
        (np.zeros((40, 6), "float32"), np.zeros(39, "int32")),
        (np.zeros((0, 6), "float32"), np.zeros(0, "int32")),
        (np.zeros((40, 6), "float32"), np.zeros((40, 7), "float32")),
    ],
)
def test_wrong_shapes_take_the_task_back(model, x, y):
    with Unchanged(model, ".", error=Exception):
        model.fit(x, y, task="ships", verbose=0)
    model.fit(*make_data(), task="ships", verbose=0)


def test_wrong_shapes_are_named_for_arrays_and_datasets(model):
    x, y = np.zeros((40, 5), "float32"), np.zeros(40, "int32")
    dataset = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
    message = r"shape \(None, 6\).*Received: shape \(.*, 5\)"
    with Unchanged(model, message):
        model.fit(x, y, task="ships", verbose=0)
    with Unchanged(model, message):
        model.fit(dataset, task="ships", verbose=0)


def test_a_callback_that_fails_at_once_takes_the_task_back(model):
    class Failing(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            raise RuntimeError("no")

    with Unchanged(model, "no", RuntimeError):
        model.fit(*make_data(), task="ships", verbose=0, callbacks=[Failing()])


def test_an_interrupted_task_stays_open(model):
    class Interrupting(keras.callbacks.Callback):
        def on_train_batch_end(self, batch, logs=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(
            *make_data(), task="ships", verbose=0, callbacks=[Interrupting()]
        )
    model.fit(*make_data(), verbose=0)
    assert model.tasks == ("birds", "cars", "ships")


def test_data_that_can_be_read_only_once(model):
    x, y = make_data()
    batches = ((x[i : i + 8], y[i : i + 8]) for i in range(0, 40, 8))
    with Unchanged(model, "reads the data again.*consolidate=False"):
        model.fit(batches, task="ships", verbose=0)
    assert next(batches)[0].shape == (8, 6)  # Nothing was read.
    model.fit(batches, task="ships", verbose=0, consolidate=False)
    with Unchanged(model, r"model.consolidate\(...\).*x=None"):
        model.consolidate()
    model.consolidate(x, y)


def test_data_without_an_end(model):
    dataset = tf.data.Dataset.from_tensor_slices(make_data()).repeat().batch(8)
    model.fit(
        dataset, task="ships", steps_per_epoch=3, verbose=0, consolidate=False
    )
    with Unchanged(model, "does not end"):
        model.consolidate(dataset)
    model.consolidate(dataset, steps=5)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"epsilon": -0.1}, "epsilon.*at least 0. Received: epsilon=-0.1"),
        ({"epsilon": float("nan")}, "epsilon"),
        ({"epsilon": "small"}, "epsilon.*number"),
        ({"direction": "up"}, "direction.*'beneficial'.*direction='up'"),
        ({"consolidation": "EWC"}, "instance.*consolidation='EWC'"),
        ({"consolidation": EWC}, "instance"),
        ({"consolidation": PSP()}, "cannot be changed once a task was"),
        ({"consolidation": EWC(11.0)}, "cannot be changed once a task was"),
        ({"consolidation": None}, "cannot be changed once a task was"),
        ({"direction": None}, "from or to `None`"),
        (
            {"optimizer": keras.optimizers.Adam(gradient_accumulation_steps=2)},
            "gradient_accumulation_steps=2",
        ),
    ],
)
def test_compiling_again_with_what_does_not_fit(model, kwargs, message):
    kwargs = {
        "optimizer": "sgd",
        "loss": "mse",
        "consolidation": model.consolidation,
        **kwargs,
    }
    with Unchanged(model, message):
        model.compile(**kwargs)


def test_compiling_again_keeps_the_importances(model):
    before = values(model.consolidation.variables.values())
    method = model.consolidation
    for again in (method, EWC.from_config(method.get_config())):
        compile_model(model, "sgd", consolidation=again)
        assert model.consolidation is method
        assert_equal(values(method.variables.values()), before)
    train_tasks(model, ["ships"])


def test_accumulated_gradients_work_without_sign_steps():
    adam = keras.optimizers.Adam(gradient_accumulation_steps=2)
    model = compile_model(make_model(), adam, direction="gradient")
    train_tasks(model)


def test_direction_without_bias_units():
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(5, hidden_dim=0)(inputs)
    model = keras_bpn.BPNModel(inputs, keras.layers.Dense(6)(x))
    with pytest.raises(ValueError, match="bias units.*`direction=None`"):
        compile_model(model, direction="beneficial")
    assert not model.compiled
    train_tasks(compile_model(model, direction=None))


@pytest.mark.parametrize("hidden_dim", [-1, 2.5, "many"])
def test_hidden_dim_outside_its_range(hidden_dim):
    message = f"Received: hidden_dim={hidden_dim}"
    with pytest.raises(ValueError, match=message):
        keras_bpn.layers.BPNDense(3, hidden_dim=hidden_dim)


def test_fit_before_compile():
    with pytest.raises(ValueError, match="compile"):
        make_model().fit(*make_data(), task="a")


def test_only_functional_models():
    with pytest.raises(TypeError, match="from inputs and outputs"):
        keras_bpn.BPNModel()
