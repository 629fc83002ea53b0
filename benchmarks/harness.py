"""What the benchmarks share: contenders in turn, and ratios of their times.

A machine is never as fast as it was a second ago. So contenders run in turn,
round after round, and a ratio is one of times of the same round: what slows
that round down stands above the line and below it. A benchmark reports the
median of these ratios and, as their spread, the quartiles.
"""

import time

import numpy as np

from benchmarks.tables import Row


class Unavailable(Exception):
    """Says what a benchmark needs that is not there."""


def alternate(contenders, rounds, warmup=1):
    """Runs contenders in turn.

    Args:
        contenders: Dictionary from a name to a function that does one unit of
            work and returns the seconds that count of it. One that returns
            `None` is timed from outside.
        rounds: Integer, how often each contender is measured.
        warmup: Integer, how many rounds come before and do not count.

    Returns:
        Dictionary from each name to its seconds, a list with one number for
        each round.
    """
    seconds = {name: [] for name in contenders}
    for i in range(warmup + rounds):
        for name, work in contenders.items():
            start = time.perf_counter()
            measured = work()
            if measured is None:
                measured = time.perf_counter() - start
            if i >= warmup:
                seconds[name].append(float(measured))
    return seconds


def paired_ratio(numerators, denominators):
    """Returns the ratio of two lists of numbers, paired by round.

    Args:
        numerators, denominators: Lists of numbers as long as each other, with
            one for each round.

    Returns:
        The median of the ratios, and a tuple of their lower and upper
        quartile.
    """
    if len(numerators) != len(denominators) or not len(numerators):
        raise ValueError(
            "Expected numbers of the same rounds, at least one. Received: "
            f"{len(numerators)} and {len(denominators)} numbers"
        )
    ratios = np.divide(numerators, denominators)
    lower, median, upper = np.quantile(ratios, (0.25, 0.5, 0.75))
    return float(median), (float(lower), float(upper))


def compare(seconds, baseline, limits=None):
    """Returns a `Row` for each contender, in milliseconds.

    Args:
        seconds: Dictionary of lists of seconds by name, from `alternate`.
        baseline: Name of the contender that the others are measured by.
        limits: Dictionary of limits of the ratio by name.
    """
    rows = []
    for name, times in seconds.items():
        ratio = spread = None
        if name != baseline:
            ratio, spread = paired_ratio(times, seconds[baseline])
        limit = (limits or {}).get(name)
        value = 1000 * float(np.median(times))
        rows.append(Row(name, value, "ms", ratio, spread, limit))
    return rows
