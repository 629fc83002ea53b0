"""Time per training step, beside plain Keras.

The contenders train the same 784-300x5-10 network at batch 128 with equal
compile options, on a second task, in one process and in turn. What counts is
the median over rounds of the ratio of two times of the same round.

In each round a contender trains for some epochs, and its time is that of the
fastest one. On a machine with two cores an epoch runs at one of two speeds, and
the slower one, half as long again, is that of the same process pinned to one
core; it seems that two of TensorFlow's threads share a core then. That befalls
plain Keras, and a single batch repeated from memory, as it does every other
contender: a tenth of the epochs in one run, half of them in the next. With the
fastest of two or three epochs most rounds compare undisturbed epochs. In the
others either side of the ratio is as likely to be the slow one: they widen the
spread and leave the median where it is.
"""

import functools

from benchmarks import command
from benchmarks.harness import alternate
from benchmarks.harness import compare
from benchmarks.networks import BATCH_SIZE
from benchmarks.networks import OPTIONS
from benchmarks.networks import make_bpn
from benchmarks.networks import make_plain
from benchmarks.networks import random_data
from benchmarks.networks import step_time
from benchmarks.tables import Table

LIMIT = "<= 1.25"
PLAIN = "keras.Model, Dense"
METHODS = {"BPNModel, BD+EWC": "BD+EWC", "BPNModel, BD+PSP": "BD+PSP"}
SETTINGS = {"rounds": 16, "epochs": 3, "steps": 50, "options": list(OPTIONS)}
QUICK = {"rounds": 2, "epochs": 1, "steps": 2, "options": ["default"]}


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    labels = settings.pop("options")
    return [make_table(label, **settings) for label in labels]


def make_table(label, rounds, epochs, steps):
    """Measures with one set of compile options."""
    x, y = random_data(steps)
    measure = functools.partial(step_time, x=x, y=y, epochs=epochs)
    contenders = {PLAIN: functools.partial(measure, make_plain(OPTIONS[label]))}
    for name, method in METHODS.items():
        model = make_bpn(method, OPTIONS[label])
        # A first task, so that its protection has something to do.
        model.fit(x, y, task="first", batch_size=BATCH_SIZE, verbose=0)
        contenders[name] = functools.partial(
            measure, model, task="second", consolidate=False
        )
    return Table(
        f"Compile options: {label}",
        compare(
            alternate(contenders, rounds), PLAIN, dict.fromkeys(METHODS, LIMIT)
        ),
        columns=("model", "per step", "to plain Keras"),
    )


if __name__ == "__main__":
    command.main("training")
