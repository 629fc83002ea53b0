"""Exported modes, beside an exported network without any.

Five SavedModels' signatures of the 784-300x5-10 network are called in turn,
each in the same process and as TensorFlow loads it: that of plain Keras, one
mode folded into a plain network, one mode of a file with all, and the same file
with the name of a task for the batch, and for each example, from sixteen tasks.
Latency is the time of a call, the median over the calls of a round; what counts
is the median over rounds of the ratio to plain Keras in the same round.
"""

import functools
import pathlib
import tempfile
import time

import numpy as np
import tensorflow as tf

from benchmarks import command
from benchmarks.harness import alternate
from benchmarks.harness import paired_ratio
from benchmarks.networks import make_plain
from benchmarks.scale import make_model
from benchmarks.tables import Row
from benchmarks.tables import Table

PLAIN = "keras.Model, Dense"
FOLDED = "one mode, folded"
SHARED = "one mode of all"
NAMED = "all modes, one name"
MIXED = "all modes, a name for each example"
LIMITS = {FOLDED: "<= 1.05", SHARED: "<= 1.15", MIXED: "<= 1.5"}
SETTINGS = {
    "rounds": 101,
    # Short, so that the calls that are compared are close to each other.
    "milliseconds": 50,
    "batches": [1, 32, 1024],
    "tasks": 16,
    "methods": ["BD+EWC", "BD+PSP"],
}
QUICK = {
    "rounds": 1,
    "milliseconds": 1,
    "batches": [2],
    "tasks": 2,
    "methods": ["BD+PSP"],
}


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    methods = settings.pop("methods")
    tables = []
    for method in methods:
        with tempfile.TemporaryDirectory() as folder:
            tables += make_tables(method, pathlib.Path(folder), **settings)
    return tables


def make_tables(method, folder, rounds, milliseconds, batches, tasks):
    """Measures one method."""
    model = make_model(method, "default", tasks)
    export(model, folder)
    loaded = {
        name: tf.saved_model.load(str(folder / name))
        for name in ("plain", "folded", "all")
    }
    plain = loaded["plain"].signatures
    folded = loaded["folded"].signatures
    every = loaded["all"].signatures
    mixed = tf.constant(model.tasks)
    tables = []
    for size in batches:
        x = tf.constant(np.random.rand(size, 784).astype("float32"))
        # An order in which neighbours belong to different tasks.
        names = tf.gather(mixed, tf.range(size) * 7 % tasks)
        contenders = {
            PLAIN: functools.partial(plain["serving_default"], inputs=x),
            FOLDED: functools.partial(folded["serving_default"], inputs=x),
            SHARED: functools.partial(every["task_0"], inputs=x),
            NAMED: functools.partial(
                every["serving_default"], inputs=x, task=names[0]
            ),
            MIXED: functools.partial(
                every["serving_default"], inputs=x, task=names
            ),
        }
        seconds = alternate(
            {
                name: functools.partial(latency, call, milliseconds / 1000)
                for name, call in contenders.items()
            },
            rounds,
        )
        tables.append(latency_table(method, size, seconds))
    tables.append(size_table(method, folder, tasks))
    return tables


def export(model, folder):
    """Writes the files that are compared."""
    model.export(folder / "all", verbose=False)
    model.export(folder / "folded", task="task 0", verbose=False)
    # With the inputs named as ours are.
    make_plain().export(
        folder / "plain",
        verbose=False,
        input_signature=[tf.TensorSpec((None, 784), "float32", name="inputs")],
    )
    model.export(folder / "all.tflite", format="litert", verbose=False)
    model.export(folder / "all.onnx", format="onnx", verbose=False)


def latency(call, duration):
    """Returns the median of the seconds of calls within a duration."""
    times = []
    end = time.perf_counter() + duration
    while not times or time.perf_counter() < end:
        start = time.perf_counter()
        call()["output_0"].numpy()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def latency_table(method, size, seconds):
    rows = []
    for name, times in seconds.items():
        ratio = spread = limit = None
        if name != PLAIN:
            ratio, spread = paired_ratio(times, seconds[PLAIN])
            limit = LIMITS.get(name)
        median = float(np.median(times))
        rows.append(
            Row(
                f"{name}: {size / median:,.0f} examples/s",
                1000 * median,
                "ms",
                ratio,
                spread,
                limit,
            )
        )
    return Table(
        f"{method}, batches of {size}",
        rows,
        ("signature", "latency", "to plain Keras"),
    )


def size_table(method, folder, tasks):
    """Returns what each file takes on the disk."""
    names = {
        "plain": PLAIN,
        "folded": FOLDED,
        "all": f"all {tasks} modes",
        "all.tflite": f"all {tasks} modes, LiteRT",
        "all.onnx": f"all {tasks} modes, ONNX",
    }
    rows = []
    for file, name in names.items():
        path = folder / file
        files = path.rglob("*") if path.is_dir() else [path]
        size = sum(f.stat().st_size for f in files if f.is_file())
        rows.append(Row(name, size / 1000, "kB"))
    return Table(f"{method}, size on disk", rows, ("what", "size", ""))


if __name__ == "__main__":
    command.main("serving")
