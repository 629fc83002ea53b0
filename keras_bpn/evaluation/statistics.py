"""Mean, spread and t-tests over runs, as of several seeds."""

import math
from collections.abc import Sequence

import numpy as np
from scipy import stats

from keras_bpn.evaluation.comparison import Comparison
from keras_bpn.evaluation.learning_history import LearningHistory
from keras_bpn.evaluation.summary import Summary

# Differences that vary by less are taken to be equal: accuracies are read from
# files and subtracted, and the last bits are left over.
_ROUNDING = 1e-12


def summarize(values: Sequence[float]) -> Summary:
    """Returns mean and spread of the values.

    A value that is NaN, for what was not measured, makes all results NaN. From
    a single value there is a mean but no spread, which is NaN, and without
    values all is NaN. Equal values have a spread of 0, and an interval of
    length 0.

    Args:
        values: Numbers, one for each run.

    Example:

    >>> summary = keras_bpn.evaluation.summarize([0.5, 0.75, 1.0])
    >>> summary.mean, summary.std, summary.n
    (0.75, 0.25, 3)
    """
    values = _vector("values", values)
    n = len(values)
    mean = float(np.mean(values)) if n else math.nan
    if n < 2:
        unknown = math.nan
        return Summary(mean, unknown, unknown, (unknown, unknown), n)
    std = float(np.std(values, ddof=1))
    error = std / math.sqrt(n)
    half = float(stats.t.ppf(0.975, n - 1)) * error
    return Summary(mean, std, error, (mean - half, mean + half), n)


def compare(
    first: Sequence[float], second: Sequence[float], paired: bool = True
) -> Comparison:
    """Tests by a t-test whether two means differ.

    The test is not defined for fewer than two values on a side, where a value
    is NaN, and without spread: where all differences of pairs are equal, or all
    values on each side, to a relative 1e-12. Then, `t`, `p`, the degrees of
    freedom and the interval are NaN: results that are the same with every seed
    do not count as significant, however large their difference is.

    Args:
        first: Numbers, one for each run.
        second: Numbers, one for each run.
        paired: Boolean. `True` if `first[i]` and `second[i]` belong together,
            as two methods with the same seed do (test of the differences with
            `n - 1` degrees of freedom). `False` for independent runs (Welch's
            test, which allows for different variances).

    Example:

    >>> result = keras_bpn.evaluation.compare([3, 4, 5], [1, 3, 2])
    >>> result.mean_difference, result.degrees_of_freedom
    (2.0, 2.0)
    """
    first, second = _vector("first", first), _vector("second", second)
    n = len(first), len(second)
    if paired and n[0] != n[1]:
        raise ValueError(
            "Expected as many values in `second` as in `first` where they are "
            "compared in pairs; `paired=False` compares independent runs. "
            f"Received: {n[0]} and {n[1]} values"
        )
    difference = float(np.mean(first) - np.mean(second)) if min(n) else math.nan
    if min(n) < 2 or math.isnan(difference) or not _vary(first, second, paired):
        unknown = math.nan
        interval = (unknown, unknown)
        return Comparison(
            difference, unknown, unknown, unknown, interval, n, bool(paired)
        )
    # Written out, since `scipy.stats.ttest_ind` warns where one side has no
    # spread. Pairs are a single sample, of differences.
    samples = [first - second] if paired else [first, second]
    variances = np.array([np.var(s, ddof=1) / len(s) for s in samples])
    error = math.sqrt(np.sum(variances))
    shares = variances / np.sum(variances)
    freedom = 1 / sum(w**2 / (len(s) - 1) for w, s in zip(shares, samples))
    t = difference / error
    half = float(stats.t.ppf(0.975, freedom)) * error
    return Comparison(
        difference,
        t,
        float(2 * stats.t.sf(abs(t), freedom)),
        float(freedom),
        (difference - half, difference + half),
        n,
        bool(paired),
    )


def summarize_histories(
    histories: LearningHistory | Sequence[LearningHistory],
) -> dict[str, Summary]:
    """Summarizes every metric and cost over runs of one method.

    The names of tasks may differ, as where each seed draws its own classes;
    how many tasks were learned may not.

    Args:
        histories: One `LearningHistory`, or one for each run.

    Returns:
        Dictionary from the keys of `LearningHistory.summary()` to `Summary`.

    Example:

    >>> first = keras_bpn.evaluation.LearningHistory(["a"])
    >>> first.record_task("a", {"a": 0.5})
    >>> second = keras_bpn.evaluation.LearningHistory(["a"])
    >>> second.record_task("a", {"a": 1.0})
    >>> summaries = keras_bpn.evaluation.summarize_histories([first, second])
    >>> summaries["average_accuracy"].mean
    0.75
    """
    if isinstance(histories, LearningHistory):
        histories = [histories]
    histories = list(histories)
    if not histories or not all(
        isinstance(history, LearningHistory) for history in histories
    ):
        raise ValueError(
            "Expected a `LearningHistory`, or several in a list. "
            f"Received: histories={histories!r:.200}"
        )
    sizes = [
        0 if history.matrix.last is None else history.matrix.last + 1
        for history in histories
    ]
    if len(set(sizes)) > 1:
        raise ValueError(
            "Expected histories that were measured after the same number of "
            f"tasks. Received: histories measured after {sizes} tasks"
        )
    summaries = [history.summary() for history in histories]
    return {
        name: summarize([summary[name] for summary in summaries])
        for name in summaries[0]
    }


def _vector(name, values):
    try:
        array = np.asarray(values, "float64")
    except (TypeError, ValueError):
        array = None
    if array is None or array.ndim != 1 or np.any(np.isinf(array)):
        raise ValueError(
            f"Expected `{name}` to be a list of numbers, finite or NaN. "
            f"Received: {name}={values!r:.200}"
        )
    return array


def _vary(first, second, paired):
    samples = [first - second] if paired else [first, second]
    largest = max(np.max(np.abs(first)), np.max(np.abs(second)))
    return any(np.ptp(sample) > _ROUNDING * largest for sample in samples)
