"""Time per step of every method.

All train the same 784-300x5-10 network at batch 128, on a second task, in one
process and in turn. Times are relative to fine-tuning with the same compile
options, as in `benchmarks.training`: the median over rounds of the ratio of two
times of the same round, each that of the fastest of some epochs. What the ends
of tasks take is in `benchmarks.task_ends`.
"""

import functools

from benchmarks import command
from benchmarks.harness import alternate
from benchmarks.harness import compare
from benchmarks.networks import BATCH_SIZE
from benchmarks.networks import OPTIONS
from benchmarks.networks import make_bpn
from benchmarks.networks import random_data
from benchmarks.networks import step_time
from benchmarks.tables import Table

BASELINE = "fine-tuning"
METHODS = [
    "EWC",
    "SI",
    "MAS",
    "PSP",
    "BD+EWC",
    "BD+PSP",
    "GD+EWC",
    "SLNID",
    "LwF",
    "EBLL",
    "IMM",
    "GEM",
]
LIMITS = {
    **dict.fromkeys(("EWC", "SI", "MAS", "PSP", "BD+EWC", "BD+PSP"), "<= 1.3"),
    **dict.fromkeys(("LwF", "EBLL", "SLNID"), "<= 2.5"),
}
SETTINGS = {
    "rounds": 10,
    "epochs": 2,
    "steps": 50,
    "methods": METHODS,
    "options": ["default", "steps_per_execution=1"],
}
QUICK = {
    "rounds": 1,
    "epochs": 1,
    "steps": 2,
    "methods": ["BD+EWC"],
    "options": ["default"],
}


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    tables = []
    for label in settings.pop("options"):
        tables += make_tables(label, **settings)
    return tables


def make_tables(label, rounds, epochs, steps, methods):
    """Measures with one set of compile options."""
    x, y = random_data(steps)
    measure = functools.partial(step_time, x=x, y=y, epochs=epochs)
    names = [BASELINE, *(name for name in methods if name != BASELINE)]
    models = {name: make_bpn(name, OPTIONS[label]) for name in names}
    contenders = {}
    for name, model in models.items():
        train(model, "first", x, y // 5)
        model.consolidate(x, y // 5)
        contenders[name] = functools.partial(
            measure, model, task="second", consolidate=False
        )
    seconds = alternate(contenders, rounds)
    return [
        Table(
            f"Steps, compile options: {label}",
            compare(seconds, BASELINE, LIMITS),
            columns=("method", "per step", f"to {BASELINE}"),
        ),
    ]


def train(model, task, x, y):
    """Trains an epoch of a task, which stays open."""
    model.fit(
        x, y, task=task, batch_size=BATCH_SIZE, verbose=0, consolidate=False
    )


if __name__ == "__main__":
    command.main("methods")
