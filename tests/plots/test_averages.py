import numpy as np
import pytest

from keras_bpn.plots import average_accuracy
from keras_bpn.plots.style import line_style
from tests.plots.helpers import band_of
from tests.plots.helpers import legend_of
from tests.plots.helpers import lines_of
from tests.plots.helpers import make_history

# Averages 1, (0.5 + 1) / 2 and (0.25 + 0.25 + 1) / 3.
FIRST = make_history([[1.0], [0.5, 1.0], [0.25, 0.25, 1.0]])
# Averages 1, 1 and (0.75 + 0.5 + 1) / 3.
SECOND = make_history([[1.0], [1.0, 1.0], [0.75, 0.5, 1.0]])
GAP = make_history([[1.0], [], [0.5, 0.5, 0.5]])


def test_lines_and_bands(ax):
    average_accuracy({"EWC": [FIRST, SECOND], "SI": FIRST.matrix}, ax=ax)
    lines = lines_of(ax)
    assert list(lines) == ["EWC", "SI"] == legend_of(ax)
    np.testing.assert_allclose(lines["EWC"], [[1, 1], [2, 0.875], [3, 0.625]])
    np.testing.assert_allclose(lines["SI"], [[1, 1], [2, 0.75], [3, 0.5]])
    # Only EWC has several seeds: 0.75 and 1, with std 0.25 / sqrt(2).
    (band,) = ax.collections
    std = 0.25 / np.sqrt(2)
    assert band_of(band)[2] == pytest.approx((0.875 - std, 0.875 + std))
    assert band_of(band)[1] == (1, 1)
    assert ax.get_xlabel() == "tasks learned"
    assert ax.get_ylabel() == "average accuracy on tasks so far"


def test_confidence_interval(ax):
    average_accuracy({"EWC": [FIRST, SECOND]}, ax=ax, error="interval")
    # 12.706 is the table's value at 97.5% and 1 degree of freedom.
    half = 12.706 * 0.125
    band = band_of(ax.collections[0])
    assert band[2] == pytest.approx((0.875 - half, 0.875 + half), abs=1e-3)


def test_what_was_not_measured_is_passed_over(ax):
    average_accuracy({"EWC": GAP, "SI": [FIRST, GAP]}, ax=ax)
    np.testing.assert_allclose(lines_of(ax)["EWC"], [[1, 1], [3, 0.5]])
    np.testing.assert_allclose(lines_of(ax)["SI"], [[1, 1], [3, 0.5]])


def test_thirteen_methods_can_be_told_apart_without_colours(ax):
    average_accuracy({str(i): FIRST for i in range(13)}, ax=ax)
    assert len(ax.get_lines()) == 13
    # Matplotlib gives only the name of a line's style.
    styles = {
        (str(line_style(i)["linestyle"]), line.get_marker())
        for i, line in enumerate(ax.get_lines())
    }
    assert len(styles) == 13


def test_ticks_are_whole_numbers(ax):
    average_accuracy({"EWC": FIRST}, ax=ax)
    ax.figure.draw_without_rendering()
    assert np.all(ax.get_xticks() % 1 == 0)


@pytest.mark.parametrize(
    "histories, message",
    [
        (FIRST, "dictionary from the names of methods.*Received"),
        ({}, "dictionary from the names of methods"),
        ({"EWC": 1}, r"`histories_by_method\['EWC'\]` to be.*Received"),
        ({"EWC": []}, r"`histories_by_method\['EWC'\]` to be"),
        ({"EWC": [FIRST, None]}, r"`histories_by_method\['EWC'\]` to be"),
        (
            {"EWC": [FIRST, make_history([[1.0]])]},
            r"same number of tasks.*Received: runs of \[3, 1\] tasks",
        ),
        ({"EWC": make_history([])}, "at least one"),
    ],
)
def test_bad_input(histories, message):
    with pytest.raises(ValueError, match=message):
        average_accuracy(histories)
