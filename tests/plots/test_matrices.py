import numpy as np
import pytest
from matplotlib.figure import Figure

from keras_bpn.evaluation import AccuracyMatrix
from keras_bpn.plots import accuracy_matrix
from tests.plots.helpers import make_history
from tests.plots.helpers import texts_of

HISTORY = make_history([[1.0], [0.25, 0.75]], tasks=["0/1", "2/3"])


def labels(axis):
    return [label.get_text() for label in axis.get_ticklabels()]


@pytest.mark.parametrize("given", [HISTORY, HISTORY.matrix])
def test_cells_numbers_and_names(ax, given):
    accuracy_matrix(given, ax=ax)
    (image,) = ax.images
    values = image.get_array()
    np.testing.assert_array_equal(values.mask, [[False, True], [False, False]])
    np.testing.assert_array_equal(
        values.filled(-1), [[1.0, -1.0], [0.25, 0.75]]
    )
    assert image.get_clim() == (0, 1)
    assert texts_of(ax) == ["1.00", "0.25", "0.75"]
    assert [text.get_position() for text in ax.texts] == [
        (0, 0),
        (0, 1),
        (1, 1),
    ]
    # Readable on dark and on light cells.
    assert [t.get_color() for t in ax.texts] == ["black", "white", "black"]
    assert labels(ax.xaxis) == labels(ax.yaxis) == ["0/1", "2/3"]
    assert ax.get_xlabel() == "accuracy on task"
    assert ax.get_ylabel() == "after task"
    _, bar = ax.figure.axes
    assert bar.get_ylabel() == "accuracy"


def test_mean_over_seeds(ax):
    other = make_history([[0.5], [0.75, np.nan]])
    accuracy_matrix([HISTORY, other.matrix], ax=ax)
    # NaN where one seed was not measured.
    assert texts_of(ax) == ["0.75", "0.50"]


def test_many_tasks_are_numbered(ax):
    size = 40
    matrix = AccuracyMatrix(
        [f"task {i}" for i in range(size)], np.tril(np.ones((size, size)))
    )
    accuracy_matrix(matrix, ax=ax)
    assert texts_of(ax) == []
    # Tasks count from 1, cells from 0.
    for axis in (ax.xaxis, ax.yaxis):
        names = [int(name) for name in labels(axis)]
        assert list(axis.get_ticklocs()) == [name - 1 for name in names]
        assert set(names) >= {10, 20, 30, 40}
        assert min(names) >= 1 and max(names) <= 40


def test_numbers_on_demand(ax):
    accuracy_matrix(HISTORY, ax=ax, annotate=False)
    assert texts_of(ax) == []
    other = Figure().add_subplot()
    matrix = AccuracyMatrix([str(i) for i in range(13)], np.ones((13, 13)))
    accuracy_matrix(matrix, ax=other, annotate=True)
    assert len(other.texts) == 169


def test_without_colorbar(ax):
    accuracy_matrix(HISTORY, ax=ax, colorbar=False)
    assert ax.figure.axes == [ax]


def test_long_names_are_turned(ax):
    names = [
        "Flowers",
        "Scenes",
        "Birds",
        "Cars",
        "Aircraft",
        "Actions",
        "SVHN",
    ]
    accuracy_matrix(AccuracyMatrix(names), ax=ax)
    assert {label.get_rotation() for label in ax.get_xticklabels()} == {45}


@pytest.mark.parametrize(
    "given, message",
    [
        (np.ones((2, 2)), "`matrix_or_history` to be.*Received"),
        ([], "`matrix_or_history` to be"),
        (AccuracyMatrix([]), "at least one"),
        ([HISTORY, make_history([[1.0]])], r"Received: runs of \[2, 1\] tasks"),
    ],
)
def test_bad_input(given, message):
    with pytest.raises(ValueError, match=message):
        accuracy_matrix(given)
