"""What plots are made from, checked and brought into one form."""

from collections.abc import Sequence

import numpy as np
from scipy import stats

from keras_bpn.evaluation import AccuracyMatrix
from keras_bpn.evaluation import LearningHistory

# One run, or one for each seed.
Histories = LearningHistory | Sequence[LearningHistory]
Matrices = (
    LearningHistory
    | AccuracyMatrix
    | Sequence[LearningHistory | AccuracyMatrix]
)

ERRORS = ("std", "standard_error", "interval")


def as_histories(value, name="history"):
    """Returns a list of at least one `LearningHistory`."""
    histories = [value] if isinstance(value, LearningHistory) else value
    if (
        not isinstance(histories, (list, tuple))
        or not histories
        or not all(isinstance(h, LearningHistory) for h in histories)
    ):
        raise ValueError(
            f"Expected `{name}` to be a `LearningHistory`, or several in a "
            f"list. Received: {name}={value!r:.200}"
        )
    return list(histories)


def as_matrices(value, name="matrix"):
    """Returns a list of `AccuracyMatrix`, all of as many tasks."""
    kinds = (LearningHistory, AccuracyMatrix)
    matrices = [value] if isinstance(value, kinds) else value
    if (
        not isinstance(matrices, (list, tuple))
        or not matrices
        or not all(isinstance(matrix, kinds) for matrix in matrices)
    ):
        raise ValueError(
            f"Expected `{name}` to be a `LearningHistory` or an "
            "`AccuracyMatrix`, or several in a list. "
            f"Received: {name}={value!r:.200}"
        )
    matrices = [getattr(matrix, "matrix", matrix) for matrix in matrices]
    sizes = [len(matrix.tasks) for matrix in matrices]
    if len(set(sizes)) > 1 or not sizes[0]:
        raise ValueError(
            f"Expected the runs in `{name}` to have the same number of tasks, "
            f"at least one. Received: runs of {sizes} tasks"
        )
    return matrices


def by_method(values, convert, name="histories_by_method"):
    """Returns a dictionary with every value converted."""
    if not isinstance(values, dict) or not values:
        raise ValueError(
            f"Expected `{name}` to be a dictionary from the names of methods "
            f"to their runs. Received: {name}={values!r:.200}"
        )
    return {
        method: convert(value, f"{name}[{method!r}]")
        for method, value in values.items()
    }


def check_error(error):
    if error not in ERRORS:
        raise ValueError(
            f"Expected `error` to be one of {ERRORS}. Received: error={error!r}"
        )


def means_and_errors(samples, error):
    """Returns the mean of each column and the length of its error bar.

    As `keras_bpn.evaluation.summarize` has them, for many columns at once.

    Args:
        samples: Array of shape `(runs, points)`.
        error: One of `ERRORS`.
    """
    means = np.mean(samples, axis=0)
    n = len(samples)
    if n < 2:
        return means, np.full_like(means, np.nan)
    errors = np.std(samples, axis=0, ddof=1)
    if error != "std":
        errors = errors / np.sqrt(n)
    if error == "interval":
        errors = errors * stats.t.ppf(0.975, n - 1)
    return means, errors
