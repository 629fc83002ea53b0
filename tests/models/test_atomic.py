import os

import pytest

from keras_bpn.models.atomic import written_beside


def write_folder(path, **files):
    path.mkdir()
    for name, text in files.items():
        (path / name).write_text(text)


def read_folder(path):
    return {file.name: file.read_text() for file in path.iterdir()}


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_writes_a_file(tmp_path, kind):
    path = tmp_path / "model.keras"
    with written_beside(kind(path)) as temporary:
        assert temporary.parent == tmp_path
        assert temporary.suffix == ".keras"
        assert temporary != path
        temporary.write_text("new")
        assert not path.exists()
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["model.keras"]


def test_replaces_a_file_at_the_end_of_the_block(tmp_path):
    path = tmp_path / "model.keras"
    path.write_text("old")
    with written_beside(path) as temporary:
        temporary.write_text("new")
        assert path.read_text() == "old"
    assert path.read_text() == "new"
    assert os.listdir(tmp_path) == ["model.keras"]


def test_writes_a_folder(tmp_path):
    path = tmp_path / "model"
    with written_beside(path) as temporary:
        write_folder(temporary, a="1", b="2")
        assert not path.exists()
    assert read_folder(path) == {"a": "1", "b": "2"}
    assert os.listdir(tmp_path) == ["model"]


def test_replaces_a_folder_as_a_whole(tmp_path):
    path = tmp_path / "model"
    write_folder(path, a="old", gone="old")
    with written_beside(path) as temporary:
        write_folder(temporary, a="new")
        assert read_folder(path) == {"a": "old", "gone": "old"}
    assert read_folder(path) == {"a": "new"}
    assert os.listdir(tmp_path) == ["model"]


def test_folder_replaces_a_file(tmp_path):
    path = tmp_path / "model"
    path.write_text("old")
    with written_beside(path) as temporary:
        write_folder(temporary, a="new")
    assert read_folder(path) == {"a": "new"}
    assert os.listdir(tmp_path) == ["model"]


def test_relative_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with written_beside("model.keras") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "model.keras").read_text() == "new"
    assert os.listdir(tmp_path) == ["model.keras"]


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
@pytest.mark.parametrize("exists", [True, False])
def test_failure_keeps_the_old_file(tmp_path, error, exists):
    path = tmp_path / "model.keras"
    if exists:
        path.write_text("old")
    with pytest.raises(error):
        with written_beside(path) as temporary:
            temporary.write_text("half")
            raise error
    assert path.exists() == exists
    assert os.listdir(tmp_path) == (["model.keras"] if exists else [])
    assert not exists or path.read_text() == "old"


def test_failure_keeps_the_old_folder(tmp_path):
    path = tmp_path / "model"
    write_folder(path, a="old")
    with pytest.raises(RuntimeError):
        with written_beside(path) as temporary:
            write_folder(temporary, a="half", b="half")
            raise RuntimeError
    assert read_folder(path) == {"a": "old"}
    assert os.listdir(tmp_path) == ["model"]


def test_failure_to_move_keeps_the_old_folder(tmp_path, monkeypatch):
    path = tmp_path / "model"
    write_folder(path, a="old")
    rename = type(path).rename

    def fail_to_move(self, target):
        if self.name.endswith("-model"):
            raise OSError("disk")
        return rename(self, target)

    monkeypatch.setattr(type(path), "rename", fail_to_move)
    with pytest.raises(OSError, match="disk"):
        with written_beside(path) as temporary:
            write_folder(temporary, a="new")
    assert read_folder(path) == {"a": "old"}
    assert os.listdir(tmp_path) == ["model"]


def test_file_does_not_replace_a_folder(tmp_path):
    path = tmp_path / "model"
    write_folder(path, a="old")
    with pytest.raises(OSError):
        with written_beside(path) as temporary:
            temporary.write_text("new")
    assert read_folder(path) == {"a": "old"}
    assert os.listdir(tmp_path) == ["model"]


def test_nothing_written_is_an_error(tmp_path):
    path = tmp_path / "model.keras"
    path.write_text("old")
    with pytest.raises(FileNotFoundError):
        with written_beside(path):
            pass
    assert path.read_text() == "old"
    assert os.listdir(tmp_path) == ["model.keras"]


def test_two_writers_do_not_meet(tmp_path):
    path = tmp_path / "model.keras"
    with written_beside(path) as first, written_beside(path) as second:
        first.write_text("first")
        second.write_text("second")
        assert first != second
    # The inner block ends first, the outer one replaces its file.
    assert path.read_text() == "first"
    assert os.listdir(tmp_path) == ["model.keras"]
