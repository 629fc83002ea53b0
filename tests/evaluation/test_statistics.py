import math
import warnings

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from scipy import stats

from keras_bpn.evaluation import LearningHistory
from keras_bpn.evaluation import compare
from keras_bpn.evaluation import summarize
from keras_bpn.evaluation import summarize_histories

NAN = math.nan


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def test_summary_by_hand():
    # Mean 3; squared distances 4 + 1 + 0 + 1 + 4 = 10, over n - 1 = 4 is 2.5.
    # The table of the t distribution has 2.776 at 97.5% and 4 degrees.
    summary = summarize([1, 2, 3, 4, 5])
    assert summary.mean == 3.0
    assert summary.std == pytest.approx(math.sqrt(2.5))
    assert summary.standard_error == pytest.approx(math.sqrt(0.5))
    half = 2.776 * math.sqrt(0.5)
    assert summary.interval == pytest.approx((3 - half, 3 + half), abs=1e-3)
    assert summary.n == 5
    assert str(summary) == "3 ± 1.6 (n=5)"


def test_summary_of_few_values():
    one = summarize([0.5])
    assert (one.mean, one.n) == (0.5, 1)
    assert np.isnan([one.std, one.standard_error, *one.interval]).all()
    none = summarize([])
    assert none.n == 0
    assert np.isnan([none.mean, none.std, *none.interval]).all()
    equal = summarize([0.25, 0.25])
    assert (equal.mean, equal.std, equal.interval) == (0.25, 0.0, (0.25, 0.25))


def test_a_value_that_was_not_measured():
    summary = summarize([0.5, NAN, 0.75])
    assert summary.n == 3
    assert np.isnan([summary.mean, summary.std, *summary.interval]).all()


@settings(deadline=None)
@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=20))
def test_summary_against_scipy(values):
    summary = summarize(values)
    assert min(values) - 1e-6 <= summary.mean <= max(values) + 1e-6
    assert summary.standard_error == pytest.approx(
        float(stats.sem(values)), rel=1e-9, abs=1e-9
    )
    low, high = summary.interval
    assert (low + high) / 2 == pytest.approx(summary.mean, abs=1e-6)
    if summary.std > 1e-3:
        interval = stats.ttest_1samp(values, 0).confidence_interval(0.95)
        assert summary.interval == pytest.approx(tuple(interval), abs=1e-6)


def test_paired_test_by_hand():
    # Differences 2, 1, 3: mean 2, standard deviation 1, so t = 2 * sqrt(3)
    # with 2 degrees of freedom. There, p = 1 - t / sqrt(2 + t^2).
    result = compare([3, 4, 5], [1, 3, 2])
    t = 2 * math.sqrt(3)
    assert result.mean_difference == 2.0
    assert result.t == pytest.approx(t)
    assert result.p == pytest.approx(1 - t / math.sqrt(2 + t**2))
    assert result.degrees_of_freedom == 2
    assert (result.n, result.paired) == ((3, 3), True)
    # 4.303 is the table's value at 97.5% and 2 degrees.
    half = 4.303 / math.sqrt(3)
    assert result.interval == pytest.approx((2 - half, 2 + half), abs=1e-3)
    assert str(result) == "+2 (t=3.46, p=0.0742, df=2)"


def test_independent_runs_by_hand():
    # Variances 1 (n = 3) and 4 (n = 4): the squared error is 1/3 + 4/4 = 4/3,
    # the degrees of freedom (4/3)^2 / ((1/3)^2 / 2 + 1^2 / 3) = 32/7.
    first, second = [4, 5, 6], [1, 1, 1, 5]
    assert np.var(second, ddof=1) == 4.0
    result = compare(first, second, paired=False)
    assert result.mean_difference == 3.0
    assert result.t == pytest.approx(3 / math.sqrt(4 / 3))
    assert result.degrees_of_freedom == pytest.approx(32 / 7)
    assert (result.n, result.paired) == ((3, 4), False)
    expected = 2 * stats.t.sf(result.t, 32 / 7)
    assert result.p == pytest.approx(expected)


values = st.integers(0, 1000).map(lambda n: n / 1000)


