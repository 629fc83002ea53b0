import functools
import json
import sys

import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

import keras_bpn
from keras_bpn.layers import BPNDense
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values

# Of kernels and biases of the network.
SHAPES = [(6, 12), (12,), (12, 9), (9,), (9, 6), (6,)]


@functools.cache
def trained(method="BD+fine-tuning", names=("0/1", "birds")):
    """Returns a model that no test is to change."""
    arguments = keras_bpn.methods.get(method)
    model = compile_model(make_model(), **arguments)
    return train_tasks(model, names, epochs=1)


def predict(model, task):
    return model.predict(make_data()[0], task=task, verbose=0)


def default_signature(path):
    loaded = tf.saved_model.load(str(path))
    signature = loaded.signatures["serving_default"]
    # It is gone once nobody holds the loaded object.
    signature.loaded = loaded
    return signature


def call(path, **kwargs):
    inputs = {name: tf.constant(value) for name, value in kwargs.items()}
    return default_signature(path)(**inputs)["output_0"].numpy()


@pytest.mark.parametrize("method", ["BD+PSP", "BD+fine-tuning", "PSP"])
def test_one_mode_is_the_plain_network_to_the_bit(tmp_path, method):
    model = trained(method)
    x = make_data()[0]
    for task in model.tasks:
        path = tmp_path / task.replace("/", "-")
        model.export(path, task=task, verbose=False)
        loaded = tf.saved_model.load(str(path))
        np.testing.assert_array_equal(loaded.serve(x), predict(model, task))
        # A kernel and a bias for each of three layers.
        shapes = sorted(tuple(v.shape) for v in loaded._all_variables)
        assert shapes == sorted(SHAPES)


@pytest.mark.parametrize("method", ["BD+PSP", "BD+fine-tuning"])
def test_mixed_batches_are_the_signatures_of_the_tasks(tmp_path, method):
    model = trained(method, ("0/1", "birds", "c"))
    model.export(tmp_path / "all", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "all"))
    x = tf.constant(make_data()[0])
    names = {"0/1": "task_0_1", "birds": "birds", "c": "c"}
    tasks = [list(names)[i % 3] for i in range(len(x))]
    mixed = loaded.signatures["serving_default"](
        inputs=x, task=tf.constant(tasks)
    )["output_0"].numpy()
    for task, name in names.items():
        alone = loaded.signatures[name](inputs=x)["output_0"].numpy()
        chosen = np.array(tasks) == task
        np.testing.assert_array_equal(mixed[chosen], alone[chosen])
        np.testing.assert_array_equal(
            call(tmp_path / "all", inputs=x, task=task), alone
        )
        np.testing.assert_array_equal(alone, predict(model, task))


def test_no_variable_of_training_is_saved(tmp_path):
    model = trained()
    model.export(tmp_path / "all", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "all"))
    shapes = sorted(tuple(v.shape) for v in loaded._all_variables)
    # Kernels, and a row for each task with the biases of all layers.
    assert shapes == sorted([*SHAPES[::2], (2, 12 + 9 + 6)])


def test_signatures_have_names_shapes_and_types(tmp_path):
    model = trained()
    model.export(tmp_path / "all", verbose=False)
    signatures = tf.saved_model.load(str(tmp_path / "all")).signatures
    inputs = tf.TensorSpec((None, 6), "float32", name="inputs")
    task = tf.TensorSpec(None, "string", name="task")
    expected = {
        "task_0_1": {"inputs": inputs},
        "birds": {"inputs": inputs},
        "serving_default": {"inputs": inputs, "task": task},
    }
    assert set(signatures) == set(expected)
    for name, signature in signatures.items():
        assert signature.structured_input_signature == ((), expected[name])
        (output,) = signature.structured_outputs.items()
        assert output[0] == "output_0" and output[1].shape == (None, 6)


def test_names_of_tasks_are_listed(tmp_path):
    model = trained()
    model.export(tmp_path / "all", verbose=False)
    listed = json.loads((tmp_path / "all/assets.extra/tasks.json").read_text())
    assert listed == {"task_0_1": "0/1", "birds": "birds"}


