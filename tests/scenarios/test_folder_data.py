import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bpn.scenarios import SplitClasses
from keras_bpn.scenarios.folder_data import FolderData
from tests.scenarios.helpers import make_images
from tests.scenarios.helpers import make_splits
from tests.scenarios.helpers import rows
from tests.scenarios.helpers import write_folder

NAMES = ("cat", "dog", "eel", "fox")


@pytest.mark.parametrize("channels", [1, 3])
def test_reads_what_the_image_folder_of_tfds_reads(tmp_path, channels):
    splits = make_splits(shape=(4, 5, channels))
    for split, (x, y) in zip(("train", "test"), splits):
        write_folder(tmp_path / split, x, y, NAMES)
    ours = FolderData(tmp_path)
    theirs = tfds.ImageFolder(str(tmp_path), shape=(None, None, channels))
    assert ours.class_names == tuple(theirs.info.features["label"].names)
    assert ours.classes == (0, 1, 2, 3) and ours.shape() == (4, 5, channels)
    for split, (x, y) in zip(("train", "test"), splits):
        source = ours.load(ours.classes)[split]
        found = theirs.as_dataset(split=split, as_supervised=True)
        found = zip(*found.as_numpy_iterator())
        assert rows(source.x, source.y) == rows(*found) == rows(x, y)
    # And so does a builder of TFDS itself.
    scenario = SplitClasses(theirs, 2)
    assert scenario[0].metadata["class_names"] == ["cat", "dog"]
    config = scenario.get_config()["dataset"]
    assert config["counts"] == {"test": 11, "train": 27}
    assert rows(*scenario[1].examples("test").arrays()) == rows(
        *SplitClasses(tmp_path, 2)[1].examples("test").arrays()
    )


def test_a_validation_folder_is_used(tmp_path):
    for split, sizes in (("train", (3, 4)), ("validation", (2, 1))):
        write_folder(tmp_path / split, *make_images(sizes))
    write_folder(tmp_path / "test", *make_images((2, 2), seed=4))
    task = SplitClasses(tmp_path, 2)[0]
    counts = {"train": 7, "validation": 3, "test": 4}
    assert task.metadata["examples"] == counts


def test_jpeg_and_mixed_case_names_are_read(tmp_path):
    x, _ = make_images((6,), shape=(8, 8, 3))
    for i, image in enumerate(x):
        folder = tmp_path / str(i % 2)
        folder.mkdir(exist_ok=True)
        jpeg = tf.io.encode_jpeg(image, quality=100).numpy()
        (folder / f"{i}{['.jpg', '.JPEG', '.JPG'][i % 3]}").write_bytes(jpeg)
        (folder / "notes.txt").write_text("no image")
    scenario = SplitClasses(tmp_path, 1)
    assert scenario[0].examples("train").shape == (8, 8, 3)
    assert sum(scenario[0].metadata["examples"].values()) == 3


def test_images_of_different_sizes_need_a_size(tmp_path):
    write_folder(tmp_path / "train", *make_images((3, 3), shape=(4, 4, 3)))
    write_folder(tmp_path / "test", *make_images((3, 3), shape=(5, 4, 3)))
    with pytest.raises(ValueError, match="`image_size=.*different shapes"):
        SplitClasses(tmp_path, 1)[0].examples("train")
    scenario = SplitClasses(tmp_path, 1, image_size=(4, 4))
    assert scenario[0].examples("test").arrays()[0].shape == (3, 4, 4, 3)


def test_making_tasks_reads_no_image(tmp_path):
    write_folder(tmp_path, *make_images((4, 4)))
    for path in tmp_path.rglob("*.png"):
        path.write_bytes(b"broken")
    scenario = SplitClasses(tmp_path, 1)
    assert [task.name for task in scenario] == ["0", "1"]
    assert scenario.num_classes == 2
    with pytest.raises(tf.errors.InvalidArgumentError):
        scenario[0].examples("train")


def test_config_changes_with_the_files(tmp_path):
    write_folder(tmp_path, *make_images((4, 4)))
    before = FolderData(tmp_path).get_config()
    assert FolderData(tmp_path).get_config() == before
    assert str(tmp_path) not in str(before)
    path = next(tmp_path.rglob("*.png"))
    path.rename(path.with_name("other.png"))
    assert FolderData(tmp_path).get_config() != before


def test_folders_of_another_layout(tmp_path):
    with pytest.raises(FileNotFoundError, match="no folder"):
        SplitClasses(tmp_path / "missing", 1)
    with pytest.raises(ValueError, match="no such files"):
        SplitClasses(tmp_path, 1)
    write_folder(tmp_path / "train", *make_images((4, 4)))
    write_folder(tmp_path / "val", *make_images((4, 4)))
    with pytest.raises(ValueError, match="layout.*'val'"):
        SplitClasses(tmp_path, 1)


def test_a_class_that_one_split_lacks_is_named(tmp_path):
    write_folder(tmp_path / "train", *make_images((4, 4)))
    write_folder(tmp_path / "test", *make_images((4, 0)))
    with pytest.raises(ValueError, match="no test examples of class 1"):
        SplitClasses(tmp_path, 1)
    SplitClasses(tmp_path, 1, classes=[0])


def test_labels_count_the_names_in_order(tmp_path):
    x, y = make_images((2, 3, 4))
    write_folder(tmp_path, x, y, ("b", "a", "c"))
    labels = FolderData(tmp_path).labels()["train"]
    np.testing.assert_array_equal(np.bincount(labels), [3, 2, 4])
