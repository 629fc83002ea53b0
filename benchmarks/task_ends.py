"""Time that the end of a task takes, beside an epoch of training on it.

All train the 784-300x5-10 network at batch 128 on data in memory: a task of
split MNIST (12,000 examples) and one of permuted MNIST (60,000). An end is a
whole `model.consolidate(x, y)`: the importances of the weights over all of the
data, exact and one example at a time, and the folding of the bias units. The
epoch is one of BD+EWC on a second task. Ends and the epoch take turns, round
after round, each on a task of its own; the ratio is the median over rounds.
A first round, in which functions are compiled, does not count.

Exact importances take as many products of matrices as training: forward, back,
and one per kernel. "The products alone" are these in one compiled loop, in
single precision: what the machine needs in any case.
"""

import functools
import itertools
import time

import tensorflow as tf

from benchmarks import command
from benchmarks.harness import alternate
from benchmarks.harness import compare
from benchmarks.networks import BATCH_SIZE
from benchmarks.networks import make_bpn
from benchmarks.networks import random_data
from benchmarks.networks import step_time
from benchmarks.tables import Table

EPOCH = "an epoch of BD+EWC"
PRODUCTS = "the products alone"
BLOCK = 1024  # Examples at a time, as the task's end takes them.
METHODS = ["EWC", "BD+EWC", "MAS", "SLNID", "SI", "PSP", "IMM"]
LIMITS = dict.fromkeys(("EWC", "BD+EWC", "MAS"), "<= 0.5")
SETTINGS = {"rounds": 6, "steps": [94, 469], "methods": METHODS}
QUICK = {"rounds": 1, "steps": [2], "methods": ["BD+EWC"]}


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    sizes = settings.pop("steps")
    return [make_table(steps, **settings) for steps in sizes]


def make_table(steps, rounds, methods):
    """Measures on so many steps of data."""
    x, y = random_data(steps)
    contenders = {
        EPOCH: functools.partial(epoch_time, trained(x, y), x, y),
        PRODUCTS: functools.partial(products_time, tf.constant(x)),
    }
    for name in methods:
        end = functools.partial(end_time, make_bpn(name), x, y)
        numbers = itertools.count()
        contenders[name] = functools.partial(next_task, end, numbers)
    seconds = alternate(contenders, rounds)
    return Table(
        f"Ends of a task of {len(x):,} examples",
        compare(seconds, EPOCH, LIMITS),
        columns=("method", "task end", "to an epoch"),
    )


def trained(x, y):
    """Returns a network of BD+EWC that has learned a task."""
    model = make_bpn("BD+EWC")
    model.fit(x, y, task="first", batch_size=BATCH_SIZE, verbose=0)
    return model


def epoch_time(model, x, y):
    """Returns the seconds of an epoch on the second task."""
    step = step_time(model, x, y, 1, task="second", consolidate=False)
    return step * (len(x) // BATCH_SIZE)


def products_time(x):
    start = time.perf_counter()
    float(products(x))
    return time.perf_counter() - start


@tf.function
def products(x):
    """Returns a number that depends on all products of matrices that exact
    importances take."""
    sizes = [784, *5 * [300], 10]
    kernels = [tf.fill(shape, 1e-3) for shape in zip(sizes, sizes[1:])]

    def add_block(start, total):
        entered = [x[start : start + BLOCK]]
        for kernel in kernels:
            entered.append(entered[-1] @ kernel)
        delta = entered.pop()
        for kernel in reversed(kernels):
            inputs = entered.pop()
            moments = tf.matmul(inputs, delta, transpose_a=True)
            total += moments[0, 0]
            if entered:
                delta = tf.matmul(delta, kernel, transpose_b=True)
        return start + BLOCK, total

    _, total = tf.while_loop(
        lambda start, _: start < tf.shape(x)[0],
        add_block,
        (0, 0.0),
        parallel_iterations=2,
    )
    return total


def next_task(end, numbers):
    return end(task=f"task {next(numbers)}")


def end_time(model, x, y, task):
    """Returns the seconds in which a task ends that was hardly trained."""
    few = 2 * BATCH_SIZE
    model.fit(
        x[:few],
        y[:few],
        task=task,
        batch_size=BATCH_SIZE,
        verbose=0,
        consolidate=False,
    )
    start = time.perf_counter()
    model.consolidate(x, y, batch_size=BATCH_SIZE)
    return time.perf_counter() - start


if __name__ == "__main__":
    command.main("task_ends")
