import numpy as np
import pytest

from keras_bpn.evaluation import compare
from keras_bpn.plots import accuracy_by_group
from tests.plots.helpers import last_row_history
from tests.plots.helpers import legend_of
from tests.plots.helpers import make_history
from tests.plots.helpers import texts_of

ONE = last_row_history([1.0, 0.5, 0.5, 0.25, 0.75])
TWO = last_row_history([0.5, 0.5, 1.0, 0.75, 0.25])


def bars_of(ax):
    return [[bar.get_height() for bar in group] for group in ax.containers[::2]]


def errors_of(ax):
    """Returns the lengths of error bars, per method."""
    lengths = []
    for container in ax.containers[1::2]:
        _, _, (bars,) = container
        segments = bars.get_segments()
        lengths.append([(s[1][1] - s[0][1]) / 2 for s in segments])
    return lengths


def test_means_of_groups(ax):
    accuracy_by_group({"EWC": ONE, "SI": [ONE, TWO]}, group_size=2, ax=ax)
    # Groups of tasks 1 and 2, 3 and 4, and 5 alone:
    #   ONE 0.75, 0.375, 0.75; TWO 0.5, 0.875, 0.25
    np.testing.assert_allclose(
        bars_of(ax), [[0.75, 0.375, 0.75], [0.625, 0.625, 0.5]]
    )
    # No seeds, no error bars.
    ewc, si = errors_of(ax)
    assert ewc == []
    np.testing.assert_allclose(si, np.array([0.25, 0.5, 0.5]) / np.sqrt(2))
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert labels == ["1–2", "3–4", "5"]
    assert legend_of(ax) == ["EWC", "SI"]
    assert ax.get_ylabel() == "accuracy after 5 tasks"
    assert ax.get_ylim()[0] == 0
    assert texts_of(ax) == []


def test_groups_stand_side_by_side(ax):
    accuracy_by_group({"A": ONE, "B": ONE, "C": ONE}, group_size=2, ax=ax)
    places = sorted(
        (bar.get_x(), bar.get_x() + bar.get_width())
        for group in ax.containers[::2]
        for bar in group
    )
    assert len(places) == 9
    for (_, end), (start, _) in zip(places, places[1:]):
        assert end <= start + 1e-9
    hatches = {bar.get_hatch() for g in ax.containers[::2] for bar in g}
    assert len(hatches) == 3


def test_errors_over_tasks(ax):
    accuracy_by_group({"SI": [ONE, TWO]}, group_size=2, ax=ax, over="tasks")
    # Means over seeds: 0.75, 0.5, 0.75, 0.5, 0.5. One task has no spread.
    np.testing.assert_allclose(bars_of(ax), [[0.625, 0.625, 0.5]])
    np.testing.assert_allclose(errors_of(ax), [[0.25 / np.sqrt(2)] * 2])


def seeds(*values):
    """Returns runs of two tasks with these accuracies on both."""
    return [last_row_history([value, value]) for value in values]


BASE = (0.50, 0.52, 0.48, 0.51, 0.49)


def test_stars(ax):
    # Differences from BASE, in order:
    raised = {
        "0.1 to 0.12": (0.60, 0.63, 0.60, 0.61, 0.60),
        "0 to 0.03": (0.53, 0.52, 0.50, 0.52, 0.52),
        "about 0": (0.52, 0.50, 0.49, 0.51, 0.48),
    }
    p = [compare(values, BASE).p for values in raised.values()]
    assert p[0] < 0.001 < 0.01 < p[1] < 0.05 < p[2]
    methods = {"base": seeds(*BASE)}
    methods.update({name: seeds(*values) for name, values in raised.items()})
    accuracy_by_group(methods, group_size=1, ax=ax, reference="base")
    assert texts_of(ax) == ["***", "***", "*", "*"]
    # Each stands on the error bar of its own bar.
    bars = ax.containers[2]
    for text, bar, error in zip(ax.texts, bars, errors_of(ax)[1]):
        middle = bar.get_x() + bar.get_width() / 2
        assert text.xy == pytest.approx((middle, bar.get_height() + error))
    title = ax.get_legend().get_title().get_text()
    assert "against base" in title and "* p < 0.05" in title


