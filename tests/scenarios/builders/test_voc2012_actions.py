import numpy as np
import pytest
import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bpn.scenarios.builders import Voc2012Actions
from keras_bpn.scenarios.builders import voc2012_actions
from tests.scenarios.builders import dummies

DATA = "VOCdevkit/VOC2012"
TAR = "VOCtrainval_11-May-2012.tar"
ACTIONS = [
    "jumping",
    "other",
    "phoning",
    "playinginstrument",
    "reading",
    "ridingbike",
    "ridinghorse",
    "running",
    "takingphoto",
    "usingcomputer",
    "walking",
]
# Of each object its actions, or None where it has none, and its box.
IMAGES = {
    "2010_006215": [(["walking"], (2, 3, 5, 6)), (["other"], (1, 1, 8, 6))],
    # A horse, a person that does two things, and one that does one.
    "2010_006217": [
        (None, (1, 1, 2, 2)),
        (["phoning", "walking"], (1, 1, 4, 4)),
        (["ridinghorse"], (4.4, 1, 7.6, 3)),
    ],
    "2011_000001": [(["jumping"], (0, 0, 3, 2))],
    # Nobody with one action.
    "2011_000002": [(["reading", "running"], (1, 1, 4, 4)), ([], (1, 1, 2, 2))],
}
LISTS = {
    "train": ["2010_006215", "2010_006217", "2011_000002"],
    "val": ["2011_000001"],
}


def annotation(things):
    xml = "<annotation><size><width>8</width><height>6</height></size>"
    for actions, box in things:
        xml += "<object><name>person</name>"
        if actions is not None:
            flags = (f"<{a}>{int(a in actions)}</{a}>" for a in ACTIONS)
            xml += f"<actions>{''.join(flags)}</actions>"
        sides = zip(("xmin", "ymin", "xmax", "ymax"), box)
        sides = "".join(f"<{name}>{value}</{name}>" for name, value in sides)
        xml += f"<bndbox>{sides}</bndbox></object>"
    return (xml + "</annotation>").encode()


def files(**changes):
    """Returns the files of the archive."""
    found = {}
    for seed, (name, things) in enumerate(IMAGES.items()):
        found[f"JPEGImages/{name}.jpg"] = dummies.jpeg(seed)
        found[f"Annotations/{name}.xml"] = annotation(things)
    for split, names in LISTS.items():
        found[f"ImageSets/Action/{split}.txt"] = "\n".join(names).encode()
    # A list of the main task, which names another image.
    found["ImageSets/Main/train.txt"] = b"2008_000008\n"
    found.update(changes)
    return {f"{DATA}/{k}": v for k, v in found.items() if v is not None}


def make(folder):
    dummies.write_tree(folder, files())


class Voc2012ActionsTest(dummies.ArchiveTestCase):
    DATASET_CLASS = Voc2012Actions
    SPLITS = {"train": 3, "validation": 1}
    make = staticmethod(make)


@pytest.fixture
def prepare(tmp_path, monkeypatch):
    """Returns a function that prepares the set from a real archive."""

    def run(**changes):
        manual = tmp_path / "manual"
        manual.mkdir()
        dummies.write_tar(manual / TAR, files(**changes))
        info = tfds.core.download.checksums.compute_url_info(manual / TAR)
        url_infos = {voc2012_actions._URL: info}
        monkeypatch.setattr(Voc2012Actions, "url_infos", url_infos)
        return dummies.prepare("voc2012_actions", tmp_path)

    return run


def test_persons_with_exactly_one_action(tmp_path, prepare):
    names = prepare().info.features["label"].names
    assert names[:10] == [a for a in ACTIONS if a != "other"]
    assert names[10:] == ["other"]
    assert dummies.load_names("voc2012_actions", tmp_path, "train") == {
        "2010_006215_1": "walking",
        "2010_006215_2": "other",
        "2010_006217_3": "ridinghorse",
    }
    assert dummies.load_names("voc2012_actions", tmp_path, "validation") == {
        "2011_000001_1": "jumping"
    }


