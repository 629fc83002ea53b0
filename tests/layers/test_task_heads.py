import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

import keras_bpn
from keras_bpn.consolidation import EWC
from keras_bpn.consolidation import PSP
from keras_bpn.layers import TaskHeads
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import values

SIZES = {"a": 2, "b": 4, "c": 3}


def make_model(direction="beneficial", consolidation=None, **kwargs):
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(12, activation="relu", hidden_dim=5)(inputs)
    model = keras_bpn.BPNModel(inputs, TaskHeads(**kwargs)(x))
    return compile_model(
        model, direction=direction, consolidation=consolidation
    )


def data_of(size):
    return make_data(0, classes=size)


def train(model, sizes=SIZES, **kwargs):
    for task, size in sizes.items():
        x, y = data_of(size)
        model.fit(x, y, task=task, batch_size=8, epochs=2, verbose=0, **kwargs)
    return model


def features(model, x, task):
    """What enters the heads, by NumPy."""
    layer = model.layers[1]
    row = model.tasks.index(task) + 1
    bias = values([layer.bias])[0] + values([layer.task_bias.table])[0][row]
    return np.maximum(x @ values([layer.kernel])[0] + bias, 0)


def test_outputs_are_those_of_a_dense_layer_of_the_task():
    model = train(make_model())
    heads = model.layers[-1]
    table = values([heads.table])[0]
    assert table.shape == (9, 13, 4)
    for row, (task, size) in enumerate(SIZES.items(), 1):
        x, _ = data_of(size)
        kernel, bias = table[row, :-1], table[row, -1]
        expected = features(model, x, task) @ kernel + bias
        outputs = np.asarray(model(x, task=task))
        np.testing.assert_allclose(
            outputs[:, :size], expected[:, :size], rtol=1e-5, atol=1e-5
        )
        np.testing.assert_array_equal(outputs[:, size:], -1e4)
        np.testing.assert_array_equal(
            model.predict(x, task=task, verbose=0), outputs[:, :size]
        )
        # What lies beyond the head was never touched.
        np.testing.assert_array_equal(table[row, :, size:], 0)


def test_heads_learn():
    model = make_model(direction=None)
    x, y = data_of(2)
    model.fit(x, y, task="a", epochs=60, batch_size=8, verbose=0)
    assert model.evaluate(x, y, task="a", verbose=0)[1] > 0.95


def test_probabilities_beyond_the_head_are_zero():
    model = make_model(activation="softmax")
    model.compile("adam", "sparse_categorical_crossentropy")
    train(model)
    x, _ = data_of(2)
    outputs = np.asarray(model(x, task="a"))
    np.testing.assert_array_equal(outputs[:, 2:], 0)
    np.testing.assert_allclose(outputs.sum(1), 1, rtol=1e-5)


@pytest.mark.parametrize("use_bias", [True, False])
def test_mixed_batches_equal_the_calls_of_each_task(use_bias):
    model = train(make_model(use_bias=use_bias))
    x, y = data_of(4)
    model.fit(x, y, task="open", verbose=0, consolidate=False)
    names = np.array([*SIZES, "open"])[np.arange(len(x)) % 4]
    mixed = np.asarray(model(x, task=list(names)))
    predicted = model.predict(x, task=list(names), verbose=0)
    for task in set(names):
        alone = np.asarray(model(x, task=task))[names == task]
        np.testing.assert_allclose(mixed[names == task], alone, rtol=1e-5)
        np.testing.assert_allclose(predicted[names == task], alone, rtol=1e-5)


