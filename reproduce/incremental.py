"""What the three incremental experiments write: figure 6 and Table 1."""

from reproduce import figures
from reproduce import tables

# Methods that the paper compares itself with on other data.
OTHERS = ("SI", "MAS", "SLNID", "LwF", "EBLL", "IMM", "fine-tuning")
# Of the paper's Table 1: accuracy of task 1, and bytes stored for a task.
PAPER = {
    "incremental-mnist": {
        "GEM(10)": (0.980, 47_040),
        "BD+EWC": (0.980, 4_808),
        "EWC": (0.0, None),
    },
    "incremental-cifar10": {
        "GEM(256)": (0.800, 4_718_592),
        "GEM(150)": (0.698, 2_764_800),
        "BD+EWC": (0.795, 4_808),
        "EWC": (0.0, None),
    },
    "incremental-cifar100": {
        "GEM(256)": (0.790, 4_718_592),
        "GEM(209)": (0.775, 3_852_288),
        "PSP": (0.830, 15_968),
        "BD+EWC": (0.845, 4_808),
        "BD+PSP": (0.850, 20_776),
        "EWC": (0.0, None),
    },
}


def draw(comparison, results, folder) -> None:
    """Draws the parts of figure 6, and storage against accuracy."""
    histories = {n: r.histories for n, r in results.items() if r.histories}
    title = comparison.name.replace("-", " ")
    figures.accuracy_over_epochs(
        histories,
        f"{title}: accuracy of every task while task after task is learned",
        folder / "accuracy.png",
    )
    figures.first_task(
        histories,
        f"{title}: accuracy of the first task",
        folder / "first_task.png",
    )
    figures.storage(
        histories,
        f"{title}: what is stored for a task",
        folder / "storage.png",
    )


def table(name, results) -> str:
    """Returns the table that stands beside Table 1 of the paper."""
    paper = PAPER[name]
    heads = [
        "method",
        "task 1",
        "paper",
        "mean",
        "when learned",
        "mean, task's outputs only",
        "bytes per task",
        "paper",
        "seeds",
        "seconds",
    ]
    rows = []
    for method, result in results.items():
        accuracy, stored = paper.get(method, (None, None))
        cost = result.histories[0].costs[-1] if result.histories else {}
        rows.append(
            [
                method,
                tables.mean_and_spread(result.first_task()),
                "" if accuracy is None else f"{accuracy:.3f}",
                tables.mean_and_spread(result.average()),
                tables.mean_and_spread(result.learned()),
                tables.mean_and_spread(result.with_mask()),
                f"{cost['stored_bytes']:,}" if cost else "",
                "" if stored is None else f"{stored:,}",
                tables.seeds(result),
                f"{result.seconds:.0f}",
            ]
        )
    return tables.markdown(heads, rows)
