"""Several devices beside one: what differs, and the time per step.

The contenders train the same small network with BD+EWC on two tasks, with data
whose last batch is smaller than the others: on one device, on two logical
devices of the CPU (`MirroredStrategy`), and in two processes that talk over the
loopback interface (`MultiWorkerMirroredStrategy`). Each is a process of its
own, because devices are set up before TensorFlow starts. Weights are compared
afterwards.

Steps are timed on a third task, each contender by itself, with the ordinary
loop of Keras. On the cores of one machine two devices have nothing to win: the
ratio says what the exchange of gradients costs.
"""

import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile

import numpy as np

from benchmarks import command
from benchmarks.harness import paired_ratio
from benchmarks.tables import Row
from benchmarks.tables import Table
from benchmarks.train_on_devices import ONE
from benchmarks.train_on_devices import TWO
from benchmarks.train_on_devices import WORKERS

LIMIT = "<= 1e-6"
SETTINGS = {"examples": 2001, "batch_size": 128, "epochs": 2, "rounds": 5}
QUICK = {"examples": 65, "batch_size": 32, "epochs": 1, "rounds": 1}


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    results = {name: measure(name, settings) for name in (ONE, TWO, WORKERS)}
    weights, seconds = results[ONE]
    differences, times = [], [Row(ONE, 1000 * np.median(seconds), "ms")]
    for name in (TWO, WORKERS):
        other, other_seconds = results[name]
        largest = max(
            float(np.max(np.abs(a - b), initial=0.0))
            for a, b in zip(weights, other, strict=True)
        )
        differences.append(Row(name, largest, limit=LIMIT))
        ratio, spread = paired_ratio(other_seconds, seconds)
        value = 1000 * np.median(other_seconds)
        times.append(Row(name, float(value), "ms", ratio, spread))
    return [
        Table(
            "Largest difference of a weight to one device",
            differences,
            ("trained on", "difference", ""),
        ),
        Table(
            "Time per step",
            times,
            ("trained on", "time", "ratio to one device"),
            "Two devices or processes share the cores of this machine.",
        ),
    ]


def measure(name, settings):
    """Trains in processes of its own.

    Returns:
        The weights, and the seconds of a step in each round.
    """
    with tempfile.TemporaryDirectory() as folder:
        output = pathlib.Path(folder, "result.npz")
        running = []
        try:
            for environment in _environments(2 if name == WORKERS else 1):
                module = "benchmarks.train_on_devices"
                arguments = (name, json.dumps(settings), str(output))
                running.append(
                    subprocess.Popen(
                        [sys.executable, "-m", module, *arguments],
                        cwd=pathlib.Path(__file__).parent.parent,
                        env=environment,
                    )
                )
            codes = [process.wait() for process in running]
        finally:
            for process in running:
                process.kill()
        if any(codes):
            raise RuntimeError(
                f"Expected all processes to succeed. Received: exit codes "
                f"{codes} on {name}"
            )
        with np.load(output) as arrays:
            weights = [arrays[key] for key in arrays if key != "seconds"]
            return weights, list(arrays["seconds"])


def _environments(workers):
    environment = {k: v for k, v in os.environ.items() if k != "TF_CONFIG"}
    if workers == 1:
        return [environment]
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(workers)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    cluster = {"worker": [f"127.0.0.1:{port}" for port in ports]}
    tasks = [{"type": "worker", "index": i} for i in range(workers)]
    return [
        {
            **environment,
            "TF_CONFIG": json.dumps({"cluster": cluster, "task": task}),
        }
        for task in tasks
    ]


if __name__ == "__main__":
    command.main("devices")
