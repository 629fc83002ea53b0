import numpy as np

from keras_bpn.plots.inputs import means_and_errors
from keras_bpn.plots.style import count_from_one
from keras_bpn.plots.style import draw_line
from keras_bpn.plots.style import finish
from keras_bpn.plots.style import line_style


def draw_methods(ax, samples_by_method, error, legend):
    """Draws a line per method over the number of tasks learned.

    Args:
        ax: `matplotlib.axes.Axes`.
        samples_by_method: Dictionary from the name of a method to an array of
            shape `(runs, tasks)`, with NaN for what was not measured.
        error: As in `keras_bpn.plots.inputs.means_and_errors`.
        legend: Whether to put a legend to the right of the axes.

    Returns:
        The axes.
    """
    for i, (method, samples) in enumerate(samples_by_method.items()):
        means, errors = means_and_errors(samples, error)
        # About ten markers per line, not all at the same places.
        step = max(1, np.count_nonzero(~np.isnan(means)) // 10)
        style = {**line_style(i), "markevery": (i % step, step)}
        draw_line(ax, means, errors, label=method, **style)
    ax.set_xlabel("tasks learned")
    ax.xaxis.set_major_locator(count_from_one(len(means))[0])
    return finish(ax, legend)
