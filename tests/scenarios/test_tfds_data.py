import gc

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bpn.scenarios import SplitClasses
from keras_bpn.scenarios import record_data
from keras_bpn.scenarios.tfds_data import TFDSData
from tests.scenarios.helpers import assert_same_tasks
from tests.scenarios.helpers import make_images
from tests.scenarios.helpers import make_splits
from tests.scenarios.helpers import prepare_tiny
from tests.scenarios.helpers import rows
from tests.scenarios.helpers import write_folder

TRAIN, TEST = make_splits()
VALIDATION = make_images((2, 2, 2, 2), seed=9)


@pytest.fixture(scope="module")
def builder(tmp_path_factory):
    splits = {"train": TRAIN, "validation": VALIDATION, "test": TEST}
    return prepare_tiny(tmp_path_factory.mktemp("tfds"), splits)


def held(task, split):
    x, y = task.examples(split).arrays()
    return rows(np.rint(x * 255).astype("uint8"), y)


def test_splits_of_the_data_set_are_used(builder):
    task = SplitClasses(builder, 4)[0]
    for split, arrays in (
        ("train", TRAIN),
        ("validation", VALIDATION),
        ("test", TEST),
    ):
        assert held(task, split) == rows(*arrays)
    assert task.metadata == {
        "dataset": "tiny_images",
        "version": "1.2.3",
        "classes": [0, 1, 2, 3],
        "class_names": ["class 0", "class 1", "class 2", "class 3"],
        "examples": {"train": 27, "validation": 8, "test": 11},
    }


def test_splits_may_be_put_together(builder):
    splits = {"train": "train+validation", "test": "test"}
    task = SplitClasses(builder, 4, splits=splits, validation_split=0)[0]
    assert held(task, "train") == sorted(rows(*TRAIN) + rows(*VALIDATION))
    assert task.validation is None
    parts = {"train": "train[:20]", "validation": "train[20:]", "test": "test"}
    counts = SplitClasses(builder, 4, splits=parts)[0].metadata["examples"]
    assert counts == {"train": 20, "validation": 7, "test": 11}


@pytest.mark.parametrize(
    "splits, message",
    [
        ({"test": "test"}, "splits of TFDS for 'train'"),
        ({"train": "train", "dev": "test"}, "for 'train'.*'dev'"),
        ({"train": 5}, "for 'train'.*5"),
        ({"train": "training"}, "splits of 'tiny_images'.*'training'"),
        ({"train": "train[", "test": "test"}, "splits of 'tiny_images'"),
        ({"train": "train", "test": "train[:5]"}, "in common.*train and test"),
        ({"train": "train+test", "test": "test"}, "in common.*'test' in"),
        ({"train": "train[:60%]", "test": "train[50%:]"}, "in common"),
    ],
)
def test_wrong_splits(builder, splits, message):
    with pytest.raises(ValueError, match=message):
        SplitClasses(builder, 4, splits=splits)


def test_other_labels_of_the_data_set(builder):
    scenario = SplitClasses(builder, 2, label="parity")
    expected = rows(TRAIN[0], TRAIN[1] % 2)
    assert held(scenario[0], "train") == expected
    for label in ("text", "image", "missing"):
        with pytest.raises(ValueError, match=f"label='{label}'.*'parity'"):
            SplitClasses(builder, 2, label=label)


def test_only_the_classes_in_use_are_decoded(builder):
    scenario = SplitClasses(builder, 1, classes=[1, 2])
    source = scenario[0].examples("train").source
    assert source.x.shape[0] == 11 and set(source.y) == {1, 2}
    # They fit where all examples together would not.
    limit = 12 * (11 + 4 + 4)
    scenario = SplitClasses(builder, 1, classes=[1, 2], memory_limit=limit)
    assert scenario[0].examples("train").in_memory
    scenario = SplitClasses(builder, 1, classes=[1, 2], memory_limit=limit - 1)
    assert not scenario[0].examples("train").in_memory
    limit = 12 * (27 + 8 + 11)
    for n, in_memory in ((limit, True), (limit - 1, False)):
        scenario = SplitClasses(builder, 2, memory_limit=n)
        assert scenario[0].examples("test").in_memory == in_memory


def test_scenarios_share_what_they_decoded(builder):
    gc.collect()
    before = len(record_data._decoded)
    first, second = (SplitClasses(builder, n, seed=n) for n in (1, 2))
    source = first[0].examples("train").source
    assert second[1].examples("train").source is source
    assert first[3].examples("train").source is source
    other = SplitClasses(builder, 2, image_size=(2, 2))
    assert other[0].examples("train").source is not source
    assert len(record_data._decoded) > before
    del first, second, source, other
    gc.collect()
    assert len(record_data._decoded) == before


