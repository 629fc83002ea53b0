"""All results on one page: `reproduce/RESULTS.md`.

It is made from the files in `reproduce/results` alone, so that it can be
checked against them.
"""

import argparse
import json
import pathlib

from reproduce import ablation
from reproduce import claims
from reproduce import clusters
from reproduce import hyperparameters
from reproduce import incremental
from reproduce import incremental_cifar10
from reproduce import incremental_cifar100
from reproduce import incremental_mnist
from reproduce import permuted_mnist
from reproduce import storage
from reproduce import tables
from reproduce.pages import fill_in
from reproduce.records import RESULTS
from reproduce.records import write_text
from reproduce.run_file import RunFile

HERE = pathlib.Path(__file__).parent
README = HERE.parent / "README.md"
PAGE = HERE / "RESULTS.md"
NOTES = HERE / "notes"
# In the order of the page, with what is claimed of them.
SECTIONS = (
    (clusters, None),
    (incremental_mnist, claims.of_incremental),
    (incremental_cifar10, claims.of_incremental),
    (incremental_cifar100, claims.of_incremental),
    (permuted_mnist, claims.of_permuted),
    (hyperparameters, None),
    (ablation, None),
)
INTRODUCTION = """\
# Results

Every number of the paper that two cores can carry, and ours beside it. This
page is made by `python -m reproduce report` from the files in `results/`, which
are made by `python -m reproduce NAME`; nothing in it is written by hand but the
notes, which are in `notes/`.

**Protocol.** Networks, orders of tasks, epochs and batches are those that stand
with each experiment, the same for all methods. The optimizer is Adam. Settings
of each method, its learning rate included, are chosen on a tenth of the
training data that is held out: the average accuracy over all tasks after the
last one decides, among as many trials for every method (the first has the
package's defaults, the others lie evenly in the method's space). Then each
method is trained on all training data with several seeds, which set weights,
orders and permutations, and the test data is read. Numbers are means over
seeds, with the standard deviation behind ±. "When learned" is the average
accuracy of tasks right after each was learned. Times are of one core.
"""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """It has none."""


def run(arguments: argparse.Namespace) -> int:
    write_text(PAGE, page())
    write_text(README, readme())
    print(f"Written to {PAGE} and {README}")
    return 0


def readme() -> str:
    """Returns the README with the main table in its place."""
    return fill_in(README.read_text(), "results", main_table())


def main_table() -> str:
    """Returns a row per method with its main result of each experiment."""
    columns = {
        "incremental MNIST, task 1": (incremental_mnist, "first_task"),
        "incremental CIFAR-10, task 1": (incremental_cifar10, "first_task"),
        "incremental CIFAR-100, task 1": (incremental_cifar100, "first_task"),
        "100 permuted MNIST tasks, average": (permuted_mnist, "average"),
    }
    results = {
        head: module.COMPARISON.results()
        for head, (module, _) in columns.items()
        if module.COMPARISON.complete
    }
    methods = dict.fromkeys(m for found in results.values() for m in found)
    rows = []
    for method in methods:
        row = [method]
        for head, found in results.items():
            module, of = columns[head]
            text = ""
            if method in found:
                summary = getattr(found[method], of)()
                text = tables.mean_and_spread(summary)
                paper = incremental.PAPER.get(module.COMPARISON.name, {})
                if method in paper:
                    text += f" ({paper[method][0]:.3f})"
            row.append(text)
        rows.append(row)
    return tables.markdown(["method", *results], rows)


def page() -> str:
    """Returns the page, from the files of results."""
    parts = [INTRODUCTION]
    for module, claims_of in SECTIONS:
        comparison = module.COMPARISON
        parts.append(f"## {module.__doc__.splitlines()[0].rstrip('.')}\n")
        if not comparison.complete:
            parts.append(
                f"`python -m reproduce {comparison.name}` has not come to its "
                "end yet.\n"
            )
            continue
        results = comparison.results()
        if claims_of is not None:
            parts.append(
                claim_table(claims_of(comparison.name, results)) + "\n"
            )
        parts += section(comparison, results)
    stored = RunFile(RESULTS / "storage" / "runs.json")
    if stored.lines:
        parts.append(f"## {storage.__doc__.splitlines()[0].rstrip('.')}\n")
        parts += body("storage", storage.table(stored.lines))
    return "\n".join(parts)


def claim_table(found) -> str:
    """Returns a row for every number of the paper."""
    rows = [
        [
            claim.what,
            claim.where,
            f"{claim.paper:.3f}",
            tables.mean_and_spread(claim.ours),
            claim.sentence(),
        ]
        for claim in found
    ]
    return tables.markdown(
        ["number of the paper", "where", "paper", "ours", ""], rows
    )


def section(comparison, results) -> list[str]:
    """Returns what stands below the heading of a comparison."""
    parts = body(comparison.name, comparison.table(comparison.name, results))
    chosen = comparison.folder / "search.json"
    if chosen.exists():
        parts.append(settings(json.loads(chosen.read_text())) + "\n")
    parts.append(source(comparison.folder / "runs.json", comparison.name))
    return parts


def body(name, made) -> list[str]:
    """Returns a note, tables and figures."""
    parts = []
    note = NOTES / f"{name}.md"
    if note.exists():
        parts.append(note.read_text())
    parts.append(f"{made}\n")
    for figure in sorted((RESULTS / name).glob("*.png")):
        title = figure.stem.replace("_", " ")
        parts.append(f"![{title}](results/{name}/{figure.name})\n")
    return parts


def settings(search) -> str:
    """Returns what was chosen for each method."""
    rows = [
        [
            name,
            tables.settings_text(chosen),
            f"{search['held_out_accuracy'][name]:.3f}",
        ]
        for name, chosen in search["chosen"].items()
    ]
    trials = ", ".join(
        f"{count} on {num_tasks or 'all'} tasks"
        + (f" with {seeds} seeds" if seeds > 1 else "")
        for count, num_tasks, seeds in search["budget"]["rounds"]
    )
    return (
        f"Settings that were chosen, from trials: {trials}.\n\n"
        + tables.markdown(["method", "settings", "held-out average"], rows)
    )


def source(path, name) -> str:
    """Returns where and when runs were executed, and for how long."""
    lines = RunFile(path).lines
    days = sorted({line["date"] for line in lines})
    machines = {json.dumps(line["machine"]) for line in lines}
    versions = {json.dumps(line["versions"]) for line in lines}
    text = f"`python -m reproduce {name}`, {days[0]}"
    if len(days) > 1:
        text += f" to {days[-1]}"
    hours = sum(line["seconds"] for line in lines) / 3600
    text += f": {len(lines)} runs in {hours:.2f} hours of one core"
    for machine in map(json.loads, sorted(machines)):
        text += f"; {machine['cpu']}, {machine['cores']} cores"
    for version in map(json.loads, sorted(versions)):
        names = ", ".join(f"{n} {v}" for n, v in version.items())
        text += f"; {names}"
    return f"{text}.\n"
