import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.scenarios.builders import StanfordCars
from tests.scenarios.builders import dummies

FIELDS = ["bbox_x1", "bbox_y1", "bbox_x2", "bbox_y2", "class", "fname"]
# Classes count from 1 in the official annotations.
TRAIN = {"00001.jpg": 14, "00002.jpg": 1, "00003.jpg": 196}
TEST = {"00001.jpg": 181, "00002.jpg": 103}
NAMES = {
    1: "AM General Hummer SUV 2000",
    14: "Audi TTS Coupe 2012",
    103: "Ferrari 458 Italia Convertible 2012",
    181: "Suzuki Aerio Sedan 2007",
    196: "smart fortwo Convertible 2012",
}


def annotations(images, fields=FIELDS):
    """Returns annotations with the fields and types of the official ones."""
    types = [(name, object) for name in fields]
    records = np.zeros((1, len(images)), types)
    for record, (name, label) in zip(records[0], images.items()):
        values = dict(zip(FIELDS[:4], (39, 116, 569, 375)))
        values.update({"class": label, "fname": name})
        for field in fields:
            value = values[field]
            is_name = field == "fname"
            record[field] = value if is_name else np.uint16([[value]])
    return dummies.mat(annotations=records)


def make(folder, train=None, test=None, images=TRAIN):
    for split, names in (("train", images), ("test", TEST)):
        files = {
            f"cars_{split}/{name}": dummies.jpeg(i + 10 * (split == "test"))
            for i, name in enumerate(names)
        }
        dummies.write_tar(folder / f"cars_{split}.tgz", files)
    train = annotations(TRAIN) if train is None else train
    dummies.write_tar(
        folder / "car_devkit.tgz", {"devkit/cars_train_annos.mat": train}
    )
    (folder / "cars_test_annos_withlabels.mat").write_bytes(
        annotations(TEST) if test is None else test
    )


class StanfordCarsTest(dummies.ArchiveTestCase):
    DATASET_CLASS = StanfordCars
    SPLITS = {"train": 3, "test": 2}
    make = staticmethod(make)


@pytest.fixture
def manual(tmp_path):
    folder = tmp_path / "manual"
    folder.mkdir()
    return folder


def test_labels_are_the_official_classes(tmp_path, manual):
    make(manual)
    builder = dummies.prepare("stanford_cars", tmp_path)
    names = builder.info.features["label"].names
    assert len(set(names)) == 196
    for split, images in (("train", TRAIN), ("test", TEST)):
        found = dummies.load_names("stanford_cars", tmp_path, split)
        assert found == {
            f"cars_{split}/{image}": NAMES[label]
            for image, label in images.items()
        }
        labels = dummies.load("stanford_cars", tmp_path, split)
        for image, label in images.items():
            assert labels[f"cars_{split}/{image}"]["label"] == label - 1


def test_images_are_those_of_the_archive(tmp_path, manual):
    make(manual)
    dummies.prepare("stanford_cars", tmp_path)
    found = dummies.load("stanford_cars", tmp_path, "test")
    for i, name in enumerate(TEST):
        np.testing.assert_array_equal(
            found[f"cars_test/{name}"]["image"],
            tf.io.decode_jpeg(dummies.jpeg(10 + i)),
        )


def test_manual_files(tmp_path):
    dummies.check_manual_files("stanford_cars", tmp_path, make)


def test_missing_image(tmp_path, manual):
    make(manual, images=["00001.jpg", "00003.jpg"])
    message = "'cars_train_annos.mat' names at .*cars_train/00002.jpg"
    with pytest.raises(FileNotFoundError, match=message):
        dummies.prepare("stanford_cars", tmp_path)


def test_devkit_without_annotations(tmp_path, manual):
    make(manual)
    dummies.write_tar(manual / "car_devkit.tgz", {"devkit/README.txt": b""})
    with pytest.raises(FileNotFoundError, match="devkit/cars_train_annos.mat"):
        dummies.prepare("stanford_cars", tmp_path)


@pytest.mark.parametrize(
    "changes, message",
    [
        (
            {"test": annotations(TEST, [f for f in FIELDS if f != "class"])},
            r"fields \['class', 'fname'\] in .*withlabels.mat'. Received: "
            "fields .*'bbox_y2', 'fname'",
        ),
        (
            {"train": annotations({**TRAIN, "00001.jpg": 197})},
            "from 1 to 196 .* Received: 197 for 'cars_train/00001.jpg'",
        ),
        (
            {"train": annotations({**TRAIN, "00001.jpg": 0})},
            "from 1 to 196 .* Received: 0",
        ),
        (
            {"train": annotations({"../../secret.jpg": 3})},
            "inside the archive. Received: 'cars_train/../../secret.jpg'",
        ),
        ({"test": b"<html>404</html>"}, "withlabels.mat' to be a MATLAB file"),
        ({"test": annotations(TEST)[:300]}, "to be a MATLAB file"),
        ({"test": dummies.mat(a=1)}, "variable `annotations`"),
        ({"test": annotations({})}, "variable `annotations`"),
    ],
)
def test_annotations_that_do_not_fit(tmp_path, manual, changes, message):
    make(manual, **changes)
    with pytest.raises(ValueError, match=message):
        dummies.prepare("stanford_cars", tmp_path)
    assert not dummies.is_prepared("stanford_cars", tmp_path)
