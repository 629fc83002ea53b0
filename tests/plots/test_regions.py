import keras
import numpy as np
import pytest

import keras_bpn
from keras_bpn.plots import decision_regions
from tests.helpers import compile_model
from tests.plots.helpers import ThreeClusters
from tests.plots.helpers import legend_of
from tests.plots.helpers import lines_of

LIMITS = ((-2.0, 6.0), (-2.0, 6.0))
X = np.array([[0.0, 0.0], [4.0, 0.0], [3.0, 1.0], [0.0, 4.0]])
Y = np.array([0, 1, 1, 2])


def boundaries_of(ax):
    """Returns the points of all boundaries, which are drawn in black."""
    return np.concatenate(
        [
            path.vertices
            for collection in ax.collections
            if np.array_equal(collection.get_edgecolor(), [[0, 0, 0, 1]])
            for path in collection.get_paths()
        ]
    )


def test_regions_and_points(ax):
    model = ThreeClusters()
    decision_regions(model, "a", X, Y, ax=ax, limits=LIMITS)
    assert model.tasks == ["a"]
    # The boundaries lie half-way between two of the centres (0, 0), (4, 0) and
    # (0, 4): at x = 2, at y = 2, and where x = y.
    points = boundaries_of(ax)
    distances = np.abs(
        [points[:, 0] - 2, points[:, 1] - 2, points[:, 0] - points[:, 1]]
    )
    assert distances.min(axis=0).max() < 0.05
    assert (distances.argmin(axis=0) == 0).sum() > 20
    assert (distances.argmin(axis=0) == 1).sum() > 20
    assert (distances.argmin(axis=0) == 2).sum() > 20
    lines = lines_of(ax)
    assert list(lines) == ["class 0", "class 1", "class 2"] == legend_of(ax)
    np.testing.assert_array_equal(lines["class 1"], X[1:3])
    assert len({line.get_marker() for line in ax.get_lines()}) == 3
    assert ax.get_xlim() == LIMITS[0] and ax.get_ylim() == LIMITS[1]


def test_limits_have_room_for_the_points(ax):
    decision_regions(ThreeClusters(), "a", X, Y, ax=ax, resolution=10)
    assert ax.get_xlim() == pytest.approx((-0.4, 4.4))
    assert ax.get_ylim() == pytest.approx((-0.4, 4.4))


def test_points_on_a_line_have_room(ax):
    decision_regions(ThreeClusters(), "a", X[:1], ax=ax, resolution=10)
    assert ax.get_xlim() == pytest.approx((-0.1, 0.1))


def test_regions_without_points(ax):
    decision_regions(ThreeClusters(), "a", ax=ax, limits=LIMITS)
    assert lines_of(ax) == {}
    assert legend_of(ax) == ["class 0", "class 1", "class 2"]


def test_points_without_classes(ax):
    decision_regions(ThreeClusters(), "a", X, ax=ax, limits=LIMITS)
    (line,) = ax.get_lines()
    np.testing.assert_array_equal(line.get_xydata(), X)


def test_one_class_everywhere(ax):
    limits = ((-1, 1), (-1, 1))
    decision_regions(ThreeClusters(), "a", ax=ax, limits=limits, resolution=20)
    assert legend_of(ax) == ["class 0"]
    assert not ax.collections


@pytest.mark.parametrize("probabilities", [False, True])
def test_probability(ax, probabilities):
    decision_regions(
        ThreeClusters(probabilities),
        "a",
        ax=ax,
        limits=((0, 4), (-1, 1)),
        resolution=5,
        probability_of=1,
    )
    (image,) = ax.images
    # At the middle of the lowest line, (2, -1), classes 0 and 1 are as far
    # away, with a squared distance of 5, and class 2 is at 29. At (0, -1), the
    # squared distances are 1, 17 and 25.
    values = image.get_array()
    expected = np.exp(-5) / (2 * np.exp(-5) + np.exp(-29))
    assert values[0, 2] == pytest.approx(expected)
    expected = np.exp(-17) / (np.exp(-1) + np.exp(-17) + np.exp(-25))
    assert values[0, 0] == pytest.approx(expected, rel=1e-5)
    assert image.origin == "lower"
    _, bar = ax.figure.axes
    assert bar.get_ylabel() == "probability of class 1"
    assert np.abs(boundaries_of(ax)[:, 0] - 2).max() <= 1


def test_a_trained_model(ax):
    keras.utils.set_random_seed(0)
    inputs = keras.Input((2,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=5)(inputs)
    outputs = keras_bpn.layers.BPNDense(3, hidden_dim=5)(x)
    model = compile_model(
        keras_bpn.BPNModel(inputs, outputs), keras.optimizers.Adam(0.05)
    )
    x = np.random.normal(size=(60, 2)).astype("float32")
    y = (x[:, 0] > 0).astype("int32")
    model.fit(x, y, task="left or right", epochs=20, verbose=0)
    model.fit(x, 2 * y, task="other", verbose=0)
    mode = model.task
    decision_regions(model, "left or right", x, y, ax=ax, resolution=30)
    assert {"class 0", "class 1"} <= set(legend_of(ax))
    # The model is left in the mode that it was in.
    assert model.task == mode
    with pytest.raises(ValueError, match="Did you mean 'other'"):
        decision_regions(model, "othr", x, y)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({}, "points `x`, or `limits`.*Received: limits=None"),
        ({"limits": (0, 1)}, r"Received: limits=\(0, 1\)"),
        ({"limits": ((1, 0), (0, 1))}, "a lower and a larger number"),
        ({"limits": "wide"}, "Received: limits='wide'"),
        ({"x": np.zeros((0, 2))}, "points `x`, or `limits`"),
        ({"x": np.zeros((3, 3))}, r"\(points, 2\).*x=of shape \(3, 3\)"),
        ({"x": [[0, np.nan]]}, "finite points"),
        ({"y": [1]}, r"\(points, 2\). Received: x=None"),
        ({"x": X, "y": Y[:2]}, r"4 classes.*Received: y of shape \(2,\)"),
        ({"x": X, "y": Y - 1}, "integers from 0 on"),
        ({"x": X, "y": Y / 2}, "Received: y of shape .* float64"),
        ({"x": X, "resolution": 1}, "at least 2. Received: resolution=1"),
        ({"x": X, "probability_of": 3}, "from 0 to 2. Received: .*=3"),
        ({"x": X, "probability_of": True}, "Received: probability_of=True"),
    ],
)
def test_bad_input(kwargs, message):
    with pytest.raises(ValueError, match=message):
        decision_regions(ThreeClusters(), "a", **kwargs)


def test_a_single_output():
    class OneOutput:
        def predict(self, x, **kwargs):
            return np.zeros((len(x), 1))

    with pytest.raises(ValueError, match=r"two classes.*shape \(40000, 1\)"):
        decision_regions(OneOutput(), "a", limits=LIMITS)