@settings(deadline=None)
@given(st.lists(st.tuples(values, values), min_size=2, max_size=12))
def test_tests_against_scipy(pairs):
    first, second = map(list, zip(*pairs))
    differences = np.subtract(first, second)
    result = compare(first, second)
    opposite = compare(second, first)
    assert opposite.mean_difference == -result.mean_difference
    if np.ptp(differences) < 1e-9:
        assert np.isnan([result.t, result.p, *result.interval]).all()
    else:
        expected = stats.ttest_rel(first, second)
        assert result.t == pytest.approx(expected.statistic)
        assert result.p == pytest.approx(expected.pvalue)
        assert result.degrees_of_freedom == pytest.approx(expected.df)
        interval = expected.confidence_interval(0.95)
        assert result.interval == pytest.approx(tuple(interval))
        assert opposite.t == -result.t and opposite.p == result.p
    if np.ptp(first) and np.ptp(second):
        expected = stats.ttest_ind(first, second, equal_var=False)
        result = compare(first, second, paired=False)
        assert result.t == pytest.approx(expected.statistic)
        assert result.p == pytest.approx(expected.pvalue)
        assert result.degrees_of_freedom == pytest.approx(expected.df)


@pytest.mark.parametrize(
    "first, second, paired, difference",
    [
        ([], [], True, NAN),
        ([0.5], [0.25], True, 0.25),
        ([0.5, 0.75], [0.25], False, 0.375),
        # The differences are all 0.2, up to the last bit.
        ([0.3, 0.2, 0.9], [0.1, 0.0, 0.7], True, 0.2),
        ([0.5, 0.5], [0.5, 0.5], True, 0.0),
        ([1.0, 1.0], [0.5, 0.5], False, 0.5),
        ([0.0, 0.0], [0.0, 0.0], False, 0.0),
        ([0.5, NAN, 0.25], [0.5, 0.5, 0.5], True, NAN),
        ([0.5, 0.25], [0.5, 0.5, NAN], False, NAN),
    ],
)
def test_where_the_test_is_not_defined(first, second, paired, difference):
    result = compare(first, second, paired=paired)
    assert result.mean_difference == pytest.approx(difference, nan_ok=True)
    assert math.isnan(result.t) and math.isnan(result.p)
    assert np.isnan(result.interval).all()
    assert math.isnan(result.degrees_of_freedom)
    assert result.n == (len(first), len(second))


def test_one_side_without_spread_is_enough_for_independent_runs():
    result = compare([1.0, 1.0, 1.0], [0.5, 0.6, 0.7], paired=False)
    # Only the second side has a variance: 0.01, over n = 3.
    assert result.t == pytest.approx(0.4 / math.sqrt(0.01 / 3))
    assert result.degrees_of_freedom == pytest.approx(2)


@pytest.mark.parametrize(
    "first, second, message",
    [
        ([1, 2], [1, 2, 3], "as many values.*Received: 2 and 3 values"),
        ([[1, 2]], [1, 2], "`first` to be a list of numbers.*Received"),
        ([1, 2], 3, "`second` to be a list of numbers.*Received: second=3"),
        ([1, math.inf], [1, 2], "finite or NaN.*inf"),
        (["a", "b"], [1, 2], "Received: first="),
    ],
)
def test_bad_values(first, second, message):
    with pytest.raises(ValueError, match=message):
        compare(first, second)


def make_history(final, learned=1.0, names="ab", seconds=1.0):
    history = LearningHistory(names.split() if " " in names else list(names))
    first, second = history.tasks
    history.record_task(first, {first: learned}, seconds=seconds)
    history.record_task(
        second, {first: final, second: learned}, seconds=seconds
    )
    return history


def test_histories_of_several_seeds():
    # Averages 0.75, 0.875 and 1.0; forgetting 0.5, 0.25 and 0.
    histories = [make_history(0.5), make_history(0.75, seconds=2.0)]
    histories.append(make_history(1.0, names="xy", seconds=3.0))
    summaries = summarize_histories(histories)
    assert set(summaries) == set(histories[0].summary())
    assert summaries["average_accuracy"].mean == 0.875
    assert summaries["average_accuracy"].std == 0.125
    assert summaries["forgetting"].mean == 0.25
    assert summaries["forgetting"].std == 0.25
    assert summaries["seconds"].mean == 4.0
    assert math.isnan(summaries["stored_bytes_per_task"].mean)
    assert all(summary.n == 3 for summary in summaries.values())


def test_one_history():
    summaries = summarize_histories(make_history(0.5))
    assert summaries["average_accuracy"].mean == 0.75
    assert math.isnan(summaries["average_accuracy"].std)


def test_histories_that_do_not_go_together():
    half = LearningHistory(["a", "b"])
    half.record_task("a", {"a": 1.0})
    with pytest.raises(ValueError, match=r"Received.*after \[2, 1\] tasks"):
        summarize_histories([make_history(0.5), half])
    for wrong in ([], [half, None], [half.matrix]):
        with pytest.raises(ValueError, match="Expected a `LearningHistory`"):
            summarize_histories(wrong)
