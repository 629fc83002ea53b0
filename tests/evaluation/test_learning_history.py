import json
import math

import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.evaluation import LearningHistory
from tests.evaluation.helpers import INF
from tests.evaluation.helpers import NAN
from tests.evaluation.helpers import make_history


def test_what_is_recorded():
    history = make_history()
    assert history.tasks == ("0/1", "2/3", "4/5")
    assert history.settings == {"seed": 1, "units": [300, 300]}
    np.testing.assert_array_equal(
        history.matrix.values,
        [[1.0, 0.5, NAN], [0.75, 0.1, NAN], [NAN, NAN, NAN]],
    )
    assert history.epochs[0] == {
        "task": "0/1",
        "epoch": 0,
        "logs": {"loss": 1.5},
        "accuracy": {"0/1": 0.75},
    }
    # What is NaN was not measured.
    assert history.epochs[3]["accuracy"] == {"0/1": 0.5}
    assert [e["task"] for e in history.epochs] == ["0/1", "0/1", "2/3", "4/5"]
    assert history.costs == [
        {
            "task": "0/1",
            "seconds": 2.5,
            "peak_memory": 1000,
            "stored_bytes": 840,
            "added_parameters": 210,
        },
        {
            "task": "2/3",
            "seconds": 3.0,
            "peak_memory": None,
            "stored_bytes": 860,
            "added_parameters": None,
        },
    ]
    assert repr(history) == (
        "LearningHistory(tasks=['0/1', '2/3', '4/5'], ended=2)"
    )


def test_summary_by_hand():
    # After two tasks: (0.75 + 0.1) / 2, (1.0 + 0.1) / 2, 1.0 - 0.75,
    # 0.75 - 1.0, 0.5 - 0.25; costs 2.5 + 3, (840 + 860) / 2.
    assert make_history().summary() == pytest.approx(
        {
            "average_accuracy": 0.425,
            "learning_accuracy": 0.55,
            "forgetting": 0.25,
            "backward_transfer": -0.25,
            "forward_transfer": 0.25,
            "seconds": 5.5,
            "peak_memory": NAN,
            "stored_bytes_per_task": 850.0,
            "added_parameters_per_task": NAN,
        },
        nan_ok=True,
    )


def test_peak_memory_is_that_of_the_worst_task():
    history = LearningHistory(["a", "b"])
    history.record_task("a", {}, peak_memory=7, added_parameters=0)
    history.record_task("b", {}, peak_memory=5, added_parameters=3)
    assert history.summary()["peak_memory"] == 7.0
    assert history.summary()["added_parameters_per_task"] == 1.5
    assert math.isnan(history.summary()["average_accuracy"])


@pytest.mark.parametrize("tasks", [[], ["a"]])
def test_summary_of_nothing(tasks):
    summary = LearningHistory(tasks).summary()
    assert np.isnan(list(summary.values())).all()
    assert "Nothing was measured yet." in str(LearningHistory(tasks))


def test_numbers_of_numpy_and_tensorflow():
    history = LearningHistory(["a"], {"rate": np.float64(0.5), "n": np.int8(3)})
    history.record_epoch(
        "a",
        np.int64(0),
        {
            "loss": tf.constant(0.5),
            "f1": np.array([0.5, 1], "float32"),
            "one": np.array([0.25]),
            "half": tf.constant(0.5, "bfloat16"),
        },
        {"a": np.float32(0.1)},
    )
    history.record_task("a", {"a": tf.constant(1.0)}, stored_bytes=np.int64(3))
    assert history.settings == {"rate": 0.5, "n": 3}
    assert history.epochs[0]["logs"] == {
        "loss": 0.5,
        "f1": [0.5, 1.0],
        "one": [0.25],
        "half": 0.5,
    }
    assert history.epochs[0]["accuracy"] == {"a": float(np.float32(0.1))}
    json.dumps(history.to_dict(), allow_nan=False)


def test_logs_of_keras():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(2)])
    model.compile("sgd", "mse", metrics=["mae"])
    history = LearningHistory(["a"])
    callback = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: history.record_epoch("a", epoch, logs)
    )
    x = np.ones((4, 2))
    model.fit(x, x, epochs=2, verbose=0, callbacks=[callback])
    assert [e["epoch"] for e in history.epochs] == [0, 1]
    assert set(history.epochs[1]["logs"]) == {"loss", "mae"}