def test_making_tasks_reads_nothing(builder, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("read")

    monkeypatch.setattr(TFDSData, "_dataset", refuse)
    scenario = SplitClasses(builder, 2)
    assert [task.name for task in scenario] == ["0/1", "2/3"]
    assert scenario.num_classes == 4 and scenario.get_config()
    with pytest.raises(AssertionError, match="read"):
        scenario[0].examples("train")


def test_a_class_without_examples_is_named(tmp_path):
    names = ["a", "b", "c", "d", "e"]
    splits = {"train": TRAIN, "test": TEST}
    builder = prepare_tiny(tmp_path, splits, names=names)
    with pytest.raises(ValueError, match="no train examples of class 4$"):
        SplitClasses(builder, 1)[0].examples("train")
    scenario = SplitClasses(builder, 1, classes=range(4))
    assert len(scenario[0].examples("train")) > 0


def test_unknown_sizes_of_images(tmp_path):
    splits = {"train": TRAIN, "test": (TEST[0][:, :2], TEST[1])}
    builder = prepare_tiny(tmp_path, splits, shape=(None, None, 1))
    with pytest.raises(ValueError, match="`image_size=.*'tiny_images'"):
        SplitClasses(builder, 4)[0].examples("train")
    resized = SplitClasses(builder, 4, image_size=(4, 3))[0]
    assert resized.examples("test").arrays()[0].shape == (11, 4, 3, 1)
    # Images of the right size are left alone.
    x, y = resized.examples("train").arrays()
    assert set(rows(np.rint(x * 255).astype("uint8"), y)) <= set(rows(*TRAIN))
    streamed = SplitClasses(builder, 4, memory_limit=0, validation_split=0)[0]
    with pytest.raises(tf.errors.InvalidArgumentError, match="image_size"):
        streamed.examples("test").arrays()


def test_data_without_images_and_labels(tmp_path):
    class Texts(tfds.core.GeneratorBasedBuilder):
        VERSION = tfds.core.Version("1.0.0")

        def _info(self):
            features = {
                "text": tfds.features.Text(),
                "label": tfds.features.ClassLabel(num_classes=2),
            }
            return tfds.core.DatasetInfo(
                builder=self,
                features=tfds.features.FeaturesDict(features),
                supervised_keys=("text", "label"),
            )

        def _split_generators(self, dl_manager):
            raise AssertionError("Nothing is to be prepared.")

        def _generate_examples(self):
            raise AssertionError("Nothing is to be prepared.")

    with pytest.raises(ValueError, match=r"classification.*\['label', 'text'"):
        SplitClasses(Texts(data_dir=str(tmp_path)), 1)
    assert not any(tmp_path.iterdir())


@pytest.mark.slow
@pytest.mark.data
def test_mnist_is_the_same_from_tfds_arrays_and_a_folder(mnist, tmp_path):
    options = {"classes_per_task": 2, "seed": 1}
    flat = SplitClasses(mnist, **options)
    whole = SplitClasses("mnist", **options)
    for a, b in zip(flat, whole):
        assert a.name == b.name
        for split in ("train", "validation", "test"):
            left = a.examples(split).arrays()
            right = b.examples(split).reshape((784,)).arrays()
            np.testing.assert_array_equal(left[0], right[0])
            np.testing.assert_array_equal(left[1], right[1])
    counts = whole[0].metadata["examples"]
    # 5,923 zeros and 6,742 ones, of which 592 and 674 are held out.
    assert counts == {"train": 11399, "validation": 1266, "test": 2115}
    arrays = []
    for (x, y), split in zip(mnist, ("train", "test")):
        x = np.rint(x[:400] * 255).astype("uint8").reshape((-1, 28, 28, 1))
        arrays.append((x, y[:400]))
        write_folder(tmp_path / split, *arrays[-1])
    splits = {"train": "train[:400]", "test": "test[:400]"}
    expected = SplitClasses(arrays, **options)
    assert_same_tasks(SplitClasses(tmp_path, **options), expected)
    assert_same_tasks(SplitClasses("mnist", splits=splits, **options), expected)


@pytest.mark.data
def test_part_of_cifar100_is_missing_or_there():
    try:
        scenario = SplitClasses(
            "cifar100", 2, classes=range(20), download=False
        )
    except FileNotFoundError as error:
        pytest.skip(str(error))
    assert len(scenario) == 10 and scenario.num_classes == 20
    counts = scenario[3].metadata["examples"]
    assert counts == {"train": 900, "validation": 100, "test": 200}
    assert scenario[0].metadata["class_names"] == ["apple", "aquarium_fish"]
