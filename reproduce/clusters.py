"""Three clusters, two tasks: who keeps the first boundary (figure 5)."""

import numpy as np
from matplotlib import pyplot as plt

import keras_bpn
from reproduce import figures
from reproduce import tables
from reproduce.comparison import Comparison
from reproduce.protocols import Protocol
from reproduce.runs import Run

# As the paper calls them, with "fine-tuning" for plain gradient descent.
METHODS = ("fine-tuning", "EWC", "GD+EWC", "BD+EWC")
DRAWN = ("fine-tuning", "GD+EWC", "BD+EWC")


def table(name, results):
    heads = ["method", "task 1", "task 2", "task 1 when learned", "seeds"]
    rows = []
    for name, result in results.items():
        of = keras_bpn.evaluation.summarize
        last = [float(h.matrix.values[-1, 1]) for h in result.histories]
        first = [float(h.matrix.values[0, 0]) for h in result.histories]
        rows.append(
            [
                name,
                tables.mean_and_spread(result.first_task()),
                tables.mean_and_spread(of(last)),
                tables.mean_and_spread(of(first)),
                tables.seeds(result),
            ]
        )
    return tables.markdown(heads, rows)


def draw(comparison, results, folder):
    """Trains the first run of each method once more, and draws its regions
    after the second task, in the modes of both."""
    names = [name for name in DRAWN if name in results]
    figure, axes = plt.subplots(
        2,
        len(names),
        figsize=(3.6 * len(names) + 1.5, 6.6),
        sharex=True,
        sharey=True,
        squeeze=False,
        layout="constrained",
    )
    for column, name in zip(axes.T, names):
        result = results[name]
        run = Run(
            comparison.contender(name),
            comparison.protocol,
            result.settings,
            result.seeds[0],
        )
        model, scenario, _ = run.train()
        # All panels show the places of all clusters.
        points = [task.examples("test").arrays()[0] for task in scenario]
        low, high = np.min(points, (0, 1)) - 1, np.max(points, (0, 1)) + 1
        for axis, task in zip(column, scenario):
            x, y = task.examples("test").arrays()
            keras_bpn.plots.decision_regions(
                model,
                task.name,
                x=x,
                y=y,
                ax=axis,
                limits=list(zip(low, high)),
                probability_of=0,
                legend=False,
            )
            axis.set_title(f"{name}\nmode of {task.name}", fontsize=9)
    figure.suptitle("After the second task: the chance of the black cluster")
    figures.save(figure, folder / "regions.png")


COMPARISON = Comparison(
    name="clusters",
    protocol=Protocol(
        dataset="clusters",
        num_tasks=2,
        outputs=3,
        layers=2,
        units=50,
        hidden_dim=50,
        epochs=20,
        batch_size=32,
    ),
    methods=METHODS,
    table=table,
    draw=draw,
    seeds=10,
    quick={"epochs": 1},
)
