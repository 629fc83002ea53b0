import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.scenarios.builders import FgvcAircraft
from tests.scenarios.builders import dummies

DATA = "fgvc-aircraft-2013b/data"
# Variant, family and manufacturer by split and image.
IMAGES = {
    "train": {
        "1025794": ("707-320", "Boeing 707", "Boeing"),
        "0056978": ("F-16A/B", "F-16", "Lockheed Corporation"),
        "0034309": ("BAE 146-200", "BAE 146", "British Aerospace"),
    },
    "val": {"1019011": ("Yak-42", "Yak-42", "Yakovlev")},
    "test": {
        "0062765": ("DHC-8-100", "Dash 8", "de Havilland"),
        "0822348": ("747-400", "Boeing 747", "Boeing"),
    },
}


def files():
    """Returns the files of the archive."""
    found = {}
    for split, images in IMAGES.items():
        for i, level in enumerate(("variant", "family", "manufacturer")):
            lines = [
                f"{image} {labels[i]}\n" for image, labels in images.items()
            ]
            name = f"{DATA}/images_{level}_{split}.txt"
            found[name] = "".join(lines).encode()
        for image in images:
            found[f"{DATA}/images/{image}.jpg"] = dummies.jpeg(int(image))
    return found


def make(folder, **changes):
    archive = {**files(), **{f"{DATA}/{k}": v for k, v in changes.items()}}
    archive = {k: v for k, v in archive.items() if v is not None}
    dummies.write_tar(folder / "fgvc-aircraft-2013b.tar.gz", archive)


class FgvcAircraftTest(dummies.ArchiveTestCase):
    DATASET_CLASS = FgvcAircraft
    SPLITS = {"train": 3, "validation": 1, "test": 2}
    make = staticmethod(make)


@pytest.fixture
def manual(tmp_path):
    folder = tmp_path / "manual"
    folder.mkdir()
    return folder


def test_labels_of_the_three_levels(tmp_path, manual):
    make(manual)
    builder = dummies.prepare("fgvc_aircraft", tmp_path)
    features = builder.info.features
    assert features["label"].num_classes == 100
    assert features["family"].num_classes == 70
    assert features["manufacturer"].num_classes == 30
    for split, official in (
        ("train", "train"),
        ("validation", "val"),
        ("test", "test"),
    ):
        for i, feature in enumerate(("label", "family", "manufacturer")):
            found = dummies.load_names(
                "fgvc_aircraft", tmp_path, split, feature
            )
            assert found == {
                f"{image}.jpg": labels[i]
                for image, labels in IMAGES[official].items()
            }


def test_images_are_those_of_the_archive(tmp_path, manual):
    make(manual)
    dummies.prepare("fgvc_aircraft", tmp_path)
    found = dummies.load("fgvc_aircraft", tmp_path, "test")
    for name, example in found.items():
        expected = tf.io.decode_jpeg(files()[f"{DATA}/images/{name}"])
        np.testing.assert_array_equal(example["image"], expected)


def test_manual_files(tmp_path):
    dummies.check_manual_files("fgvc_aircraft", tmp_path, make)


@pytest.mark.parametrize(
    "changes, error, message",
    [
        (
            {"images/1019011.jpg": None},
            FileNotFoundError,
            "'images_variant_val.txt' names at .*images/1019011.jpg",
        ),
        (
            {"images_family_test.txt": None},
            FileNotFoundError,
            "Expected the list at .*images_family_test.txt",
        ),
        (
            {"images_variant_val.txt": b"1019011 Zeppelin\n"},
            ValueError,
            "one of the 100 labels. Received: '1019011 Zeppelin'",
        ),
        (
            {"images_variant_val.txt": b"1019011\n"},
            ValueError,
            "lines `image label` in .* Received: '1019011'",
        ),
        (
            {"images_family_val.txt": b"1019012 Yak-42\n"},
            ValueError,
            r"`family` and `variant` that differ in \['1019011', '1019012'\]",
        ),
        (
            {
                f"images_{level}_val.txt": f"../../../{level} {label}".encode()
                for level, label in (
                    ("variant", "Yak-42"),
                    ("family", "Yak-42"),
                    ("manufacturer", "Yakovlev"),
                )
            },
            ValueError,
            "differ",
        ),
        (
            {
                f"images_{level}_val.txt": f"../../../../x {label}".encode()
                for level, label in (
                    ("variant", "Yak-42"),
                    ("family", "Yak-42"),
                    ("manufacturer", "Yakovlev"),
                )
            },
            ValueError,
            "inside the archive. Received: .*x.jpg",
        ),
    ],
)
def test_lists_that_do_not_fit(tmp_path, manual, changes, error, message):
    make(manual, **changes)
    with pytest.raises(error, match=message):
        dummies.prepare("fgvc_aircraft", tmp_path)
    assert not dummies.is_prepared("fgvc_aircraft", tmp_path)
