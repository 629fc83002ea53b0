import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bpn.scenarios import Examples
from keras_bpn.scenarios.sources import MemorySource
from keras_bpn.scenarios.transform import Transform
from tests.scenarios.helpers import collect


def make_examples(size=10, extra=3, **transform):
    """Examples whose label is their index, among others."""
    y = np.arange(size + extra)
    x = np.stack([y, 2 * y, 3 * y, 4 * y], axis=1).astype("uint8")
    source = MemorySource(x, y)
    return Examples(
        source,
        source.fixed_order(np.arange(extra, size + extra)),
        Transform(**transform),
    )


def test_batches_hold_what_the_indices_say():
    examples = make_examples(5, extra=2)
    batches = list(examples.batches(2).as_numpy_iterator())
    assert [len(x) for x, _ in batches] == [2, 2, 1]
    x, y = (np.concatenate(part) for part in zip(*batches))
    assert x.dtype == "float32" and y.dtype == "int32"
    assert sorted(y) == [2, 3, 4, 5, 6]
    np.testing.assert_array_equal(y, examples.labels)
    np.testing.assert_array_equal(y, examples.indices)
    expected = np.outer(y, [1, 2, 3, 4]).astype("float32") / np.float32(255)
    np.testing.assert_array_equal(x, expected)
    for array, expected in zip(examples.arrays(), (x, y)):
        np.testing.assert_array_equal(array, expected)
        assert array.dtype == expected.dtype


@settings(max_examples=15, deadline=None)
@given(
    size=st.integers(1, 40),
    batch_size=st.integers(1, 17),
    seed=st.integers(0, 2**63 - 1),
    epoch=st.integers(0, 1000),
    skip=st.integers(0, 6),
)
def test_an_epoch_is_a_permutation_and_skip_gives_its_tail(
    size, batch_size, seed, epoch, skip
):
    examples = make_examples(size)
    order = {"seed": seed, "epoch": epoch}
    dataset = examples.batches(batch_size, **order)
    labels = [y.tolist() for _, y in dataset.as_numpy_iterator()]
    assert dataset.cardinality() == len(labels) == -(-size // batch_size)
    assert all(len(batch) == batch_size for batch in labels[:-1])
    assert sorted(sum(labels, [])) == sorted(examples.labels)
    variables = {
        "epoch": tf.Variable(epoch, dtype=tf.int64),
        "skip": tf.Variable(skip, dtype=tf.int64),
    }
    for arguments in (order | {"skip": skip}, order | variables):
        tail = examples.batches(batch_size, **arguments)
        tail = [y.tolist() for _, y in tail.as_numpy_iterator()]
        assert tail == labels[skip:]


def test_order_is_a_function_of_seed_and_epoch_alone():
    first, second = make_examples(200), make_examples(200)

    def order(examples, **kwargs):
        return collect(examples.batches(7, **kwargs))[1].tolist()

    assert order(first, seed=3, epoch=4) == order(second, seed=3, epoch=4)
    orders = {
        tuple(order(first, seed=seed, epoch=epoch))
        for seed in range(3)
        for epoch in range(3)
    }
    assert len(orders) == 9
    # Whatever the size of the batches is.
    whole = collect(first.batches(200, seed=3, epoch=4))[1].tolist()
    assert whole == order(first, seed=3, epoch=4)


def test_variables_are_read_when_the_dataset_is_iterated_over():
    examples = make_examples(50)
    epoch = tf.Variable(0, dtype=tf.int64)
    skip = tf.Variable(0, dtype=tf.int64)
    dataset = examples.batches(8, seed=1, epoch=epoch, skip=skip)
    for e, s in [(0, 0), (2, 1), (2, 6), (5, 7), (1, 0)]:
        epoch.assign(e)
        skip.assign(s)
        expected = examples.batches(8, seed=1, epoch=e)
        expected = [y.tolist() for _, y in expected.as_numpy_iterator()][s:]
        assert [y.tolist() for _, y in dataset.as_numpy_iterator()] == expected
    assert dataset.cardinality() == tf.data.UNKNOWN_CARDINALITY


def test_a_function_is_called_once_per_pass():
    examples = make_examples(20)
    passes = tf.Variable(-1, dtype=tf.int64)
    dataset = examples.batches(6, seed=1, epoch=lambda: passes.assign_add(1))
    for epoch in range(3):
        expected = collect(examples.batches(6, seed=1, epoch=epoch))[1]
        np.testing.assert_array_equal(collect(dataset)[1], expected)
    assert passes.numpy() == 2


def test_reshape_keeps_everything_else():
    examples = make_examples(6)
    square = examples.reshape((2, 2))
    assert examples.shape == (4,) and square.shape == (2, 2)
    assert square.source is examples.source and len(square) == 6
    np.testing.assert_array_equal(
        square.arrays()[0], examples.arrays()[0].reshape((-1, 2, 2))
    )
    back = square.reshape([4])
    np.testing.assert_array_equal(back.arrays()[0], examples.arrays()[0])
    for shape in [(3,), (2, 3), (-1,), (-2, -2), ()]:
        with pytest.raises(ValueError, match="4 entries.*Received: shape="):
            examples.reshape(shape)


def test_shape_is_that_after_preprocessing():
    examples = make_examples(
        3, preprocess=lambda x: tf.concat([x, -x], axis=-1)
    )
    assert examples.shape == (8,)
    assert examples.arrays()[0].shape == (3, 8)
    assert examples.reshape((2, 4)).arrays()[0].shape == (3, 2, 4)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"batch_size": 0}, "batch_size.*at least 1.*Received: batch_size=0"),
        ({"batch_size": 2.0}, "batch_size"),
        ({"batch_size": True}, "batch_size"),
        ({"seed": -1}, "seed.*at least 0.*Received: seed=-1"),
        ({"seed": 2**63}, "seed.*below"),
        ({"epoch": -1}, "epoch.*Received: epoch=-1"),
        ({"skip": 1.5}, "skip.*Received: skip=1.5"),
        ({"skip": tf.Variable(1)}, "skip.*int64"),
        ({"epoch": tf.Variable([1], dtype=tf.int64)}, "epoch.*scalar"),
    ],
)
def test_arguments_outside_their_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        make_examples().batches(**{"batch_size": 2, **arguments})
