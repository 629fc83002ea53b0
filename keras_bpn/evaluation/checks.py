"""Checks of names and numbers that the classes of this folder share."""

import difflib
import math
import operator

import numpy as np


def check_tasks(tasks):
    """Returns the names of tasks as a tuple, if they are distinct names."""
    names = () if isinstance(tasks, str) else tuple(tasks)
    if (
        isinstance(tasks, str)
        or not all(isinstance(name, str) and name for name in names)
        or len(set(names)) != len(names)
    ):
        raise ValueError(
            "Expected `tasks` to be distinct, non-empty names in the order in "
            f"which tasks are learned. Received: tasks={tasks!r}"
        )
    return names


def task_index(tasks, task):
    """Returns the position of a task, given by name or by position."""
    if isinstance(task, str):
        if task in tasks:
            return tasks.index(task)
        nearest = difflib.get_close_matches(task, tasks, 1, cutoff=0.5)
        hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
        raise ValueError(
            f"Expected the name of a task, one of {list(tasks)}. "
            f"Received: {task!r}.{hint}"
        )
    try:
        index = None if isinstance(task, bool) else operator.index(task)
    except TypeError:
        index = None
    if index is None or not -len(tasks) <= index < len(tasks):
        raise ValueError(
            "Expected a task to be given by its name or by its position, from "
            f"{-len(tasks)} to {len(tasks) - 1}. Received: {task!r}"
        )
    return index % len(tasks)


def check_accuracies(tasks, accuracy):
    """Returns a dictionary from names of tasks to floats.

    A value that is NaN stands for one that was not measured. It is left out.
    """
    if not isinstance(accuracy, dict):
        raise ValueError(
            "Expected `accuracy` to be a dictionary from names of tasks to "
            f"numbers. Received: accuracy={accuracy!r}"
        )
    known = set(tasks)
    checked = {}
    for task, value in accuracy.items():
        if not isinstance(task, str):
            raise ValueError(
                "Expected the keys of `accuracy` to be names of tasks. "
                f"Received: {task!r}"
            )
        if task not in known:
            task_index(tasks, task)
        number = as_float(value)
        if number is None or number < 0 or number > 1:
            raise ValueError(
                "Expected accuracies from 0 to 1. "
                f"Received: {value!r} for task {task!r}"
            )
        if not math.isnan(number):
            checked[task] = number
    return checked


def as_float(value):
    """Returns a number of any kind as a float, and `None` for all else."""
    if isinstance(value, (bool, np.bool_, str, bytes)):
        return None
    try:
        # Arrays with a single number are none, whatever NumPy says.
        return None if np.ndim(value) else float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def check_cost(name, value, whole=True):
    """Returns a cost as an `int` (a `float` if not `whole`), or `None`."""
    if value is None:
        return None
    kind = "a whole number" if whole else "a number"
    try:
        number = operator.index(value) if whole else as_float(value)
    except TypeError:
        number = None
    if number is not None and not whole and math.isnan(number):
        return None
    if (
        number is None
        or isinstance(value, bool)
        or not 0 <= number < float("inf")
    ):
        raise ValueError(
            f"Expected `{name}` to be {kind} of at least 0, or None where it "
            f"was not measured. Received: {name}={value!r}"
        )
    return number
