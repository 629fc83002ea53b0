"""Two machines compute what one does. Here they are two processes."""

import pytest

from tests.distribute import processes
from tests.distribute.test_mirrored import assert_equal


def run(folder, *names, devices=1):
    arguments = (str(folder), str(devices), *names)
    return processes.run("two_workers", *arguments, workers=2)


def assert_equals_one_process(results, name):
    """Checks both workers, which hold the same bits."""
    for worker in results:
        assert_equal(worker[name]["differences"])
    assert results[0][name]["code"] == results[1][name]["code"]


@pytest.mark.slow
def test_equals_one_process(tmp_path):
    assert_equals_one_process(run(tmp_path, "BD+EWC"), "BD+EWC")


@pytest.mark.slow
@pytest.mark.parametrize("devices", [1, 2])
def test_methods_equal_one_process(tmp_path, devices):
    names = [
        "BD with many methods",
        "GD with other methods",
        "BD+EWC of exact labels",
        "BD+PSP",
        "BD+SLNID",
        "BD+IMM",
        "BD+EBLL",
        "layers of Keras",
        "nine tasks",
    ]
    results = run(tmp_path, *names, devices=devices)
    for name in names:
        assert_equals_one_process(results, name)


@pytest.mark.slow
def test_files(tmp_path):
    """The chief writes; a run of `learn()` goes on to the bit."""
    for worker in run(tmp_path, "saved", "learned"):
        assert_equal(worker["saved"])
        learned = worker["learned"]
        assert learned["stopped"]
        assert set(learned["resumed"].values()) == {0.0}
        assert_equal(learned["alone"])
    written = {path.name for path in tmp_path.iterdir()}
    assert written == {"model.keras", "model.weights.h5", "whole", "stopped"}


@pytest.mark.slow
def test_refusals(tmp_path):
    for worker in run(tmp_path, "refusals"):
        refused = worker["refusals"]
        assert "to have the same data" in refused["data"]
        assert "to have the same task" in refused["task"]
        assert "type generator" in refused["generator"]
        assert "AutoShardPolicy.OFF" in refused["own data"]
        assert refused["tasks"] == []


@pytest.mark.slow
def test_keras_still_has_both_faults(tmp_path):
    """Once this fails, `models/multi_worker_trainer.py` can go, or change."""
    for worker in run(tmp_path, "keras_faults"):
        faults = worker["keras_faults"]
        assert "PerReplica" in faults["mended=False"]
        assert "Invalid reduction dimension 0" in faults["mended=True"]
