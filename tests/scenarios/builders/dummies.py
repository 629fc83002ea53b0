"""Archives of a few tiny images, laid out like the official ones."""

import io
import pathlib
import shutil
import tarfile
import tempfile
import unittest

import numpy as np
import pytest
import scipy.io
import tensorflow as tf
import tensorflow_datasets as tfds


def pixels(seed, height=6, width=8):
    generator = np.random.default_rng(seed)
    return generator.integers(256, size=(height, width, 3), dtype="uint8")


def jpeg(seed, **kwargs):
    return tf.io.encode_jpeg(pixels(seed, **kwargs)).numpy()


def png(seed, **kwargs):
    return tf.io.encode_png(pixels(seed, **kwargs)).numpy()


def write_tar(path, files):
    """Writes an archive of files, given as a dictionary of name to bytes."""
    mode = "w" if path.suffix == ".tar" else "w:gz"
    with tarfile.open(path, mode) as archive:
        for name, data in files.items():
            info = tarfile.TarInfo(name)
            info.size = len(data)
            archive.addfile(info, io.BytesIO(data))


def write_tree(folder, files):
    """Writes files, given as a dictionary of name to bytes."""
    for name, data in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)


def mat(**variables):
    """Returns the bytes of a MATLAB file."""
    file = io.BytesIO()
    scipy.io.savemat(file, variables)
    return file.getvalue()


def prepare(name, tmp_path, **kwargs):
    """Prepares a data set from the archives in `tmp_path / "manual"`."""
    builder = tfds.builder(name, data_dir=tmp_path / "data", **kwargs)
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(
            manual_dir=tmp_path / "manual"
        )
    )
    return builder


def is_prepared(name, tmp_path):
    return tfds.builder(name, data_dir=tmp_path / "data").is_prepared()


def load(name, tmp_path, split):
    """Returns the prepared examples of a split by their id."""
    examples = tfds.load(
        name, split=split, data_dir=tmp_path / "data", download=False
    )
    found = {e["id"].decode(): e for e in tfds.as_numpy(examples)}
    assert len(found) == len(examples)
    return found


def load_names(name, tmp_path, split, feature="label"):
    """Returns the names of the labels of a split by the id of the example."""
    info = tfds.builder(name, data_dir=tmp_path / "data").info
    names = info.features[feature].names
    found = load(name, tmp_path, split)
    return {key: names[e[feature]] for key, e in found.items()}


def check_manual_files(name, tmp_path, make):
    """Checks the errors about files of the manual directory.

    Args:
        name: Name of the data set.
        tmp_path: An empty folder.
        make: Function that writes the files into a folder.
    """
    manual = tmp_path / "manual"
    instructions = tfds.builder_cls(name).MANUAL_DOWNLOAD_INSTRUCTIONS
    with pytest.raises(AssertionError, match="does not exist or is empty") as e:
        prepare(name, tmp_path)
    names = [line.split("`")[1::2] for line in instructions.splitlines()]
    names = {n for line in names for n in line if "." in n and "<" not in n}
    names = sorted(names)
    assert all(n in str(e.value) for n in names)

    manual.mkdir()
    make(manual)
    assert sorted(path.name for path in manual.iterdir()) == names
    for missing in names:
        data = (manual / missing).read_bytes()
        (manual / missing).unlink()
        (manual / "another.txt").touch()
        with pytest.raises(FileNotFoundError) as e:
            prepare(name, tmp_path)
        assert f"'{manual}' without ['{missing}']" in str(e.value)
        assert instructions.split()[-1] in str(e.value)
        (manual / missing).write_bytes(data)

    # What dead addresses answer, and what stopped downloads leave.
    for i, broken in enumerate(n for n in names if not n.endswith(".txt")):
        data = (manual / broken).read_bytes()
        for wrong in (b"<html>404</html>", data[: len(data) // 2]):
            # TFDS would use again what it extracted before.
            folder = tmp_path / f"{i}-{len(wrong)}"
            shutil.copytree(manual, folder / "manual")
            (folder / "manual" / broken).write_bytes(wrong)
            with pytest.raises((ValueError, FileNotFoundError)) as e:
                prepare(name, folder)
            assert broken in str(e.value)
            assert str(e.value).startswith("Expected ")
            assert not is_prepared(name, folder)
    # The failures left nothing behind that is in the way.
    prepare(name, tmp_path)


try:
    _TestCase = tfds.testing.DatasetBuilderTestCase
except ModuleNotFoundError as error:
    # TFDS imports it for its tests, and does not declare it.
    if error.name != "dill":
        raise

    class _TestCase(unittest.TestCase):
        def test_checks_of_tfds(self):
            self.skipTest("`tensorflow_datasets.testing` needs `dill`")


class ArchiveTestCase(_TestCase):
    """The checks of TFDS, on files that `make` writes."""

    @staticmethod
    def make(folder):
        """Writes the files into a folder."""
        raise NotImplementedError

    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.EXAMPLE_DIR = folder.name
        cls.make(pathlib.Path(folder.name))
        super().setUpClass()
