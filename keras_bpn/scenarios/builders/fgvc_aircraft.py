from collections.abc import Iterator

import tensorflow_datasets as tfds
from etils import epath

from keras_bpn.scenarios.builders.archive_builder import ArchiveBuilder
from keras_bpn.scenarios.builders.archives import listed_file
from keras_bpn.scenarios.builders.archives import read_image
from keras_bpn.scenarios.builders.archives import read_lines
from keras_bpn.scenarios.builders.archives import read_names

_ARCHIVE = "fgvc-aircraft-2013b.tar.gz"
_DATA = "fgvc-aircraft-2013b/data"
# What the official lists call the splits.
_SPLITS = {"train": "train", "validation": "val", "test": "test"}
# The features, and what the official lists call them.
_LEVELS = {
    "label": "variant",
    "family": "family",
    "manufacturer": "manufacturer",
}

_LICENSE = (
    "The images are available for non-commercial research purposes only. The "
    "photographers keep the copyright of their photographs."
)

_DESCRIPTION = f"""
FGVC-Aircraft 2013b: 10,000 photographs of aircraft, 100 of each of 100 model
variants.

The label is the variant, such as 737-700. Its family (one of 70, Boeing 737)
and its manufacturer (one of 30, Boeing) are features too. The splits are the
official ones of the variants: 3,334 images for training, 3,333 for validation
and 3,333 for testing. What is often called the training set is "trainval", the
first two together: `split="train+validation"`.

The images are those of the archive. Their lowest 20 rows are a banner with the
name of the photographer, which the authors ask to remove before use.

{_LICENSE}
"""

_CITATION = """
@techreport{maji13fine-grained,
  title={Fine-Grained Visual Classification of Aircraft},
  author={S. Maji and J. Kannala and E. Rahtu and M. Blaschko and A. Vedaldi},
  year={2013},
  archivePrefix={arXiv},
  eprint={1306.5151},
  primaryClass={cs-cv}
}
"""


class FgvcAircraft(ArchiveBuilder):
    """FGVC-Aircraft 2013b, 100 variants, with the official splits."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    # The MD5 sum is that of the benchmark google-deepmind/dm_nevis. To check a
    # download itself, TFDS would need size and SHA-256.
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put this file into the manual directory, by default `downloads/manual` in
    the data directory of TFDS:
    - `fgvc-aircraft-2013b.tar.gz` (2.75 GB), from
      https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/archives/
      Its MD5 sum is d4acdd33327262359767eeaa97a4f732.
    """

    def _info(self) -> tfds.core.DatasetInfo:
        def labels(file_name):
            return tfds.features.ClassLabel(names=read_names(file_name))

        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3)),
                    "label": labels("fgvc_aircraft_variants.txt"),
                    "family": labels("fgvc_aircraft_families.txt"),
                    "manufacturer": labels("fgvc_aircraft_manufacturers.txt"),
                    "id": tfds.features.Text(),
                }
            ),
            supervised_keys=("image", "label"),
            homepage="https://www.robots.ox.ac.uk/~vgg/data/fgvc-aircraft/",
            citation=_CITATION,
            license=_LICENSE,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator]:
        (archive,) = self.manual_files(dl_manager, [_ARCHIVE])
        folder = self.extract(dl_manager, archive)
        files = {
            split: self._read_lists(folder, official)
            for split, official in _SPLITS.items()
        }
        return {
            split: self._generate_examples(entries)
            for split, entries in files.items()
        }

    def _read_lists(self, folder: epath.Path, split: str) -> list[dict]:
        """Returns the path and the labels of each image of a split."""
        levels = {
            feature: self._read_list(folder, feature, level, split)
            for feature, level in _LEVELS.items()
        }
        images = levels["label"]
        for feature, labels in levels.items():
            if set(labels) != set(images):
                different = sorted(set(labels) ^ set(images))
                raise ValueError(
                    f"Expected the lists of the split '{split}' in '{folder}' "
                    "to name the same images. Received: lists of "
                    f"`{_LEVELS[feature]}` and `variant` that differ in "
                    f"{different[:5]}"
                )
        return [
            {
                "path": listed_file(
                    folder,
                    f"{_DATA}/images/{image}.jpg",
                    f"images_variant_{split}.txt",
                ),
                **{name: labels[image] for name, labels in levels.items()},
            }
            for image in images
        ]

    def _read_list(
        self, folder: epath.Path, feature: str, level: str, split: str
    ) -> dict[str, str]:
        """Returns the label of each image in a list."""
        path = folder / _DATA / f"images_{level}_{split}.txt"
        known = set(self.info.features[feature].names)
        labels = {}
        for line in read_lines(path):
            image, _, label = line.partition(" ")
            if label not in known:
                raise ValueError(
                    f"Expected lines `image label` in '{path}', with one of "
                    f"the {len(known)} labels. Received: {line!r}"
                )
            labels[image] = label
        return labels

    def _generate_examples(self, entries: list[dict]) -> Iterator:
        for entry in entries:
            path = entry["path"]
            yield (
                path.name,
                {
                    "image": read_image(path),
                    "id": path.name,
                    **{feature: entry[feature] for feature in _LEVELS},
                },
            )
