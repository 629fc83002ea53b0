"""What all plots have in common."""

import doctest
import io
import warnings

import keras
import numpy as np
import pytest
from matplotlib import pyplot
from matplotlib.figure import Figure

import keras_bpn
from keras_bpn import plots
from tests.plots.helpers import ThreeClusters
from tests.plots.helpers import make_history

LIMITS = ((-1, 5), (-1, 5))
HISTORY = make_history(
    [[1.0], [0.75, 1.0], [0.5, 0.5, 1.0]], epochs=2, stored_bytes=840
)
OTHER = make_history(
    [[1.0], [0.5, 1.0], [0.75, 0.25, 1.0]], epochs=2, stored_bytes=0
)
PLOTS = {
    "accuracy_over_epochs": lambda **kwargs: plots.accuracy_over_epochs(
        [HISTORY, OTHER], **kwargs
    ),
    "average_accuracy": lambda **kwargs: plots.average_accuracy(
        {"A": [HISTORY, OTHER], "B": OTHER}, **kwargs
    ),
    "accuracy_by_group": lambda **kwargs: plots.accuracy_by_group(
        {"A": [HISTORY, OTHER], "B": [OTHER, OTHER]},
        group_size=2,
        reference="B",
        **kwargs,
    ),
    "accuracy_matrix": lambda **kwargs: plots.accuracy_matrix(
        [HISTORY, OTHER], **kwargs
    ),
    "decision_regions": lambda **kwargs: plots.decision_regions(
        ThreeClusters(), "a", limits=LIMITS, resolution=20, **kwargs
    ),
    "decision_regions as probability": lambda **kwargs: plots.decision_regions(
        ThreeClusters(),
        "a",
        limits=LIMITS,
        resolution=20,
        probability_of=1,
        **kwargs,
    ),
    "storage_against_accuracy": lambda **kwargs: plots.storage_against_accuracy(
        {"A": [HISTORY, OTHER], "B": OTHER, "C": (1e6, 0.5)}, **kwargs
    ),
    "task_accuracy": lambda **kwargs: plots.task_accuracy(
        {"A": [HISTORY, OTHER], "B": OTHER}, **kwargs
    ),
}
every_plot = pytest.mark.parametrize("plot", PLOTS.values(), ids=PLOTS)


def test_every_plot_is_here():
    assert {name.split(" ")[0] for name in PLOTS} == set(plots.__all__)


@pytest.mark.parametrize("name", plots.__all__)
def test_examples(name):
    names = {"keras": keras, "keras_bpn": keras_bpn, "np": np}
    (test,) = doctest.DocTestFinder(recurse=False).find(
        getattr(plots, name), name, globs=names
    )
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
    pyplot.close()


@every_plot
def test_draws_on_the_axes_given(plot, ax):
    (line,) = ax.plot([0, 1], [0, 1])
    assert plot(ax=ax) is ax
    assert ax.has_data() and line in ax.get_lines()
    assert ax.get_xlabel() and ax.get_ylabel()
    assert ax.get_title() == ""
    # Nothing was drawn by way of pyplot.
    assert pyplot.get_fignums() == []


@every_plot
def test_makes_a_figure_if_there_are_no_axes(plot):
    ax = plot()
    (number,) = pyplot.get_fignums()
    try:
        assert pyplot.figure(number) is ax.figure
        assert ax.figure.axes[0] is ax
    finally:
        pyplot.close(number)


@every_plot
def test_draws_beside_other_axes(plot):
    figure = Figure(layout="constrained")
    left, right = figure.subplots(1, 2)
    plot(ax=right)
    assert not left.has_data() and right.has_data()


@every_plot
@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_is_written_to_files_without_warnings(plot, ax, ending):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        plot(ax=ax)
        file = io.BytesIO()
        ax.figure.savefig(file, format=ending)
    assert len(file.getvalue()) > 1000


@every_plot
@pytest.mark.parametrize("wrong", [1, "ax", Figure()])
def test_other_things_than_axes(plot, wrong):
    with pytest.raises(ValueError, match="`ax`.*Received: ax="):
        plot(ax=wrong)


@every_plot
def test_legends_do_not_hide_data(plot, ax):
    plot(ax=ax)
    ax.figure.draw_without_rendering()
    legend = ax.get_legend()
    if legend is not None:
        inside = ax.get_window_extent()
        assert legend.get_window_extent().x0 >= inside.x1 - 1
        # And it is on the figure.
        assert legend.get_window_extent().x1 <= ax.figure.bbox.x1 + 1


@pytest.mark.parametrize(
    "name",
    [
        "accuracy_over_epochs",
        "average_accuracy",
        "accuracy_by_group",
        "decision_regions",
        "task_accuracy",
    ],
)
def test_legends_can_be_left_out(name, ax):
    assert PLOTS[name](ax=ax).get_legend() is not None
    other = Figure().add_subplot()
    assert PLOTS[name](ax=other, legend=False).get_legend() is None


@pytest.mark.parametrize(
    "name",
    [
        "accuracy_over_epochs",
        "average_accuracy",
        "accuracy_by_group",
        "storage_against_accuracy",
        "task_accuracy",
    ],
)
def test_unknown_errors(name):
    with pytest.raises(ValueError, match="Expected `error`.*error='range'"):
        PLOTS[name](error="range")
