import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bpn.models.task_data import TaskData


class Frame:
    """Stands for a data frame: no array, but it can be turned into one."""

    def __init__(self, values):
        self.values = values

    def __array__(self, dtype=None, copy=None):
        return np.array(self.values, dtype)


class Batches(keras.utils.PyDataset):
    """Ten examples in batches of four, without end if `endless`."""

    def __init__(self, endless=False):
        super().__init__()
        self.endless = endless

    @property
    def num_batches(self):
        return None if self.endless else 3

    def __getitem__(self, i):
        start = 4 * (i % 3)
        return X[start : start + 4], Y[start : start + 4]


X = np.arange(20, dtype="float32").reshape(10, 2)
Y = np.arange(10) % 3


def dataset():
    return tf.data.Dataset.from_tensor_slices((X, Y)).batch(4)


def generator():
    return (Batches()[i] for i in range(3))


def check_batches(batches, sizes=(4, 4, 2)):
    """Checks that batches hold the first of `X` and `Y`, in order."""
    batches = list(batches)
    assert [len(x) for x, _, _ in batches] == list(sizes)
    n = sum(sizes)
    np.testing.assert_array_equal(
        np.concatenate([b[0] for b in batches]), X[:n]
    )
    np.testing.assert_array_equal(
        np.concatenate([b[1] for b in batches]), Y[:n]
    )
    assert all(weight is None for _, _, weight in batches)


@pytest.mark.parametrize(
    "convert",
    [np.asarray, tf.convert_to_tensor, Frame],
    ids=["numpy", "tensorflow", "frame"],
)
def test_arrays(convert):
    data = TaskData(convert(X), convert(Y), batch_size=4)
    assert data.in_memory
    assert data.num_examples == 10
    assert not data.read_once
    assert not data.endless
    check_batches(data)
    check_batches(data)


def test_default_batch_size_is_that_of_keras():
    data = TaskData(np.zeros((70, 1)))
    assert [len(x) for x, _, _ in data] == [32, 32, 6]
    assert next(iter(data))[1:] == (None, None)


def test_double_precision_becomes_the_type_of_keras():
    data = TaskData(X.astype("float64"), Y, Frame([1.0] * 10))
    assert data.x.dtype == data.sample_weight.dtype == np.float32
    assert data.y.dtype == Y.dtype


def test_dictionaries_and_lists():
    inputs = {"a": X, "b": [Y, tf.constant(X[:, 0])]}
    data = TaskData(inputs, {"c": Y}, batch_size=4)
    assert data.in_memory
    assert data.num_examples == 10
    x, y, weight = list(data)[1]
    np.testing.assert_array_equal(x["a"], X[4:8])
    np.testing.assert_array_equal(x["b"][0], Y[4:8])
    np.testing.assert_array_equal(x["b"][1], X[4:8, 0])
    np.testing.assert_array_equal(y["c"], Y[4:8])
    assert weight is None


def test_sample_weights_travel_along():
    weights = np.linspace(0, 1, 10).astype("float32")
    batches = list(TaskData(X, Y, weights, batch_size=4))
    np.testing.assert_array_equal(
        np.concatenate([w for _, _, w in batches]), weights
    )


def test_pieces_are_not_the_batches():
    data = TaskData(X, Y, batch_size=4, class_weight={1: 2.0})
    pieces = list(data.pieces(7))
    assert [len(x) for x, _, _ in pieces] == [7, 3]
    for whole, parts in zip((X, Y), zip(*pieces)):
        np.testing.assert_array_equal(np.concatenate(parts), whole)
    weights = np.concatenate([w for _, _, w in pieces])
    np.testing.assert_array_equal(weights, np.where(Y == 1, 2.0, 1.0))

    data = TaskData(X, Y, batch_size=4, steps_per_epoch=2)
    assert [len(x) for x, _, _ in data.pieces(7)] == [7, 1]


@pytest.mark.parametrize("source", [dataset, Batches])
def test_sources_are_read_again(source):
    data = TaskData(source())
    assert not data.in_memory
    assert not data.read_once
    assert not data.endless
    check_batches(data)
    check_batches(data)


def test_generator_is_read_once():
    data = TaskData(generator())
    assert not data.in_memory
    assert data.read_once
    check_batches(data)
    assert list(data) == []


@pytest.mark.parametrize(
    "source",
    [lambda: dataset().repeat(), lambda: Batches(endless=True)],
    ids=["dataset", "py_dataset"],
)
def test_endless_sources(source):
    assert TaskData(source()).endless
    data = TaskData(source(), steps_per_epoch=2)
    assert not data.endless
    check_batches(data, sizes=(4, 4))


def test_finite_dataset_of_unknown_size_is_not_endless():
    unknown = dataset().filter(lambda x, y: True)
    assert unknown.cardinality() == tf.data.UNKNOWN_CARDINALITY
    assert not TaskData(unknown).endless


