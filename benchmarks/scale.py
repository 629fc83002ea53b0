"""Time with ten thousand tasks, beside the time with one.

Two models of the same 784-300x5-10 network, one with a single task and one with
many, do the same in turn: train a step, predict, switch modes, end a task. What
counts is the median over rounds of the ratio of two times of the same round,
which is to be one; each time is the least of some. The many tasks are added by
their names, and rows of random numbers stand for what was learned of them.

Saving and loading take longer the more tasks there are. Their whole time is
divided by the number of tasks. A mixed batch, in which every example belongs to
another task, is compared with a batch of one task in the same model, by
examples per second.
"""

import functools
import pathlib
import tempfile
import time

import keras
import numpy as np

from benchmarks import command
from benchmarks.harness import alternate
from benchmarks.harness import paired_ratio
from benchmarks.networks import BATCH_SIZE
from benchmarks.networks import OPTIONS
from benchmarks.networks import make_bpn
from benchmarks.networks import random_data
from benchmarks.networks import step_time
from benchmarks.tables import Row
from benchmarks.tables import Table

SAME = "<= 1.05"
PER_TASK = "< 1"  # Milliseconds.
MIXED = ">= 0.7"
SWITCHES = 20
SETTINGS = {
    "rounds": 16,
    "epochs": 3,
    "steps": 50,
    "tasks": 10_000,
    "mixed": 1024,
    "methods": ["BD+EWC", "BD+PSP"],
    "options": ["default"],
}
QUICK = {
    "rounds": 1,
    "epochs": 1,
    "steps": 2,
    "tasks": 20,
    "mixed": 16,
    "methods": ["BD+PSP"],
    "options": ["default"],
}


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    methods, options = settings.pop("methods"), settings.pop("options")
    return [
        make_table(method, label, **settings)
        for label in options
        for method in methods
    ]


def make_table(method, label, rounds, epochs, steps, tasks, mixed):
    """Measures one method with one set of compile options."""
    x, y = random_data(steps)
    few = make_model(method, label, 1)
    many = make_model(method, label, tasks)
    batch = {"x": x[:BATCH_SIZE], "y": y[:BATCH_SIZE]}
    step = functools.partial(step_time, task="open", consolidate=False)
    units = {
        "a task of one step": fastest(epochs, task_time, **batch),
        "the end of a task": fastest(epochs, end_time, x=x, y=y),
        "training step": functools.partial(step, x=x, y=y, epochs=epochs),
        "prediction": fastest(epochs, prediction_time, x=x),
        "switching, and predicting one example": fastest(
            epochs, switch_time, x=x[:1]
        ),
    }
    rows = [
        same_row(name, measure, few, many, rounds)
        for name, measure in units.items()
    ]
    rows += [memory_row(few, many), mixed_row(many, mixed, rounds)]
    return Table(
        f"{method} with {tasks:,} tasks, compile options: {label}",
        rows + file_rows(many),
        columns=("", "measured", "ratio"),
        note="Ratios are to the same with one task; that of the mixed batch is "
        "of examples per second, to a batch of one task; that of the variables "
        "is to what a row of the tables takes.",
    )


def make_model(method, label, tasks):
    """Returns a model with so many ended tasks."""
    model = make_bpn(method, OPTIONS[label])
    for i in range(tasks):
        model.add_task(f"task {i}", classes=10)
    model._registry.set_state([[name, "ended"] for name in model.tasks])
    generator = np.random.default_rng(0)
    for bias in model.task_biases:
        bias.table.assign(0.1 * generator.standard_normal(bias.table.shape))
    return model


def fastest(times, measure, **arguments):
    """Returns a function that gives the least of several measurements, for the
    reason that `step_time` gives."""
    return lambda model: min(measure(model, **arguments) for _ in range(times))


def same_row(name, measure, few, many, rounds):
    """Compares one unit of work of two models."""
    seconds = alternate(
        {
            "few": functools.partial(measure, few),
            "many": functools.partial(measure, many),
        },
        rounds,
    )
    ratio, spread = paired_ratio(seconds["many"], seconds["few"])
    value = 1000 * float(np.median(seconds["many"]))
    return Row(name, value, "ms", ratio, spread, SAME)


def task_time(model, x, y):
    """Returns the seconds from the start of a new task to its end."""
    start = time.perf_counter()
    model.fit(x, y, batch_size=BATCH_SIZE, task="new", verbose=0)
    seconds = time.perf_counter() - start
    drop_last_task(model)
    return seconds


def end_time(model, x, y):
    """Returns the seconds that the end of a task takes."""
    model.fit(
        x[:BATCH_SIZE], y[:BATCH_SIZE], task="new", verbose=0, consolidate=False
    )
    start = time.perf_counter()
    model.consolidate(x, y, batch_size=BATCH_SIZE)
    seconds = time.perf_counter() - start
    drop_last_task(model)
    return seconds


def drop_last_task(model):
    """Makes room, so that tables never have to grow and functions are not
    traced again."""
    model.task = None
    model._registry.truncate(len(model.tasks) - 1)


def prediction_time(model, x, batch_size=BATCH_SIZE, task="task 0"):
    start = time.perf_counter()
    model.predict(x, batch_size=batch_size, task=task, verbose=0)
    return time.perf_counter() - start


def switch_time(model, x):
    """Returns the seconds from one mode to what an example gives in the
    other."""
    names = [None, model.tasks[-1]] * SWITCHES
    start = time.perf_counter()
    for name in names:
        model.task = name
        model.predict_on_batch(x)
    return (time.perf_counter() - start) / len(names)


def memory_row(few, many):
    """Compares the bytes that all variables grow by with those of the rows."""
    rows = many._capacity - few._capacity
    grown = variable_bytes(many) - variable_bytes(few)
    tables = [t.table for t in many.task_tables if t.table is not None]
    row = sum(np.asarray(table)[0].nbytes for table in tables)
    return Row(
        "bytes of all variables, per task",
        grown / rows,
        "B",
        grown / rows / row,
        limit="<= 1",
    )


def variable_bytes(model):
    variables = [*model.variables, *model.optimizer.variables]
    variables += model.consolidation.variables.values()
    # Listed twice, a variable is there once.
    return sum(
        np.asarray(v).nbytes for v in {id(v): v for v in variables}.values()
    )


def mixed_row(model, size, rounds):
    """Compares examples of as many tasks with examples of one."""
    generator = np.random.default_rng(1)
    x = generator.random((size, 784), dtype="float32")
    names = [model.tasks[i % len(model.tasks)] for i in range(size)]
    names = generator.permutation(names).tolist()
    measure = functools.partial(prediction_time, model, x, size)
    seconds = alternate(
        {"one": measure, "mixed": functools.partial(measure, names)}, rounds
    )
    ratio, spread = paired_ratio(seconds["one"], seconds["mixed"])
    value = 1000 * float(np.median(seconds["mixed"]))
    name = f"mixed batch of {min(size, len(model.tasks)):,} tasks"
    return Row(name, value, "ms", ratio, spread, MIXED)


def file_rows(model, rounds=3):
    """Measures a round trip to a file."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder) / "model.keras"

        def load():
            keras.models.load_model(path)

        seconds = alternate(
            {"saving": functools.partial(model.save, path), "loading": load},
            rounds,
        )
    return [
        Row(
            f"{name}, per task",
            1000 * float(np.median(times)) / len(model.tasks),
            "ms",
            limit=PER_TASK,
        )
        for name, times in seconds.items()
    ]


if __name__ == "__main__":
    command.main("scale")
