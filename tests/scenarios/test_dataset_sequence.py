import json

import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.scenarios import DatasetSequence
from keras_bpn.scenarios import Digits
from keras_bpn.scenarios import SplitClasses
from keras_bpn.scenarios.tfds_data import TFDSData
from tests.scenarios.helpers import make_images
from tests.scenarios.helpers import make_splits
from tests.scenarios.helpers import prepare_tiny
from tests.scenarios.helpers import rows
from tests.scenarios.helpers import write_folder

GREY = make_images((8, 9), shape=(6, 6, 1))
COLOUR = make_splits((7, 8, 9), (2, 2, 2), shape=(5, 4, 3))


def test_each_data_set_is_a_task_with_labels_from_zero(tmp_path):
    write_folder(tmp_path / "own", *make_images((6, 7, 8, 9), shape=(3, 3, 3)))
    builder = prepare_tiny(tmp_path / "tfds", {"train": GREY})
    x, y = GREY
    scenario = DatasetSequence(
        [
            ("colour", COLOUR),
            ("grey", (x, 3 * y + 2)),
            ("tfds", builder),
            ("digits", Digits(classes_per_task=1, classes=[4, 7])),
            str(tmp_path / "own"),
        ],
        image_size=(4, 4),
    )
    names = ["colour", "grey", "tfds", "digits", "own"]
    assert [task.name for task in scenario] == names
    assert scenario.multi_head and scenario.channels == 3
    assert scenario.num_classes == 4
    for task, count in zip(scenario, (3, 2, 2, 2, 4)):
        assert task.classes == tuple(range(count))
        for split in ("train", "validation", "test"):
            examples = task.examples(split)
            assert examples.shape == (4, 4, 3)
            assert set(examples.labels) == set(task.classes)
    assert scenario[1].metadata["classes"] == [2, 5]
    assert scenario[3].metadata["class_names"] == ["4", "7"]
    images, _ = scenario[1].examples("train").arrays()
    np.testing.assert_array_equal(images[..., 0], images[..., 2])
    resized = tf.round(tf.image.resize(x, (4, 4), antialias=True))
    chosen = scenario[1].examples("train").indices
    np.testing.assert_array_equal(
        images[..., :1], resized.numpy()[chosen] / np.float32(255)
    )


def test_a_task_has_the_examples_that_it_has_alone():
    scenario = DatasetSequence({"a": COLOUR, "b": COLOUR}, seed=3)
    alone = SplitClasses(COLOUR, 3, seed=3)[0]
    for split in ("train", "validation", "test"):
        for task in scenario:
            assert rows(*task.examples(split).arrays()) == rows(
                *alone.examples(split).arrays()
            )


def test_grey_images_stay_grey_among_themselves():
    scenario = DatasetSequence({"a": GREY, "b": GREY})
    assert scenario[0].examples("test").shape == (6, 6, 1)
    scenario = DatasetSequence({"a": GREY, "b": GREY}, channels=3)
    assert scenario[0].examples("test").shape == (6, 6, 3)


def test_vectors_of_one_length():
    x, y = make_images(shape=(12,))
    scenario = DatasetSequence({"a": (x, y), "b": (x / 255, y)})
    assert scenario[1].examples("train").shape == (12,)
    with pytest.raises(ValueError, match="images where `channels`"):
        DatasetSequence({"a": (x, y)}, channels=3)


def test_nothing_is_read_before_it_is_asked_for(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("read")

    monkeypatch.setattr(TFDSData, "_dataset", refuse)
    scenario = DatasetSequence(
        ["mnist", "cifar10"],
        image_size=(8, 8),
        data_dir=str(tmp_path),
        download=False,
    )
    assert scenario.num_classes == 10 and scenario.channels == 3
    assert [len(task.classes) for task in scenario] == [10, 10]
    json.dumps(scenario.get_config())
    monkeypatch.undo()
    with pytest.raises(FileNotFoundError, match="'cifar10/3.0.2'"):
        scenario[1].examples("train")


def test_config_tells_sequences_apart():
    configs = [
        DatasetSequence(datasets, **options).get_config()
        for datasets, options in [
            ({"a": GREY}, {}),
            ({"b": GREY}, {}),
            ({"a": GREY, "b": GREY}, {}),
            ({"a": GREY}, {"channels": 3}),
            ({"a": GREY}, {"image_size": (2, 2)}),
        ]
    ]
    configs = [json.dumps(config) for config in configs]
    assert len(set(configs)) == 5


@pytest.mark.parametrize(
    "datasets, options, message",
    [
        ({"a": GREY, "b": COLOUR}, {}, r"one shape.*image_size.*\(6, 6, 1\)"),
        ({"a": COLOUR}, {"channels": 1}, "`channels`.*channels=1"),
        ({"a": COLOUR}, {"channels": 4}, "`channels`.*channels=4"),
        ({"a": GREY}, {"channels": 0}, "channels"),
        ([], {}, "list of names"),
        (5, {}, "Received: datasets=5"),
        ([GREY], {}, "pairs"),
        ([("a", GREY), ("a", GREY)], {}, r"unique.*\['a'\] more than once"),
        ([("", GREY)], {}, "pairs"),
        (["no such set"], {}, "no such set"),
        ({"a": GREY}, {"image_size": (1, 2, 3)}, "image_size"),
        ({"a": GREY}, {"batch_size": 0}, "batch_size"),
        ({"a": make_images((3, 1))}, {}, "no test examples of class 1"),
    ],
)
def test_wrong_arguments(datasets, options, message):
    with pytest.raises(ValueError, match=message):
        DatasetSequence(datasets, **options)