def test_heads_at_several_positions():
    inputs = keras.Input((5, 6))
    model = keras_bpn.BPNModel(inputs, TaskHeads()(inputs))
    compile_model(model, direction=None, consolidation=None)
    x = np.random.default_rng(0).normal(size=(8, 5, 6)).astype("float32")
    for task, size in {"a": 2, "b": 3}.items():
        y = np.random.default_rng(1).integers(size, size=(8, 5))
        model.add_task(task, classes=size)
        model.fit(x, y, task=task, verbose=0)
    mixed = np.asarray(model(x, task=["a", "b"] * 4))
    for i, task in enumerate("ab"):
        alone = np.asarray(model(x, task=task))
        np.testing.assert_allclose(mixed[i::2], alone[i::2], rtol=1e-5)
    assert np.all(np.asarray(model(x, task="a"))[..., 2] == -1e4)


@pytest.mark.parametrize("method", [lambda: EWC(10.0), PSP, lambda: None])
def test_later_tasks_leave_old_heads_alone(method):
    model = train(make_model(consolidation=method()))
    heads = model.layers[-1]
    before = values([heads.table])[0]
    x, y = data_of(6)
    model.fit(x, y, task="wider", epochs=2, verbose=0)
    after = values([heads.table])[0]
    np.testing.assert_array_equal(after[1:4, :, :4], before[1:4])
    assert np.abs(after[4]).max() > 0
    shared = {id(v) for v in model.shared_variables}
    assert not shared & {id(v) for v in heads.variables}


def test_a_wider_head_gives_the_same_optimizer_other_variables():
    optimizer = keras.optimizers.Adam(0.01)
    model = make_model()
    compile_model(model, optimizer, consolidation=EWC(10.0))
    train(model, {"a": 2})
    model.optimizer.learning_rate = 0.5
    train(model, {"b": 5})
    assert model.optimizer is optimizer
    assert float(optimizer.learning_rate) == 0.5
    x, y = data_of(5)
    optimizer.learning_rate = 0.0
    model.epsilon = 0.0
    weights = values(model.shared_variables)
    model.fit(x, y, task="c", verbose=0)
    assert_equal(values(model.shared_variables), weights)


@pytest.mark.parametrize("method", [lambda: EWC(10.0), PSP])
def test_saved_heads_go_on_to_the_bit(tmp_path, method):
    model = train(make_model(consolidation=method()))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.task_classes == {t: tuple(range(n)) for t, n in SIZES.items()}
    for size in (3, 7):
        for each in (model, loaded):
            train(each, {f"size {size}": size})
        assert_equal(loaded.get_weights(), model.get_weights())
        assert_equal(
            values(loaded.optimizer.variables),
            values(model.optimizer.variables),
        )


def test_weights_of_wider_heads_can_be_loaded(tmp_path):
    model = train(make_model(consolidation=EWC(10.0)))
    model.save_weights(tmp_path / "model.weights.h5")
    other = make_model(consolidation=EWC(10.0))
    other.load_weights(tmp_path / "model.weights.h5")
    assert_equal(other.get_weights(), model.get_weights())
    x, _ = data_of(2)
    for task in SIZES:
        np.testing.assert_array_equal(other(x, task=task), model(x, task=task))


@pytest.mark.slow
@pytest.mark.parametrize(
    "options",
    [{"jit_compile": True}, {"run_eagerly": True}, {"steps_per_execution": 4}],
)
def test_heads_in_other_ways_of_running(options):
    losses = []
    for kwargs in ({}, options):
        keras.utils.set_random_seed(1)
        inputs = keras.Input((6,))
        x = keras_bpn.layers.BPNDense(8, "relu", hidden_dim=5)(inputs)
        model = keras_bpn.BPNModel(inputs, TaskHeads()(x))
        compile_model(model, consolidation=EWC(10.0), **kwargs)
        train(model)
        losses.append(
            [
                model.evaluate(*data_of(n), task=t, verbose=0)[0]
                for t, n in SIZES.items()
            ]
        )
    np.testing.assert_allclose(losses[0], losses[1], rtol=1e-4)


def test_heads_in_half_precision():
    keras.config.set_dtype_policy("mixed_float16")
    model = train(make_model(consolidation=EWC(10.0)))
    x, y = data_of(3)
    assert np.isfinite(model.evaluate(x, y, task="c", verbose=0)[0])
    assert model.layers[-1].table.dtype == "float32"


