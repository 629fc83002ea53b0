import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.consolidation import block_sums
from keras_bpn.consolidation import pieces
from keras_bpn.consolidation.block_sums import BlockSums
from keras_bpn.models.task_data import TaskData
from tests.helpers import make_model

SIZE = 45
X = np.arange(2 * SIZE, dtype="float32").reshape(SIZE, 2)
Y = np.arange(SIZE) % 3
WEIGHTS = (1 + np.arange(SIZE) % 4).astype("float32")


class Sums:
    """Sums that are whole numbers, and so the same in every order."""

    def __init__(self):
        self.traces = 0
        self.sizes = []

    def __call__(self, x, y, weights, first):
        self.traces += 1
        places = first + tf.range(tf.shape(x)[0])
        size = tf.shape(x)[0]
        tf.py_function(lambda n: self.sizes.append(int(n)), [size], [])
        values = tf.concat([x, tf.cast(places, "float32")[:, None]], axis=1)
        if y is not None:
            values = values + tf.cast(y, "float32")[:, None]
        return [tf.linalg.matvec(values, weights, transpose_a=True)]


def expected_mean(size=SIZE, weights=WEIGHTS, y=Y):
    values = np.column_stack([X, np.arange(SIZE)])
    if y is not None:
        values = values + y[:, None]
    weights = np.ones(SIZE) if weights is None else weights
    return weights[:size] @ values[:size] / weights[:size].sum()


@pytest.fixture
def small(monkeypatch):
    """Blocks of 8 examples, which are copied 16 at a time."""
    # Written are: a slice of x, y and weights; the places as integers and as
    # floats, also as a column; values twice; labels twice.
    monkeypatch.setattr(block_sums, "_WRITTEN", 8 * 24)
    monkeypatch.setattr(pieces, "_COPIED", 16 * 4)


def make_sums(inputs=2):
    sums_of = Sums()
    return sums_of, BlockSums(make_model(inputs=inputs), sums_of, [(3,)])


def dataset():
    data = tf.data.Dataset.from_tensor_slices((X, Y, WEIGHTS))
    return TaskData(data.batch(3))


def generator():
    for start in range(0, SIZE, 7):
        stop = start + 7
        yield X[start:stop], Y[start:stop], WEIGHTS[start:stop]


@pytest.mark.parametrize(
    "make_data",
    [
        lambda: TaskData(X, Y, WEIGHTS, batch_size=3),
        lambda: TaskData(tf.constant(X), tf.constant(Y), tf.constant(WEIGHTS)),
        dataset,
        lambda: TaskData(generator()),
        lambda: list(generator()),
    ],
    ids=["arrays", "tensors", "dataset", "generator", "list"],
)
def test_mean_over_any_data(small, make_data):
    sums_of, sums = make_sums()
    (mean,) = sums.mean(make_data())
    np.testing.assert_allclose(mean, expected_mean(), rtol=1e-6)
    # Several blocks, the last of them smaller, and one trace.
    assert len(sums_of.sizes) > 1
    assert sum(sums_of.sizes) == SIZE
    assert sums_of.traces == 1


def test_blocks_have_a_size_that_follows_from_shapes(small, monkeypatch):
    def sizes(batch_size):
        sums_of, sums = make_sums()
        sums.mean(TaskData(X, Y, WEIGHTS, batch_size=batch_size))
        return sorted(sums_of.sizes, reverse=True)

    found = sizes(3)
    assert found == sizes(3)
    assert found[0] > 3
    assert found[0].bit_count() == 1
    monkeypatch.setattr(block_sums, "_WRITTEN", block_sums._WRITTEN // 2)
    assert sizes(3)[0] == found[0] // 2
    # Never smaller than the user's batches, which fit in memory.
    assert sizes(20) == [20, 20, 5]


def test_one_trace_for_tasks_of_all_sizes(small):
    sums_of, sums = make_sums()
    for size in (45, 32, 1, 17):
        (mean,) = sums.mean(TaskData(X[:size], Y[:size], WEIGHTS[:size]))
        np.testing.assert_allclose(mean, expected_mean(size), rtol=1e-6)
    assert sums_of.traces == 1


def test_weights_and_labels_may_be_missing(small):
    _, sums = make_sums()
    (mean,) = sums.mean(TaskData(X, batch_size=3))
    expected = expected_mean(weights=None, y=None)
    np.testing.assert_allclose(mean, expected, rtol=1e-6)
    (mean,) = sums.mean(TaskData(X, Y, batch_size=3))
    np.testing.assert_allclose(mean, expected_mean(weights=None), rtol=1e-6)


def test_batches_that_differ_in_kind_are_not_joined(small):
    _, sums = make_sums()
    batches = [
        (X[:5], Y[:5].astype("int32"), None),
        (X[5:9], Y[5:9].astype("int64"), None),
        (X[9:], Y[9:].astype("int64"), np.ones((SIZE - 9, 1), "float32")),
    ]
    (mean,) = sums.mean(batches)
    np.testing.assert_allclose(mean, expected_mean(weights=None), rtol=1e-6)


def test_examples_that_differ_in_size_stay_in_their_batches(small):
    sizes = []

    def count(x, y, weights, first):
        size, length = tf.unstack(tf.shape(x))[:2]
        tf.py_function(lambda n: sizes.append(int(n)), [size], [])
        return [tf.cast(size * length, "float32")]

    inputs = keras.Input((None, 2))
    sums = BlockSums(keras.Model(inputs, inputs), count, [()])
    batches = [(np.ones((5, n, 2), "float32"), None, None) for n in (3, 4, 8)]
    (mean,) = sums.mean(batches)
    assert float(mean) == (3 + 4 + 8) / 3
    assert sizes == [5, 5, 5]


def test_steps_per_epoch_end_the_data(small):
    _, sums = make_sums()
    data = TaskData(X, Y, WEIGHTS, batch_size=7, steps_per_epoch=3)
    (mean,) = sums.mean(data)
    np.testing.assert_allclose(mean, expected_mean(21), rtol=1e-6)


def test_no_data():
    _, sums = make_sums()
    with pytest.raises(ValueError, match="at least one batch"):
        sums.mean([])
