"""A hundred permuted MNIST tasks, 4 hidden layers of 128 (figure 7)."""

import numpy as np

from keras_bpn.evaluation import compare
from keras_bpn.evaluation import summarize
from reproduce import figures
from reproduce import tables
from reproduce.comparison import Comparison
from reproduce.protocols import Protocol
from reproduce.search import Budget

GROUP = 10
# Of the paper: how much better the average is after all tasks.
PAPER = {("BD+PSP", "PSP"): 1.3014, ("BD+EWC", "EWC"): 1.3547}


def table(name, results):
    """Returns averages, their ratios, and groups of tasks with t-tests."""
    made = [method_table(results), ratio_table(results), group_table(results)]
    return "\n\n".join(made)


def draw(comparison, results, folder):
    """Draws figure 7."""
    histories = {n: r.histories for n, r in results.items() if r.histories}
    figures.average_and_groups(
        histories,
        "Permuted MNIST",
        folder / "averages.png",
        group_size=group_size(results),
        reference="PSP",
    )


def method_table(results):
    heads = [
        "method",
        "average",
        "task 1",
        "last task",
        "bytes per task",
        "seeds",
        "seconds",
    ]
    rows = []
    for name, result in results.items():
        last = [float(h.matrix.values[-1, -1]) for h in result.histories]
        stored = result.histories[0].costs[-1]["stored_bytes"]
        rows.append(
            [
                name,
                tables.mean_and_spread(result.average()),
                tables.mean_and_spread(result.first_task()),
                tables.mean_and_spread(summarize(last)),
                f"{stored:,}",
                tables.seeds(result),
                f"{result.seconds:.0f}",
            ]
        )
    return tables.markdown(heads, rows)


def ratios(results):
    """Returns summaries of the ratios of averages, seed by seed."""
    every = {}
    for better, worse in PAPER:
        if better in results and worse in results:
            pairs = zip(results[better].histories, results[worse].histories)
            every[better, worse] = summarize(
                [
                    a.matrix.average_accuracy() / b.matrix.average_accuracy()
                    for a, b in pairs
                ]
            )
    return every


def ratio_table(results):
    rows = [
        [
            f"{better} / {worse}",
            tables.mean_and_spread(ratio),
            f"{PAPER[better, worse]:.3f}",
        ]
        for (better, worse), ratio in ratios(results).items()
    ]
    return tables.markdown(["averages", "ours", "paper"], rows)


def group_size(results):
    tasks = next(iter(results.values())).histories[0].tasks
    return GROUP if len(tasks) >= GROUP else 1


def group_table(results):
    """Returns accuracies after the last task by groups of tasks, with t-tests
    of BD+EWC and BD+PSP against PSP over the seeds."""
    size = group_size(results)
    means = {}
    for name, result in results.items():
        last = np.array([h.matrix.values[-1] for h in result.histories])
        starts = range(0, last.shape[1], size)
        means[name] = [last[:, i : i + size].mean(axis=1) for i in starts]
    tested = [n for n in ("BD+EWC", "BD+PSP") if n in means and "PSP" in means]
    heads = ["tasks", *means, *(f"{n} to PSP, p" for n in tested)]
    rows = []
    for i, start in enumerate(starts):
        row = [f"{start + 1} to {start + size}"]
        row += [tables.mean_and_spread(summarize(m[i])) for m in means.values()]
        for name in tested:
            p = compare(means[name][i], means["PSP"][i]).p
            row.append("" if np.isnan(p) else f"{p:.2g}")
        rows.append(row)
    return tables.markdown(heads, rows)


COMPARISON = Comparison(
    name="permuted-mnist",
    protocol=Protocol(
        dataset="mnist",
        num_tasks=100,
        permuted=True,
        layers=4,
        units=128,
        epochs=1,
        batch_size=128,
        evaluate_every=10,
    ),
    methods=("BD+EWC", "BD+PSP", "GD+EWC", "EWC", "PSP"),
    table=table,
    draw=draw,
    budget=Budget(((12, 20, 1), (4, 50, 1), (2, None, 1))),
    seeds=3,
    quick={"num_tasks": 2, "evaluate_every": 1, "train_percent": 10},
)
