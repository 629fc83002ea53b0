import keras
import numpy as np
import pytest

import keras_bpn
from keras_bpn.models import checks

SPARSE = keras.losses.SparseCategoricalCrossentropy


def output(*shape):
    return keras.KerasTensor((None, *shape))


@pytest.mark.parametrize("direction", ["beneficial", "gradient", None])
def test_directions(direction):
    checks.check_direction(direction, 0.01, True)


def test_unknown_directions():
    for direction in ("BD", "", "Beneficial", 1, False, ["gradient"]):
        with pytest.raises(ValueError) as error:
            checks.check_direction(direction, 0.01, True)
        assert "['beneficial', 'gradient', None]" in str(error.value)
        assert f"direction={direction!r}" in str(error.value)


def test_directions_need_bias_units():
    checks.check_direction(None, 0.01, False)
    for direction in ("beneficial", "gradient"):
        message = f"needs layers with bias units.*direction='{direction}'"
        with pytest.raises(ValueError, match=message):
            checks.check_direction(direction, 0.01, False)


def test_epsilons():
    for epsilon in (0, 1, 0.0, 1e-9, np.float32(0.5), np.float64(2)):
        checks.check_direction("beneficial", epsilon, True)


@pytest.mark.parametrize(
    "epsilon", [-0.01, -1, float("nan"), float("inf"), -float("inf")]
)
def test_epsilon_must_be_finite_and_not_negative(epsilon):
    for given in (epsilon, np.float32(epsilon)):
        with pytest.raises(ValueError, match="`epsilon`.*at least 0.*epsilon="):
            checks.check_direction("beneficial", given, True)


@pytest.mark.parametrize("epsilon", [True, False, "0.1", None, [0.1], 1j])
def test_epsilon_must_be_a_number(epsilon):
    with pytest.raises(ValueError) as error:
        checks.check_direction("beneficial", epsilon, True)
    assert "`epsilon` to be a number" in str(error.value)
    assert str(error.value).endswith(f"epsilon={epsilon!r}")


def test_consolidations():
    checks.check_consolidation(None)
    checks.check_consolidation(keras_bpn.consolidation.EWC(1.0))
    for given in ("EWC", keras_bpn.consolidation.EWC, 3, object()):
        with pytest.raises(ValueError, match="`consolidation`.*Received"):
            checks.check_consolidation(given)


LOSSES = [
    SPARSE(from_logits=True),
    "sparse_categorical_crossentropy",
    keras.losses.sparse_categorical_crossentropy,
    [SPARSE()],
    ["sparse_categorical_crossentropy"],
]


@pytest.mark.parametrize("loss", LOSSES)
def test_integer_labels(loss):
    for y in ([0, 9, 3], [[0], [9]], [0.0, 9.0], [], [True, False]):
        checks.check_labels(loss, [output(10)], np.array(y))
    for y, low, high in (
        ([0, 10], 0, 10),
        ([-1, 3], -1, 3),
        ([[2], [10]], 2, 10),
        ([2.0, 10.0], 2.0, 10.0),
    ):
        with pytest.raises(ValueError) as error:
            checks.check_labels(loss, [output(10)], np.array(y))
        message = str(error.value)
        assert "from 0 to 9, because the model has 10 outputs" in message
        assert message.endswith(f"Received: labels from {low} to {high}")


def test_labels_that_are_no_numbers():
    with pytest.raises(ValueError, match="nan"):
        checks.check_labels(SPARSE(), [output(10)], np.array([1.0, np.nan]))


def test_fractions_are_no_labels():
    with pytest.raises(ValueError, match="integers"):
        checks.check_labels(SPARSE(), [output(10)], np.array([1.0, 2.5]))


def test_unsigned_labels():
    y = np.array([0, 255], "uint8")
    checks.check_labels(SPARSE(), [output(256)], y)
    with pytest.raises(ValueError, match="labels from 0 to 255"):
        checks.check_labels(SPARSE(), [output(255)], y)


def test_labels_of_every_position():
    y = np.zeros((2, 4), int)
    checks.check_labels(SPARSE(), [output(4, 3)], y)
    y[1, 2] = 3
    with pytest.raises(ValueError, match="from 0 to 2.*labels from 0 to 3"):
        checks.check_labels(SPARSE(), [output(4, 3)], y)


@pytest.mark.parametrize("ignored", [-1, 255])
def test_ignored_class_is_no_error(ignored):
    loss = SPARSE(ignore_class=ignored)
    checks.check_labels(loss, [output(10)], np.array([0, ignored, 9]))
    with pytest.raises(ValueError, match="from 0 to 9"):
        checks.check_labels(loss, [output(10)], np.array([0, ignored, 10]))


@pytest.mark.parametrize(
    "loss",
    [
        keras.losses.CategoricalCrossentropy(),
        "categorical_crossentropy",
        "mse",
        keras.losses.BinaryCrossentropy(),
        lambda y, y_pred: y_pred,
        None,
        [SPARSE(), SPARSE()],
        {"a": SPARSE()},
    ],
)
def test_other_losses_take_any_targets(loss):
    for y in (np.eye(20)[:4], np.array([-5.5, 99.0])):
        checks.check_labels(loss, [output(10)], y)


def test_what_cannot_be_checked_passes():
    wrong = np.array([99])
    checks.check_labels(SPARSE(), [output(10), output(10)], wrong)
    checks.check_labels(SPARSE(), [output(None)], wrong)
    for y in (None, [wrong], (wrong,), {"a": wrong}, np.array(["99"])):
        checks.check_labels(SPARSE(), [output(10)], y)


@pytest.mark.parametrize(
    "x",
    [
        np.zeros((3, 2)),
        {"a": np.zeros((3, 2)), "b": np.zeros(3)},
        [np.zeros((3, 2)), np.zeros((3, 5))],
    ],
    ids=["array", "dictionary", "list"],
)
def test_lengths(x):
    checks.check_lengths(["a", "b", "a"], x)
    for names in ([], ["a"], ["a"] * 4):
        message = f"{len(names)} names for 3 examples"
        with pytest.raises(ValueError, match=message):
            checks.check_lengths(names, x)
