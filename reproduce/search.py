"""Settings of each method, chosen on held-out training data.

The budget is the same for all methods: so many trials, of which the first has
the defaults of the package and the others lie evenly in the method's space (a
Halton sequence). The settings with the highest average accuracy over all tasks
after the last one are chosen. What looks best with one seed may have been
lucky: the best trials are run with more seeds, and their mean decides. Where a
sequence is long, trials learn a part of it first, and the better ones more.
"""

import dataclasses
import json
import pathlib

from scipy.stats import qmc

from reproduce.contenders import Contender
from reproduce.protocols import Protocol
from reproduce.records import write_json
from reproduce.run_file import RunFile
from reproduce.runs import Run
from reproduce.search_spaces import space_of
from reproduce.workers import execute_all

# The first of those that a search uses. No run that is reported has them.
SEED = 1000


@dataclasses.dataclass(frozen=True)
class Budget:
    """How much every method may try.

    Args:
        rounds: Tuple of triples: how many trials, how many tasks they learn
            (`None` for all), and with how many seeds. Those with the highest
            accuracies of a round are the trials of the next.
    """

    rounds: tuple[tuple[int, int | None, int], ...] = (
        (12, None, 1),
        (3, None, 3),
    )


def trials_of(method: str, count: int) -> list[dict]:
    """Returns the settings of each trial of a method."""
    space = space_of(method)
    points = qmc.Halton(len(space), seed=SEED).random(count - 1)
    return [
        {name: dimension.default for name, dimension in space.items()},
        *(
            {
                name: dimension.at(fraction)
                for (name, dimension), fraction in zip(space.items(), point)
            }
            for point in points
        ),
    ]


def choose_settings(
    contenders: list[Contender],
    protocol: Protocol,
    budget: Budget,
    folder: pathlib.Path,
    jobs: int | None = None,
) -> dict[str, dict]:
    """Searches for the settings of each contender.

    Trials that `folder / "search_runs.json"` has already are not executed
    again. All are written there, and the choice to `folder / "search.json"`.

    Returns:
        Dictionary from names of contenders to settings.
    """
    file = RunFile(folder / "search_runs.json")
    trials = {
        c.name: trials_of(c.method, budget.rounds[0][0]) for c in contenders
    }
    every = []
    for count, num_tasks, seeds in budget.rounds:
        runs = [
            Run(c, protocol, settings, SEED + i, True, num_tasks)
            for c in contenders
            for settings in trials[c.name][:count]
            for i in range(seeds)
        ]
        every += [run for run in runs if run not in every]
        results = execute_all(runs, file, jobs)
        scores = {}
        for i in range(0, len(runs), seeds):
            mean = sum(map(score, results[i : i + seeds])) / seeds
            scores.setdefault(runs[i].contender.name, []).append(mean)
        for name, values in scores.items():
            # Of equal ones, the earlier: `sorted` is stable.
            best = sorted(range(len(values)), key=lambda i: -values[i])
            trials[name] = [trials[name][i] for i in best]
            scores[name] = [values[i] for i in best]
    chosen = {c.name: trials[c.name][0] for c in contenders}
    accuracies = {c.name: scores[c.name][0] for c in contenders}
    path = folder / "search.json"
    record = {
        "budget": dataclasses.asdict(budget),
        "protocol": dataclasses.asdict(protocol),
        "seed": SEED,
    }
    before = _read_same(path, record)
    write_json(
        path,
        {
            **record,
            "chosen": {**before.get("chosen", {}), **chosen},
            "held_out_accuracy": {
                **before.get("held_out_accuracy", {}),
                **accuracies,
            },
        },
    )
    file.keep(every)
    return chosen


def _read_same(path, record):
    """Returns what a file holds of other methods that were searched for in the
    same way."""
    if not path.exists():
        return {}
    before = json.loads(path.read_text())
    same = json.loads(json.dumps(record))
    if any(before.get(name) != value for name, value in same.items()):
        return {}
    return before


def score(result: dict) -> float:
    """Returns the average accuracy after the last task; 0 for a run that
    failed."""
    if "failed" in result:
        return 0.0
    last = result["accuracy"][-1]
    return sum(last) / len(last)
