import json

import numpy as np
import pytest

from keras_bpn.learning.run_directory import RunDirectory

SETTINGS = {"scenario": {"seed": 0}, "learn": {"epochs": 5}}


def save(directory, number, ends_task=False, content=b"weights"):
    directory.save(
        {"number": number},
        {"a/b": np.arange(number)},
        lambda folder: (folder / "model").write_bytes(content),
        ends_task,
    )


def restore(directory):
    """Returns the number of the checkpoint that is restored, or `None`."""
    read = []
    restored = directory.restore(lambda folder: read.append(folder))
    if restored is None:
        assert not read
        return None
    progress, arrays = restored
    (folder,) = read
    assert (folder / "model").read_bytes() == b"weights"
    np.testing.assert_array_equal(arrays["a/b"], np.arange(progress["number"]))
    return progress["number"]


def names(directory):
    return [path.name for path in directory.checkpoints()]


@pytest.fixture
def directory(tmp_path):
    with RunDirectory(tmp_path / "run", SETTINGS).opened() as directory:
        yield directory


def test_the_newest_checkpoint_comes_back(directory):
    assert restore(directory) is None
    save(directory, 1)
    assert restore(directory) == 1
    save(directory, 2)
    assert restore(directory) == 2


def test_what_is_kept(directory):
    save(directory, 1)
    save(directory, 2)
    assert names(directory) == ["000001-step"]
    save(directory, 3, ends_task=True)
    assert names(directory) == ["000002-task"]
    save(directory, 4)
    save(directory, 5)
    assert names(directory) == ["000004-step", "000002-task"]
    save(directory, 6, ends_task=True)
    assert names(directory) == ["000005-task", "000002-task"]
    save(directory, 7)
    assert names(directory) == ["000006-step", "000005-task", "000002-task"]
    save(directory, 8, ends_task=True)
    assert names(directory) == ["000007-task", "000005-task"]


@pytest.mark.parametrize(
    "file, content",
    [
        ("model", b"weightz"),
        ("model", b""),
        ("model", None),
        ("manifest.json", b"{"),
        ("manifest.json", b"[]"),
        ("manifest.json", b'{"schema_version": 2, "sha256": {}}'),
        ("manifest.json", None),
        ("progress.json", b'{"number": 9}'),
        ("arrays.npz", b"PK"),
    ],
)
def test_a_damaged_checkpoint_is_passed_over(directory, file, content):
    save(directory, 1, ends_task=True)
    save(directory, 2)
    path = directory.checkpoints()[0] / file
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    with pytest.warns(UserWarning, match="000001-step' is damaged"):
        assert restore(directory) == 1
    # It is not in the way of what comes.
    save(directory, 3)
    assert restore(directory) == 3
    assert names(directory) == ["000002-step", "000000-task"]


def test_nothing_but_damaged_checkpoints(directory):
    save(directory, 1)
    (directory.checkpoints()[0] / "model").write_bytes(b"")
    with (
        pytest.warns(UserWarning, match="damaged"),
        pytest.raises(ValueError, match="at least one whole checkpoint"),
    ):
        restore(directory)


def test_a_full_disk_leaves_what_was_there(directory):
    save(directory, 1)

    def fill(folder):
        (folder / "model").write_bytes(b"wei")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space left") as info:
        directory.save({}, {}, fill, ends_task=True)
    (note,) = info.value.__notes__
    assert "000001-task' could not be written" in note
    assert "000000-step" in note
    assert sorted(p.name for p in directory.path.iterdir()) == [
        ".lock",
        "000000-step",
        "run.json",
    ]
    assert restore(directory) == 1


def test_leftovers_of_a_kill_are_removed(tmp_path):
    path = tmp_path / "run"
    with RunDirectory(path, SETTINGS).opened() as directory:
        save(directory, 1)
    leftover = path / f".{'0f' * 16}-000001-step"
    leftover.mkdir()
    (leftover / "model").write_bytes(b"wei")
    (path / "notes.txt").write_text("of the user")
    with RunDirectory(path, SETTINGS).opened() as directory:
        assert not leftover.exists()
        assert (path / "notes.txt").exists()
        assert restore(directory) == 1


def test_another_run_is_refused(tmp_path):
    path = tmp_path / "run"
    with RunDirectory(path, SETTINGS).opened() as directory:
        save(directory, 1)
    other = {"scenario": {"seed": 1}, "learn": {"epochs": 5, "patience": 2}}
    with pytest.raises(ValueError, match="to go on with it") as info:
        with RunDirectory(path, other).opened():
            pass
    assert "scenario.seed: 0 in the run, 1 now" in str(info.value)
    assert "learn.patience: null in the run, 2 now" in str(info.value)
    assert "epochs" not in str(info.value)
    with RunDirectory(path, SETTINGS).opened() as directory:
        assert restore(directory) == 1


@pytest.mark.parametrize(
    "content, message",
    [
        ("{", "describe a run"),
        ("[]", "describe a run"),
        ("{}", "describe a run"),
        (json.dumps({"schema_version": 99}), "version 99"),
    ],
)
def test_a_folder_of_something_else_is_refused(tmp_path, content, message):
    (tmp_path / "run.json").write_text(content)
    with pytest.raises(ValueError, match=message):
        with RunDirectory(tmp_path, SETTINGS).opened():
            pass
    assert (tmp_path / "run.json").read_text() == content


def test_a_folder_with_files_of_the_user_is_refused(tmp_path):
    (tmp_path / "thesis.txt").write_text("")
    with pytest.raises(ValueError, match="thesis.txt"):
        with RunDirectory(tmp_path, SETTINGS).opened():
            pass
    with pytest.raises(NotADirectoryError, match="to be a folder"):
        with RunDirectory(tmp_path / "thesis.txt", SETTINGS).opened():
            pass


def test_one_run_at_a_time(directory):
    save(directory, 1)
    with pytest.raises(RuntimeError, match="one process at a time"):
        with RunDirectory(directory.path, SETTINGS).opened():
            pass
    assert restore(directory) == 1
