import json

import numpy as np

from keras_bpn.evaluation import LearningHistory
from reproduce.packed_histories import pack
from reproduce.packed_histories import unpack


def make_history():
    history = LearningHistory(["a", "b", "c"])
    history.record_epoch("a", 0, {"loss": 1.0}, {"a": 0.5})
    history.record_epoch("a", 1, {"loss": 0.5}, {"a": 1.0})
    history.record_task("a", {"a": 1.0}, stored_bytes=8, added_parameters=2)
    # Only the task just learned was measured.
    history.record_epoch("b", 0, {"loss": 0.5})
    history.record_task("b", {"b": 0.75}, stored_bytes=8, added_parameters=2)
    history.record_epoch("c", 0, {}, {"a": 0.25, "b": 0.5, "c": 1 / 3})
    history.record_task(
        "c",
        {"a": 0.25, "b": 0.5, "c": 1 / 3},
        stored_bytes=8,
        added_parameters=2,
    )
    return history


def test_packed_by_hand():
    assert pack(make_history()) == {
        "tasks": ["a", "b", "c"],
        "accuracy": [[1.0], 0.75, [0.25, 0.5, 0.333333]],
        "epochs": [[0, 0, [0.5]], [0, 1, [1.0]], [2, 0, [0.25, 0.5, 0.333333]]],
        "stored_bytes": 8,
        "added_parameters": 2,
    }


def test_unpacked_after_a_file():
    history = make_history()
    again = unpack(json.loads(json.dumps(pack(history))))
    np.testing.assert_allclose(
        again.matrix.values, history.matrix.values, atol=1e-6
    )
    assert again.tasks == history.tasks
    assert [e["accuracy"] for e in again.epochs] == [
        {"a": 0.5},
        {"a": 1.0},
        {"a": 0.25, "b": 0.5, "c": 0.333333},
    ]
    assert again.costs[1]["stored_bytes"] == 8
    assert pack(again) == pack(history)
