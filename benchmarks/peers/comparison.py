"""Runs the jobs in turn and puts their times beside each other."""

import functools
import json
import pathlib
import tempfile

import numpy as np

from benchmarks.harness import alternate
from benchmarks.harness import paired_ratio
from benchmarks.peers.jobs import JOB
from benchmarks.peers.jobs import OURS
from benchmarks.peers.jobs import peer_python
from benchmarks.peers.jobs import run_job
from benchmarks.peers.jobs import sides
from benchmarks.peers.jobs import write_data
from benchmarks.tables import Row
from benchmarks.tables import Table

BASELINE = "Avalanche"
LIMITS = {"EWC": ">= 3", "GEM": ">= 2"}
# How far below the peer's an accuracy may be by the chance of a few seeds.
ACCURACY_LIMIT = ">= 0.98"
JOB_SETTINGS = json.loads(JOB.read_text())
SETTINGS = {
    "rounds": 5,
    "methods": ["fine-tuning", "EWC", "GEM"],
    "images": 0,  # Random ones. Without any, MNIST.
    **JOB_SETTINGS,
}
QUICK = {
    "rounds": 1,
    "methods": ["GEM"],
    "images": 1280,
    "epochs": 1,
    "gem_patterns_per_task": 64,
    "gem_patterns_per_step": 16,
}


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    peer_python()
    job = {name: settings[name] for name in JOB_SETTINGS}
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "job.json").write_text(json.dumps(job))
        images = write_data(folder / "data.npz", job, settings["images"])
        results = {
            method: measure(method, folder, settings["rounds"])
            for method in settings["methods"]
        }
    tables = []
    for method, records in results.items():
        tables += make_tables(method, records, images * job["epochs"])
    return tables


def measure(method, folder, rounds):
    """Returns lists of what the jobs of a side have measured, by side."""
    records = {side: [] for side in sides(method)}

    def work(side):
        seed = len(records[side])
        records[side].append(run_job(side, method, folder, seed))
        return total(records[side][-1])

    # A process has nothing to warm up that would last.
    contenders = {side: functools.partial(work, side) for side in records}
    alternate(contenders, rounds, warmup=0)
    return records


def make_tables(method, records, samples):
    """Returns the tables of a method: speed, ends of tasks and accuracy."""
    seconds = _each(records, total)
    ends = _each(records, lambda record: sum(record["end_seconds"]))
    accuracies = _each(records, lambda record: np.mean(record["accuracy"]))
    later = _each(records, functools.partial(total, first=1))
    speed, later_times, end, accuracy = [], [], [], []
    for side in records:
        ratio = None, None
        if side != BASELINE:
            ratio = paired_ratio(seconds[BASELINE], seconds[side])
        is_ours = side.startswith(OURS)
        limit = LIMITS.get(method) if is_ours else None
        rate = samples / _median(seconds[side])
        speed.append(Row(side, rate, "/s", *ratio, limit))

        if side != BASELINE:
            ratio = paired_ratio(later[BASELINE], later[side])
        later_times.append(Row(side, _median(later[side]), "s", *ratio))

        ratio = paired_ratio(ends[side], seconds[side])
        end.append(Row(side, _median(ends[side]), "s", *ratio))

        ratio = None, None
        if side != BASELINE:
            ratio = paired_ratio(accuracies[side], accuracies[BASELINE])
        limit = ACCURACY_LIMIT if is_ours else None
        percent = 100 * _median(accuracies[side])
        accuracy.append(Row(side, percent, "%", *ratio, limit))
    versions = {}
    for side_records in records.values():
        versions.update(side_records[0]["versions"])
    note = ", ".join(f"{name} {version}" for name, version in versions.items())
    return [
        Table(
            f"{method}: samples per second of training",
            speed,
            ("", "samples", f"to {BASELINE}"),
            f"{note}.",
        ),
        Table(
            f"{method}: tasks after the first, when all is compiled",
            later_times,
            ("", "time", f"faster than {BASELINE}"),
        ),
        Table(
            f"{method}: ends of all tasks, a part of that time",
            end,
            ("", "time", "share"),
        ),
        Table(
            f"{method}: mean accuracy on all tasks after the last",
            accuracy,
            ("", "accuracy", f"to {BASELINE}"),
        ),
    ]


def total(record, first=0):
    """Returns the seconds of training of a job from a task on, with the ends
    of tasks."""
    return sum(record["train_seconds"][first:] + record["end_seconds"][first:])


def _each(records, measure):
    return {
        side: [float(measure(r)) for r in rs] for side, rs in records.items()
    }


def _median(values):
    return float(np.median(values))
