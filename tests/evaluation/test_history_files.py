import csv
import json
import os

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bpn.evaluation import LearningHistory
from tests.evaluation.helpers import NAN
from tests.evaluation.helpers import make_history

numbers = st.floats() | st.lists(st.floats(), max_size=2)
accuracies = st.floats(0, 1) | st.just(NAN)
plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3)
    | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)  # fmt: skip


@st.composite
def histories(draw):
    tasks = draw(st.lists(st.text(min_size=1), max_size=4, unique=True))
    history = LearningHistory(tasks, draw(st.dictionaries(st.text(), plain)))
    if not tasks:
        return history
    row = st.dictionaries(st.sampled_from(tasks), accuracies)
    history.matrix.set_untrained(draw(row))
    ended = draw(st.integers(0, len(tasks)))
    sizes = st.none() | st.integers(0, 2**70)
    for i, task in enumerate(tasks[: ended + 1]):
        for epoch in sorted(draw(st.sets(st.integers(0, 9), max_size=2))):
            logs = draw(st.dictionaries(st.text(), numbers, max_size=2))
            history.record_epoch(task, epoch, logs, draw(row))
        if i < ended:
            seconds = draw(st.none() | st.floats(0, 1e300))
            history.record_task(
                task, draw(row), seconds, *[draw(sizes) for _ in range(3)]
            )
    return history


@settings(deadline=None)
@given(histories())
def test_dictionaries_are_strict_json_and_give_the_same_history(history):
    record = history.to_dict()
    again = LearningHistory.from_dict(
        json.loads(json.dumps(record, allow_nan=False))
    )
    assert again.to_dict() == record
    # NaN is equal to nothing, but its representation is.
    assert repr(again.epochs) == repr(history.epochs)
    assert repr(again.costs) == repr(history.costs)
    assert repr(again.settings) == repr(history.settings)
    assert again.tasks == history.tasks
    np.testing.assert_array_equal(again.matrix.values, history.matrix.values)
    assert repr(again.summary()) == repr(history.summary())
    assert str(again) == str(history)


def test_what_to_dict_returns_is_a_copy():
    history = make_history()
    before = json.dumps(history.to_dict())
    record = history.to_dict()
    record["epochs"][0]["accuracy"].clear()
    record["epochs"][0]["logs"].clear()
    record["costs"][0].clear()
    record["settings"]["units"].clear()
    assert json.dumps(history.to_dict()) == before


def test_from_dict_leaves_what_it_was_given_alone():
    record = make_history().to_dict()
    before = json.dumps(record)
    history = LearningHistory.from_dict(record)
    history.record_task("4/5", {"4/5": 1.0})
    assert json.dumps(record) == before


@pytest.mark.parametrize("kind", [str, lambda path: path])
def test_json_file(tmp_path, kind):
    path = tmp_path / "new" / "folder" / "history.json"
    history = make_history()
    history.save(kind(path))
    assert os.listdir(path.parent) == ["history.json"]

    def refuse(constant):
        raise AssertionError(f"not strict JSON: {constant}")

    record = json.loads(path.read_text(), parse_constant=refuse)
    assert record["format"] == "keras_bpn.LearningHistory"
    assert record["schema_version"] == 1
    assert record["matrix"]["values"][0] == [1.0, 0.5, None]
    assert record["epochs"][2]["logs"] == {
        "loss": None,
        "other": [1.0, "Infinity"],
    }
    again = LearningHistory.load(kind(path))
    assert again.to_dict() == history.to_dict()
    # Learning goes on where it was.
    for each in (history, again):
        each.record_task("4/5", {task: 1.0 for task in each.tasks})
        each.save(kind(path))
    assert again.to_dict() == history.to_dict()
    assert LearningHistory.load(path).to_dict() == history.to_dict()


def test_csv_file(tmp_path):
    make_history().save(tmp_path / "history.CSV")
    assert os.listdir(tmp_path) == ["history.CSV"]
    with open(tmp_path / "history.CSV", newline="") as file:
        lines = list(csv.reader(file))
    assert lines == [
        ["schema_version", "after", "on", "quantity", "value"],
        ["1", "", "0/1", "accuracy", "0.5"],
        ["1", "", "2/3", "accuracy", "0.25"],
        ["1", "0/1", "0/1", "accuracy", "1.0"],
        ["1", "0/1", "2/3", "accuracy", "0.5"],
        ["1", "2/3", "0/1", "accuracy", "0.75"],
        ["1", "2/3", "2/3", "accuracy", "0.1"],
        ["1", "0/1", "", "seconds", "2.5"],
        ["1", "0/1", "", "peak_memory", "1000"],
        ["1", "0/1", "", "stored_bytes", "840"],
        ["1", "0/1", "", "added_parameters", "210"],
        ["1", "2/3", "", "seconds", "3.0"],
        ["1", "2/3", "", "stored_bytes", "860"],
    ]


