"""What the scripts of the peers share: the job, the data, the network."""

import argparse
import json
import pathlib
import time

import numpy as np
import torch


def main(learn, versions):
    """Does a job from the command line and writes what was measured.

    Args:
        learn: Function of the name of a method, the job and the tasks that
            trains them all and returns the network and, for each task, the
            seconds of training and of its end.
        versions: Dictionary of what the times depend on.
    """
    parser = argparse.ArgumentParser()
    parser.add_argument("method", choices=("fine-tuning", "EWC", "GEM"))
    parser.add_argument("--job", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    torch.manual_seed(arguments.seed)
    job = json.loads(arguments.job.read_text())
    tasks = load_tasks(arguments.data, job["tasks"])
    network, seconds = learn(arguments.method, job, tasks)
    record = {
        "train_seconds": [train for train, _ in seconds],
        "end_seconds": [end for _, end in seconds],
        "accuracy": [
            accuracy(network, task["x_test"], task["y_test"]) for task in tasks
        ],
        "versions": versions,
    }
    arguments.output.write_text(json.dumps(record))


def load_tasks(path, count):
    """Returns a dictionary of tensors for each task."""
    with np.load(path) as data:
        return [
            {
                name: torch.from_numpy(data[f"{name}_{i}"])
                for name in ("x_train", "y_train", "x_test", "y_test")
            }
            for i in range(count)
        ]


def make_network(job):
    """Returns the network, with the initial weights that Keras draws."""
    layers, width = [], 784
    for _ in range(job["layers"]):
        layers += [torch.nn.Linear(width, job["units"]), torch.nn.ReLU()]
        width = job["units"]
    classes = job["tasks"] * job["classes_per_task"]
    network = torch.nn.Sequential(*layers, torch.nn.Linear(width, classes))
    for layer in network:
        if isinstance(layer, torch.nn.Linear):
            torch.nn.init.xavier_uniform_(layer.weight)
            torch.nn.init.zeros_(layer.bias)
    return network


@torch.no_grad()
def accuracy(network, x, y):
    """Returns the fraction of examples whose class is found among all."""
    network.eval()
    return float((network(x).argmax(1) == y).float().mean())


class Stopwatch:
    """Tells the seconds since it was last read."""

    def __init__(self):
        self._last = time.perf_counter()

    def read(self):
        now = time.perf_counter()
        seconds, self._last = now - self._last, now
        return seconds
