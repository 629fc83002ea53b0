"""A `LearningHistory` as strict JSON and as CSV."""

import csv
import json
import pathlib

import numpy as np

from keras_bpn.evaluation.accuracy_matrix import AccuracyMatrix
from keras_bpn.evaluation.records import COSTS
from keras_bpn.evaluation.records import decode
from keras_bpn.evaluation.records import encode
from keras_bpn.evaluation.records import plain
from keras_bpn.models.atomic import written_beside

FORMAT = "keras_bpn.LearningHistory"
SCHEMA_VERSION = 1
_COLUMNS = ("schema_version", "after", "on", "quantity", "value")
_KEYS = ("format", "schema_version", "settings", "matrix", "epochs", "costs")
_EPOCH_KEYS = ("task", "epoch", "logs", "accuracy")
_COST_KEYS = ("task", *COSTS)


def to_record(history):
    """Returns a history as a dictionary that strict JSON can hold."""
    return {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "settings": plain(history.settings),
        "matrix": history.matrix.to_dict(),
        "epochs": [
            {
                **epoch,
                "logs": {k: encode(v) for k, v in epoch["logs"].items()},
                "accuracy": dict(epoch["accuracy"]),
            }
            for epoch in history.epochs
        ],
        "costs": [dict(cost) for cost in history.costs],
    }


def parts_of(record):
    """Returns matrix, epochs, costs and settings of a record.

    Each part has the keys that it needs; their values are yet to be checked.
    """
    if not isinstance(record, dict) or record.get("format") != FORMAT:
        raise ValueError(
            "Expected what `LearningHistory.to_dict()` returns, with "
            f"format={FORMAT!r}. Received: {record!r:.200}"
        )
    version = record.get("schema_version")
    if type(version) is int and version > SCHEMA_VERSION:
        raise ValueError(
            "This history was written by a newer version of keras_bpn: upgrade "
            f"to read it. Expected schema_version={SCHEMA_VERSION}. "
            f"Received: schema_version={version}"
        )
    if type(version) is not int or version != SCHEMA_VERSION:
        raise ValueError(
            f"Expected schema_version={SCHEMA_VERSION}. "
            f"Received: schema_version={version!r}"
        )
    _check_keys(record, _KEYS)
    for name in ("epochs", "costs"):
        if not isinstance(record[name], list):
            raise ValueError(
                f"Expected `{name}` to be a list. "
                f"Received: {name}={record[name]!r:.200}"
            )
    for epoch in record["epochs"]:
        _check_keys(epoch, _EPOCH_KEYS)
        if not isinstance(epoch["logs"], dict):
            raise ValueError(
                "Expected `logs` to be a dictionary from names to numbers. "
                f"Received: logs={epoch['logs']!r:.200}"
            )
    for cost in record["costs"]:
        _check_keys(cost, _COST_KEYS)
    epochs = [
        {**epoch, "logs": {k: decode(v) for k, v in epoch["logs"].items()}}
        for epoch in record["epochs"]
    ]
    matrix = AccuracyMatrix.from_dict(record["matrix"])
    return matrix, epochs, list(record["costs"]), record["settings"]


def _check_keys(record, keys):
    if not isinstance(record, dict) or set(record) != set(keys):
        raise ValueError(
            f"Expected a dictionary with the keys {list(keys)}. "
            f"Received: {record!r:.200}"
        )


def write(history, path):
    """Writes a history as the ending of the path says, in one move."""
    path = pathlib.Path(path)
    writers = {".json": _write_json, ".csv": _write_csv}
    writer = writers.get(path.suffix.lower())
    if writer is None:
        raise ValueError(
            f"Expected a path that ends in one of {list(writers)}. "
            f"Received: path='{path}'"
        )
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_beside(path) as temporary:
        writer(history, temporary)


def _write_json(history, path):
    text = json.dumps(to_record(history), indent=1, allow_nan=False)
    path.write_text(text + "\n", encoding="utf-8")


def _write_csv(history, path):
    with path.open("w", encoding="utf-8", newline="") as file:
        # Quotes around every name: some readers take a carriage return within
        # for the end of the line.
        writer = csv.writer(
            file, quoting=csv.QUOTE_NONNUMERIC, lineterminator="\n"
        )
        writer.writerow(_COLUMNS)
        for line in _lines(history):
            writer.writerow((SCHEMA_VERSION, *line))


def _lines(history):
    """Gives `after`, `on`, `quantity` and `value` for all that was measured."""
    rows = [("", history.matrix.untrained)]
    rows += zip(history.tasks, history.matrix.values)
    for after, row in rows:
        for on, value in zip(history.tasks, row):
            if not np.isnan(value):
                yield after, on, "accuracy", float(value)
    for cost in history.costs:
        for name in COSTS:
            if cost[name] is not None:
                yield cost["task"], "", name, cost[name]


def read_json(path):
    """Returns what a file of strict JSON holds."""
    try:
        text = pathlib.Path(path).read_text(encoding="utf-8")
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise ValueError(
            f"Expected a file of JSON that `save()` has written: {error}"
        ) from error


def _refuse_constant(name):
    raise ValueError(f"{name} is not JSON")
