import dataclasses


@dataclasses.dataclass(frozen=True)
class Comparison:
    """Difference of two means, and a two-sided t-test of whether it is zero.

    Attributes:
        mean_difference: Mean of the first values minus that of the second.
        t: The test statistic.
        p: Probability of a difference of at least this size, in either
            direction, if the means were equal.
        degrees_of_freedom: Of the t distribution.
        interval: Pair of numbers: the confidence interval of the difference at
            95%.
        n: Pair of integers: how many first and second values there were.
        paired: Whether values were compared pair by pair.
    """

    mean_difference: float
    t: float
    p: float
    degrees_of_freedom: float
    interval: tuple[float, float]
    n: tuple[int, int]
    paired: bool

    def __str__(self):
        return (
            f"{self.mean_difference:+.4g} (t={self.t:.3g}, p={self.p:.3g}, "
            f"df={self.degrees_of_freedom:.3g})"
        )