@settings(deadline=None, max_examples=30)
@given(st.integers(1, 60), st.integers(1, 12))
def test_steps_per_epoch_sets_the_batch_size_of_arrays(size, steps):
    data = TaskData(np.zeros((size, 1)), steps_per_epoch=steps)
    # As in Keras: the smallest batches with which the steps cover the data.
    assert data.batch_size == -(-size // steps)
    assert sum(len(x) for x, _, _ in data) == size
    given_size = TaskData(np.zeros((size, 1)), batch_size=2, steps_per_epoch=1)
    assert [len(x) for x, _, _ in given_size] == [min(2, size)]


LABELS = np.array([0, 2, 1, 2, 0])
WEIGHTS = [0.5, 3.0, 1.0, 3.0, 0.5]


@pytest.mark.parametrize(
    "y",
    [LABELS, LABELS[:, None], LABELS.astype("float32"), np.eye(3)[LABELS]],
    ids=["integers", "column", "floats", "one-hot"],
)
def test_class_weights(y):
    # Class 1 is not listed and counts 1.
    data = TaskData(X[:5], y, class_weight={0: 0.5, 2: 3.0}, batch_size=3)
    weights = [w for _, _, w in data]
    assert [len(w) for w in weights] == [3, 2]
    assert all(w.dtype == np.float32 for w in weights)
    assert np.concatenate(weights).tolist() == WEIGHTS


def test_class_weights_of_a_dataset():
    batches = tf.data.Dataset.from_tensor_slices((X[:5], LABELS)).batch(5)
    data = TaskData(batches, class_weight={0: 0.5, 2: 3.0})
    assert next(iter(data))[2].tolist() == WEIGHTS


@settings(deadline=None, max_examples=40)
@given(st.integers(1, 40), st.floats(0.01, 0.99))
def test_split_is_that_of_keras(size, fraction):
    x, y = np.arange(size), np.arange(size) + 100
    # keras.Model.fit: floor(n * (1 - validation_split)) first examples.
    first = int(np.floor(size * (1.0 - fraction)))
    data = TaskData(x, y, batch_size=7, class_weight={0: 2.0})
    if first in (0, size):
        with pytest.raises(ValueError, match=f"validation_split={fraction}"):
            data.split(fraction)
        return
    training, (x_last, y_last) = data.split(fraction)
    np.testing.assert_array_equal(training.x, x[:first])
    np.testing.assert_array_equal(training.y, y[:first])
    np.testing.assert_array_equal(x_last, x[first:])
    np.testing.assert_array_equal(y_last, y[first:])
    assert training.batch_size == 7
    assert training.class_weight == {0: 2.0}


def test_split_of_structures_with_weights():
    data = TaskData({"a": X, "b": tf.constant(Y)}, Y, np.ones(10))
    training, (x, y, weights) = data.split(0.3)
    assert training.num_examples == len(training.sample_weight) == 7
    np.testing.assert_array_equal(x["b"], Y[7:])
    np.testing.assert_array_equal(y, Y[7:])
    assert len(weights) == 3


@pytest.mark.parametrize("source", [dataset, Batches, generator])
def test_split_needs_arrays(source):
    with pytest.raises(ValueError, match="Expected arrays where"):
        TaskData(source()).split(0.5)


def indices(data, seed, epoch, epochs):
    """Returns the examples of each batch of some epochs, as lists."""
    variable = tf.Variable(0, dtype=tf.int64)
    dataset = data.epochs(True, seed, variable).batches()
    found = []
    for number in range(epoch, epoch + epochs):
        variable.assign(number)
        found.append([b.numpy().tolist() for b in dataset])
        assert len(found[-1]) == dataset.cardinality()
    return found


@settings(deadline=None, max_examples=12)
@given(st.integers(1, 30), st.integers(1, 12), st.integers(0, 2**31 - 1))
def test_shuffled_epochs(size, batch_size, seed):
    data = TaskData(np.arange(size), batch_size=batch_size)
    epochs = indices(data, seed, 0, 4)
    # All batches are full but the last, which holds the rest.
    num_full, rest = divmod(size, batch_size)
    sizes = [batch_size] * num_full + [rest] * (rest > 0)
    for batches in epochs:
        assert [len(b) for b in batches] == sizes
        assert sorted(sum(batches, [])) == list(range(size))
    if size > 12:
        assert epochs[0] != epochs[1]
        assert epochs[1] != epochs[2]
    # The order depends on seed and epoch alone.
    assert indices(data, seed, 0, 1) == epochs[:1]
    assert indices(data, seed, 2, 2) == epochs[2:]


def test_shuffled_order_depends_on_the_seed():
    data = TaskData(np.arange(50), batch_size=50)
    assert indices(data, 1, 0, 1) != indices(data, 2, 0, 1)


def test_shuffled_keeps_examples_together():
    weights = np.arange(10) / 10
    data = TaskData([X, {"y": Y}], {"t": Y}, weights, batch_size=4)
    epoch = tf.Variable(0, dtype=tf.int64)
    batches = data.epochs(True, 5, epoch).batches()
    assert batches.cardinality() == 3
    for (x, named), y, weight in batches:
        rows = x.numpy()[:, 0].astype(int) // 2
        np.testing.assert_array_equal(x, X[rows])
        np.testing.assert_array_equal(named["y"], Y[rows])
        np.testing.assert_array_equal(y["t"], Y[rows])
        np.testing.assert_allclose(weight, rows / 10)


def test_lengths_must_agree():
    for arrays in (
        (X, Y[:9]),
        (X, Y, np.ones(3)),
        ({"a": X, "b": X[:4]}, Y),
        (X[:0], Y[:0]),
    ):
        with pytest.raises(ValueError, match="same number.*lengths \\["):
            TaskData(*arrays)
    with pytest.raises(ValueError, match="one entry per example"):
        TaskData(X, np.array(3))


def test_one_kind_of_weights():
    with pytest.raises(ValueError, match="`sample_weight` or `class_weight`"):
        TaskData(X, Y, np.ones(10), class_weight={0: 1.0})


def test_weights_in_a_dataset_and_of_classes_are_refused():
    weighted = tf.data.Dataset.from_tensor_slices((X, Y, X[:, 0])).batch(4)
    with pytest.raises(ValueError, match="class_weight"):
        list(TaskData(weighted, class_weight={0: 2.0}))
