import functools
from collections.abc import Callable

import tensorflow as tf

from keras_bpn.scenarios.examples import Examples

SPLITS = ("train", "validation", "test")


class Task:
    """A task of a scenario: its name, its classes and its data.

    Nothing is read before the data is asked for.

    Args:
        name: String.
        classes: Labels that the targets have.
        load: Function from the name of a split to its `Examples`, or to `None`
            where there is no validation data.
        batch_size: Positive integer.
        seed: Integer that sets the order of the training data.
        metadata: Dictionary of what is known about the task.

    Attributes:
        name: See above.
        classes: Tuple of integers, the labels that the targets have.

    Example:

    >>> task = keras_bpn.scenarios.Digits()[0]
    >>> task.name, task.classes
    ('0/1', (0, 1))
    >>> x, y = next(iter(task.train))
    >>> x.shape
    TensorShape([32, 8, 8, 1])
    """

    def __init__(
        self,
        name: str,
        classes: tuple[int, ...],
        load: Callable[[str], Examples | None],
        batch_size: int = 32,
        seed: int = 0,
        metadata: dict | None = None,
    ):
        self.name = name
        self.classes = tuple(int(c) for c in classes)
        self._load = functools.cache(load)
        self._batch_size = batch_size
        self._seed = seed
        self._metadata = metadata or {}

    def examples(self, split: str) -> Examples | None:
        """Returns the examples of a split.

        Args:
            split: `"train"`, `"validation"` or `"test"`.

        Returns:
            `keras_bpn.scenarios.Examples`, or `None` where there is no
            validation data.
        """
        if split not in SPLITS:
            raise ValueError(
                f"Expected `split` to be one of {', '.join(SPLITS)}. "
                f"Received: split={split!r}"
            )
        return self._load(split)

    @functools.cached_property
    def train(self) -> tf.data.Dataset:
        """Batches of training data, in a new order for each pass.

        The first pass has the order of epoch 0, the next that of epoch 1, and
        so on.
        """
        # Kept here: a dataset does not keep the variables that it reads.
        self._passes = tf.Variable(-1, dtype=tf.int64, trainable=False)
        return self.examples("train").batches(
            self._batch_size,
            seed=self._seed,
            epoch=lambda: self._passes.assign_add(1),
        )

    @property
    def validation(self) -> tf.data.Dataset | None:
        """Batches of validation data in a fixed order, or `None`."""
        examples = self.examples("validation")
        return None if examples is None else examples.batches(self._batch_size)

    @property
    def test(self) -> tf.data.Dataset:
        """Batches of test data in a fixed order."""
        return self.examples("test").batches(self._batch_size)

    @property
    def metadata(self) -> dict:
        """What is known about the task, as a dictionary for JSON.

        `"classes"` are the classes in the data set, which those of the task
        may be numbered anew from, and `"class_names"` their names where they
        are known; `"examples"` counts the examples of each split, for which
        the labels are read.
        """
        counts = {split: self.examples(split) for split in SPLITS}
        counts = {k: 0 if v is None else len(v) for k, v in counts.items()}
        return {**self._metadata, "examples": counts}

    def __repr__(self) -> str:
        return f"<Task {self.name!r}, classes={self.classes}>"