@settings(deadline=None, max_examples=30)
@given(st.text(min_size=1), st.floats(0, 1))
def test_csv_holds_any_name_and_the_exact_number(tmp_path_factory, name, value):
    path = tmp_path_factory.mktemp("csv") / "history.csv"
    history = LearningHistory([name])
    history.record_task(name, {name: value})
    history.save(path)
    with open(path, newline="", encoding="utf-8") as file:
        (line,) = csv.DictReader(file)
    assert (line["after"], line["on"]) == (name, name)
    assert float(line["value"]) == value


@pytest.mark.parametrize("name", ["history", "history.txt", "history.json.gz"])
def test_other_endings(tmp_path, name):
    with pytest.raises(ValueError, match="ends in one of.*Received: path"):
        make_history().save(tmp_path / "folder" / name)
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("ending", ["json", "csv"])
def test_a_failure_keeps_the_old_file(tmp_path, monkeypatch, ending):
    path = tmp_path / f"history.{ending}"
    history = make_history()
    history.save(path)
    before = path.read_bytes()
    history.record_task("4/5", {"4/5": 1.0})
    if ending == "json":
        history.settings["bad"] = object()
    else:
        history.costs.append({"task": "4/5"})
    with pytest.raises((ValueError, KeyError)):
        history.save(path)
    assert path.read_bytes() == before
    assert os.listdir(tmp_path) == [path.name]


def damaged(**changes):
    return {**make_history().to_dict(), **changes}


def damaged_epoch(**changes):
    record = make_history().to_dict()
    record["epochs"][0].update(changes)
    return record


def damaged_cost(**changes):
    record = make_history().to_dict()
    record["costs"][0].update(changes)
    return record


@pytest.mark.parametrize(
    "record, message",
    [
        (damaged(schema_version=2), "newer version of keras_bpn: upgrade"),
        (damaged(schema_version=0), "Received: schema_version=0"),
        (damaged(schema_version=True), "Received: schema_version=True"),
        (damaged(schema_version="1"), "Received: schema_version='1'"),
        (damaged(format="other"), "format='keras_bpn.LearningHistory'"),
        ({"tasks": ["a"], "results": {}}, "format='keras_bpn.LearningHistory'"),
        ([1, 2], "LearningHistory.to_dict"),
        (damaged(more=1), "with the keys.*'costs'"),
        (damaged(settings=[]), "`settings` to be a dictionary"),
        (damaged(matrix={}), "AccuracyMatrix.to_dict"),
        (damaged(epochs={}), "`epochs` to be a list"),
        (damaged(epochs=[1]), "with the keys.*'accuracy'"),
        (damaged(costs=None), "`costs` to be a list"),
        (damaged(costs=[{}]), "with the keys.*'seconds'"),
        # The costs of the first two tasks, for a task that comes later.
        (damaged(costs=[]), "of the tasks in their order"),
        (damaged_epoch(task="4/5"), "in their order|increasing|not ended"),
        (damaged_epoch(task=["0/1"]), "in their order"),
        (damaged_epoch(epoch=7), "increasing order"),
        (damaged_epoch(logs=[1]), "`logs` to be a dictionary"),
        (damaged_epoch(logs={"loss": "low"}), "logs to be numbers"),
        (damaged_epoch(logs={"loss": True}), "logs to be numbers"),
        (damaged_epoch(accuracy={"0/1": 2}), "from 0 to 1"),
        (damaged_cost(task="2/3"), "which is '0/1'. Received: task='2/3'"),
        (damaged_cost(seconds="1"), "Received: seconds='1'"),
        (damaged_cost(stored_bytes=0.5), "Received: stored_bytes=0.5"),
    ],
)
def test_damaged_foreign_and_newer_files(tmp_path, record, message):
    with pytest.raises(ValueError, match=message):
        LearningHistory.from_dict(record)
    path = tmp_path / "history.json"
    path.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=message) as error:
        LearningHistory.load(path)
    assert f"Cannot read a history from '{path}'" in str(error.value)


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\x89PNG\xff",
        b"[" * 100_000,
        json.dumps(damaged(settings={"a": NAN})).encode(),
        json.dumps(make_history().to_dict()).encode()[:-10],
    ],
)
def test_files_that_are_not_strict_json(tmp_path, content):
    path = tmp_path / "history.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="Cannot read.*a file of JSON"):
        LearningHistory.load(path)
    assert path.read_bytes() == content


def test_a_file_that_is_not_there(tmp_path):
    with pytest.raises(FileNotFoundError):
        LearningHistory.load(tmp_path / "history.json")


def test_an_empty_history(tmp_path):
    history = LearningHistory([])
    history.save(tmp_path / "history.json")
    loaded = LearningHistory.load(tmp_path / "history.json")
    assert loaded.to_dict() == history.to_dict()
    history.save(tmp_path / "history.csv")
    assert len((tmp_path / "history.csv").read_text().splitlines()) == 1
