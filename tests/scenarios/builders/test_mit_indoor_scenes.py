import io

import numpy as np
import PIL.Image
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bpn.scenarios.builders import MitIndoorScenes
from tests.scenarios.builders import dummies

TRAIN = [
    "airport_inside/one two.jpg",
    "kitchen/a.jpg",
    "winecellar/b.jpg",
    "bakery/c.jpg",
]
TEST = ["kitchen/d.jpg", "winecellar/a.jpg"]


def images():
    """Returns the images of the archive, one of them in no list."""
    names = [*TRAIN, *TEST, "bar/not_listed.jpg"]
    return {f"Images/{n}": dummies.jpeg(i) for i, n in enumerate(names)}


def make(folder, train=TRAIN, test=TEST):
    dummies.write_tar(folder / "indoorCVPR_09.tar", images())
    # With and without a last end of line, and as Windows writes it.
    (folder / "TrainImages.txt").write_text("\n".join(train))
    (folder / "TestImages.txt").write_bytes(
        ("\r\n".join(test) + "\r\n").encode()
    )


class MitIndoorScenesTest(dummies.ArchiveTestCase):
    DATASET_CLASS = MitIndoorScenes
    SPLITS = {"train": 4, "test": 2}
    make = staticmethod(make)


@pytest.fixture
def manual(tmp_path):
    folder = tmp_path / "manual"
    folder.mkdir()
    make(folder)
    return folder


def test_labels_are_the_folders(tmp_path, manual):
    builder = dummies.prepare("mit_indoor_scenes", tmp_path)
    names = builder.info.features["label"].names
    assert len(names) == 67
    assert names == sorted(names)
    for split, listed in (("train", TRAIN), ("test", TEST)):
        found = dummies.load_names("mit_indoor_scenes", tmp_path, split)
        assert found == {name: name.split("/")[0] for name in listed}


def test_images_are_those_of_the_archive(tmp_path, manual):
    dummies.prepare("mit_indoor_scenes", tmp_path)
    for name, example in dummies.load(
        "mit_indoor_scenes", tmp_path, "train"
    ).items():
        expected = tf.io.decode_jpeg(images()[f"Images/{name}"])
        np.testing.assert_array_equal(example["image"], expected)


def test_as_supervised(tmp_path, manual):
    dummies.prepare("mit_indoor_scenes", tmp_path)
    dataset = tfds.load(
        "mit_indoor_scenes",
        split="test",
        data_dir=tmp_path / "data",
        download=False,
        as_supervised=True,
    )
    # In alphabetical order, "kitchen" has 37 classes before it.
    assert sorted(int(label) for _, label in dataset) == [37, 66]


def test_manual_files(tmp_path):
    dummies.check_manual_files("mit_indoor_scenes", tmp_path, make)


def test_image_of_another_format_is_converted(tmp_path, manual):
    file = io.BytesIO()
    PIL.Image.fromarray(dummies.pixels(0)).quantize(64).save(file, "GIF")
    files = {**images(), "Images/kitchen/a.jpg": file.getvalue()}
    dummies.write_tar(manual / "indoorCVPR_09.tar", files)
    dummies.prepare("mit_indoor_scenes", tmp_path)
    example = dummies.load("mit_indoor_scenes", tmp_path, "train")
    expected = PIL.Image.open(file).convert("RGB")
    np.testing.assert_array_equal(example["kitchen/a.jpg"]["image"], expected)


def test_file_that_is_no_image(tmp_path, manual):
    files = {**images(), "Images/kitchen/a.jpg": b"nothing to see"}
    dummies.write_tar(manual / "indoorCVPR_09.tar", files)
    with pytest.raises(ValueError, match="kitchen/a.jpg' to be an image"):
        dummies.prepare("mit_indoor_scenes", tmp_path)


def test_missing_image_and_a_replaced_archive(tmp_path, manual):
    files = images()
    del files["Images/kitchen/d.jpg"]
    dummies.write_tar(manual / "indoorCVPR_09.tar", files)
    message = "'TestImages.txt' names at '(.*)/Images/kitchen/d.jpg'.*delete"
    with pytest.raises(FileNotFoundError, match=message) as error:
        dummies.prepare("mit_indoor_scenes", tmp_path)
    # Doing what the error says helps.
    make(manual)
    folder = tfds.core.Path(str(error.value).split("'")[3]).parents[2]
    assert f"'{folder}'" in str(error.value)
    folder.rmtree()
    dummies.prepare("mit_indoor_scenes", tmp_path)


@pytest.mark.parametrize(
    "line, message",
    [
        ("garden/a.jpg", "one of the 67 classes. Received: 'garden/a.jpg'"),
        ("a.jpg", "Received: 'a.jpg'"),
        ("/etc/passwd", "Received: '/etc/passwd'"),
        ("../secret.jpg", "Received: '../secret.jpg'"),
        ("kitchen/../../secret.jpg", "inside the archive. Received"),
        (r"kitchen/..\..\secret.jpg", "inside the archive. Received"),
    ],
)
def test_lines_outside_the_archive_or_the_classes(
    tmp_path, manual, line, message
):
    make(manual, train=[*TRAIN, line])
    (tmp_path / "secret.jpg").write_bytes(dummies.jpeg(0))
    with pytest.raises(ValueError, match=message):
        dummies.prepare("mit_indoor_scenes", tmp_path)
    assert not dummies.is_prepared("mit_indoor_scenes", tmp_path)


def test_list_that_is_no_text(tmp_path, manual):
    (manual / "TestImages.txt").write_bytes(b"kitchen/\xff\xfe.jpg")
    with pytest.raises(ValueError, match="TestImages.txt' to be text in UTF-8"):
        dummies.prepare("mit_indoor_scenes", tmp_path)
