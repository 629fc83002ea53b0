import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.scenarios import SplitClasses
from keras_bpn.scenarios.array_data import ArrayData
from tests.scenarios.helpers import make_images

X, Y = make_images()


@pytest.mark.parametrize(
    "dtype, kept",
    [
        ("uint8", "uint8"),
        ("uint16", "uint16"),
        ("float64", "float32"),
        ("int64", "float32"),
        ("bool", "float32"),
    ],
)
def test_dtypes_of_examples(dtype, kept):
    source = ArrayData((X.astype(dtype), Y)).load((0,))["train"]
    assert source.dtype == kept and source.x.dtype.name == kept
    np.testing.assert_array_equal(source.x, X.astype(dtype))


@pytest.mark.parametrize("dtype", ["uint8", "int64", "int32"])
def test_dtypes_of_labels(dtype):
    data = ArrayData((X, Y.astype(dtype)[:, None]))
    assert data.classes == (0, 1, 2, 3)
    assert data.labels()["train"].dtype == "int32"
    np.testing.assert_array_equal(data.labels()["train"], Y)


def test_tensors_and_lists_of_labels_are_arrays_too():
    data = ArrayData((tf.constant(X), Y.tolist()))
    assert data.shape() == (4, 3, 1) and data.splits == ("train",)


@pytest.mark.parametrize(
    "arrays, message",
    [
        (X, r"`\(x, y\)`.*Received: ndarray"),
        ((X, Y, Y), "tuple of length 3"),
        ((X,), "tuple of length 1"),
        (None, "NoneType"),
        ((X, Y[:-1]), "same length.*x of length 27, y of length 26"),
        ((X, np.eye(4)[Y]), "vector of integers.*float64"),
        ((X, Y.astype("float32")), "vector of integers.*float32"),
        ((X, np.stack([Y, Y], 1)), r"vector of integers.*\(27, 2\)"),
        ((X, Y.astype(str)), "vector of integers"),
        ((X, Y - 1), "at least 0.*from -1 to 2"),
        ((X, Y.astype("int64") + 2**31), r"below 2\*\*31"),
        ((Y, Y), r"numbers with a row.*shape \(27,\)"),
        ((X[:0], Y[:0]), r"numbers with a row.*\(0, 4, 3, 1\)"),
        ((np.full((27, 2), "a"), Y), "array of numbers.*dtype <U1"),
        ((np.full((27, 2), np.nan), Y), "finite.*NaN"),
        (((X, Y), (X[:, :2], Y)), r"same shape.*test of shape \(27, 2, 3"),
        (((X, Y), (X / 255, Y)), "same shape and dtype.*float32"),
        (((X, Y), (X, Y[:3])), "of the test data.*same length"),
    ],
)
def test_wrong_arrays(arrays, message):
    with pytest.raises(ValueError, match=message):
        SplitClasses(arrays, 2)


def test_only_images_are_resized():
    with pytest.raises(ValueError, match=r"height, width.*\(27, 12\)"):
        ArrayData((X.reshape((27, 12)), Y), image_size=(2, 2))


def test_resizing_keeps_constant_images():
    x = np.full((300, 6, 5, 3), 255, "uint8")
    data = ArrayData((x, np.zeros(300, int)), image_size=(3, 4))
    np.testing.assert_array_equal(
        data.load((0,))["train"].x, np.full((300, 3, 4, 3), 255)
    )
    again = data.resized((7, 2))
    assert again.shape() == (7, 2, 3) and data.shape() == (3, 4, 3)
