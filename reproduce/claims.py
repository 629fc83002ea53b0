"""The numbers of the paper, and ours beside them."""

import dataclasses

from keras_bpn.evaluation import Summary
from keras_bpn.evaluation import summarize
from reproduce import permuted_mnist
from reproduce.incremental import PAPER as TABLE_1

# How far a mean of seeds may be from a number with three digits to agree.
_NEAR = 0.005


@dataclasses.dataclass(frozen=True)
class Claim:
    """A number that the paper gives.

    Args:
        where: String, its place in the paper.
        what: String, what it is of.
        paper: Number.
        ours: `Summary` over seeds.
        higher_is_better: Whether a method is better with a higher one.
    """

    where: str
    what: str
    paper: float
    ours: Summary
    higher_is_better: bool = True

    def sentence(self) -> str:
        """Says in words how ours differs."""
        difference = self.ours.mean - self.paper
        if abs(difference) <= _NEAR:
            return "Agrees."
        text = f"Ours is {abs(difference):.3f} "
        text += "higher" if difference > 0 else "lower"
        if self.ours.interval[0] <= self.paper <= self.ours.interval[1]:
            text += ", within the 95% interval of the seeds"
        return f"{text}."


# What the text gives as distances from BD+EWC in percent.
_STL = {
    "incremental-mnist": 0.990,
    "incremental-cifar10": 0.835,
    "incremental-cifar100": 0.855,
}


def of_incremental(name, results) -> list[Claim]:
    """Returns the claims about an incremental experiment.

    Args:
        name: String, that of the experiment.
        results: Dictionary from methods to `Result`.
    """
    claims = []
    for method, (accuracy, _) in TABLE_1[name].items():
        if method in results:
            where = "text, figure 6" if method == "EWC" else "Table 1"
            claims.append(
                Claim(
                    where,
                    f"{method}, task 1 after all tasks",
                    accuracy,
                    results[method].first_task(),
                )
            )
    if "STL" in results:
        claims.append(
            Claim(
                "text, as a distance from BD+EWC",
                "STL, task 1",
                _STL[name],
                results["STL"].first_task(),
            )
        )
    return claims


def of_permuted(name, results) -> list[Claim]:
    """Returns the claims about permuted MNIST."""
    return [
        Claim(
            "figure 7 (a)",
            f"average after all tasks, {better} over {worse}",
            permuted_mnist.PAPER[better, worse],
            ratio,
        )
        for (better, worse), ratio in permuted_mnist.ratios(results).items()
    ]


def mean_difference(first, second) -> Summary:
    """Summarizes differences of the first task, seed by seed.

    Args:
        first: `Result`.
        second: `Result` with the same seeds.
    """
    return summarize(
        [
            float(a.matrix.values[-1, 0] - b.matrix.values[-1, 0])
            for a, b in zip(first.histories, second.histories)
        ]
    )
