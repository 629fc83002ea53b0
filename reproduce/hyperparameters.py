"""How H, epsilon, lambda and initialisation change BD+EWC and BD+PSP."""

from reproduce import figures
from reproduce import tables
from reproduce.incremental_mnist import COMPARISON as BASE
from reproduce.variation import Variant
from reproduce.variation import Variation

# From a tenth or less of what a search may choose to ten times and more.
VALUES = {
    "hidden_dim": (1, 5, 25, 100, 255, 900, 2500),
    "epsilon": (1e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1),
    "strength": (0.0, 20.0, 200.0, 2e3, 2e4, 2e5),
    "hidden_gain": (0.1, 1.0, 3.0, 10.0, 30.0),
    "output_gain": (0.01, 0.1, 0.33, 1.0, 10.0),
    "perturbation_stddev": (0.0, 0.01, 0.1, 1.0),
}
SYMBOLS = {
    "hidden_dim": "H",
    "epsilon": "epsilon",
    "strength": "lambda",
    "hidden_gain": "gain of hidden layers",
    "output_gain": "gain of the outputs",
    "perturbation_stddev": "M drawn with standard deviation",
}
METHODS = ("BD+EWC", "BD+PSP")


def name_of(method, setting, value):
    return f"{method}, {SYMBOLS[setting]} {value:g}"


def settings_of(method):
    """Returns the names of the settings that a method has."""
    return [n for n in VALUES if n != "strength" or method.endswith("EWC")]


VARIANTS = {
    name_of(method, setting, value): Variant(method, {setting: value})
    for method in METHODS
    for setting in settings_of(method)
    for value in VALUES[setting]
}


def draw(comparison, results, folder):
    """Draws a panel per setting."""
    figures.settings(
        {
            SYMBOLS[setting]: {
                method: [
                    (value, results[name_of(method, setting, value)])
                    for value in VALUES[setting]
                    if name_of(method, setting, value) in results
                ]
                for method in METHODS
                if setting in settings_of(method)
            }
            for setting in VALUES
        },
        "Incremental MNIST, one setting changed at a time",
        folder / "settings.png",
    )


def table(name, results):
    heads = ["variant", "task 1", "mean", "when learned", "seeds", "seconds"]
    rows = [
        [
            name,
            tables.mean_and_spread(result.first_task()),
            tables.mean_and_spread(result.average()),
            tables.mean_and_spread(result.learned()),
            tables.seeds(result),
            f"{result.seconds:.0f}",
        ]
        for name, result in results.items()
    ]
    return tables.markdown(heads, rows)


COMPARISON = Variation(
    name="hyperparameters",
    protocol=BASE.protocol,
    methods=tuple(VARIANTS),
    table=table,
    draw=draw,
    seeds=3,
    quick=BASE.quick,
    base=BASE,
    variants=VARIANTS,
)
