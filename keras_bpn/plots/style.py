"""Colours, lines and markers, and the axes that they are drawn on."""

import matplotlib
import numpy as np
from matplotlib import axes as mpl_axes
from matplotlib import colors as mpl_colors
from matplotlib.ticker import MaxNLocator

# Okabe & Ito, Color Universal Design, 2008, https://jfly.uni-koeln.de/color.
# Without their yellow, which is too light for lines on white, and ordered so
# that neighbours differ in lightness.
COLORS = (
    "#0072B2",
    "#E69F00",
    "#009E73",
    "#CC79A7",
    "#000000",
    "#56B4E9",
    "#D55E00",
)
# As many of each as have no common divisor: 280 lines before one comes again.
LINES = ("-", "--", "-.", ":", (0, (5, 1, 1, 1, 1, 1)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
HATCHES = ("", "///", "...", "\\\\\\", "xxx", "++", "ooo", "---")
# Yellow for high, blue for low, and ever lighter in grey.
COLORMAP = "cividis"
START_OF_TASK = {"color": "0.65", "linestyle": "--"}


def line_style(i):
    """Returns colour, line and marker of the `i`-th line of a plot."""
    return {
        "color": COLORS[i % len(COLORS)],
        "linestyle": LINES[i % len(LINES)],
        "marker": MARKERS[i % len(MARKERS)],
        "markersize": 4.5,
        "linewidth": 1.5,
    }


def fill_style(i):
    """Returns colours and hatches of the `i`-th kind of bars."""
    color = COLORS[i % len(COLORS)]
    return {
        "facecolor": tint(color, 0.55),
        "edgecolor": shade(color, 0.75),
        "hatch": HATCHES[i % len(HATCHES)],
        "linewidth": 0.8,
    }


def tint(color, share):
    """Returns a colour mixed with white, of which there is `1 - share`."""
    return tuple(1 - share * (1 - np.array(mpl_colors.to_rgb(color))))


def shade(color, share):
    """Returns a colour mixed with black, of which there is `1 - share`."""
    return tuple(share * np.array(mpl_colors.to_rgb(color)))


def sequence(size):
    """Returns colours for many things that have an order."""
    # The lightest end is left out, as it is hard to see on white.
    return matplotlib.colormaps[COLORMAP](np.linspace(0, 0.9, size))


def axes_or_new(ax):
    """Returns the axes given, or those of a new figure."""
    if ax is None:
        # Only needed here: figures can be drawn without it.
        from matplotlib import pyplot

        _, ax = pyplot.subplots(layout="constrained")
    elif not isinstance(ax, mpl_axes.Axes):
        raise ValueError(
            "Expected `ax` to be of class `matplotlib.axes.Axes`, or None for "
            f"a new figure. Received: ax={ax!r}"
        )
    return ax


def draw_line(ax, means, errors, **style):
    """Draws a line over 1, 2, ... through what was measured, with its band."""
    measured = ~np.isnan(means)
    x = np.arange(1, len(means) + 1)[measured]
    means, errors = means[measured], errors[measured]
    (line,) = ax.plot(x, means, **style)
    if not np.isnan(errors).all():
        ax.fill_between(
            x,
            means - errors,
            means + errors,
            color=line.get_color(),
            alpha=0.2,
            linewidth=0,
        )


def count_from_one(size):
    """Returns a locator of whole numbers, and those that suit 1 to `size`."""
    locator = MaxNLocator(integer=True, steps=[1, 2, 5, 10], min_n_ticks=1)
    ticks = locator.tick_values(1, size).astype(int)
    return locator, [tick for tick in ticks if 1 <= tick <= size]


def finish(ax, legend=False, **kwargs):
    """Takes away what does not inform, and puts the legend beside the data."""
    ax.spines[["top", "right"]].set_visible(False)
    if legend:
        ax.legend(
            loc="upper left",
            bbox_to_anchor=(1.0, 1.0),
            frameon=False,
            handlelength=3.2,
            **kwargs,
        )
    return ax
