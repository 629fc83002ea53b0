import pathlib
import socket

import pytest
import tensorflow_datasets as tfds

from keras_bpn.scenarios import SplitClasses
from keras_bpn.scenarios import prepare
from tests.scenarios.helpers import TinyImages
from tests.scenarios.helpers import make_images


@pytest.fixture
def no_network(monkeypatch):
    def fail(*args, **kwargs):
        raise socket.gaierror("no network")

    monkeypatch.setattr(socket, "getaddrinfo", fail)
    monkeypatch.setattr(prepare.urllib.request, "getproxies", dict)


def test_without_a_network_the_error_says_what_to_do(tmp_path, no_network):
    with pytest.raises(FileNotFoundError) as info:
        SplitClasses("mnist", 2, data_dir=str(tmp_path))
    message = str(info.value)
    assert "Expected the data set 'mnist/3.0.1' to be prepared" in message
    assert "no connection to storage.googleapis.com" in message
    assert "tfds build mnist" in message and "TFDS_DATA_DIR" in message
    assert "keras_bpn.scenarios.Digits()` needs no network" in message
    assert isinstance(info.value, ValueError)
    assert not any(tmp_path.iterdir())


def test_nothing_is_downloaded_if_it_is_not_allowed(tmp_path):
    with pytest.raises(FileNotFoundError, match="download=False"):
        SplitClasses("mnist", 2, data_dir=str(tmp_path), download=False)
    assert not any(tmp_path.iterdir())


def test_builders_of_this_package_say_what_to_import(tmp_path):
    with pytest.raises(
        FileNotFoundError,
        match="--imports keras_bpn.scenarios.builders",
    ):
        SplitClasses("chars74k", 2, data_dir=str(tmp_path), download=False)


def test_unknown_names(tmp_path):
    with pytest.raises(ValueError, match="Did you mean 'mnist'.*Digits"):
        SplitClasses("mnits", 2, data_dir=str(tmp_path))
    with pytest.raises(FileNotFoundError, match="TFDS_DATA_DIR.*cifar10/foo"):
        SplitClasses("cifar10/foo", 2, data_dir=str(tmp_path))


class Failing(TinyImages):
    """Fails after it has written something."""

    def _split_generators(self, dl_manager):
        root = pathlib.Path(self.data_dir_root)
        (root / "downloads/failing/a.gz.tmp.123").mkdir(parents=True)
        (root / "downloads/failing/a.gz.tmp.123/part").write_text("half")
        (root / "downloads/failing/b.gz").write_text("whole")
        raise ConnectionError("the line went dead")


def test_a_failed_download_leaves_nothing_unfinished(tmp_path):
    builder = Failing({"train": make_images()}, data_dir=str(tmp_path))
    with pytest.raises(FileNotFoundError, match="the line went dead") as info:
        SplitClasses(builder, 2)
    assert isinstance(info.value.__cause__, ConnectionError)
    left = [p for p in tmp_path.rglob("*") if p.is_file()]
    # What was downloaded is not downloaded again.
    assert [p.name for p in left] == ["b.gz"]
    assert not list(tmp_path.rglob("*.tmp.*"))
    assert not (tmp_path / "failing").exists()


def test_what_was_downloaded_before_is_tried(tmp_path, no_network):
    folder = tmp_path / "downloads" / "manual"
    folder.mkdir(parents=True)
    (folder / "indoorCVPR_09.tar").write_bytes(b"no archive")
    with pytest.raises(FileNotFoundError, match="could not be prepared"):
        SplitClasses("mit_indoor_scenes", 67, data_dir=str(tmp_path))
    left = [p.name for p in tmp_path.rglob("*") if p.is_file()]
    assert left == ["indoorCVPR_09.tar"]


def test_an_empty_folder_is_no_data_set(tmp_path):
    (tmp_path / "mnist" / "3.0.1").mkdir(parents=True)
    (tmp_path / "downloads" / "mnist").mkdir(parents=True)
    (tmp_path / "downloads" / "mnist" / "some.gz").write_text("")
    with pytest.raises(FileNotFoundError, match="no data in"):
        SplitClasses("mnist", 2, data_dir=str(tmp_path))


def test_a_data_set_is_prepared_where_it_is_missing(tmp_path):
    builder = TinyImages({"train": make_images()}, data_dir=str(tmp_path))
    with pytest.raises(FileNotFoundError, match="download=False"):
        SplitClasses(builder, 2, download=False)
    scenario = SplitClasses(builder, 2)
    assert builder.is_prepared() and len(scenario) == 2
    again = TinyImages({"train": make_images()}, data_dir=str(tmp_path))
    SplitClasses(again, 2, download=False)


def test_a_folder_beside_is_not_taken_for_a_data_set(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mnist").mkdir()
    (tmp_path / "own").mkdir()
    with pytest.raises(FileNotFoundError, match="'mnist/3.0.1'"):
        SplitClasses("mnist", 2, data_dir=str(tmp_path), download=False)
    for path in ("own", "./mnist", tmp_path / "own"):
        with pytest.raises(ValueError, match="no such files"):
            SplitClasses(path, 2)


def test_names_that_tfds_knows():
    assert prepare.is_known("mnist") and not prepare.is_known("no such set")
    assert "mnist" in tfds.list_builders()
