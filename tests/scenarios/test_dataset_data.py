import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.scenarios import SplitClasses
from tests.scenarios.helpers import make_images
from tests.scenarios.helpers import rows

X, Y = make_images()


def dataset(x=X, y=Y):
    return tf.data.Dataset.from_tensor_slices((x, y))


def test_unknown_sizes_are_found_out():
    unknown = dataset().filter(lambda x, y: y < 2)
    scenario = SplitClasses(unknown, 1)
    assert scenario.classes == ((0,), (1,))
    assert sum(scenario[0].metadata["examples"].values()) == 7


def test_a_dataset_that_shuffles_itself_is_fine_in_memory():
    shuffled = dataset().shuffle(100)
    held = []
    scenario = SplitClasses(shuffled, 4)
    for split in ("train", "validation", "test"):
        x, y = scenario[0].examples(split).arrays()
        held += rows(np.rint(x * 255).astype("uint8"), y)
    assert sorted(held) == rows(X, Y)


def test_vectors_of_floats():
    scenario = SplitClasses(dataset(X.reshape((-1, 12)) * 1.5), 2)
    x, _ = scenario[0].examples("train").arrays()
    assert x.dtype == "float32" and x.shape[1] == 12 and x.max() > 1


def test_config_is_that_of_the_content():
    first = SplitClasses(dataset(), 2).get_config()
    assert SplitClasses(dataset(X[::-1], Y[::-1]), 2).get_config() == first
    assert SplitClasses(dataset(X ^ 1), 2).get_config() != first
    streamed = SplitClasses(dataset(), 2, memory_limit=0)
    assert streamed.get_config() == first


@pytest.mark.parametrize(
    "value, message",
    [
        (dataset().batch(4), "single examples.*unbatch"),
        (dataset().map(lambda x, y: {"x": x, "y": y}), "single examples"),
        (dataset().map(lambda x, y: (x, y / 2)), "single examples"),
        (dataset().map(lambda x, y: x), "single examples"),
        (dataset().repeat(), "that ends.*endless"),
        (dataset(y=Y - 1), "at least 0.*-1"),
        (dataset().take(0), "with examples"),
        ((dataset(), (X, Y)), "Received: tuple of None"),
        ((dataset(), dataset(), dataset()), "3 datasets"),
        (dataset(x=Y.astype(str)[:, None]), "numbers.*string"),
    ],
)
def test_datasets_of_another_kind(value, message):
    with pytest.raises(ValueError, match=message):
        SplitClasses(value, 2)[0].examples("train")
