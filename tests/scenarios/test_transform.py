import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.scenarios.transform import Transform


def apply(x, y=(0,), **steps):
    x, y = Transform(**steps)(tf.constant(x), tf.constant(y, tf.int32))
    assert x.dtype == tf.float32 and y.dtype == tf.int32
    return x.numpy(), y.numpy()


@pytest.mark.parametrize(
    "dtype, largest", [("uint8", 255), ("uint16", 65535), ("float32", 1)]
)
def test_images_are_scaled_by_the_largest_number_of_their_type(dtype, largest):
    x = np.array([[0, largest, largest // 3]], dtype)
    expected = x.astype("float32") / np.float32(largest)
    np.testing.assert_array_equal(apply(x)[0], expected)


def test_a_permutation_moves_the_pixels_of_all_channels():
    x = np.arange(12, dtype="float32").reshape((1, 2, 3, 2))
    permutation = np.array([11, 0, 2, 1, 4, 3, 6, 5, 8, 7, 10, 9])
    moved, _ = apply(x, permutation=permutation)
    assert moved.shape == (1, 2, 3, 2)
    np.testing.assert_array_equal(moved.ravel(), permutation)


def test_grey_images_are_repeated():
    x = np.array([[[[1.0], [2.0]]]], "float32")
    expected = [[[[1, 1, 1], [2, 2, 2]]]]
    np.testing.assert_array_equal(apply(x, channels=3)[0], expected)
    colour = np.ones((1, 2, 2, 3), "float32")
    np.testing.assert_array_equal(apply(colour, channels=3)[0], colour)


def test_labels_are_replaced_by_their_places():
    x = np.zeros((4, 1), "float32")
    _, y = apply(x, [7, 3, 3, 5], labels=(5, 3, 7))
    np.testing.assert_array_equal(y, [2, 1, 1, 0])


def test_preprocessing_sees_scaled_and_permuted_images():
    x = np.array([[0, 51, 255]], "uint8")
    out, _ = apply(
        x,
        permutation=np.array([2, 0, 1]),
        preprocess=lambda x: 2 * x - 1,
        shape=(3, 1),
    )
    np.testing.assert_allclose(out[0, :, 0], [1, -1, -0.6], rtol=1e-6)


def test_preprocessing_may_branch_on_tensors():
    def flip(x):
        if tf.reduce_sum(x) > 1:
            x = -x
        return x

    transform = Transform(preprocess=flip)
    dataset = tf.data.Dataset.from_tensors(
        (np.ones((1, 2), "float32"), np.zeros(1, "int32"))
    )
    (x, _), *_ = dataset.map(transform)
    np.testing.assert_array_equal(x, [[-1, -1]])


def test_runs_compiled():
    transform = Transform(
        permutation=np.array([1, 0]), labels=(4, 2), shape=(2, 1)
    )
    x, y = np.array([[5, 10]], "uint8"), np.array([2])
    compiled = tf.function(transform, jit_compile=True)
    out, label = compiled(tf.constant(x), tf.constant(y))
    np.testing.assert_allclose(
        np.ravel(out), np.float32([10, 5]) / 255, rtol=1e-6
    )
    assert label.numpy() == 1
