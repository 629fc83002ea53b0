import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.scenarios import SplitClasses
from tests.scenarios.helpers import assert_same_tasks
from tests.scenarios.helpers import collect
from tests.scenarios.helpers import make_images
from tests.scenarios.helpers import make_splits
from tests.scenarios.helpers import prepare_tiny
from tests.scenarios.helpers import rows
from tests.scenarios.helpers import write_folder


@pytest.fixture(scope="module")
def forms(tmp_path_factory):
    """The same images in all forms, with and without a test split."""
    train, test = make_splits()
    root = tmp_path_factory.mktemp("forms")
    folder = root / "images"
    write_folder(folder / "train", *train)
    write_folder(folder / "test", *test)
    write_folder(root / "flat", *train)
    splits = {"train": train, "test": test}
    builder = prepare_tiny(root / "tfds", splits)
    # In another order, too.
    order = np.random.default_rng(1).permutation(len(train[1]))
    shuffled = train[0][order], train[1][order]
    datasets = tuple(map(tf.data.Dataset.from_tensor_slices, (shuffled, test)))
    return {
        "arrays": (train, test),
        "scaled": ((shuffled[0] / 255, shuffled[1]), (test[0] / 255, test[1])),
        "tfds": builder,
        "folder": folder,
        "path": str(folder),
        "datasets": datasets,
        "arrays without test": train,
        "tfds without test": prepare_tiny(root / "train", {"train": train}),
        "folder without test": root / "flat",
        "dataset without test": datasets[0],
    }


@pytest.mark.parametrize(
    "form", ["scaled", "tfds", "folder", "path", "datasets"]
)
def test_the_same_images_give_the_same_tasks(forms, form):
    options = {"classes_per_task": 2, "seed": 3, "validation_split": 0.25}
    expected = SplitClasses(forms["arrays"], **options)
    assert [task.name for task in expected] == ["0/1", "2/3"]
    assert_same_tasks(SplitClasses(forms[form], **options), expected)


@pytest.mark.parametrize("form", ["tfds", "folder", "dataset"])
def test_the_same_images_without_a_test_split_give_the_same_tasks(forms, form):
    options = {"classes_per_task": [1, 3], "order": [3, 0, 2, 1]}
    expected = SplitClasses(forms["arrays without test"], **options)
    other = SplitClasses(forms[f"{form} without test"], **options)
    assert [task.classes for task in other] == [(3,), (0, 2, 1)]
    assert_same_tasks(other, expected)


@pytest.mark.parametrize("form", ["tfds", "folder", "datasets"])
def test_streamed_tasks_have_the_same_examples(forms, form):
    options = {"classes_per_task": 2, "batch_size": 4, "multi_head": True}
    expected = SplitClasses(forms["arrays"], **options)
    streamed = SplitClasses(forms[form], memory_limit=0, **options)
    for a, b in zip(expected, streamed):
        assert a.name == b.name and a.classes == b.classes == (0, 1)
        for split in ("train", "validation", "test"):
            examples = b.examples(split)
            assert a.examples(split).in_memory and not examples.in_memory
            assert examples.shape == (4, 3, 1)
            assert rows(*examples.arrays()) == rows(*a.examples(split).arrays())
        first, second = collect(b.train), collect(b.train)
        assert rows(*first) == rows(*second)
        assert not np.array_equal(first[0], second[0])


def test_examples_keep_to_their_split():
    train, test = make_splits(shape=(8, 8, 3))
    scenario = SplitClasses((train, test), 2)
    held = {"train": [], "validation": [], "test": []}
    for task in scenario:
        for split, found in held.items():
            x, y = task.examples(split).arrays()
            assert set(y) <= set(task.classes)
            found += rows(np.rint(x * 255).astype("uint8"), y)
    assert sorted(held["train"] + held["validation"]) == rows(*train)
    assert sorted(held["test"]) == rows(*test)
    assert not set(held["train"]) & set(held["validation"])


@pytest.mark.parametrize(
    "arguments, classes",
    [
        ({"classes_per_task": 2}, ((0, 1), (2, 3))),
        ({"classes_per_task": 4}, ((0, 1, 2, 3),)),
        ({"classes_per_task": [1, 2, 1]}, ((0,), (1, 2), (3,))),
        ({"classes_per_task": 2, "classes": [3, 1]}, ((1, 3),)),
        ({"classes_per_task": 2, "order": (3, 1, 0, 2)}, ((3, 1), (0, 2))),
        (
            {"classes_per_task": 1, "classes": [1, 3, 2], "order": [2, 3, 1]},
            ((2,), (3,), (1,)),
        ),
        ({"classes_per_task": 1, "classes": np.arange(2)}, ((0,), (1,))),
    ],
)
def test_classes_are_shared_out_in_order(arguments, classes):
    scenario = SplitClasses(make_images(), **arguments)
    assert scenario.classes == classes
    names = ["/".join(map(str, group)) for group in classes]
    assert [task.name for task in scenario] == names
    labels = [tuple(sorted(set(t.examples("train").labels))) for t in scenario]
    assert labels == [tuple(sorted(group)) for group in classes]
    assert scenario.num_classes == max(map(max, classes)) + 1