def test_table():
    lines = str(make_history()).splitlines()
    assert lines[0].split("  ")[0] == "task"
    assert lines[1].split() == "0/1 1.000 0.750 0.250 2.5 840 210".split()
    assert lines[2].split() == "2/3 0.100 0.100 - 3.0 860 -".split()
    assert lines[3].split() == "4/5 - - - - - -".split()
    assert lines[5] == "After '2/3', 2 of 3:"
    assert lines[6].split() == "average accuracy 0.425".split()
    assert lines[13].split() == "stored bytes per task 850".split()
    # All columns end below their heads.
    assert len({len(line) for line in lines[:4]}) == 1


def test_settings_are_copied():
    settings = {"a": [1]}
    history = LearningHistory([], settings)
    settings["a"].append(2)
    assert history.settings == {"a": [1]}


@pytest.mark.parametrize(
    "settings, message",
    [
        ([1], "to be a dictionary. Received"),
        ({"a": {1: 2}}, r"settings\['a'\]=\{1: 2\}"),
        ({"a": [0, NAN]}, r"finite.*settings\['a'\]\[1\]=nan"),
        ({"a": np.zeros(2)}, r"settings\['a'\]=array"),
        ({"a": object()}, r"settings\['a'\]=<object"),
    ],
)
def test_settings_that_json_cannot_hold(settings, message):
    with pytest.raises(ValueError, match=message):
        LearningHistory(["a"], settings)


@pytest.mark.parametrize(
    "arguments, message",
    [
        (("4/5", 3), "increasing order.*Received: epoch=3.*after epoch 3"),
        (("4/5", 0), "increasing order"),
        (("2/3", 9), "not ended, which is '4/5'. Received: task='2/3'"),
        (("4/6", 9), "Received: '4/6'. Did you mean '4/5'"),
        ((2, 9), "name of a task. Received: task=2"),
        (("4/5", -1), "at least 0.*Received: epoch=-1"),
        (("4/5", True), "Received: epoch=True"),
        (("4/5", False), "Received: epoch=False"),
        (("4/5", 9.0), "Received: epoch=9.0"),
        (("4/5", 9, [1]), r"`logs`.*Received: logs=\[1\]"),
        (("4/5", 9, {1: 2}), "`logs`"),
        (("4/5", 9, {"loss": "low"}), "'low' for 'loss'"),
        (("4/5", 9, {"loss": None}), "None for 'loss'"),
        (("4/5", 9, {"loss": [[1], [1, 2]]}), "for 'loss'"),
        (("4/5", 9, {}, {"4/5": 1.5}), "from 0 to 1.*Received: 1.5"),
        (("4/5", 9, {}, {"6/7": 0.5}), "Received: '6/7'"),
        (("4/5", 9, {}, [0.5]), "`accuracy` to be a dictionary"),
    ],
)
def test_bad_epochs_change_nothing(arguments, message):
    history = make_history()
    before = history.to_dict()
    with pytest.raises(ValueError, match=message):
        history.record_epoch(*arguments)
    assert history.to_dict() == before


@pytest.mark.parametrize(
    "task, accuracy, costs, message",
    [
        ("2/3", {}, {}, "not ended, which is '4/5'. Received: task='2/3'"),
        ("x", {}, {}, "Received: task='x'"),
        ("4/5", {"4/5": -1}, {}, "from 0 to 1"),
        ("4/5", {"x": 1}, {}, "Received: 'x'"),
        ("4/5", None, {}, "Received: accuracy=None"),
        ("4/5", {"4/5": 1}, {"seconds": -1}, "Received: seconds=-1"),
        ("4/5", {"4/5": 1}, {"seconds": INF}, "Received: seconds=inf"),
        ("4/5", {"4/5": 1}, {"seconds": "1"}, "Received: seconds='1'"),
        ("4/5", {"4/5": 1}, {"peak_memory": 1.5}, "Received: peak_memory=1.5"),
        ("4/5", {"4/5": 1}, {"stored_bytes": -2}, "Received: stored_bytes=-2"),
        ("4/5", {"4/5": 1}, {"stored_bytes": True}, "whole number"),
        ("4/5", {"4/5": 1}, {"added_parameters": "1"}, "added_parameters='1'"),
    ],
)
def test_bad_tasks_change_nothing(task, accuracy, costs, message):
    history = make_history()
    before = history.to_dict()
    with pytest.raises(ValueError, match=message):
        history.record_task(task, accuracy, **costs)
    assert history.to_dict() == before


def test_nothing_follows_the_last_task():
    history = LearningHistory(["a"])
    history.record_task("a", {"a": 1.0})
    with pytest.raises(ValueError, match="All 1 tasks have ended"):
        history.record_task("a", {"a": 1.0})
    with pytest.raises(ValueError, match="All 1 tasks have ended"):
        history.record_epoch("a", 0)
