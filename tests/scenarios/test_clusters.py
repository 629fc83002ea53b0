import json

import numpy as np
import pytest

from keras_bpn.scenarios import GaussianClusters


def test_two_tasks_that_share_the_black_cluster():
    scenario = GaussianClusters(examples_per_class=100)
    assert [t.name for t in scenario] == ["black/red", "black/light blue"]
    assert [t.classes for t in scenario] == [(0, 1), (0, 2)]
    assert scenario.num_classes == 3 and not scenario.multi_head
    black = []
    for task in scenario:
        x, y = task.examples("train").arrays()
        assert x.shape == (140, 2) and x.dtype == "float32"
        black.append(x[y == 0])
    np.testing.assert_array_equal(*black)
    assert scenario[1].metadata["class_names"] == ["black", "light blue"]


def test_points_are_normal_around_their_centres():
    scenario = GaussianClusters(examples_per_class=4000, scale=0.5, seed=2)
    for task, classes in zip(scenario, [(0, 1), (0, 2)]):
        x, y = task.examples("train").arrays()
        for c in classes:
            points = x[y == c]
            # Five standard errors of a mean of 2,800 points.
            np.testing.assert_allclose(
                points.mean(0), scenario.centers[c], atol=0.05
            )
            np.testing.assert_allclose(points.std(0), 0.5, atol=0.04)


@pytest.mark.parametrize("seed", range(5))
def test_clusters_are_apart_wherever_they_are(seed):
    centers = GaussianClusters(examples_per_class=5, seed=seed).centers
    ways = [centers[i] - centers[j] for i, j in [(0, 1), (0, 2), (1, 2)]]
    assert min(np.linalg.norm(ways, axis=1)) >= 4
    assert np.abs(centers).max() <= 4


def test_seeds_reproduce_and_differ():
    first, second, other = (GaussianClusters(20, seed=s) for s in (1, 1, 2))
    np.testing.assert_array_equal(first.centers, second.centers)
    for split in ("train", "test"):
        np.testing.assert_array_equal(
            first[0].examples(split).arrays()[0],
            second[0].examples(split).arrays()[0],
        )
    assert not np.array_equal(first.centers, other.centers)
    assert first.get_config() == second.get_config() != other.get_config()
    json.dumps(first.get_config())


def test_heads_of_their_own():
    scenario = GaussianClusters(20, multi_head=True)
    assert scenario.num_classes == 2
    for task in scenario:
        assert task.classes == (0, 1)
        assert set(task.examples("test").labels) == {0, 1}


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"examples_per_class": 1}, "no test examples of class 0, 1, 2"),
        ({"examples_per_class": 0}, "examples_per_class"),
        ({"scale": 0}, "scale.*positive.*scale=0"),
        ({"scale": float("nan")}, "scale"),
        ({"test_split": 1}, "test_split"),
        ({"seed": -3}, "seed"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        GaussianClusters(**arguments)