def test_unknown_names_fail_with_a_list_of_tasks(tmp_path):
    model = trained()
    model.export(tmp_path / "all", verbose=False)
    x = make_data()[0]
    with pytest.raises(
        tf.errors.InvalidArgumentError, match=r"\[0/1, birds\].*bird"
    ):
        call(tmp_path / "all", inputs=x, task="bird")
    with pytest.raises(tf.errors.InvalidArgumentError, match="Received:.*nix"):
        tasks = ["birds"] * (len(x) - 1) + ["nix"]
        call(tmp_path / "all", inputs=x, task=tasks)
    with pytest.raises(tf.errors.InvalidArgumentError, match="for each"):
        call(tmp_path / "all", inputs=x, task=["birds"] * 3)


def test_batches_may_have_any_size(tmp_path):
    model = trained()
    model.export(tmp_path / "all", verbose=False)
    model.export(tmp_path / "one", task="birds", verbose=False)
    for size in (1, 2, 77):
        x = np.random.rand(size, 6).astype("float32")
        expected = model.predict(x, task="birds", verbose=0)
        for outputs in (
            call(tmp_path / "one", inputs=x),
            call(tmp_path / "all", inputs=x, task="birds"),
            call(tmp_path / "all", inputs=x, task=["birds"] * size),
        ):
            np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_some_of_the_tasks(tmp_path):
    model = trained(names=("a", "b", "c"))
    model.export(tmp_path / "some", task=["a", "c"], verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "some"))
    assert set(loaded.signatures) == {"a", "c", "serving_default"}
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"\[a, c\]"):
        call(tmp_path / "some", inputs=make_data()[0], task="b")


def test_a_model_that_goes_on_learning_is_not_disturbed(tmp_path):
    def train(export):
        keras.utils.set_random_seed(3)
        model = train_tasks(compile_model(make_model()), ("a",))
        if export:
            model.task = None
            model.export(tmp_path / "all", verbose=False)
            model.export(tmp_path / "one", task="a", verbose=False)
            assert model.task is None
        return train_tasks(model, ("b",))

    assert_equal(values(train(False).weights), values(train(True).weights))


def test_more_tasks_than_there_was_room_for(tmp_path):
    model = trained(names=tuple(f"t{i}" for i in range(9)))
    model.export(tmp_path / "all", verbose=False)
    x = make_data()[0]
    for task in ("t0", "t8"):
        np.testing.assert_array_equal(
            call(tmp_path / "all", inputs=x, task=task), predict(model, task)
        )


def test_tasks_that_were_copied_removed_and_renamed(tmp_path):
    model = compile_model(
        make_model(), consolidation=keras_bpn.consolidation.PSP(3)
    )
    train_tasks(model, ("a", "b"), epochs=1)
    model.copy_task("a", "a again")
    model.remove_task("a")
    train_tasks(model, ("c",), epochs=1)
    model.rename_task("c", "new")
    model.export(tmp_path / "all", verbose=False)
    x = make_data()[0]
    for task in ("b", "a again", "new"):
        expected = predict(model, task)
        path = tmp_path / task
        model.export(path, task=task, verbose=False)
        np.testing.assert_array_equal(call(path, inputs=x), expected)
        np.testing.assert_array_equal(
            call(tmp_path / "all", inputs=x, task=task), expected
        )


# Networks of other kinds.


