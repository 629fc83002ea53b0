import json
import os
import subprocess
import sys

import numpy as np
import pytest

from keras_bpn.scenarios import PermutedPixels
from keras_bpn.scenarios import SplitClasses
from tests.scenarios.helpers import collect
from tests.scenarios.helpers import make_images
from tests.scenarios.helpers import make_splits


def test_each_task_has_the_images_with_an_order_of_its_own():
    splits = make_splits(shape=(4, 3, 2))
    scenario = PermutedPixels(splits, num_tasks=3, seed=5)
    plain = SplitClasses(splits, 4, seed=5)[0]
    names = ["permutation 1", "permutation 2", "permutation 3"]
    assert [task.name for task in scenario] == names
    assert scenario.num_classes == 4 and not scenario.multi_head
    for t, task in enumerate(scenario):
        assert task.classes == (0, 1, 2, 3)
        permutation = scenario.permutation(t)
        assert sorted(permutation) == list(range(24))
        for split in ("train", "validation", "test"):
            x, y = plain.examples(split).arrays()
            moved, labels = task.examples(split).arrays()
            assert moved.shape[1:] == (4, 3, 2)
            np.testing.assert_array_equal(labels, y)
            np.testing.assert_array_equal(
                moved.reshape((-1, 24)), x.reshape((-1, 24))[:, permutation]
            )
        x, y = collect(task.train)
        assert sorted(y) == sorted(plain.examples("train").labels)


def test_permutations_are_drawn_from_seed_and_task():
    images = make_images(shape=(50,))
    first, second = (PermutedPixels(images, 3, seed=1) for _ in range(2))
    other = PermutedPixels(images, 30, seed=2)
    for t in range(3):
        np.testing.assert_array_equal(
            first.permutation(t), second.permutation(t)
        )
    drawn = [first.permutation(t) for t in range(3)]
    drawn += [other.permutation(t) for t in range(-2, 3)]
    assert len({tuple(p) for p in drawn}) == 8
    np.testing.assert_array_equal(other.permutation(-1), other.permutation(29))
    with pytest.raises(IndexError):
        first.permutation(3)


def test_all_tasks_share_the_data():
    scenario = PermutedPixels(make_images(), 5)
    sources = {id(task.examples("train").source) for task in scenario}
    indices = {id(task.examples("train").indices) for task in scenario}
    assert len(sources) == len(indices) == 1


def test_some_classes_and_what_is_known():
    scenario = PermutedPixels(make_images(), 2, classes=[3, 1], seed=4)
    assert scenario.classes == (1, 3) and scenario.num_classes == 4
    metadata = json.loads(json.dumps(scenario[1].metadata))
    assert metadata["permutation"] == 2 and metadata["classes"] == [1, 3]
    config = json.loads(json.dumps(scenario.get_config()))
    assert config["num_tasks"] == 2 and config["classes"] == [1, 3]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"num_tasks": 0}, "num_tasks.*at least 1.*num_tasks=0"),
        ({"num_tasks": "5"}, "num_tasks"),
        ({"classes": [9]}, r"\[9\] are unknown"),
        ({"seed": -1}, "seed"),
        ({"validation_split": 2}, "validation_split"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        PermutedPixels(make_images(), **{"num_tasks": 2, **arguments})


@pytest.mark.parametrize(
    "x", [np.full((27, 3), "word"), np.full((27, 3), None), [[1], [2, 3]] * 13]
)
def test_data_that_is_no_images(x):
    with pytest.raises(ValueError):
        PermutedPixels((x, make_images()[1]), 2)


_MEMORY = """
import resource

import numpy as np

from keras_bpn.scenarios import PermutedPixels

generator = np.random.default_rng(0)
x = generator.integers(256, size=(60000, 28, 28, 1), dtype="uint8")
y = generator.integers(10, size=60000)
scenario = PermutedPixels((x, y), num_tasks=100, batch_size=128)

def use(task):
    task.examples("test")
    for _ in task.train.take(5):
        pass

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

use(scenario[0])
one = peak()
for task in scenario:
    use(task)
print(one, peak())
"""


@pytest.mark.slow
def test_a_hundred_tasks_need_little_more_memory_than_one():
    result = subprocess.run(
        [sys.executable, "-c", _MEMORY],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    one, hundred = map(int, result.stdout.split()[-2:])
    assert hundred <= 1.5 * one
