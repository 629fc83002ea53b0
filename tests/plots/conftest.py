import matplotlib
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure


@pytest.fixture(autouse=True)
def fresh_keras():
    """Takes the place of the fixture for tests of networks: few are used."""


@pytest.fixture(autouse=True)
def nothing_left_open():
    """No test draws on a screen, and none leaves a figure open."""
    matplotlib.use("Agg")
    pyplot.close("all")
    settings = dict(matplotlib.rcParams)
    yield
    assert pyplot.get_fignums() == []
    assert dict(matplotlib.rcParams) == settings


@pytest.fixture
def ax():
    """Axes of a figure that pyplot knows nothing of."""
    return Figure(layout="constrained").add_subplot()
