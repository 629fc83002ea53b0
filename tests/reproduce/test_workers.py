import pytest

from reproduce import workers
from reproduce.run_file import RunFile
from reproduce.workers import execute_all
from tests.reproduce.helpers import FakeRun


def test_runs_that_are_there_are_not_executed_again(tmp_path, capsys):
    runs = [FakeRun(name, 1.0, str(tmp_path)) for name in "abc"]
    file = RunFile(tmp_path / "runs.json")
    file.add(runs[1], {"value": 7.0}, 1.0)
    results = execute_all(runs, file, jobs=2)
    assert results == [{"value": 1.0}, {"value": 7.0}, {"value": 1.0}]
    assert not (tmp_path / "b-1.0").exists()
    # How much is left is told for what is executed alone.
    assert "[2/2, 0 s left]" in capsys.readouterr().err
    assert execute_all(runs, RunFile(tmp_path / "runs.json")) == results
    assert (tmp_path / "a-1.0").read_text() == "x"


def test_an_error_loses_nothing_that_is_done(tmp_path):
    runs = [FakeRun("a", 1.0), FakeRun("b", 1.0, fails=True)]
    file = RunFile(tmp_path / "runs.json")
    with pytest.raises(RuntimeError, match="b fails"):
        execute_all(runs, file, jobs=1)
    assert RunFile(tmp_path / "runs.json").find(runs[0]) == {"value": 1.0}


@pytest.mark.slow
def test_processes_are_replaced(tmp_path, monkeypatch):
    monkeypatch.setattr(workers, "_RUNS_PER_PROCESS", 2)
    runs = [FakeRun("a", float(i)) for i in range(5)]
    results = execute_all(runs, RunFile(), jobs=1)
    assert results == [{"value": float(i)} for i in range(5)]
