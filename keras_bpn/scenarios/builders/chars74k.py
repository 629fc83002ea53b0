import string
from collections.abc import Iterator

import tensorflow_datasets as tfds
from etils import epath

from keras_bpn.scenarios.builders.archive_builder import ArchiveBuilder
from keras_bpn.scenarios.builders.archives import fields_of
from keras_bpn.scenarios.builders.archives import listed_file
from keras_bpn.scenarios.builders.archives import read_image
from keras_bpn.scenarios.builders.archives import read_mat

_IMAGES = "EnglishImg.tgz"
_LISTS = "Lists.tgz"
_MAT = "Lists/English/Img/lists.mat"
# Sample001 is the class "0", Sample062 the class "z".
_NAMES = [*string.digits, *string.ascii_uppercase, *string.ascii_lowercase]

_LICENSE = (
    "Copyright of Teo de Campos and Manik Varma (Microsoft Research), as the "
    "lists say. For terms of use see the homepage."
)

_DESCRIPTION = f"""
Chars74K, English, natural images: characters cut out of photographs of street
scenes, in 62 classes (0-9, A-Z, a-z).

`test` is the authors' test set, 15 good images of each class, which is the same
in all 16 of their splits. `train` is every image outside of it. The authors
themselves trained on 5 to 15 images of each class, chosen among these.

{_LICENSE}
"""

_CITATION = """
@inproceedings{decampos2009character,
  title={Character recognition in natural images},
  author={de Campos, T. E. and Babu, B. R. and Varma, M.},
  booktitle={International Conference on Computer Vision Theory and
    Applications (VISAPP)},
  year={2009}
}
"""


class Chars74k(ArchiveBuilder):
    """Chars74K, English natural images, with the authors' test set."""

    VERSION = tfds.core.Version("1.0.0")
    RELEASE_NOTES = {"1.0.0": "First version."}
    BUILDER_CONFIGS = [
        tfds.core.BuilderConfig(
            name="good",
            description="The images that the authors call good (`GoodImg`).",
        ),
        tfds.core.BuilderConfig(
            name="all",
            description=(
                "All images: those that the authors call bad (`BadImag`) are "
                "in `train` too."
            ),
        ),
    ]
    # The MD5 sums are those of the benchmark google-deepmind/dm_nevis. To check
    # downloads itself, TFDS would need sizes and SHA-256.
    MANUAL_DOWNLOAD_INSTRUCTIONS = """
    Put these two files into the manual directory, by default
    `downloads/manual` in the data directory of TFDS:
    - `EnglishImg.tgz` (MD5 sum 85d157e0c58f998e1cda8def62bcda0d)
    - `Lists.tgz` (MD5 sum 8dfe916169fa10b86466776a4a1d7c5f)
    from https://teodecampos.github.io/chars74k/ or
    http://www.ee.surrey.ac.uk/CVSSP/demos/chars74k/
    """

    def _info(self) -> tfds.core.DatasetInfo:
        return tfds.core.DatasetInfo(
            builder=self,
            description=_DESCRIPTION,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(shape=(None, None, 3)),
                    "label": tfds.features.ClassLabel(names=_NAMES),
                    "id": tfds.features.Text(),
                }
            ),
            supervised_keys=("image", "label"),
            homepage="https://teodecampos.github.io/chars74k/",
            citation=_CITATION,
            license=_LICENSE,
        )

    def _split_generators(
        self, dl_manager: tfds.download.DownloadManager
    ) -> dict[str, Iterator]:
        archives = self.manual_files(dl_manager, [_IMAGES, _LISTS])
        images, lists = (self.extract(dl_manager, path) for path in archives)
        names, labels, test = _read_lists(lists / _MAT)
        entries = {"train": [], "test": []}
        for i, (name, label) in enumerate(zip(names, labels)):
            is_good = name.startswith("GoodImg/")
            if not is_good and self.builder_config.name == "good":
                continue
            path = listed_file(images, f"English/Img/{name}.png", _MAT)
            split = "test" if i in test else "train"
            entries[split].append((f"{name}.png", path, label - 1))
        return {
            split: self._generate_examples(files)
            for split, files in entries.items()
        }

    def _generate_examples(
        self, files: list[tuple[str, epath.Path, int]]
    ) -> Iterator:
        for name, path, label in files:
            yield (
                name,
                {"image": read_image(path), "label": label, "id": name},
            )


def _read_lists(path: epath.Path) -> tuple[list[str], list[int], set[int]]:
    """Returns names and labels of all images, and the indices of the test set.

    Labels count from 1, indices from 0.
    """
    record = read_mat(path, "list").flat[0]
    names, labels, test = fields_of(
        record, ("ALLnames", "ALLlabels", "TSTind"), path
    )
    names = [str(name).strip() for name in names.flat]
    labels = [int(label) for label in labels.flat]
    wrong = set(labels) - set(range(1, len(_NAMES) + 1))
    if wrong or len(labels) != len(names):
        raise ValueError(
            f"Expected a label from 1 to {len(_NAMES)} for each of the "
            f"{len(names)} images in '{path}'. Received: {len(labels)} labels, "
            f"out of range: {sorted(wrong)}"
        )
    # A column for each split; MATLAB counts from 1, and 0 fills short columns.
    test = {int(index) for index in test[:, -1] if index}
    wrong = test - set(range(1, len(names) + 1))
    if wrong or not test:
        raise ValueError(
            f"Expected indices from 1 to {len(names)} of test images in "
            f"'{path}'. Received: {len(test)} indices, out of range: "
            f"{sorted(wrong)}"
        )
    return names, labels, {index - 1 for index in test}
