import dataclasses


@dataclasses.dataclass(frozen=True)
class Summary:
    """Mean and spread of a quantity over runs, as of several seeds.

    Attributes:
        mean: Mean of the values.
        std: Standard deviation, with `n - 1` in the denominator.
        standard_error: Of the mean: `std / sqrt(n)`.
        interval: Pair of numbers: the confidence interval of the mean at 95%,
            from the t distribution with `n - 1` degrees of freedom.
        n: Number of values.
    """

    mean: float
    std: float
    standard_error: float
    interval: tuple[float, float]
    n: int

    def __str__(self):
        return f"{self.mean:.4g} ± {self.std:.2g} (n={self.n})"
