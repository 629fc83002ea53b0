"""Why it works: BD+EWC with parts left out, replaced or taken from chance."""

from reproduce import figures
from reproduce import tables
from reproduce.incremental_mnist import COMPARISON as BASE
from reproduce.variation import Variant
from reproduce.variation import Variation

# What epsilon of BD, and the gains of GD, are multiplied by, so that the bias
# units of both become small and large.
BD_FACTORS = (1 / 64, 1 / 16, 1 / 4, 1.0, 4.0)
GD_FACTORS = (1 / 16, 1 / 4, 1.0, 4.0, 16.0, 64.0)
# All but these are as the search has left BD+EWC, in the same network.
PARTS = {
    "BD+EWC": Variant("BD+EWC"),
    "no bias units": Variant("EWC", settings_of="BD+EWC"),
    "bias units in the outputs alone": Variant("BD+EWC", {"where": "output"}),
    "bias units in hidden layers alone": Variant("BD+EWC", {"where": "hidden"}),
    "no EWC": Variant("BD+fine-tuning", settings_of="BD+EWC"),
    "W as drawn, not trained": Variant("BD+EWC", {"projection": "random"}),
    "signs on BIAS itself, no product": Variant(
        "BD+EWC", {"projection": "identity"}
    ),
    "gradients on M (GD)": Variant("GD+EWC", settings_of="BD+EWC"),
    "gradients on M, drawn from N(0, 1)": Variant(
        "GD+EWC", {"perturbation_stddev": 1.0}, settings_of="BD+EWC"
    ),
    **{
        f"random fixed biases of size {size:g} in hidden layers": Variant(
            "BD+EWC",
            {
                "epsilon": 0.0,
                "where": "hidden",
                "projection": "identity",
                "hidden_gain": 1.0,
                "perturbation_stddev": size,
            },
        )
        for size in (0.1, 0.3, 1.0, 3.0)
    },
}


def bd_name(factor):
    return f"BD+EWC, epsilon times {factor:g}"


def gd_name(factor):
    return f"GD+EWC, gains times {factor:g}"


NORMS = {
    **{
        bd_name(factor): Variant("BD+EWC", factors={"epsilon": factor})
        for factor in BD_FACTORS
    },
    **{
        gd_name(factor): Variant(
            "GD+EWC",
            {"output_gain": factor / 3},
            {"hidden_gain": factor},
            "BD+EWC",
        )
        for factor in GD_FACTORS
    },
}
VARIANTS = {**PARTS, **NORMS}


def draw(comparison, results, folder):
    """Draws accuracies against the norm of bias units."""
    figures.norms(
        {
            method: [
                (norm_of(results[name]), results[name])
                for name in map(make_name, factors)
                if name in results
            ]
            for method, make_name, factors in (
                ("BD+EWC", bd_name, BD_FACTORS),
                ("GD+EWC", gd_name, GD_FACTORS),
            )
        },
        "Incremental MNIST, bias units of different size",
        folder / "norms.png",
    )


def norm_of(result):
    """Returns the norm of a task's bias units in hidden layers, the average
    over layers and seeds."""
    norms = [
        sum(norms[:-1]) / len(norms[:-1])
        for norms in result.bias_norms
        if len(norms) > 1
    ]
    return sum(norms) / len(norms) if norms else 0.0


def table(name, results):
    """Returns a row per variant, and what methods reach with an oracle."""
    return f"{variant_table(results)}\n\n{oracle_table()}"


def variant_table(results):
    heads = ["variant", "task 1", "mean", "when learned", "norm", "seeds"]
    rows = []
    for name, result in results.items():
        norm = norm_of(result)
        rows.append(
            [
                name,
                tables.mean_and_spread(result.first_task()),
                tables.mean_and_spread(result.average()),
                tables.mean_and_spread(result.learned()),
                f"{norm:.3g}" if norm else "",
                tables.seeds(result),
            ]
        )
    return tables.markdown(heads, rows)


def oracle_table():
    """Returns what methods reach that are given the task as well."""
    from reproduce import incremental_cifar10
    from reproduce import incremental_cifar100

    comparisons = (
        BASE,
        incremental_cifar10.COMPARISON,
        incremental_cifar100.COMPARISON,
    )
    results = {c.name: c.results() for c in comparisons if c.complete}
    methods = dict.fromkeys(m for r in results.values() for m in r)
    rows = []
    for method in methods:
        row = [method]
        for by_method in results.values():
            result = by_method.get(method)
            row += [
                result and tables.mean_and_spread(result.average()) or "",
                result and tables.mean_and_spread(result.with_mask()) or "",
            ]
        rows.append(row)
    heads = ["method"]
    for name in results:
        heads += [name, "the task's outputs only"]
    return tables.markdown(heads, rows)


COMPARISON = Variation(
    name="ablation",
    protocol=BASE.protocol,
    methods=tuple(VARIANTS),
    table=table,
    draw=draw,
    seeds=3,
    quick=BASE.quick,
    base=BASE,
    variants=VARIANTS,
)