def test_crops_are_the_pixels_of_the_box(tmp_path, prepare):
    prepare()
    found = {
        **dummies.load("voc2012_actions", tmp_path, "train"),
        **dummies.load("voc2012_actions", tmp_path, "validation"),
    }
    first, second, third = (
        tf.io.decode_jpeg(dummies.jpeg(seed)).numpy() for seed in range(3)
    )
    # Boxes count from 1 and hold both ends: x from 2 to 5 is [1:5].
    for name, expected in (
        ("2010_006215_1", first[2:6, 1:5]),
        ("2010_006215_2", first),
        ("2010_006217_3", second[0:3, 3:8]),
        ("2011_000001_1", third[0:2, 0:3]),
    ):
        np.testing.assert_array_equal(found[name]["image"], expected)


def test_lists_with_the_number_of_the_person(tmp_path, prepare):
    lines = b"2010_006215 1\n2010_006215 2\n"
    prepare(**{"ImageSets/Action/train.txt": lines})
    found = dummies.load_names("voc2012_actions", tmp_path, "train")
    assert sorted(found) == ["2010_006215_1", "2010_006215_2"]


def test_archive_has_the_checksum_that_tfds_registers():
    voc = tfds.builder_cls("voc").url_infos
    assert Voc2012Actions.url_infos == {
        voc2012_actions._URL: voc[voc2012_actions._URL]
    }


def test_another_archive_in_the_manual_directory_is_refused(tmp_path):
    manual = tmp_path / "manual"
    manual.mkdir()
    dummies.write_tar(manual / TAR, files())
    with pytest.raises(
        tfds.core.download.download_manager.NonMatchingChecksumError,
        match=TAR,
    ):
        dummies.prepare("voc2012_actions", tmp_path)


BOX = "<object><actions><running>1</running></actions>{}</object>"


@pytest.mark.parametrize(
    "xml, message",
    [
        (b"<annotation><object>", "2011_000001.xml' to be an annotation"),
        (
            f"<annotation>{BOX.format('')}</annotation>".encode(),
            "2011_000001.xml' to be an annotation",
        ),
        (
            annotation([(["walking"], (1, 1, 4, 4))]).replace(
                b"walking", b"flying"
            ),
            "unknown action 'flying'",
        ),
        (
            annotation([(["walking"], (9, 1, 12, 4))]),
            r"shape \(6, 8, 3\). Received: .*=\(9.0, 1.0, 12.0, 4.0\)",
        ),
        (annotation([(["walking"], (5, 1, 4, 4))]), "to lie in the image"),
        (
            annotation([(["walking"], (1, 1, "", 4))]),
            "to be an annotation",
        ),
    ],
)
def test_annotations_that_do_not_fit(prepare, xml, message):
    with pytest.raises(ValueError, match=message):
        prepare(**{"Annotations/2011_000001.xml": xml})


def test_broken_image(prepare):
    name = "JPEGImages/2011_000001.jpg"
    with pytest.raises(ValueError, match=f"{name}' to be a JPEG image"):
        prepare(**{name: dummies.jpeg(0)[:40]})


@pytest.mark.parametrize(
    "missing",
    ["JPEGImages/2011_000001.jpg", "Annotations/2011_000001.xml"],
)
def test_missing_files(prepare, missing):
    with pytest.raises(
        FileNotFoundError, match=f"'val.txt' names at .*{missing}"
    ):
        prepare(**{missing: None})


def test_missing_list(prepare):
    with pytest.raises(FileNotFoundError, match="the list at .*Action/val.txt"):
        prepare(**{"ImageSets/Action/val.txt": None})


def test_list_cannot_leave_the_archive(prepare):
    with pytest.raises(ValueError, match="inside the archive. Received"):
        prepare(**{"ImageSets/Action/val.txt": b"../../../../../secret\n"})
