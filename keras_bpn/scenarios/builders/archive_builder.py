import textwrap

import tensorflow_datasets as tfds
from etils import epath
from tensorflow_datasets.core import naming
from tensorflow_datasets.core import registered
from tensorflow_datasets.core.download import extractor


class ArchiveBuilder(tfds.core.GeneratorBasedBuilder, skip_registration=True):
    """Base class of builders that read archives of images.

    Subclasses are registered with TFDS under their name in snake case. A module
    that is loaded anew replaces its builder.
    """

    def __init_subclass__(cls, **kwargs):
        # TFDS refuses to register a name twice, except in notebooks, and knows
        # no public way to take one back.
        registry = getattr(registered, "_DATASET_REGISTRY", {})
        name = naming.camelcase_to_snakecase(cls.__name__)
        if name in registry and registry[name].__module__ == cls.__module__:
            del registry[name]
        super().__init_subclass__(**kwargs)

    def manual_files(
        self, dl_manager: tfds.download.DownloadManager, names: list[str]
    ) -> list[epath.Path]:
        """Returns the paths of files in the manual directory.

        Args:
            dl_manager: The download manager of TFDS.
            names: Names of the files.
        """
        folder = dl_manager.manual_dir
        missing = [name for name in names if not (folder / name).exists()]
        if missing:
            raise FileNotFoundError(
                f"Expected {names} in the manual directory of TFDS. "
                f"Received: '{folder}' without {missing}\n"
                + textwrap.dedent(self.MANUAL_DOWNLOAD_INSTRUCTIONS)
            )
        return [folder / name for name in names]

    def extract(
        self, dl_manager: tfds.download.DownloadManager, path: epath.Path
    ) -> epath.Path:
        """Returns the folder into which an archive was extracted.

        Args:
            dl_manager: The download manager of TFDS.
            path: Path of the archive.
        """
        try:
            return dl_manager.extract(path)
        except extractor.ExtractError as error:
            raise ValueError(
                f"Expected '{path}' to be a whole archive. Received: a file "
                f"that cannot be extracted: {error.__cause__}\n"
                + textwrap.dedent(self.MANUAL_DOWNLOAD_INSTRUCTIONS)
            ) from error
