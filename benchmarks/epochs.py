"""Examples per second of `fit` on arrays, beside plain Keras and a loop.

What is timed is a whole call of `fit` for one epoch with default settings, on
the 60,000 training images of MNIST at batch 128 (random images, where TFDS has
not prepared it). The contenders run in turn, in one process:

- `keras.Model.fit` of the plain network of `keras.layers.Dense`;
- `BPNModel.fit` of the same network of `BPNDense`, with EWC and with BD+EWC, on
  a second task, which is not ended;
- an epoch of BD+EWC in a loop written by hand and compiled by XLA, over data
  that is on the device (`benchmarks/loop.py`).

Ratios are of examples per second: those to plain Keras, and those to the loop.
"""

import functools

from benchmarks import command
from benchmarks.harness import alternate
from benchmarks.harness import paired_ratio
from benchmarks.loop import HandWrittenLoop
from benchmarks.networks import BATCH_SIZE
from benchmarks.networks import make_bpn
from benchmarks.networks import make_plain
from benchmarks.networks import mnist_or_random
from benchmarks.tables import Row
from benchmarks.tables import Table

# Units of the hidden layers, and what is asked for beside plain Keras.
NETWORKS = {
    "784-300x5-10": ([300] * 5, ">= 2.0"),
    "784-128x4-10": ([128] * 4, ">= 4.0"),
}
LOOP_LIMIT = ">= 0.75"
SETTINGS = {"rounds": 10, "examples": 60000}
QUICK = {"rounds": 1, "examples": 50 * BATCH_SIZE}


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    tables = []
    for name, (units, limit) in NETWORKS.items():
        tables += make_tables(name, units, limit, **settings)
        if quick:
            break
    return tables


def make_tables(name, units, limit, rounds, examples):
    x, y, label = mnist_or_random(examples)
    plain = make_plain(units=units)
    contenders = {"keras.Model": functools.partial(fit, plain, x, y)}
    for method in ("EWC", "BD+EWC"):
        model = make_bpn(method, units=units)
        # A first task, so that its protection has something to do.
        model.fit(x, y, task="first", batch_size=BATCH_SIZE, verbose=0)
        contenders[f"BPNModel, {method}"] = functools.partial(
            fit, model, x, y, task="second", consolidate=False
        )
    loop = HandWrittenLoop(x, y, [*units, 10], BATCH_SIZE)
    # Less a batch that is not full.
    share = len(x) / (loop.num_steps * BATCH_SIZE)
    contenders["loop, BD+EWC"] = functools.partial(run_loop, loop)
    seconds = alternate(contenders, rounds)
    speeds = {n: [len(x) / s for s in times] for n, times in seconds.items()}
    speeds["loop, BD+EWC"] = [s / share for s in speeds["loop, BD+EWC"]]
    limits = {"BPNModel, BD+EWC": limit}
    to_keras = [
        make_row(n, speeds, "keras.Model", limits.get(n))
        for n in list(speeds)[1:]
    ]
    to_loop = [make_row("BPNModel, BD+EWC", speeds, "loop, BD+EWC", LOOP_LIMIT)]
    columns = ("", "examples/s", "to plain Keras")
    return [
        Table(
            f"{name}, {label}, beside plain Keras",
            [Row("keras.Model", median(speeds["keras.Model"])), *to_keras],
            columns,
        ),
        Table(
            f"{name}, {label}, beside a loop written by hand",
            [Row("loop, BD+EWC", median(speeds["loop, BD+EWC"])), *to_loop],
            (*columns[:2], "to the loop"),
        ),
    ]


def fit(model, x, y, **arguments):
    model.fit(x, y, batch_size=BATCH_SIZE, verbose=0, **arguments)


def run_loop(loop):
    loop.train()


def median(numbers):
    return sorted(numbers)[len(numbers) // 2]


def make_row(name, speeds, baseline, limit):
    ratio, spread = paired_ratio(speeds[name], speeds[baseline])
    return Row(name, median(speeds[name]), "", ratio, spread, limit)


if __name__ == "__main__":
    command.main("epochs")