def make_heads():
    inputs = keras.Input((6,), name="pixels")
    x = BPNDense(8, activation="relu")(inputs)
    outputs = keras_bpn.layers.TaskHeads(activation="softmax")(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    model.compile(
        "adam",
        "sparse_categorical_crossentropy",
        consolidation=keras_bpn.consolidation.PSP(1),
    )
    x = np.random.rand(20, 6).astype("float32")
    for task, classes in (("few", 2), ("many", 5)):
        y = np.arange(20) % classes
        model.fit(x, y, task=task, verbose=0)
    return model, x


def test_heads_of_their_own(tmp_path):
    model, x = make_heads()
    model.export(tmp_path / "all", verbose=False)
    loaded = tf.saved_model.load(str(tmp_path / "all"))
    for task, classes in (("few", 2), ("many", 5)):
        expected = predict_on(model, x, task)
        assert expected.shape == (20, classes)
        model.export(tmp_path / task, task=task, verbose=False)
        np.testing.assert_array_equal(call(tmp_path / task, pixels=x), expected)
        alone = loaded.signatures[task](pixels=tf.constant(x))["output_0"]
        np.testing.assert_array_equal(alone, expected)
    tasks = ["few", "many"] * 10
    np.testing.assert_allclose(
        call(tmp_path / "all", pixels=x, task=tasks),
        model.predict(x, task=tasks, verbose=0),
        atol=1e-6,
    )


def predict_on(model, x, task):
    return model.predict(x, task=task, verbose=0)


@pytest.mark.parametrize("classes", ["seen", "task"])
def test_masks_of_classes(tmp_path, classes):
    inputs = keras.Input((6,))
    x = BPNDense(6, hidden_dim=5)(inputs)
    model = keras_bpn.BPNModel(inputs, keras_bpn.layers.ClassMask(classes)(x))
    train_tasks(compile_model(model, consolidation=None))
    model.export(tmp_path / "all", verbose=False)
    for task in model.tasks:
        model.export(tmp_path / task, task=task, verbose=False)
        expected = predict(model, task)
        assert (expected == -1e4).any()
        x = make_data()[0]
        np.testing.assert_array_equal(call(tmp_path / task, inputs=x), expected)
        np.testing.assert_array_equal(
            call(tmp_path / "all", inputs=x, task=task), expected
        )


def test_several_inputs_and_outputs(tmp_path):
    first = keras.Input((3,), name="first")
    second = keras.Input((4,), name="task")
    x = keras.layers.Concatenate()([first, second])
    shared = BPNDense(5, activation="tanh")(x)
    model = keras_bpn.BPNModel(
        [first, second], {"a": BPNDense(2)(shared), "b": BPNDense(3)(shared)}
    )
    model.compile("adam", {"a": "mse", "b": "mse"})
    x = [np.random.rand(8, n).astype("float32") for n in (3, 4)]
    y = {"a": np.random.rand(8, 2), "b": np.random.rand(8, 3)}
    model.fit(x, y, task="t", verbose=0)
    expected = model.predict(x, task="t", verbose=0)
    model.export(tmp_path / "all", verbose=False)
    model.export(tmp_path / "one", task="t", verbose=False)
    given = {"first": tf.constant(x[0]), "task": tf.constant(x[1])}
    one = default_signature(tmp_path / "one")(**given)
    # One of the inputs has the name that the names of tasks would have.
    every = default_signature(tmp_path / "all")(
        **given, task_name=tf.constant("t")
    )
    for name in ("a", "b"):
        np.testing.assert_array_equal(one[name], expected[name])
        np.testing.assert_array_equal(every[name], expected[name])


def test_preprocessing_and_layers_without_tasks_are_exported(tmp_path):
    words = keras.Input((), dtype="string", name="words")
    lookup = keras.layers.StringLookup(
        vocabulary=["a", "b", "c"], output_mode="one_hot"
    )
    x = keras.layers.Rescaling(0.5)(lookup(words))
    x = keras.layers.BatchNormalization()(x)
    x = keras.layers.Dropout(0.5)(x)
    model = keras_bpn.BPNModel(words, BPNDense(2)(x))
    model.compile("adam", "mse")
    x = tf.constant(["a", "b", "c", "d"])
    data = tf.data.Dataset.from_tensor_slices((x, np.eye(4)[:, :2])).batch(2)
    model.fit(data, task="t", verbose=0)
    expected = np.asarray(model(x, task="t", training=False))
    model.export(tmp_path / "all", verbose=False)
    model.export(tmp_path / "one", task="t", verbose=False)
    for path, kwargs in (("one", {}), ("all", {"task": "t"})):
        outputs = call(tmp_path / path, words=x, **kwargs)
        np.testing.assert_allclose(outputs, expected, atol=1e-6)


def test_nested_networks(tmp_path):
    inner_inputs = keras.Input((6,))
    inner = keras.Model(inner_inputs, BPNDense(4, "relu")(inner_inputs))
    inputs = keras.Input((6,))
    model = keras_bpn.BPNModel(inputs, BPNDense(6)(inner(inputs)))
    train_tasks(compile_model(model, consolidation=None))
    model.export(tmp_path / "one", task="b", verbose=False)
    np.testing.assert_array_equal(
        call(tmp_path / "one", inputs=make_data()[0]), predict(model, "b")
    )


def test_half_precision(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    model = compile_model(
        make_model(), consolidation=keras_bpn.consolidation.PSP(3)
    )
    train_tasks(model, ("birds",))
    model.export(tmp_path / "one", task="birds", verbose=False)
    np.testing.assert_allclose(
        call(tmp_path / "one", inputs=make_data()[0]),
        predict(model, "birds"),
        atol=0.02,
    )


# Bad input.


def test_tasks_that_have_not_ended(tmp_path):
    model = train_tasks(compile_model(make_model()), ("a",))
    model.add_task("later")
    model.fit(*make_data(1), task="b", consolidate=False, verbose=0)
    path = tmp_path / "x"
    with pytest.raises(ValueError, match="consolidate.*'b', which is open"):
        model.export(path, task="b")
    with pytest.raises(ValueError, match="consolidate.*'b', which is open"):
        model.export(path)
    with pytest.raises(ValueError, match="'later', which was only added"):
        model.export(path, task="later")
    with pytest.raises(ValueError, match="Did you mean 'later'"):
        model.export(path, task="latr")
    with pytest.raises(ValueError, match="each once"):
        model.export(path, task=["a", "a"])
    assert not list(tmp_path.iterdir())
    # In the mode of an ended task, nothing of the open one plays a part.
    model.export(path, task="a", verbose=False)
    np.testing.assert_array_equal(
        call(path, inputs=make_data()[0]), predict(model, "a")
    )
    model.export(path, task=["a"], overwrite=True, verbose=False)
    np.testing.assert_array_equal(
        call(path, inputs=make_data()[0], task="a"), predict(model, "a")
    )


def test_models_without_tasks(tmp_path):
    with pytest.raises(ValueError, match="a task that has ended"):
        compile_model(make_model()).export(tmp_path / "x")


def test_what_is_there_is_replaced_only_on_demand(tmp_path):
    model = trained()
    path = tmp_path / "x"
    model.export(path, task="0/1", verbose=False)
    before = call(path, inputs=make_data()[0])
    with pytest.raises(FileExistsError, match="overwrite=True"):
        model.export(path, task="birds")
    np.testing.assert_array_equal(call(path, inputs=make_data()[0]), before)
    model.export(path, task="birds", overwrite=True, verbose=False)
    np.testing.assert_array_equal(
        call(path, inputs=make_data()[0]), predict(model, "birds")
    )


@pytest.mark.parametrize("overwrite", [False, True])
def test_an_export_that_fails_leaves_nothing(tmp_path, monkeypatch, overwrite):
    model = trained()
    path = tmp_path / "x"
    if overwrite:
        model.export(path, task="0/1", verbose=False)
    before = sorted(tmp_path.rglob("*"))

    def fail(*args, **kwargs):
        raise RuntimeError("disk full")

    monkeypatch.setattr("keras_bpn.export.saved_model._write_tasks", fail)
    for task in ("birds", None):
        with pytest.raises(RuntimeError, match="disk full"):
            model.export(path, task=task, overwrite=overwrite)
    assert sorted(tmp_path.rglob("*")) == before
    if overwrite:
        np.testing.assert_array_equal(
            call(path, inputs=make_data()[0]), predict(model, "0/1")
        )


def test_formats_and_paths(tmp_path):
    model = trained()
    with pytest.raises(ValueError, match="one of .*Received: format='h5'"):
        model.export(tmp_path / "x", format="h5")
    with pytest.raises(ValueError, match="ends in '.tflite'"):
        model.export(tmp_path / "x", format="litert")
    with pytest.raises(ValueError, match="no further options"):
        model.export(tmp_path / "x", optimizations=[])
    with pytest.raises(ValueError, match="attributes of.*nonsense=3"):
        model.export(tmp_path / "x.tflite", format="litert", nonsense=3)
    assert not list(tmp_path.iterdir())


def test_missing_packages_are_named(tmp_path, monkeypatch):
    model = trained()
    monkeypatch.setitem(sys.modules, "tf2onnx", None)
    with pytest.raises(ImportError, match=r"'tf2onnx'.*keras-bpn\[export\]"):
        model.export(tmp_path / "x.onnx", format="onnx")


# Names of tasks.


def test_onnx_of_what_it_cannot_express_is_refused(tmp_path):
    pytest.importorskip("tf2onnx")
    inputs = keras.Input((6,))
    normalization = keras.layers.Normalization()
    normalization.adapt(make_data()[0])
    outputs = BPNDense(6, hidden_dim=5)(normalization(inputs))
    model = keras_bpn.BPNModel(inputs, outputs)
    train_tasks(compile_model(model, consolidation=None), ("a",), epochs=1)
    for task in ("a", None):
        with pytest.raises(ValueError, match="that ONNX can express"):
            model.export(tmp_path / "x.onnx", format="onnx", task=task)
    assert not list(tmp_path.iterdir())


ODD = ["a b", "a/b", "A-B", "é" * 300, "0\n\t'1\"", "serving_default"]


def test_onnx_takes_any_name(tmp_path):
    onnxruntime = pytest.importorskip("onnxruntime")
    pytest.importorskip("tf2onnx")
    model = train_tasks(compile_model(make_model((4,))), ODD, epochs=1)
    model.export(tmp_path / "all.onnx", format="onnx", verbose=False)
    session = onnxruntime.InferenceSession(tmp_path / "all.onnx")
    x = make_data()[0]
    for task in ODD:
        (outputs,) = session.run(
            None, {"inputs": x, "task": np.array([task], object)}
        )
        np.testing.assert_allclose(outputs, predict(model, task), atol=1e-5)


@pytest.mark.slow
@settings(max_examples=3, deadline=None)
@example(ODD)
@given(
    st.lists(
        st.text(min_size=1, max_size=300), unique=True, min_size=2, max_size=4
    )
)
def test_tasks_of_any_name_can_be_called(tmp_path_factory, tasks):
    Interpreter = pytest.importorskip("ai_edge_litert.interpreter").Interpreter
    folder = tmp_path_factory.mktemp("names")
    model = compile_model(make_model((4,)), consolidation=None)
    train_tasks(model, [tasks[0]], epochs=1)
    for task in tasks[1:]:
        train_tasks(model, [task], epochs=1)
    model.export(folder / "all", verbose=False)
    model.export(folder / "all.tflite", format="litert", verbose=False)
    loaded = tf.saved_model.load(str(folder / "all"))
    listed = json.loads((folder / "all/assets.extra/tasks.json").read_text())
    assert sorted(listed.values()) == sorted(tasks)
    x = make_data()[0]
    interpreter = Interpreter(str(folder / "all.tflite"))
    for name, task in listed.items():
        expected = predict(model, task)
        for outputs in (
            loaded.signatures[name](inputs=tf.constant(x))["output_0"],
            loaded.signatures["serving_default"](
                inputs=tf.constant(x), task=tf.constant(task)
            )["output_0"],
            interpreter.get_signature_runner(name)(inputs=x)["output_0"],
        ):
            np.testing.assert_allclose(outputs, expected, atol=1e-5)
