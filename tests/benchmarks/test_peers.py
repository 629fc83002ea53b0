import json

import keras
import numpy as np
import pytest

from benchmarks import command
from benchmarks.harness import Unavailable
from benchmarks.peers import comparison
from benchmarks.peers import jobs
from benchmarks.peers import ours


def record(train, end, accuracy, **versions):
    return {
        "train_seconds": [train / 2, train / 2],
        "end_seconds": [end, 0.0],
        "accuracy": accuracy,
        "versions": versions,
    }


def test_tables_by_hand():
    records = {
        "Avalanche": [
            record(9.0, 1.0, [0.4, 0.6], avalanche="0.6"),
            record(19.0, 1.0, [0.4, 0.6], avalanche="0.6"),
        ],
        "keras_bpn": [
            record(3.0, 1.0, [0.5, 0.6], keras_bpn="1"),
            record(9.0, 1.0, [0.4, 0.5], keras_bpn="1"),
        ],
    }
    speed, later, ends, accuracy = comparison.make_tables(
        "GEM", records, samples=300
    )
    peer, own = speed.rows
    # 300 samples in 10 and 20 seconds, and in 4 and 10.
    assert peer.value == 20.0 and peer.ratio is peer.limit is None
    assert own.value == pytest.approx(300 / 7)
    # By round 10/4 and 20/10.
    assert own.ratio == 2.25 and own.spread == (2.125, 2.375)
    assert own.limit == ">= 2" and own.met
    assert speed.note == "avalanche 0.6, keras_bpn 1."
    # Without the first task, 4.5 and 9.5 seconds, and 1.5 and 4.5.
    assert [row.value for row in later.rows] == [7.0, 3.0]
    assert later.rows[1].ratio == pytest.approx((9 / 3 + 19 / 9) / 2)
    # Ends take 1/10 and 1/20 of the time, and 1/4 and 1/10.
    assert [row.value for row in ends.rows] == [1.0, 1.0]
    assert [row.ratio for row in ends.rows] == pytest.approx([0.075, 0.175])
    # Accuracies of 50% and 50%, and of 55% and 45%.
    peer, own = accuracy.rows
    assert (peer.value, own.value) == pytest.approx((50.0, 50.0))
    assert own.ratio == pytest.approx(1.0) and own.met


def test_jobs_run_in_turn_with_a_seed_for_each_round(monkeypatch, tmp_path):
    calls = []

    def run_job(side, method, folder, seed):
        calls.append((side, seed))
        return record(1.0, 0.0, [1.0])

    monkeypatch.setattr(comparison, "run_job", run_job)
    records = comparison.measure("EWC", tmp_path, rounds=2)
    sides = ["Avalanche", "plain PyTorch", "keras_bpn"]
    assert calls == [(side, seed) for seed in (0, 1) for side in sides]
    assert [len(records[side]) for side in sides] == [2, 2, 2]
    assert jobs.sides("GEM") == (*sides, jobs.OURS_DRAWING)


def test_without_the_environment_a_message_says_what_is_needed(
    monkeypatch, capsys
):
    monkeypatch.delenv(jobs.PEER_PYTHON, raising=False)
    assert command.run("peers", quick=True) == command.UNAVAILABLE
    error = capsys.readouterr().err
    assert "peers was not run" in error and "--peer-python" in error
    monkeypatch.setenv(jobs.PEER_PYTHON, "/no/such/python")
    with pytest.raises(Unavailable, match="Received: '/no/such/python'"):
        jobs.peer_python()


def test_a_job_that_fails_shows_why(monkeypatch, tmp_path):
    # A program that cannot run the script and says so.
    monkeypatch.setenv(jobs.PEER_PYTHON, "/bin/ls")
    with pytest.raises(RuntimeError, match="Avalanche could not do the job"):
        jobs.run_job("Avalanche", "GEM", tmp_path, 0)


def test_data_is_that_of_the_tasks(tmp_path):
    job = json.loads(jobs.JOB.read_text())
    assert jobs.write_data(tmp_path / "data.npz", job, images=200) == 200
    tasks = ours.load_tasks(tmp_path / "data.npz", job["tasks"])
    for i, task in enumerate(tasks):
        assert task["x_train"].shape == (40, 784)
        assert task["x_train"].dtype == "float32"
        assert set(task["y_train"]) == {2 * i, 2 * i + 1}


@pytest.mark.parametrize("draw", [False, True])
def test_our_side_learns_and_keeps_what_it_learned(draw):
    # Each class is one bright pixel. With two tasks of one head.
    job = json.loads(jobs.JOB.read_text())
    job.update(tasks=2, layers=1, units=16, batch_size=8, epochs=4)
    job.update(gem_patterns_per_task=8, gem_patterns_per_step=4)
    job.update(learning_rate=0.01)
    images = 3 * np.eye(4, 784, dtype="float32")
    tasks = []
    for i in range(2):
        y = np.tile([2 * i, 2 * i + 1], 20)
        tasks.append({"x_train": images[y], "y_train": y})
    keras.utils.set_random_seed(0)
    model, seconds = ours.learn("GEM", job, tasks, draw)
    drawn = job["gem_patterns_per_step"] if draw else None
    assert model.consolidation.memory_batch_size == drawn
    assert len(seconds) == 2 and all(t > 0 for pair in seconds for t in pair)
    for i, task in enumerate(tasks):
        assert ours.accuracy(model, i, task["x_train"], task["y_train"]) == 1
