import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

import keras_bpn
from keras_bpn.layers import ClassMask
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data


def make_model(classes, **kwargs):
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=4)(inputs)
    x = keras_bpn.layers.BPNDense(6, hidden_dim=4, name="scores")(x)
    model = keras_bpn.BPNModel(inputs, ClassMask(classes)(x))
    return compile_model(model, consolidation=None, **kwargs)


def kept(model, task):
    """The classes that the outputs of a task are not masked for."""
    x, _ = make_data()
    outputs = np.asarray(model(x, task=task))
    masked = outputs == -1e4
    assert (masked == masked[0]).all()
    return np.flatnonzero(~masked[0]).tolist()


def test_classes_of_the_tasks_so_far():
    model = make_model("seen")
    x, _ = make_data()
    assert (np.asarray(model(x)) > -1e4).all()
    model.fit(*make_data(0), task="a", verbose=0)
    assert kept(model, "a") == [0, 1]
    model.fit(*make_data(2), task="c", verbose=0)
    assert kept(model, "a") == kept(model, "c") == [0, 1, 4, 5]


def test_classes_of_the_task():
    model = make_model("task")
    for t, task in enumerate("abc"):
        model.fit(*make_data(t), task=task, verbose=0)
    for t, task in enumerate("abc"):
        assert kept(model, task) == [2 * t, 2 * t + 1]
    x, _ = make_data()
    names = ["a", "c"] * 20
    mixed = np.asarray(model(x, task=names))
    for i, task in enumerate("ac"):
        alone = np.asarray(model(x, task=task))[i::2]
        np.testing.assert_allclose(mixed[i::2], alone, rtol=1e-5)


@pytest.mark.parametrize("jit", [False, True])
def test_nothing_is_learned_about_masked_classes(jit):
    model = make_model("seen", direction=None, jit_compile=jit)
    scores = model.get_layer("scores")
    before = np.asarray(scores.kernel)
    model.fit(*make_data(1), task="b", epochs=3, verbose=0)
    after = np.asarray(scores.kernel)
    changed = (before != after).any(axis=0)
    assert changed.tolist() == [False, False, True, True, False, False]


@pytest.mark.parametrize("classes", ["seen", "task"])
def test_masks_come_back_with_the_model(tmp_path, classes):
    model = make_model(classes)
    model.fit(*make_data(0), task="a", verbose=0)
    model.add_task("b", classes=[5, 2])
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.task_classes == {"a": (0, 1), "b": (2, 5)}
    for task in "ab":
        assert kept(loaded, task) == kept(model, task)
    for each in (model, loaded):
        for i in range(12):
            each.add_task(f"task {i}", classes=[i % 6])
    assert_equal(loaded.get_weights(), model.get_weights())


def test_labels_of_a_dataset_have_to_be_given():
    model = make_model("task")
    data = tf.data.Dataset.from_tensor_slices(make_data(1)).batch(8)
    with pytest.raises(ValueError, match="classes of the task to be known"):
        model.fit(data, task="b", verbose=0)
    model.add_task("b", classes=(2, 3))
    model.fit(data, task="b", verbose=0)
    assert kept(model, "b") == [2, 3]


def test_labels_outside_the_given_classes():
    model = make_model("task")
    model.add_task("a", classes=[0, 3])
    with pytest.raises(ValueError, match=r"\(0, 3\).*labels \[1\]"):
        model.fit(*make_data(0), task="a", verbose=0)
    with pytest.raises(ValueError, match="6 outputs.*Received"):
        model.add_task("b", classes=[6])
    assert model.tasks == ("a",)


def test_a_task_that_could_not_start_leaves_no_classes():
    model = make_model("seen")
    model.fit(*make_data(0), task="a", verbose=0)
    x, y = make_data(1)
    x[0] = np.nan
    with pytest.raises(ValueError, match="finite gradients"):
        model.fit(x, y, task="b", shuffle=False, verbose=0)
    assert model.task_classes == {"a": (0, 1)}
    assert kept(model, "a") == [0, 1]


CLASSES = st.sets(st.integers(0, 5)).map(lambda s: tuple(sorted(s)))


@given(
    st.lists(
        st.dictionaries(st.integers(1, 8), CLASSES, min_size=1), max_size=9
    )
)
@settings(deadline=None, max_examples=40)
def test_union_of_classes_that_come_and_go(steps):
    mask = ClassMask()
    mask.build((None, 6))
    table, expected = mask.table, np.zeros((9, 6), bool)
    for classes in steps:
        assert not mask.set_classes(classes)
        for row, labels in classes.items():
            expected[row] = np.isin(np.arange(6), labels)
        expected[0] = expected[1:].any(axis=0)
        np.testing.assert_array_equal(mask.table, expected)
    assert mask.table is table


def test_weights_of_other_tasks_bring_their_classes(tmp_path):
    model, other = make_model("seen"), make_model("seen")
    model.add_task("a", classes=[0, 1])
    model.add_task("b", classes=[1, 2])
    other.add_task("b", classes=[1, 3])
    other.save_weights(tmp_path / "other.weights.h5")
    model.load_weights(tmp_path / "other.weights.h5")
    assert model.task_classes == {"b": (1, 3)}
    assert kept(model, "b") == [1, 3]


def test_config_round_trip():
    layer = ClassMask("task")
    again = ClassMask.from_config(layer.get_config())
    assert again.get_config() == layer.get_config()
    with pytest.raises(ValueError, match="Received: classes='all'"):
        ClassMask("all")
