import hashlib

import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.scenarios import Examples
from keras_bpn.scenarios.sources import MemorySource
from keras_bpn.scenarios.sources import StreamSource
from keras_bpn.scenarios.sources import hash_rows
from keras_bpn.scenarios.transform import Transform
from tests.scenarios.helpers import collect
from tests.scenarios.helpers import make_images
from tests.scenarios.helpers import rows


def make_stream(x, y, records=None, buffer=16):
    if records is None:
        records = tf.data.Dataset.from_tensor_slices((x, y))
    return StreamSource(
        records, lambda record: record, y, x.shape[1:], x.dtype, buffer
    )


def make_examples(source, indices, **transform):
    return Examples(source, source.fixed_order(indices), Transform(**transform))


def test_a_stream_has_the_examples_that_memory_has():
    x, y = make_images((20, 30, 25))
    indices = np.flatnonzero(y != 1)
    transform = {"labels": (2, 0), "permutation": np.arange(12)[::-1]}
    stream = make_examples(make_stream(x, y), indices, **transform)
    memory = make_examples(MemorySource(x, y), indices, **transform)
    assert not stream.in_memory and memory.in_memory
    assert stream.shape == memory.shape and len(stream) == len(memory) == 45
    expected = rows(*memory.arrays())
    assert rows(*stream.arrays()) == expected
    assert rows(*collect(stream.batches(7, seed=3))) == expected
    # Fixed order: that of the stream.
    np.testing.assert_array_equal(
        stream.arrays()[1], np.where(y[indices] == 2, 0, 1)
    )
    np.testing.assert_array_equal(stream.arrays()[1], stream.labels)
    np.testing.assert_array_equal(
        stream.source.ranks, memory.source.ranks, strict=True
    )


@pytest.mark.parametrize("buffer", [4, 100])
def test_the_order_of_a_stream_is_a_function_of_seed_and_epoch(buffer):
    x, y = make_images((40, 40))
    indices = np.arange(5, 75)
    examples = make_examples(make_stream(x, y, buffer=buffer), indices)

    def order(**kwargs):
        return collect(examples.batches(8, **kwargs))[0].tolist()

    first = order(seed=1, epoch=2)
    assert order(seed=1, epoch=2) == first
    others = [order(seed=1, epoch=3), order(seed=2, epoch=2), order()]
    assert first not in others
    again = make_examples(make_stream(x, y, buffer=buffer), indices)
    batches = again.batches(8, seed=1, epoch=2)
    assert batches.cardinality() == 9
    assert collect(batches)[0].tolist() == first


@pytest.mark.parametrize("seed", [None, 4])
def test_skip_gives_the_tail_of_a_stream(seed):
    x, y = make_images((20, 15))
    examples = make_examples(make_stream(x, y), np.arange(35))
    whole = [
        x.tolist() for x, _ in examples.batches(8, seed, 1).as_numpy_iterator()
    ]
    epoch = tf.Variable(0, dtype=tf.int64)
    skip = tf.Variable(0, dtype=tf.int64)
    dataset = examples.batches(8, seed, epoch, skip)
    epoch.assign(1)
    for n in (0, 2, 4, 5, 9):
        skip.assign(n)
        for tail in (dataset, examples.batches(8, seed, 1, n)):
            tail = [x.tolist() for x, _ in tail.as_numpy_iterator()]
            assert tail == whole[n:]


def test_a_stream_that_changes_its_order_is_refused():
    x, y = make_images((20, 20))
    records = tf.data.Dataset.from_tensor_slices((x, y))
    source = make_stream(x, y, records.shuffle(40, seed=1))
    examples = make_examples(source, np.arange(40))
    with pytest.raises(tf.errors.InvalidArgumentError, match="same order"):
        collect(examples.batches(8))


def test_hashes_are_those_of_the_content():
    x, _ = make_images((1500,))
    hashes = hash_rows(x)
    assert hashes.dtype == "uint64" and len(np.unique(hashes)) == 1500
    np.testing.assert_array_equal(hash_rows(x[::-1]), hashes[::-1])
    np.testing.assert_array_equal(hash_rows(x.reshape((1500, -1))), hashes)
    scaled = x.astype("float32") / np.float32(255)
    np.testing.assert_array_equal(hash_rows(scaled), hashes)
    # The same on all machines.
    content = np.array([0, 1], "<f4").tobytes()
    digest = hashlib.blake2b(content, digest_size=8).digest()
    expected = int.from_bytes(digest, "little")
    assert hash_rows(np.array([[0, 255]], "uint8")).tolist() == [expected]
