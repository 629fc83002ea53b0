import numpy as np
import pytest

from keras_bpn.plots import task_accuracy
from tests.plots.helpers import band_of
from tests.plots.helpers import legend_of
from tests.plots.helpers import lines_of
from tests.plots.helpers import make_history

FIRST = make_history([[1.0], [0.5, 1.0], [0.25, 0.75, 1.0]])
SECOND = make_history([[1.0], [1.0, 1.0], [0.75, 0.5, 1.0]])


def test_lines_follow_the_first_task(ax):
    task_accuracy({"EWC": [FIRST, SECOND], "SI": FIRST.matrix}, ax=ax)
    lines = lines_of(ax)
    assert list(lines) == ["EWC", "SI"] == legend_of(ax)
    np.testing.assert_allclose(lines["EWC"], [[1, 1], [2, 0.75], [3, 0.5]])
    np.testing.assert_allclose(lines["SI"], [[1, 1], [2, 0.5], [3, 0.25]])
    # Two seeds, 0.25 away from their mean of 0.75.
    std = 0.5 / np.sqrt(2)
    band = band_of(ax.collections[0])
    assert band[2] == pytest.approx((0.75 - std, 0.75 + std))
    assert ax.get_xlabel() == "tasks learned"


@pytest.mark.parametrize("task", ["b", 1])
def test_other_tasks_start_when_they_are_learned(task, ax):
    history = make_history([[1.0], [0.5, 1.0], [0.25, 0.75, 1.0]])
    name = history.tasks[1]
    task = name if task == "b" else task
    task_accuracy({"EWC": history}, task, ax=ax)
    np.testing.assert_allclose(lines_of(ax)["EWC"], [[2, 1], [3, 0.75]])
    assert ax.get_ylabel() == f"accuracy on task {name}"


def test_unknown_tasks():
    with pytest.raises(ValueError, match="Received: 'birds'"):
        task_accuracy({"EWC": FIRST}, "birds")
