import numpy as np
import pytest
from sklearn.datasets import load_digits

from keras_bpn.scenarios import Digits
from tests.scenarios.helpers import rows


def test_all_digits_are_there_once():
    scenario = Digits()
    assert [t.name for t in scenario] == ["0/1", "2/3", "4/5", "6/7", "8/9"]
    assert scenario.num_classes == 10 and scenario.name == "digits"
    x, y = load_digits(return_X_y=True)
    held = []
    for task in scenario:
        for split in ("train", "validation", "test"):
            images, labels = task.examples(split).arrays()
            assert images.shape[1:] == (8, 8, 1)
            assert images.min() == 0 and images.max() == 1
            held += rows(np.rint(images * 16).astype("uint8"), labels)
    assert len(held) == 1797
    assert sorted(held) == rows(x.astype("uint8"), y)


def test_a_quarter_is_held_out_for_test():
    for task in Digits(classes_per_task=5):
        counts = task.metadata["examples"]
        total = sum(counts.values())
        assert abs(counts["test"] - total / 4) <= 3
        assert abs(counts["validation"] - total / 10) <= 3


def test_classes_and_heads():
    scenario = Digits([1, 2], classes=[7, 8, 9], order="random", seed=1)
    assert sorted(sum(scenario.classes, ())) == [7, 8, 9]
    heads = Digits(5, multi_head=True)
    assert heads.num_classes == 5 and heads[1].classes == (0, 1, 2, 3, 4)
    assert heads[1].metadata["class_names"] == ["5", "6", "7", "8", "9"]


def test_flat_images():
    examples = Digits()[0].examples("test")
    x, _ = examples.reshape((64,)).arrays()
    assert x.shape == (90, 64)
    np.testing.assert_array_equal(x, examples.arrays()[0].reshape((-1, 64)))


def test_wrong_arguments():
    with pytest.raises(ValueError, match="share out 10 classes"):
        Digits(3)