def test_two_stars(ax):
    values = (0.55, 0.54, 0.50, 0.55, 0.52)
    assert 0.001 < compare(values, BASE).p < 0.01
    accuracy_by_group(
        {"A": seeds(*values), "base": seeds(*BASE)},
        group_size=2,
        ax=ax,
        reference="base",
    )
    assert texts_of(ax) == ["**"]


def test_independent_seeds(ax):
    # A shift that is the same for every seed but small against their spread:
    # clear in pairs, and not clear otherwise.
    methods = {"base": seeds(0.1, 0.5, 0.9), "A": seeds(0.11, 0.515, 0.911)}
    kwargs = {"group_size": 2, "reference": "base"}
    accuracy_by_group(methods, ax=ax, **kwargs)
    assert texts_of(ax) == ["*"]
    ax.clear()
    accuracy_by_group(methods, ax=ax, paired=False, **kwargs)
    assert texts_of(ax) == []


def test_stars_over_tasks(ax):
    first = last_row_history([0.5, 0.6, 0.7, 0.8])
    second = last_row_history([0.7, 0.81, 0.9, 1.0])
    accuracy_by_group(
        {"A": first, "B": second}, ax=ax, reference="A", over="tasks"
    )
    assert texts_of(ax) == ["***"]


def test_one_seed_has_no_stars(ax):
    accuracy_by_group({"A": ONE, "B": TWO}, ax=ax, reference="A")
    assert texts_of(ax) == []


def test_what_was_not_measured_has_no_bar(ax):
    history = make_history([[], [], [], [0.5, 0.5, np.nan, 0.5]])
    accuracy_by_group({"A": history}, group_size=2, ax=ax)
    np.testing.assert_array_equal(bars_of(ax), [[0.5, np.nan]])


def test_learning_under_way(ax):
    history = make_history([[1.0], [0.5, 1.0]], tasks=["a", "b", "c", "d"])
    accuracy_by_group({"A": history}, group_size=1, ax=ax)
    np.testing.assert_array_equal(bars_of(ax), [[0.5, 1.0]])
    assert ax.get_ylabel() == "accuracy after 2 tasks"


def test_accuracies_of_zero(ax):
    accuracy_by_group({"A": seeds(0.0)}, ax=ax)
    assert bars_of(ax) == [[0.0]]
    assert ax.get_ylim() == (0, 1)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"group_size": 0}, "positive integer. Received: group_size=0"),
        ({"group_size": 2.0}, "positive integer. Received: group_size=2.0"),
        ({"reference": "MAS"}, "one of.*Received: reference='MAS'"),
        ({"over": "runs"}, "'seeds' or 'tasks'. Received: over='runs'"),
    ],
)
def test_bad_arguments(kwargs, message):
    with pytest.raises(ValueError, match=message):
        accuracy_by_group({"EWC": ONE, "SI": TWO}, **kwargs)


@pytest.mark.parametrize(
    "histories, message",
    [
        ([ONE], "dictionary from the names of methods"),
        ({"A": ONE, "B": seeds(0.5)}, r"last measured.*'A': \[4\].*'B': \[1\]"),
        ({"A": make_history([[]])}, r"last measured.*'A': \[None\]"),
    ],
)
def test_bad_histories(histories, message):
    with pytest.raises(ValueError, match=message):
        accuracy_by_group(histories)


def test_pairs_need_as_many_seeds():
    methods = {"A": seeds(0.5, 0.6), "B": seeds(0.5, 0.6, 0.7)}
    with pytest.raises(ValueError, match="paired=False.*Received: 2 and 3"):
        accuracy_by_group(methods, reference="B")
