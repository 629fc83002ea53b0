import json

import pytest

from reproduce.run_file import RunFile
from tests.reproduce.helpers import FakeRun

A, B, C = FakeRun("a", 1.0), FakeRun("a", 2.0), FakeRun("b", 1.0)


def test_what_was_added_is_found_again_in_a_new_object(tmp_path):
    path = tmp_path / "deep" / "runs.json"
    file = RunFile(path)
    file.add(A, {"value": 1.0}, 1.234)
    file.add(C, {"value": 3.0}, 2.0)
    again = RunFile(path)
    assert again.find(A) == {"value": 1.0} and again.find(C) == {"value": 3.0}
    assert again.find(B) is None
    line = again.lines[0]
    assert line["seconds"] == 1.2 and line["versions"]["keras_bpn"]
    assert line["machine"]["cores"] > 0 and len(line["date"]) == 10


def test_a_line_for_each_run(tmp_path):
    path = tmp_path / "runs.json"
    file = RunFile(path)
    file.add(A, {"value": 1.0}, 1.0)
    file.add(B, {"value": 2.0}, 1.0)
    lines = path.read_text().splitlines()
    assert lines[0] == "[" and lines[-1] == "]" and len(lines) == 4
    assert len(json.loads(path.read_text())) == 2
    assert list(tmp_path.iterdir()) == [path]


def test_a_run_that_is_added_again_replaces_the_first(tmp_path):
    file = RunFile(tmp_path / "runs.json")
    file.add(A, {"value": 1.0}, 1.0)
    file.add(A, {"value": 5.0}, 1.0)
    assert len(file.lines) == 1 and file.find(A) == {"value": 5.0}


def test_keeping_runs_drops_others_of_the_same_methods_alone(tmp_path):
    file = RunFile(tmp_path / "runs.json")
    for run in (A, C, B):
        file.add(run, {"value": run.value}, 1.0)
    file.keep([B])
    again = RunFile(tmp_path / "runs.json")
    assert again.find(A) is None
    assert again.find(B) == {"value": 2.0} and again.find(C) == {"value": 1.0}


def test_runs_are_put_in_order(tmp_path):
    file = RunFile(tmp_path / "runs.json")
    for run in (C, B, A):
        file.add(run, {}, 1.0)
    file.keep([A, B, C])
    names = [(line["run"]["contender"]["name"]) for line in file.lines]
    assert names == ["a", "a", "b"]
    assert [line["run"]["value"] for line in file.lines] == [1.0, 2.0, 1.0]


def test_a_broken_file_is_not_overwritten(tmp_path):
    path = tmp_path / "runs.json"
    path.write_text('[{"run": ')
    with pytest.raises(ValueError, match="runs.json"):
        RunFile(path)
    assert path.read_text() == '[{"run": '


def test_a_file_without_a_path_is_never_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    file = RunFile()
    file.add(A, {"value": 1.0}, 1.0)
    assert file.find(A) == {"value": 1.0} and not list(tmp_path.iterdir())
