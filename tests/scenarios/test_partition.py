import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bpn.scenarios.array_data import ArrayData
from keras_bpn.scenarios.partition import Partition
from keras_bpn.scenarios.transform import Transform
from tests.scenarios.helpers import make_images

SPLITS = ("train", "validation", "test")


def make_partition(x, y, test=None, validation_split=0.1, seed=0, classes=None):
    data = ArrayData((x, y) if test is None else ((x, y), test))
    return Partition(data, classes or data.classes, validation_split, 0.2, seed)


def indices_of(partition, split, classes):
    examples = partition.examples(split, classes, Transform())
    return [] if examples is None else examples.indices.tolist()


@settings(max_examples=40, deadline=None)
@given(
    sizes=st.lists(st.integers(2, 30), min_size=1, max_size=5),
    validation_split=st.sampled_from([0.0, 0.1, 0.4, 0.9]),
    own_test=st.booleans(),
    seed=st.integers(0, 100),
)
def test_every_example_is_in_exactly_one_split(
    sizes, validation_split, own_test, seed
):
    x, y = make_images(sizes)
    test = make_images([1] * len(sizes), seed=5) if own_test else None
    partition = make_partition(x, y, test, validation_split, seed)
    classes = partition.classes
    held = {s: indices_of(partition, s, classes) for s in SPLITS}
    if own_test:
        assert sorted(held.pop("test")) == list(range(len(sizes)))
    assert sorted(sum(held.values(), [])) == list(range(len(y)))
    for c, size in enumerate(sizes):
        counts = {s: int(np.sum(y[held[s]] == c)) for s in held}
        assert counts["train"] >= 1
        left = size
        if not own_test:
            assert counts["test"] == min(max(1, round(0.2 * size)), size - 1)
            left -= counts["test"]
        wanted = max(1, round(validation_split * size))
        wanted = min(wanted, left - 1) if validation_split else 0
        assert counts["validation"] == wanted


def test_the_draw_for_a_class_does_not_depend_on_other_classes():
    x, y = make_images((20, 20, 20))
    both = make_partition(x, y)
    alone = make_partition(x, y, classes=(1,))
    for split in SPLITS:
        assert indices_of(both, split, (1,)) == indices_of(alone, split, (1,))
        # In a task with others it keeps its order.
        together = indices_of(both, split, (2, 1))
        assert [i for i in together if y[i] == 1] == indices_of(
            alone, split, (1,)
        )


def test_seeds_reproduce_and_differ():
    x, y = make_images((50, 50))
    held = [
        indices_of(make_partition(x, y, seed=seed), "test", (0, 1))
        for seed in (0, 0, 1)
    ]
    assert held[0] == held[1] != held[2]


def test_the_order_in_which_examples_came_does_not_matter():
    x, y = make_images((9, 12, 15))
    order = np.random.default_rng(3).permutation(len(y))
    first, second = make_partition(x, y), make_partition(x[order], y[order])
    for split in SPLITS:
        a = indices_of(first, split, (0, 2))
        b = order[indices_of(second, split, (0, 2))]
        np.testing.assert_array_equal(a, b)


def test_scaled_images_are_drawn_like_unscaled_ones():
    x, y = make_images((30, 30))
    scaled = make_partition(x / 255, y)
    for split in SPLITS:
        assert indices_of(make_partition(x, y), split, (0, 1)) == indices_of(
            scaled, split, (0, 1)
        )


def test_equal_images_of_different_classes_are_told_apart():
    x = np.zeros((20, 2), "uint8")
    y = np.arange(20) % 2
    partition = make_partition(x, y)
    held = [indices_of(partition, split, (0, 1)) for split in SPLITS]
    assert sorted(sum(held, [])) == list(range(20))


def test_classes_without_examples_are_named():
    x, y = make_images((5, 1, 5, 1))
    with pytest.raises(ValueError, match="no test examples of class 1, 3$"):
        make_partition(x, y)
    test = make_images((2, 2, 0, 2), seed=3)
    with pytest.raises(ValueError, match="test examples.*of class 2$"):
        make_partition(*make_images((5, 5, 5, 5)), test)
    train = make_images((2, 0, 3, 2), seed=3)
    with pytest.raises(ValueError, match="no train examples of class 1$"):
        make_partition(*train, make_images((5, 5, 5, 5)))
    # One that is not used does no harm.
    make_partition(*train, make_images((5, 5, 5, 5)), classes=(0, 2))


def test_a_single_training_example_is_kept_for_training():
    partition = make_partition(*make_images((1, 1)), make_images((1, 1)))
    assert len(indices_of(partition, "train", (0, 1))) == 2
    assert partition.examples("validation", (0, 1), Transform()) is None
