import functools
import hashlib
import pathlib

import numpy as np
import tensorflow as tf

from keras_bpn.scenarios.record_data import RecordData
from keras_bpn.scenarios.task import SPLITS

_SUFFIXES = (".png", ".jpg", ".jpeg")


class FolderData(RecordData):
    """A folder of images, `root/split/class/*.png` or `root/class/*.png`.

    Splits are `train`, `validation` and `test`. Labels count the names of the
    classes in their sorted order, as `tfds.ImageFolder` does. Images are grey
    if the first of every class is, and in colour otherwise.

    Args:
        path: Path of the folder.
        image_size, memory_limit: See `RecordData`.
    """

    labels_known = True

    def __init__(self, path, image_size=None, memory_limit=None):
        super().__init__(image_size, memory_limit)
        self.root = pathlib.Path(path).expanduser()
        self._files = _find_files(self.root)
        self.name = self.root.resolve().name
        self.splits = tuple(self._files)
        names = {c for files in self._files.values() for c in files}
        self.class_names = tuple(sorted(names))
        self.classes = tuple(range(len(self.class_names)))

    def labels(self):
        return self._labels

    def read_labels(self, split):
        return np.array([label for _, label in self._pairs(split)], "int32")

    def records(self, split):
        paths, labels = zip(*self._pairs(split))
        return tf.data.Dataset.from_tensor_slices(
            ([str(path) for path in paths], np.array(labels, "int32"))
        )

    def decode(self, record):
        # Only here, so that files of other tasks are not read.
        return tf.io.decode_image(
            tf.io.read_file(record), self._channels, expand_animations=False
        )

    def shuffle_buffer(self):
        return max(len(labels) for labels in self._labels.values())

    def get_config(self):
        content = hashlib.blake2b(digest_size=16)
        for split in self.splits:
            for path, _ in self._pairs(split):
                name = path.relative_to(self.root).as_posix()
                content.update(f"{name}:{path.stat().st_size};".encode())
        return {"name": self.name, "fingerprint": content.hexdigest()}

    @functools.cached_property
    def _channels(self):
        first = [f[0] for files in self._files.values() for f in files.values()]
        for path in first:
            image = tf.io.decode_image(
                tf.io.read_file(str(path)), expand_animations=False
            )
            if image.shape[-1] > 2:
                return 3
        return 1

    def _pairs(self, split):
        """Returns the path and the label of each file."""
        return [
            (path, label)
            for label, name in enumerate(self.class_names)
            for path in self._files[split].get(name, [])
        ]


def _find_files(root):
    """Returns the files of an image folder by split and class."""
    if not root.is_dir():
        raise FileNotFoundError(
            "Expected the path of a folder of images. "
            f"Received: dataset={str(root)!r}, which is no folder"
        )
    folders = _folders(root)
    if any(_folders(folder) for folder in folders):
        unknown = [f.name for f in folders if f.name not in SPLITS]
        if unknown or not (root / "train").is_dir():
            raise ValueError(
                "Expected an image folder to have the layout root/class/*.png, "
                "or root/split/class/*.png with splits train, test and maybe "
                f"validation. Received: {root} with the folders "
                f"{[f.name for f in folders]}"
            )
        files = {f.name: _images(f) for f in folders}
    else:
        files = {"train": _images(root)}
    files = {k: files[k] for k in SPLITS if files.get(k)}
    if "train" not in files:
        raise ValueError(
            "Expected PNG or JPEG files in an image folder, in a folder for "
            f"each class. Received: no such files in {root}"
        )
    return files


def _folders(path):
    return sorted(
        f for f in path.iterdir() if f.is_dir() and not f.name.startswith(".")
    )


def _images(path):
    """Returns the sorted image files in each folder that has some."""
    images = {
        folder.name: sorted(
            f for f in folder.iterdir() if f.suffix.lower() in _SUFFIXES
        )
        for folder in _folders(path)
    }
    return {name: files for name, files in images.items() if files}