def test_a_dataset_needs_the_number_of_classes():
    model = make_model(consolidation=EWC(10.0))
    data = tf.data.Dataset.from_tensor_slices(data_of(3)).batch(8)
    with pytest.raises(ValueError, match="add_task.*task='birds'"):
        model.fit(data, task="birds", verbose=0)
    assert model.tasks == ()
    model.add_task("birds", classes=3)
    model.fit(data, task="birds", verbose=0)
    assert model.predict(data, task="birds", verbose=0).shape == (40, 3)


def test_storage_counts_the_head():
    model = train(make_model(), {"a": 2})
    storage = model.storage()
    # A row of twelve bias units, and a head of 12 x 2 weights and 2 biases.
    assert storage.bytes_by_part[model.layers[-1].path] == 4 * (12 * 2 + 2)
    assert storage.bytes_per_task == 4 * (12 + 12 * 2 + 2)
    assert storage.parameters == 6 * 12 + 12


@pytest.mark.parametrize(
    "classes", [0, -1, True, [1, 2], [0, 0], [0, 2], [0.5], "ab", []]
)
def test_bad_classes(classes):
    model = make_model()
    with pytest.raises(ValueError, match="Received: "):
        model.add_task("a", classes=classes)
    assert model.tasks == () and model.task_classes == {}


def test_labels_outside_the_head():
    model = make_model()
    model.add_task("a", classes=2)
    x, y = data_of(4)
    weights = model.get_weights()
    with pytest.raises(ValueError, match=r"\(0, 1\).*labels \[2, 3\]"):
        model.fit(x, y, task="a", verbose=0)
    assert_equal(model.get_weights(), weights)


def test_a_wider_head_has_to_wait_for_the_open_task():
    model = make_model()
    model.fit(*data_of(2), task="a", verbose=0, consolidate=False)
    model.add_task("b", classes=2)
    with pytest.raises(ValueError, match="no task is open.*'a'"):
        model.add_task("c", classes=3)
    assert model.tasks == ("a", "b")
    model.consolidate(*data_of(2))
    model.add_task("c", classes=3)


def test_a_mode_has_to_be_named():
    model = train(make_model())
    model.task = None
    x, _ = data_of(2)
    with pytest.raises(ValueError, match="head of its own.*'a', 'b', 'c'"):
        model.predict(x, verbose=0)


@settings(max_examples=10, deadline=None)
@given(st.lists(st.integers(1, 9), min_size=1, max_size=12))
def test_any_sizes_in_any_order(sizes):
    model = make_model()
    for i, size in enumerate(sizes):
        model.add_task(str(i), classes=size)
    x, _ = data_of(2)
    for i, size in enumerate(sizes):
        outputs = np.asarray(model(x, task=str(i)))
        assert outputs.shape == (len(x), max(sizes))
        assert (outputs[:, :size] > -1e4).all()
        assert (outputs[:, size:] == -1e4).all()


def test_config_round_trip():
    layer = TaskHeads("relu", False, "zeros", "ones", width=5, seed=3)
    again = TaskHeads.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    with pytest.raises(ValueError, match="width.*Received: width=0"):
        TaskHeads(width=0)


def test_rows_hold_the_outputs_of_their_task_alone():
    heads = TaskHeads(width=4)
    heads.build((None, 3))
    heads.set_classes({1: (0, 1), 2: (0, 1, 2)})
    head = np.arange(12, dtype="float32").reshape(4, 3)
    heads.write_row(2, head)
    np.testing.assert_array_equal(heads.read_row(2), head)
    np.testing.assert_array_equal(heads.table[2, :, 3], np.zeros(4))
    assert heads.read_row(1).shape == (4, 2)
    heads.clear(2)
    assert heads.read_row(2).shape == (4, 0)
    assert not np.any(heads.table) and heads.sizes.numpy()[1:3].tolist() == [
        2,
        0,
    ]
