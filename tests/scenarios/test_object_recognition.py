import numpy as np
import pytest

from keras_bpn.scenarios import ObjectRecognition
from keras_bpn.scenarios import tfds_data
from tests.scenarios.helpers import make_images
from tests.scenarios.helpers import prepare_tiny
from tests.scenarios.helpers import rows

TASKS = {
    "Flowers": 102,
    "Scenes": 67,
    "Birds": 200,
    "Cars": 196,
    "Aircraft": 70,
    "Actions": 10,
    "Letters": 62,
    "SVHN": 10,
}


@pytest.fixture
def scenario(tmp_path):
    return ObjectRecognition(data_dir=str(tmp_path), download=False)


def test_the_eight_data_sets_of_the_paper_in_its_order(scenario, tmp_path):
    assert [t.name for t in scenario] == list(TASKS)
    assert [len(t.classes) for t in scenario] == list(TASKS.values())
    assert scenario.num_classes == 200 and scenario.multi_head
    splits = [
        task["dataset"]["splits"]
        for task in scenario.get_config()["tasks"].values()
    ]
    assert splits[0] == {"train": "train+validation", "test": "test"}
    assert splits[5] == {"train": "train", "test": "validation"}
    assert scenario.get_config()["tasks"]["Aircraft"]["dataset"]["label"] == (
        "family"
    )
    assert not any(tmp_path.iterdir())


def test_what_is_missing_and_how_to_get_it(scenario):
    assert scenario.prepared == dict.fromkeys(TASKS, False)
    text = scenario.how_to_prepare()
    assert 'Flowers: `tfds.builder("oxford_flowers102")' in text
    assert "import keras_bpn.scenarios.builders; tfds.builder(" in text
    assert "fgvc-aircraft-2013b.tar.gz" in text
    with pytest.raises(FileNotFoundError, match="oxford_flowers102"):
        scenario[0].examples("train")


def test_other_data_sets_may_stand_in(tmp_path):
    images = make_images((5, 6, 7), shape=(8, 9, 3))
    builder = prepare_tiny(tmp_path, {"train": images})
    scenario = ObjectRecognition(
        image_size=(4, 4),
        tasks=["Birds", "Flowers", "SVHN"],
        datasets={"Flowers": builder, "Birds": images},
        data_dir=str(tmp_path),
        download=False,
    )
    assert [t.name for t in scenario] == ["Birds", "Flowers", "SVHN"]
    assert scenario.prepared == {"Birds": True, "Flowers": True, "SVHN": False}
    assert scenario.how_to_prepare().startswith("SVHN: ")
    for task in scenario[:2]:
        assert task.examples("train").shape == (4, 4, 3)
    without = ObjectRecognition((4, 4), ["Birds"], {"Birds": images})
    assert without.how_to_prepare() == "All data sets are prepared."


def test_persons_without_an_action_are_left_out(tmp_path, monkeypatch):
    train = make_images([3] * 11, shape=(4, 4, 3))
    test = make_images([1] * 11, shape=(4, 4, 3), seed=1)
    splits = {"train": train, "validation": test}
    builder = prepare_tiny(tmp_path, splits)
    monkeypatch.setattr(
        tfds_data, "find_builder", lambda name, data_dir: builder
    )
    (task,) = ObjectRecognition((4, 4), ["Actions"])
    counts = {"train": 20, "validation": 10, "test": 10}
    assert task.metadata["examples"] == counts
    x, y = task.examples("test").arrays()
    actions = test[1] < 10
    assert rows(np.rint(x * 255).astype("uint8"), y) == rows(
        test[0][actions], test[1][actions]
    )


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"tasks": ["Flower"]}, "among Flowers, Scenes.*Received: Flower$"),
        ({"datasets": {"Dogs": "mnist"}}, "Received: Dogs"),
        ({"tasks": ["Cars", "Cars"]}, "unique"),
        ({"tasks": []}, "list"),
        ({"image_size": None}, "one shape.*image_size"),
    ],
)
def test_wrong_arguments(arguments, message):
    with pytest.raises(ValueError, match=message):
        ObjectRecognition(**arguments)


@pytest.mark.data
def test_smaller_versions_of_three_of_them():
    small = {
        "Flowers": "oxford_flowers102_64",
        "Birds": "cub200_2011_64",
        "Letters": "chars74k_img36_64",
    }
    try:
        scenario = ObjectRecognition((64, 64), list(small), small)
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert all(scenario.prepared.values())
    assert [len(t.classes) for t in scenario] == [102, 200, 36]
    counts = scenario[0].metadata["examples"]
    assert counts == {"train": 1020, "validation": 1020, "test": 6149}
    for task in scenario:
        x, y = next(iter(task.train))
        assert x.shape == (32, 64, 64, 3) and 0 <= np.min(x) < np.max(x) <= 1
