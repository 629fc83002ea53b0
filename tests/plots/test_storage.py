import numpy as np
import pytest
from matplotlib.figure import Figure
from matplotlib.text import Text

from keras_bpn.plots import storage_against_accuracy
from tests.plots.helpers import make_history
from tests.plots.helpers import texts_of

# Averages 0.75 and 0.5.
FIRST = make_history([[1.0], [0.5, 1.0]], stored_bytes=1000)
SECOND = make_history([[1.0], [0.0, 1.0]], stored_bytes=3000)
FREE = make_history([[1.0], [0.0, 0.5]], stored_bytes=0)


def points_of(ax):
    return {
        container.get_label(): container[0].get_xydata()[0].tolist()
        for container in ax.containers
    }


def test_points_names_and_scale(ax):
    storage_against_accuracy(
        {"A": FIRST, "B": [FIRST, SECOND], "C": (4_718_592, 0.8)}, ax=ax
    )
    assert points_of(ax) == {
        "A": [1000, 0.75],
        "B": [2000, 0.625],
        "C": [4_718_592, 0.8],
    }
    assert ax.get_xscale() == "log"
    assert sorted(texts_of(ax)) == ["A", "B", "C"]
    for text in ax.texts:
        assert list(text.xy) == points_of(ax)[text.get_text()]
    # Only B has several seeds: 0.75 and 0.5.
    has_errors = [container.has_yerr for container in ax.containers]
    assert has_errors == [False, True, False]
    (segment,) = ax.containers[1][2][0].get_segments()
    std = 0.25 / np.sqrt(2)
    np.testing.assert_allclose(segment[:, 1], [0.625 - std, 0.625 + std])
    markers = {container[0].get_marker() for container in ax.containers}
    assert len(markers) == 3
    assert ax.get_xlabel() == "stored bytes per task"
    assert ax.get_ylabel() == "average accuracy"


def test_other_errors(ax):
    storage_against_accuracy({"B": [FIRST, SECOND]}, ax=ax, error="interval")
    (segment,) = ax.containers[0][2][0].get_segments()
    # 12.706 is the table's value at 97.5% and 1 degree of freedom.
    half = 12.706 * 0.125
    np.testing.assert_allclose(
        segment[:, 1], [0.625 - half, 0.625 + half], atol=1e-3
    )


def test_nothing_stored(ax):
    storage_against_accuracy({"A": FIRST, "free": FREE}, ax=ax)
    assert ax.get_xscale() == "symlog"
    assert points_of(ax)["free"] == [0, 0.25]
    ax.figure.draw_without_rendering()
    places = ax.transData.transform([[0, 0.25], [1000, 0.25]])
    assert places[0, 0] < places[1, 0] - 50
    labels = [label.get_text() for label in ax.get_xticklabels()]
    assert "0 B" in labels and "1 kB" in labels


def test_all_store_as_much(ax):
    storage_against_accuracy({"A": FIRST, "B": (1000, 0.5)}, ax=ax)
    assert ax.get_xlim() == (100, 10_000)


def test_all_store_nothing(ax):
    storage_against_accuracy({"A": FREE, "B": (0, 0.5)}, ax=ax)
    assert ax.get_xscale() == "symlog"


@pytest.mark.parametrize("spread", [0.0, 0.01, 0.05])
def test_names_do_not_lie_on_each_other(ax, spread):
    points = {f"method {i}": (1000, 0.5 + spread * i) for i in range(6)}
    storage_against_accuracy({**points, "low": (10, 0.1)}, ax=ax)
    ax.figure.draw_without_rendering()
    # Without the lines that lead to the points.
    boxes = [Text.get_window_extent(text) for text in ax.texts]
    assert len(boxes) == 7
    for i, box in enumerate(boxes):
        assert not box.count_overlaps(boxes[:i])


def test_more_names_than_places():
    ax = Figure(figsize=(2, 1.5)).add_subplot()
    points = {f"method {i}": (1000, 0.5) for i in range(15)}
    storage_against_accuracy(points, ax=ax)
    assert len(ax.texts) == 15


@pytest.mark.parametrize(
    "results, message",
    [
        ([FIRST], "`results` to be a dictionary.*Received"),
        ({}, "`results` to be a dictionary"),
        ({"A": 5}, r"`results\['A'\]` to be a `LearningHistory`"),
        ({"A": (1, 2, 3)}, r"`results\['A'\]` to be a `LearningHistory`"),
        ({"A": (-1, 0.5)}, "at least 0.*Received: -1.0 bytes, accuracy 0.5"),
        ({"A": (1, 1.5)}, "from 0 to 1.*accuracy 1.5"),
        ({"A": (float("nan"), 0.5)}, "Received: nan bytes"),
        ({"A": make_history([[1.0]])}, "Received: nan bytes, accuracy 1.0"),
        (
            {"A": make_history([[]], stored_bytes=1)},
            "Received: 1.0 bytes, accuracy nan",
        ),
        (
            {"A": [FIRST, make_history([[1.0]], stored_bytes=1)]},
            r"after \[2, 1\] tasks",
        ),
    ],
)
def test_bad_input(results, message):
    with pytest.raises(ValueError, match=message):
        storage_against_accuracy(results)
