import numpy as np
import pytest

from keras_bpn.evaluation import LearningHistory
from keras_bpn.plots import accuracy_over_epochs
from tests.plots.helpers import band_of
from tests.plots.helpers import legend_of
from tests.plots.helpers import lines_of
from tests.plots.helpers import make_history


def two_tasks(shift=0.0):
    history = LearningHistory(["0/1", "2/3"])
    history.record_epoch("0/1", 0, {}, {"0/1": 0.25 + shift})
    history.record_epoch("0/1", 1, {}, {"0/1": 0.75 + shift})
    history.record_task("0/1", {"0/1": 0.875})
    history.record_epoch("2/3", 0, {}, {"0/1": 0.5 + shift, "2/3": 0.5})
    history.record_epoch("2/3", 1)
    history.record_epoch("2/3", 2)
    history.record_task("2/3", {"0/1": 0.625 + shift, "2/3": 0.75})
    return history


def starts_of(ax):
    return [
        line.get_xdata()[0]
        for line in ax.get_lines()
        if len(set(line.get_xdata())) == 1 and len(line.get_xdata()) == 2
    ]


def test_lines_and_starts_of_tasks(ax):
    accuracy_over_epochs(two_tasks(), ax=ax)
    lines = lines_of(ax)
    assert list(lines) == ["0/1", "2/3"] == legend_of(ax)
    # Epoch 4 was not measured; for epoch 5 there is what came after the task.
    # Epoch 2 was measured, so what came after task 0/1 is not drawn.
    np.testing.assert_array_equal(
        lines["0/1"], [[1, 0.25], [2, 0.75], [3, 0.5], [5, 0.625]]
    )
    np.testing.assert_array_equal(lines["2/3"], [[3, 0.5], [5, 0.75]])
    assert starts_of(ax) == [0, 2]
    assert ax.get_xlabel() == "epoch"
    assert ax.get_ylabel() == "test accuracy"
    assert ax.get_legend().get_title().get_text() == "task"
    assert not ax.collections


def test_several_seeds(ax):
    accuracy_over_epochs([two_tasks(), two_tasks(0.25)], ax=ax)
    np.testing.assert_array_equal(
        lines_of(ax)["0/1"], [[1, 0.375], [2, 0.875], [3, 0.625], [5, 0.75]]
    )
    # The standard deviation of x and x + 0.25 is 0.25 / sqrt(2).
    band = band_of(ax.collections[0])
    std = 0.25 / np.sqrt(2)
    assert band[3] == pytest.approx((0.625 - std, 0.625 + std))
    # Both seeds are equal on the second task.
    assert band_of(ax.collections[1])[3] == (0.5, 0.5)


def test_other_errors(ax):
    accuracy_over_epochs(
        [two_tasks(), two_tasks(0.25)], ax=ax, error="standard_error"
    )
    # 0.25 / sqrt(2) / sqrt(2)
    assert band_of(ax.collections[0])[3] == pytest.approx((0.5, 0.75))


def test_lines_can_be_told_apart_without_colours(ax):
    accuracy_over_epochs(make_history(np.tril(np.ones((7, 7))), 1), ax=ax)
    lines = [line for line in ax.get_lines() if line.get_label()[0] != "_"]
    assert len(lines) == 7
    styles = {(line.get_linestyle(), line.get_marker()) for line in lines}
    colors = {line.get_color() for line in lines}
    assert len(styles) == len(colors) == 7


def test_many_tasks_have_a_short_legend(ax):
    accuracy_over_epochs(make_history(np.tril(np.ones((60, 60))), 1), ax=ax)
    assert len(starts_of(ax)) == 60
    names = legend_of(ax)
    assert len(names) <= 11
    assert names[0] == "task 0" and names[-1] == "task 59"
    # Later tasks are lighter, in grey too.
    drawn = [line for line in ax.get_lines() if len(line.get_xdata()) != 2]
    assert len(drawn) == 60
    grey = [np.dot(line.get_color()[:3], [0.3, 0.59, 0.11]) for line in drawn]
    assert np.all(np.diff(grey) > 0)


@pytest.mark.parametrize("tasks", ["2/3", ["2/3"]])
def test_some_tasks(ax, tasks):
    accuracy_over_epochs(two_tasks(), ax=ax, tasks=tasks)
    assert list(lines_of(ax)) == ["2/3"]
    assert starts_of(ax) == [0, 2]


def test_a_task_under_way(ax):
    history = LearningHistory(["a", "b"])
    history.record_epoch("a", 0, {}, {"a": 0.5})
    accuracy_over_epochs(history, ax=ax)
    np.testing.assert_array_equal(lines_of(ax)["a"], [[1, 0.5]])
    assert starts_of(ax) == [0]


def no_accuracies():
    history = LearningHistory(["a"])
    history.record_epoch("a", 0, {"loss": 1.0})
    return history


@pytest.mark.parametrize(
    "history, kwargs, message",
    [
        (None, {}, "`history` to be a `LearningHistory`.*Received"),
        ([], {}, "`history` to be a `LearningHistory`"),
        ({"a": two_tasks()}, {}, "`history` to be a `LearningHistory`"),
        ([two_tasks(), 1], {}, "`history` to be a `LearningHistory`"),
        (make_history([[1.0]]), {}, r"the same epochs.*with \[0\] epochs"),
        (
            [two_tasks(), make_history([[1.0], [1.0, 1.0]], 1)],
            {},
            r"the same epochs.*with \[5, 2\] epochs",
        ),
        (
            [two_tasks(), make_history([[1.0]], 2)],
            {},
            r"the same number of tasks.*\[2, 1\]",
        ),
        (no_accuracies(), {}, "none was measured"),
        (two_tasks(), {"tasks": ["4/5"]}, "among.*Received: tasks="),
        (two_tasks(), {"tasks": []}, "among.*Received: tasks="),
    ],
)
def test_bad_input(history, kwargs, message):
    with pytest.raises(ValueError, match=message):
        accuracy_over_epochs(history, **kwargs)
