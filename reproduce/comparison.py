"""Experiments that compare methods on one sequence of tasks.

Settings of each method are searched on held-out training data, with the same
budget for all. Then each is trained on all training data with several seeds,
and the test data is read.
"""

import argparse
import dataclasses
import pathlib
import sys
from collections.abc import Callable

from reproduce import contenders
from reproduce import tables
from reproduce.protocols import Protocol
from reproduce.records import RESULTS
from reproduce.records import write_text
from reproduce.result import Result
from reproduce.run_file import RunFile
from reproduce.runs import Run
from reproduce.search import Budget
from reproduce.search import choose_settings
from reproduce.workers import execute_all

# The exit code of an experiment whose data is not there.
MISSING = 3


@dataclasses.dataclass(frozen=True)
class Comparison:
    """A figure or a table of the paper that compares methods.

    Args:
        name: String that the command line and the folder of results call it
            by.
        protocol: `Protocol`.
        methods: Tuple of names, as `reproduce.contenders.parse` takes them.
        budget: `Budget` of the search.
        seeds: How many seeds each method is trained with.
        quick: Dictionary of arguments of `Protocol` that make it small, to see
            that it runs.
        fixed: Dictionary from names of methods to settings that are given.
        settings_of: Dictionary from names of methods that are not searched for
            to the methods whose settings they take.
        table: Function of the name of the comparison and its results, a
            dictionary from names of methods to `Result`, that returns tables
            in Markdown.
        draw: Function of the comparison, its results and a folder, that draws
            figures and writes them there.
    """

    name: str
    protocol: Protocol
    methods: tuple[str, ...]
    table: Callable
    draw: Callable
    budget: Budget = Budget()
    seeds: int = 5
    quick: dict = dataclasses.field(default_factory=dict)
    fixed: dict = dataclasses.field(default_factory=dict)
    settings_of: dict = dataclasses.field(default_factory=dict)

    @property
    def folder(self) -> pathlib.Path:
        """Where results are kept that count."""
        return RESULTS / self.name

    @property
    def complete(self) -> bool:
        """Whether all runs are there that count."""
        runs = RunFile(self.folder / "runs.json").lines
        return len(runs) == len(self.methods) * self.seeds

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--methods",
            nargs="+",
            choices=self.methods,
            metavar="METHOD",
            default=list(self.methods),
            help=f"some of {', '.join(self.methods)} (default: all)",
        )
        parser.add_argument("--seeds", type=int, default=self.seeds)
        parser.add_argument(
            "--jobs",
            type=int,
            help="how many runs at a time, each with one thread "
            "(default: one for each core)",
        )
        parser.add_argument(
            "--quick",
            action="store_true",
            help="a small version, to see that it runs; writes to "
            "results/quick unless --output is given",
        )
        parser.add_argument(
            "--repeat",
            metavar="METHOD",
            choices=self.methods,
            help="execute the first run of a method again, and compare it with "
            "what is stored",
        )
        parser.add_argument(
            "--output",
            type=pathlib.Path,
            help=f"folder to write to (default: {self.folder})",
        )

    def run(self, arguments: argparse.Namespace) -> int:
        """Searches, trains and writes; goes on where it was stopped.

        Returns:
            The exit code.
        """
        version = self.quick_version() if arguments.quick else self
        folder = arguments.output
        if folder is None:
            folder = self.folder
            if arguments.quick:
                folder = RESULTS / "quick" / self.name
        try:
            version.protocol.scenario(held_out=True, seed=0)
        except FileNotFoundError as error:
            print(f"{self.name} was not run. {error}", file=sys.stderr)
            return MISSING
        if arguments.repeat:
            return version.repeat(arguments.repeat, folder)
        seeds = min(arguments.seeds, version.seeds)
        methods = [m for m in arguments.methods if m in version.methods]
        version.train(folder, methods, seeds, arguments.jobs)
        version.write_results(folder)
        print(f"Written to {folder}")
        return 0

    def quick_version(self) -> "Comparison":
        """Returns the smallest version that runs all of the code."""
        rounds = [(2, n and 2, 1) for _, n, _ in self.budget.rounds]
        return dataclasses.replace(
            self,
            protocol=dataclasses.replace(self.protocol, **self.quick),
            budget=Budget(tuple(rounds)),
            seeds=2,
        )

    def contender(self, method: str) -> contenders.Contender:
        return contenders.parse(method, **self.fixed.get(method, {}))

    def choose(self, methods, folder, jobs=None) -> dict[str, dict]:
        """Returns the settings of each method."""
        sources = {m: self.settings_of.get(m, m) for m in methods}
        chosen = choose_settings(
            [self.contender(name) for name in dict.fromkeys(sources.values())],
            self.protocol,
            self.budget,
            folder,
            jobs,
        )
        return {method: chosen[name] for method, name in sources.items()}

    def train(self, folder, methods, seeds, jobs=None) -> None:
        """Executes all runs that are not there yet."""
        chosen = self.choose(methods, folder, jobs)
        runs = [
            Run(self.contender(method), self.protocol, chosen[method], seed)
            for seed in range(seeds)
            for method in methods
        ]
        file = RunFile(folder / "runs.json")
        execute_all(runs, file, jobs)
        file.keep(runs)

    def results(self, folder=None) -> dict[str, Result]:
        """Returns what a folder has, by method, in their order."""
        file = RunFile((folder or self.folder) / "runs.json")
        results = {}
        for method in self.methods:
            lines = [
                line
                for line in file.lines
                if line["run"]["contender"]["name"] == method
            ]
            if lines:
                results[method] = Result(lines)
        return results

    def write_results(self, folder) -> None:
        """Makes tables and figures of what a folder has."""
        results = self.results(folder)
        write_text(folder / "table.md", self.table(self.name, results) + "\n")
        write_text(folder / "results.csv", last_accuracies(results))
        self.draw(self, results, folder)

    def repeat(self, method, folder) -> int:
        """Executes the first run of a method again."""
        file = RunFile(folder / "runs.json")
        for line in file.lines:
            if line["run"]["contender"]["name"] == method:
                break
        else:
            print(f"No run of {method} is stored.", file=sys.stderr)
            return 2
        run = Run(
            self.contender(method),
            self.protocol,
            line["run"]["settings"],
            line["run"]["seed"],
        )
        stored = file.find(run)
        if stored is None:
            print(
                f"The stored run of {method} has another protocol.",
                file=sys.stderr,
            )
            return 2
        (again,) = execute_all([run], RunFile(), jobs=1)
        if again == stored:
            print(f"{method}, seed {run.seed}: the same to the last digit.")
            return 0
        print(f"Stored:\n{stored}\nNow:\n{again}")
        return 1


def last_accuracies(results) -> str:
    """Returns the accuracy of each task after the last, as CSV."""
    rows = [
        [method, seed, task, accuracy]
        for method, result in results.items()
        for seed, history in zip(result.seeds, result.histories)
        for task, accuracy in zip(
            history.tasks, history.matrix.values[-1].round(6)
        )
    ]
    return tables.comma_separated(["method", "seed", "task", "accuracy"], rows)
