from collections.abc import Iterator

import tensorflow_datasets as tfds
from etils import epath

from keras_bpn.scenarios.builders.archive_builder import ArchiveBuilder
from keras_bpn.scenarios.builders.archives import listed_file
from keras_bpn.scenarios.builders.archives import read_image
from keras_bpn.scenarios.builders.archives import read_lines
from keras_bpn.scenarios.builders.archives import read_names

_ARCHIVE = "indoorCVPR_09.tar"
_LISTS = {"train": "TrainImages.txt", "test": "TestImages.txt"}

_LICENSE = "The authors provide the images for research purposes only."

_DESCRIPTION = f"""
MIT Indoor Scenes: photographs of 67 kinds of indoor places.

Of the 15,620 images in the archive, the builder takes those of the authors'
split: 5,360 for training and 1,340 for testing, about 80 and 20 of each class.
The labels are the names of the folders, in alphabetical order and with the
authors' spelling.

{_LICENSE}
"""

_CITATION = """
@inproceedings{quattoni2009recognizing,
  title={Recognizing indoor scenes},
  author={Quattoni, Ariadna and Torralba, Antonio},
  booktitle={IEEE Conference on Computer Vision and Pattern Recognition},
  pages={413--420},
  year={2009}
}
"""


class MitIndoorScenes(ArchiveBuilder):
    """MIT Indoor Scenes, 67 classes, with the authors' split."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put these three files into the manual directory, by default
    `downloads/manual` in the data directory of TFDS:
    - `indoorCVPR_09.tar` (2.4 GB), which holds `Images/<class>/<name>.jpg`,
      published at http://groups.csail.mit.edu/vision/LabelMe/NewImages/
    - `TrainImages.txt` and `TestImages.txt`,
      published at https://web.mit.edu/torralba/www/
    https://web.mit.edu/torralba/www/indoor.html has links to them.
    """

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3)),
                    "label": tfds.features.ClassLabel(
                        names=read_names("mit_indoor_scenes_labels.txt")
                    ),
                    "id": tfds.features.Text(),
                }
            ),
            supervised_keys=("image", "label"),
            homepage="https://web.mit.edu/torralba/www/indoor.html",
            citation=_CITATION,
            license=_LICENSE,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator]:
        archive, *lists = self.manual_files(
            dl_manager, [_ARCHIVE, *_LISTS.values()]
        )
        entries = [self._read_list(path) for path in lists]
        folder = self.extract(dl_manager, archive)
        files = [
            {
                name: listed_file(folder, f"Images/{name}", path.name)
                for name in names
            }
            for names, path in zip(entries, lists)
        ]
        return {
            split: self._generate_examples(paths)
            for split, paths in zip(_LISTS, files)
        }

    def _read_list(self, path: epath.Path) -> list[str]:
        """Returns the lines of a list, each `class/name.jpg`."""
        known = set(self.info.features["label"].names)
        lines = read_lines(path)
        for line in lines:
            if line.split("/")[0] not in known:
                raise ValueError(
                    f"Expected lines `class/name.jpg` in '{path}', with one of "
                    f"the {len(known)} classes. Received: {line!r}"
                )
        return lines

    def _generate_examples(self, paths: dict[str, epath.Path]) -> Iterator:
        for name, path in paths.items():
            yield (
                name,
                {
                    "image": read_image(path),
                    "label": name.split("/")[0],
                    "id": name,
                },
            )