def test_random_orders_are_drawn_from_the_seed():
    images = make_images([4] * 12)

    def order(seed):
        return SplitClasses(images, 3, order="random", seed=seed).classes

    assert order(1) == order(1) != order(2)
    assert sorted(sum(order(1), ())) == list(range(12))


def test_heads_of_their_own_count_from_zero():
    scenario = SplitClasses(
        make_images(), [1, 3], order=[2, 3, 0, 1], multi_head=True
    )
    assert scenario.num_classes == 3 and scenario.multi_head
    task = scenario[1]
    assert task.name == "3/0/1" and task.classes == (0, 1, 2)
    single = SplitClasses(make_images(), [1, 3], order=[2, 3, 0, 1])[1]
    expected = [(3, 0, 1).index(y) for y in single.examples("test").labels]
    assert task.examples("test").labels.tolist() == expected


def test_long_tasks_have_short_names():
    scenario = SplitClasses(make_images([2] * 24), 12)
    assert [task.name for task in scenario] == ["0/.../11", "12/.../23"]


def test_images_are_resized_and_preprocessed():
    x, y = make_images(shape=(4, 6, 3))
    scenario = SplitClasses(
        (x, y), 2, image_size=(2, 3), preprocess=lambda x: 2 * x - 1
    )
    examples = scenario[0].examples("train")
    assert examples.shape == (2, 3, 3)
    resized = tf.image.resize(x[examples.indices], (2, 3), antialias=True)
    expected = 2 * (tf.round(resized) / 255) - 1
    np.testing.assert_allclose(examples.arrays()[0], expected, atol=1e-6)


def test_config_tells_scenarios_apart():
    images = make_images((10, 10))

    def config(images=images, **kwargs):
        scenario = SplitClasses(images, 1, **kwargs)
        return json.dumps(scenario.get_config(), sort_keys=True)

    other = images[0].copy()
    other[0, 0, 0] ^= 1
    configs = [
        config(),
        config((other, images[1])),
        config(seed=1),
        config(order=[1, 0]),
        config(classes=[1]),
        config(multi_head=True),
        config(batch_size=8),
        config(validation_split=0.2),
        config(test_split=0.4),
        config(image_size=(2, 2)),
        config(preprocess=tf.abs),
    ]
    assert len(set(configs)) == len(configs)
    assert config() == configs[0]
    # Not where the data came from, but what it is.
    assert config((images[0][::-1], images[1][::-1])) == configs[0]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"classes_per_task": 3}, "share out 4 classes.*classes_per_task=3"),
        ({"classes_per_task": 5}, "share out 4 classes.*takes 5"),
        ({"classes_per_task": [2, 1]}, "share out 4.*takes 3"),
        ({"classes_per_task": [4, 0]}, "at least 1.*classes_per_task=0"),
        ({"classes_per_task": 0}, "classes_per_task"),
        ({"classes_per_task": 2.0}, "classes_per_task"),
        ({"classes": [0, 4]}, r"labels of 'arrays'.*\[4\] are unknown"),
        ({"classes": [0, 1, 1]}, r"each label once.*\[1\] more than once"),
        ({"classes": []}, "labels of 'arrays'"),
        ({"classes": ["0", "1"]}, "`classes` to be a list of labels"),
        ({"classes": 3}, "`classes` to be a list"),
        ({"order": [0, 1, 2]}, r"in use once.*order without \[3\]"),
        ({"order": [0, 1, 2, 3, 7]}, r"with \[7\] besides"),
        ({"order": [0, 1, 2, 3, 3]}, r"`order`.*\[3\] more than once"),
        ({"order": "descending"}, '"random".*order=.descending'),
        ({"classes": [0, 1], "order": [0, 2]}, r"without \[1\].*\[2\] bes"),
        ({"validation_split": 1.0}, "validation_split.*below 1"),
        ({"validation_split": -0.1}, "validation_split.*at least 0"),
        ({"validation_split": "a"}, "validation_split"),
        ({"test_split": 0}, "test_split.*above 0"),
        ({"test_split": True}, "test_split"),
        ({"batch_size": -1}, "batch_size"),
        ({"seed": 0.5}, "seed"),
        ({"image_size": 28}, "image_size.*pair.*image_size=28"),
        ({"image_size": (0, 3)}, "image_size"),
        ({"memory_limit": -1}, "memory_limit.*at least 0"),
        ({"splits": {"train": "train"}}, "`splits`.*TFDS alone"),
        ({"label": "family"}, "`label`.*TFDS alone"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        SplitClasses(make_images(), **{"classes_per_task": 2, **arguments})
