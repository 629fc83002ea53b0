import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bpn.scenarios.builders import Chars74k
from tests.scenarios.builders import dummies

# Label counting from 1, folder and number; the index in this list counts from 1
# in the lists of the archive.
NAMES = [
    (1, "GoodImg", 1),
    (1, "GoodImg", 2),
    (1, "BadImag", 1),
    (11, "GoodImg", 1),
    (11, "BadImag", 4),
    (37, "GoodImg", 3),
    (62, "GoodImg", 1),
    (62, "GoodImg", 2),
]
TEST = {2: "0", 6: "a", 8: "z"}
GOOD = {1: "0", 4: "A", 7: "z"}
BAD = {3: "0", 5: "A"}


def name(index):
    label, folder, number = NAMES[index - 1]
    return f"{folder}/Bmp/Sample{label:03}/img{label:03}-{number:05}"


def by_name(labels):
    return {f"{name(index)}.png": label for index, label in labels.items()}


def lists(**changes):
    """Returns `lists.mat`, with the fields and types of the official one."""
    fields = {
        "ALLnames": np.array([name(i + 1) for i in range(len(NAMES))]),
        "is_good": np.array([[n[1] == "GoodImg"] for n in NAMES]),
        "ALLlabels": np.array([[n[0]] for n in NAMES], "uint16"),
        "NUMclasses": 62,
        # Two splits; the first column is shorter and filled up with 0.
        "TSTind": np.array([[2, 2], [6, 6], [0, 8]], "uint16"),
        "TRNind": np.array([[1, 1], [4, 4], [0, 7]], "uint16"),
        **changes,
    }
    return dummies.mat(list={k: v for k, v in fields.items() if v is not None})


def make(folder, mat=None, without=()):
    images = {
        f"English/Img/{name(i)}.png": dummies.png(i)
        for i in range(1, len(NAMES) + 1)
        if i not in without
    }
    mask = f"English/Img/{name(1)}.png".replace("/Bmp/", "/Msk/")
    images[mask] = dummies.png(99)
    dummies.write_tar(folder / "EnglishImg.tgz", images)
    dummies.write_tar(
        folder / "Lists.tgz",
        {
            "Lists/English/Img/lists.mat": lists() if mat is None else mat,
            "Lists/English/Hnd/lists_var_size.mat": b"not read",
        },
    )


class Chars74kTest(dummies.ArchiveTestCase):
    DATASET_CLASS = Chars74k
    BUILDER_CONFIG_NAMES_TO_TEST = ["good"]
    SPLITS = {"train": 3, "test": 3}
    make = staticmethod(make)


class Chars74kAllTest(dummies.ArchiveTestCase):
    DATASET_CLASS = Chars74k
    BUILDER_CONFIG_NAMES_TO_TEST = ["all"]
    SPLITS = {"train": 5, "test": 3}
    make = staticmethod(make)


@pytest.fixture
def manual(tmp_path):
    folder = tmp_path / "manual"
    folder.mkdir()
    return folder


@pytest.mark.parametrize(
    "data_set, train",
    [
        ("chars74k", GOOD),
        ("chars74k/good", GOOD),
        ("chars74k/all", {**GOOD, **BAD}),
    ],
)
def test_the_test_set_of_the_authors_and_the_rest(
    tmp_path, manual, data_set, train
):
    make(manual)
    builder = dummies.prepare(data_set, tmp_path)
    assert "".join(builder.info.features["label"].names) == (
        "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    )
    for split, expected in (("train", train), ("test", TEST)):
        found = dummies.load_names(data_set, tmp_path, split)
        assert found == by_name(expected)


def test_good_images_are_the_default():
    assert tfds.builder("chars74k").builder_config.name == "good"


def test_images_are_those_of_the_archive(tmp_path, manual):
    make(manual)
    dummies.prepare("chars74k", tmp_path)
    found = dummies.load("chars74k", tmp_path, "test")
    for index in TEST:
        example = found[f"{name(index)}.png"]
        np.testing.assert_array_equal(example["image"], dummies.pixels(index))


def test_grey_images_get_three_channels(tmp_path, manual):
    make(manual, without=[1])
    grey = dummies.pixels(0)[..., :1]
    with_grey = {f"English/Img/{name(1)}.png": tf.io.encode_png(grey).numpy()}
    for i in range(2, len(NAMES) + 1):
        with_grey[f"English/Img/{name(i)}.png"] = dummies.png(i)
    dummies.write_tar(manual / "EnglishImg.tgz", with_grey)
    dummies.prepare("chars74k", tmp_path)
    found = dummies.load("chars74k", tmp_path, "train")
    np.testing.assert_array_equal(
        found[f"{name(1)}.png"]["image"], np.repeat(grey, 3, -1)
    )


def test_manual_files(tmp_path):
    dummies.check_manual_files("chars74k", tmp_path, make)


def test_missing_image(tmp_path, manual):
    make(manual, without=[4])
    with pytest.raises(FileNotFoundError, match=f"names at .*{name(4)}.png"):
        dummies.prepare("chars74k", tmp_path)


def test_bad_images_may_be_missing_where_they_are_not_used(tmp_path, manual):
    make(manual, without=BAD)
    dummies.prepare("chars74k/good", tmp_path)
    with pytest.raises(FileNotFoundError, match="BadImag"):
        dummies.prepare("chars74k/all", tmp_path)


OUTSIDE = "GoodImg/../../../../../../../secret/x"


@pytest.mark.parametrize(
    "mat, message",
    [
        (b"no MATLAB", "lists.mat' to be a MATLAB file"),
        (dummies.mat(other=1), "structures in the variable `list`"),
        (dummies.mat(list=3), "fields .*TSTind.* Received: fields \\[\\]"),
        (lists(TSTind=None), "Received: fields .*'ALLlabels'"),
        (
            lists(ALLlabels=np.full((8, 1), 63)),
            "label from 1 to 62 .* out of range: \\[63\\]",
        ),
        (
            lists(ALLlabels=np.full((8, 1), 0)),
            "label from 1 to 62 .* out of range: \\[0\\]",
        ),
        (lists(ALLlabels=np.ones((7, 1))), "8 images .* Received: 7 labels"),
        (
            lists(TSTind=np.array([[1], [9]])),
            "2 indices, out of range: \\[9\\]",
        ),
        (lists(TSTind=np.zeros((2, 2))), "from 1 to 8 .* Received: 0 indices"),
        (
            lists(ALLnames=np.array([OUTSIDE] * 8)),
            "inside the archive. Received: 'English/Img/GoodImg/../..",
        ),
    ],
)
def test_lists_that_do_not_fit(tmp_path, manual, mat, message):
    make(manual, mat)
    with pytest.raises(ValueError, match=message):
        dummies.prepare("chars74k", tmp_path)
    assert not dummies.is_prepared("chars74k", tmp_path)
