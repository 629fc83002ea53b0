import numpy as np

from keras_bpn.scenarios.array_data import ArrayData
from keras_bpn.scenarios.checks import check_count
from keras_bpn.scenarios.checks import check_fraction
from keras_bpn.scenarios.checks import check_seed
from keras_bpn.scenarios.class_tasks import ClassTasks

_COLORS = ("black", "red", "light blue")
# Centres are drawn in a square of this half width, and are drawn again until
# they are this far from each other: the classes can be told apart.
_HALF_WIDTH = 4.0
_DISTANCE = 4.0


class GaussianClusters(ClassTasks):
    """Three clusters of points in the plane, in two tasks.

    The first task is to tell the black cluster from the red one, the second to
    tell the black from the light blue, as in figure 5 of the paper. Both tasks
    have the same black points. Labels are 0 for black, 1 for red and 2 for
    light blue; with `multi_head`, 0 for black and 1 for the other.

    The paper gives no more than that the clusters are normal distributions at
    random places. Here the centres are drawn from a square, at least 4 apart,
    and the points around them have the standard deviation `scale` in both
    directions.

    Args:
        examples_per_class: Number of points of each cluster, in all splits
            together.
        scale: Positive number, the standard deviation of a cluster.
        multi_head, validation_split, test_split, batch_size, seed: See
            `keras_bpn.scenarios.SplitClasses`.

    Attributes:
        centers: Array of shape `(3, 2)`: black, red, light blue.

    Example:

    >>> scenario = keras_bpn.scenarios.GaussianClusters()
    >>> [task.name for task in scenario]
    ['black/red', 'black/light blue']

    Reference:

    - [Wen et al., 2021](https://arxiv.org/abs/2009.13954), figure 5
    """

    def __init__(
        self,
        examples_per_class: int = 500,
        scale: float = 0.7,
        multi_head: bool = False,
        validation_split: float = 0.1,
        test_split: float = 0.2,
        batch_size: int = 32,
        seed: int = 0,
    ):
        count = check_count("examples_per_class", examples_per_class)
        if isinstance(scale, bool) or not 0 < scale < float("inf"):
            raise ValueError(
                "Expected `scale` to be a positive number. "
                f"Received: scale={scale!r}"
            )
        validation_split = check_fraction(
            "validation_split", validation_split, allow_zero=True
        )
        test_split = check_fraction("test_split", test_split)
        generator = np.random.default_rng(check_seed(seed))
        self.centers = _draw_centers(generator)
        self.examples_per_class = count
        self.scale = float(scale)
        labels = np.repeat(np.arange(3), count)
        noise = generator.normal(scale=self.scale, size=(3 * count, 2))
        super().__init__(
            ArrayData(
                (self.centers[labels] + noise, labels),
                name="gaussian clusters",
                class_names=_COLORS,
            ),
            classes=[(0, 1), (0, 2)],
            names=["black/red", "black/light blue"],
            multi_head=multi_head,
            validation_split=validation_split,
            test_split=test_split,
            batch_size=batch_size,
            seed=seed,
        )


def _draw_centers(generator):
    while True:
        centers = generator.uniform(-_HALF_WIDTH, _HALF_WIDTH, size=(3, 2))
        ways = centers - np.roll(centers, 1, axis=0)
        if np.linalg.norm(ways, axis=1).min() >= _DISTANCE:
            return centers
