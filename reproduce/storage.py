"""What every method stores for a task, beside what the paper counts."""

import argparse
import dataclasses
import pathlib

import keras
import numpy as np

from reproduce import contenders
from reproduce import incremental
from reproduce import tables
from reproduce.networks import make_model
from reproduce.protocols import Protocol
from reproduce.records import RESULTS
from reproduce.records import write_text
from reproduce.run_file import RunFile
from reproduce.workers import execute_all

NETWORKS = {
    "incremental-mnist": ((784,), Protocol("mnist", 5)),
    "incremental-cifar10": ((3072,), Protocol("cifar10", 5)),
    "incremental-cifar100": ((3072,), Protocol("cifar100", 10, outputs=20)),
    "permuted-mnist": ((784,), Protocol("mnist", 100, layers=4, units=128)),
}
METHODS = (
    "BD+EWC",
    "BD+PSP",
    "GD+EWC",
    "EWC",
    "PSP",
    "GEM(10)",
    "GEM(256)",
    "SI",
    "MAS",
    "SLNID",
    "LwF",
    "EBLL",
    "IMM",
    "STL",
)
# Of the paper: what a task adds to the parameters of a network, in percent.
PAPER_PERCENT = 0.3
_PER_CLASS = 256


@dataclasses.dataclass(frozen=True)
class StorageRun:
    """A network that learns two tasks of random numbers, a step each.

    Args:
        network: String, a key of `NETWORKS`.
        method: String.
    """

    network: str
    method: str

    def key(self):
        shape, protocol = NETWORKS[self.network]
        return {
            **dataclasses.asdict(self),
            "example_shape": shape,
            "protocol": dataclasses.asdict(protocol),
            "contender": dataclasses.asdict(contenders.parse(self.method)),
        }

    def title(self):
        return f"{self.network}, {self.method}"

    def execute(self):
        keras.backend.clear_session()
        keras.utils.set_random_seed(0)
        shape, protocol = NETWORKS[self.network]
        contender = contenders.parse(self.method)
        settings = {"learning_rate": 1e-3, **contender.fixed}
        model = make_model(contender, protocol, settings, shape)
        x = np.random.random((2 * _PER_CLASS, *shape)).astype("float32")
        y = np.arange(len(x)) % 2
        for i, task in enumerate(("0/1", "2/3")):
            labels = y if contender.own_heads else y + 2 * i
            model.fit(x, labels, task=task, batch_size=len(x), verbose=0)
        storage = model.storage()
        return {
            "bytes": storage.bytes_per_task,
            "parts": storage.bytes_by_part,
            "parameters": storage.parameters,
            "added_parameters": storage.parameters_per_task,
        }


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--jobs", type=int)
    parser.add_argument("--quick", action="store_true", help="one network")
    parser.add_argument(
        "--output", type=pathlib.Path, default=None, help="folder to write to"
    )


def run(arguments: argparse.Namespace) -> int:
    folder = arguments.output or RESULTS / "storage"
    networks = list(NETWORKS)
    if arguments.quick:
        networks = networks[:1]
        folder = arguments.output or RESULTS / "quick" / "storage"
    runs = [StorageRun(n, m) for n in networks for m in METHODS]
    file = RunFile(folder / "runs.json")
    execute_all(runs, file, arguments.jobs)
    file.keep(runs)
    write_results(folder)
    print(f"Written to {folder}")
    return 0


def write_results(folder=RESULTS / "storage") -> None:
    """Makes the table of what a folder has."""
    lines = RunFile(folder / "runs.json").lines
    write_text(folder / "table.md", table(lines) + "\n")
    heads = ["network", "method", "bytes", "parameters", "added_parameters"]
    rows = [
        [line["run"]["network"], line["run"]["method"]]
        + [line["result"][name] for name in heads[2:]]
        for line in lines
    ]
    write_text(folder / "results.csv", tables.comma_separated(heads, rows))


def table(lines) -> str:
    """Returns bytes and parameters, from the lines of a `RunFile`."""
    return f"{bytes_table(lines)}\n\n{parameter_table(lines)}"


def bytes_table(lines):
    networks = dict.fromkeys(line["run"]["network"] for line in lines)
    found = {
        (line["run"]["network"], line["run"]["method"]): line["result"]
        for line in lines
    }
    heads = ["bytes per task"]
    for network in networks:
        heads += [network, "paper"]
    rows = []
    for method in METHODS:
        row = [method]
        for network in networks:
            _, paper = incremental.PAPER.get(network, {}).get(
                method, (None, None)
            )
            row.append(f"{found[network, method]['bytes']:,}")
            row.append("" if paper is None else f"{paper:,}")
        rows.append(row)
    return tables.markdown(heads, rows)


def parameter_table(lines):
    heads = [
        "BD+EWC",
        "parameters",
        "added by a task",
        "percent",
        "paper, percent",
    ]
    rows = []
    for line in lines:
        if line["run"]["method"] == "BD+EWC":
            result = line["result"]
            added, all_of = result["added_parameters"], result["parameters"]
            rows.append(
                [
                    line["run"]["network"],
                    f"{all_of:,}",
                    f"{added:,}",
                    f"{100 * added / all_of:.2f}",
                    f"{PAPER_PERCENT}",
                ]
            )
    return tables.markdown(heads, rows)
