from collections.abc import Iterator

import tensorflow_datasets as tfds
from etils import epath

from keras_bpn.scenarios.builders.archive_builder import ArchiveBuilder
from keras_bpn.scenarios.builders.archives import fields_of
from keras_bpn.scenarios.builders.archives import listed_file
from keras_bpn.scenarios.builders.archives import read_image
from keras_bpn.scenarios.builders.archives import read_mat
from keras_bpn.scenarios.builders.archives import read_names

_FILES = [
    "cars_train.tgz",
    "cars_test.tgz",
    "car_devkit.tgz",
    "cars_test_annos_withlabels.mat",
]

_LICENSE = "No licence is known. The photographs belong to their owners."

_DESCRIPTION = f"""
Stanford Cars: 16,185 photographs of cars in 196 classes of make, model and
year, with the official split into 8,144 images for training and 8,041 for
testing.

TFDS has this data set as `cars196`, which downloads it from an address that no
longer answers. This builder reads the same official archives from the manual
directory.

{_LICENSE}
"""

_CITATION = """
@inproceedings{krause20133d,
  title={{3D} Object Representations for Fine-Grained Categorization},
  author={Krause, Jonathan and Stark, Michael and Deng, Jia and Fei-Fei, Li},
  booktitle={4th International IEEE Workshop on 3D Representation and
    Recognition (3dRR-13)},
  address={Sydney, Australia},
  year={2013}
}
"""


class StanfordCars(ArchiveBuilder):
    """Stanford Cars, 196 classes, with the official split."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    # The sums are those that TFDS registers for `cars196`.
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put these four files into the manual directory, by default
    `downloads/manual` in the data directory of TFDS. They were published at
    http://ai.stanford.edu/~jkrause/car196/ and
    https://ai.stanford.edu/~jkrause/cars/, which no longer offer them. Check
    copies from elsewhere by their SHA-256 sums:
    - `cars_train.tgz`
      512b227b30e2f0a8aab9e09485786ab4479582073a144998da74d64b801fd288
    - `cars_test.tgz`
      bffea656d6f425cba3c91c6d83336e4c5f86c6cffd8975b0f375d3a10da8e243
    - `car_devkit.tgz`
      b97deb463af7d58b6bfaa18b2a4de9829f0f79e8ce663dfa9261bf7810e9accd
    - `cars_test_annos_withlabels.mat`
      790f75be8ea34eeded134cc559332baf23e30e91367e9ddca97d26ed9b895f05
    """

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3)),
                    "label": tfds.features.ClassLabel(
                        names=read_names("stanford_cars_labels.txt")
                    ),
                    "id": tfds.features.Text(),
                }
            ),
            supervised_keys=("image", "label"),
            homepage="https://ai.stanford.edu/~jkrause/cars/car_dataset.html",
            citation=_CITATION,
            license=_LICENSE,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator]:
        *archives, test_annotations = self.manual_files(dl_manager, _FILES)
        train, test, devkit = (
            self.extract(dl_manager, path) for path in archives
        )
        train_annotations = devkit / "devkit" / "cars_train_annos.mat"
        files = {
            "train": self._read_annotations(
                train_annotations, train, "cars_train"
            ),
            "test": self._read_annotations(test_annotations, test, "cars_test"),
        }
        return {
            split: self._generate_examples(entries)
            for split, entries in files.items()
        }

    def _read_annotations(
        self, path: epath.Path, folder: epath.Path, prefix: str
    ) -> list[tuple[str, epath.Path, int]]:
        """Returns the name, path and label of each image of a split."""
        classes = self.info.features["label"].num_classes
        files = []
        for record in read_mat(path, "annotations").flat:
            label, name = fields_of(record, ("class", "fname"), path)
            label, name = int(label.item()), f"{prefix}/{name.item()}"
            # The official labels count from 1.
            if not 1 <= label <= classes:
                raise ValueError(
                    f"Expected classes from 1 to {classes} in '{path}'. "
                    f"Received: {label} for '{name}'"
                )
            file = listed_file(folder, name, path.name)
            files.append((name, file, label - 1))
        return files

    def _generate_examples(
        self, files: list[tuple[str, epath.Path, int]]
    ) -> Iterator:
        for name, path, label in files:
            yield (
                name,
                {"image": read_image(path), "label": label, "id": name},
            )
