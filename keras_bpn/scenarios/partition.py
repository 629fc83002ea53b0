import functools

import numpy as np

from keras_bpn.scenarios.data import Data
from keras_bpn.scenarios.examples import Examples
from keras_bpn.scenarios.transform import Transform


class Partition:
    """A data set's examples by class, each in one split alone.

    What a data set has no split for is drawn from its training data, class by
    class. The draw for a class depends on the seed and on the class alone.

    Args:
        data: `Data`.
        classes: Labels that are used.
        validation_split: Fraction of the training data to hold out where the
            data set has no validation data of its own.
        test_split: Fraction of the training data to hold out where the data
            set has no test data of its own.
        seed: Integer.
    """

    def __init__(
        self,
        data: Data,
        classes: tuple[int, ...],
        validation_split: float,
        test_split: float,
        seed: int,
    ):
        self.data = data
        self.classes = tuple(classes)
        self.validation_split = validation_split
        self.test_split = test_split
        self.seed = seed
        self._chosen = {}
        if data.labels_known:
            self._check(data.labels())

    def examples(
        self, split: str, classes: tuple[int, ...], transform: Transform
    ) -> Examples | None:
        """Returns the examples of some classes; `None` if there are none."""
        source, indices = self._ordered(split, tuple(classes))
        return Examples(source, indices, transform) if len(indices) else None

    def _ordered(self, split, classes):
        """Returns a source and indices into it, which tasks share."""
        key = (split, classes)
        if key not in self._chosen:
            sources, indices = self._indices
            source = sources[split if split in sources else "train"]
            chosen = np.concatenate([indices[c][split] for c in classes])
            self._chosen[key] = source, source.fixed_order(chosen)
        return self._chosen[key]

    @property
    def example_shape(self) -> tuple[int, ...]:
        """The shape of one stored example."""
        return self._indices[0]["train"].shape

    @functools.cached_property
    def _indices(self):
        """The sources, and by class and split the indices into them."""
        sources = self.data.load(self.classes)
        self._check({split: source.y for split, source in sources.items()})
        members = {
            split: _by_class(source.y, self.classes)
            for split, source in sources.items()
        }
        indices = {}
        for c in self.classes:
            own = {split: by_class[c] for split, by_class in members.items()}
            sizes = self._sizes({k: len(v) for k, v in own.items()})
            if sizes["train"] < len(own["train"]):
                drawn = self._draw(c, own["train"], sources["train"])
                for split in ("test", "validation", "train"):
                    if split == "train" or split not in own:
                        own[split] = drawn[: sizes[split]]
                        drawn = drawn[sizes[split] :]
            own.setdefault("validation", np.empty(0, "int64"))
            indices[c] = own
        return sources, indices

    def _draw(self, label, train, source):
        """Returns the training examples of a class in random order."""
        generator = np.random.default_rng([self.seed, label])
        return generator.permutation(train[np.argsort(source.ranks[train])])

    def _sizes(self, counts):
        """Returns how many examples of a class each split gets.

        Of what is held out at least one, but never the last.

        Args:
            counts: Number of examples in each split of the data set.
        """
        sizes = {"validation": 0, "test": 0, **counts}
        wanted = {"test": self.test_split, "validation": self.validation_split}
        for split, fraction in wanted.items():
            if split not in counts and fraction:
                size = max(1, round(fraction * counts["train"]))
                sizes[split] = max(0, min(size, sizes["train"] - 1))
                sizes["train"] -= sizes[split]
        return sizes

    def _check(self, labels):
        """Raises an error if a class is without training or test examples."""
        counts = {k: _count(y, self.classes) for k, y in labels.items()}
        sizes = {
            c: self._sizes({k: count[c] for k, count in counts.items()})
            for c in self.classes
        }
        for split in ("train", "test"):
            empty = [str(c) for c in self.classes if not sizes[c][split]]
            if empty:
                raise ValueError(
                    f"Expected {split} examples of every class of "
                    f"'{self.data.name}'; `classes` chooses the classes to "
                    f"use. Received: no {split} examples of class "
                    f"{', '.join(empty)}"
                )


def _by_class(y, classes):
    """Returns the indices of each class."""
    order = np.argsort(y, kind="stable")
    starts = np.searchsorted(y[order], classes, side="left")
    stops = np.searchsorted(y[order], classes, side="right")
    return {c: order[i:j] for c, i, j in zip(classes, starts, stops)}


def _count(y, classes):
    found = dict(zip(*np.unique(y, return_counts=True)))
    return {c: int(found.get(c, 0)) for c in classes}
