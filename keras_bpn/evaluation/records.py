"""The parts of a history, each checked before it is stored."""

import math

import numpy as np

from keras_bpn.evaluation.checks import as_float
from keras_bpn.evaluation.checks import check_accuracies
from keras_bpn.evaluation.checks import check_cost
from keras_bpn.evaluation.checks import task_index

COSTS = ("seconds", "peak_memory", "stored_bytes", "added_parameters")


def make_epoch(tasks, task, epoch, logs, accuracy):
    """Returns what is stored of an epoch."""
    if not isinstance(task, str):
        raise ValueError(
            f"Expected `task` to be the name of a task. Received: task={task!r}"
        )
    task_index(tasks, task)
    is_whole = isinstance(epoch, (int, np.integer))
    if not is_whole or isinstance(epoch, bool) or epoch < 0:
        raise ValueError(
            "Expected `epoch` to be an integer of at least 0, as Keras counts "
            f"them. Received: epoch={epoch!r}"
        )
    logs = {} if logs is None else logs
    if not isinstance(logs, dict) or not all(isinstance(k, str) for k in logs):
        raise ValueError(
            "Expected `logs` to be a dictionary from names to numbers. "
            f"Received: logs={logs!r}"
        )
    return {
        "task": task,
        "epoch": int(epoch),
        "logs": {name: _log(name, value) for name, value in logs.items()},
        "accuracy": check_accuracies(
            tasks, {} if accuracy is None else accuracy
        ),
    }


def _log(name, value):
    """Returns a number, or an array as lists of numbers."""
    number = as_float(value)
    if number is not None:
        return number
    try:
        array = np.asarray(value)
        if array.dtype.kind in "biuf":
            return array.astype("float64").tolist()
    except ValueError:
        # Lists of different lengths.
        pass
    raise ValueError(
        f"Expected logs to be numbers. Received: {value!r} for {name!r}"
    )


def make_cost(task, seconds, peak_memory, stored_bytes, added_parameters):
    """Returns what is stored of the costs of a task."""
    return {
        "task": task,
        "seconds": check_cost("seconds", seconds, whole=False),
        "peak_memory": check_cost("peak_memory", peak_memory),
        "stored_bytes": check_cost("stored_bytes", stored_bytes),
        "added_parameters": check_cost("added_parameters", added_parameters),
    }


def plain(value, name="settings"):
    """Returns a copy of what JSON can hold, made of plain Python values.

    Tuples become lists, and NumPy's numbers Python's.
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (str, bool, int)):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    if isinstance(value, (list, tuple)):
        return [plain(v, f"{name}[{i}]") for i, v in enumerate(value)]
    if isinstance(value, dict) and all(isinstance(k, str) for k in value):
        return {k: plain(v, f"{name}[{k!r}]") for k, v in value.items()}
    raise ValueError(
        "Expected `settings` to be a dictionary that JSON can hold: strings, "
        "finite numbers, Booleans, None, and lists and dictionaries of them "
        f"with strings as keys. Received: {name}={value!r}"
    )


def encode(number):
    """Returns a log as strict JSON can hold it, NaN as `None`."""
    if isinstance(number, list):
        return [encode(n) for n in number]
    if math.isnan(number):
        return None
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    return number


def decode(value):
    """Returns the log that `encode` was called with."""
    if isinstance(value, list):
        return [decode(v) for v in value]
    if value is None:
        return math.nan
    if value in ("Infinity", "-Infinity"):
        return float(value)
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise ValueError(f"Expected logs to be numbers. Received: {value!r}")
    return value
