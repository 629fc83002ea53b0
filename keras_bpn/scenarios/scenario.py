import abc
from collections.abc import Sequence

import numpy as np

from keras_bpn.scenarios.checks import check_count
from keras_bpn.scenarios.checks import check_seed
from keras_bpn.scenarios.task import Task


class Scenario(Sequence, abc.ABC):
    """A sequence of tasks to learn one after the other.

    `len(scenario)`, `scenario[i]`, slices and loops work as for a list. Tasks
    are made when they are first asked for, and making one reads no images.

    A scenario of your own subclasses this and has `__len__`, `make_task` and
    `num_classes`.

    Args:
        name: String.
        seed: Integer of at least 0, from which all that is random is drawn.
        batch_size: Positive integer, the size of the batches of the tasks.
        multi_head: Boolean, whether labels count from 0 in each task, for
            networks with outputs of their own for every task. Otherwise labels
            are those of the data set, for one set of outputs (single head).

    Attributes:
        name, seed, batch_size, multi_head: See above.
        num_classes: Number of outputs that a network needs: for all labels, or
            with `multi_head` for those of the widest task.

    Example:

    >>> scenario = keras_bpn.scenarios.Digits()
    >>> len(scenario), scenario.num_classes
    (5, 10)
    >>> for task in scenario[:2]:
    ...     print(task.name, task.classes)
    0/1 (0, 1)
    2/3 (2, 3)
    """

    def __init__(
        self,
        name: str,
        seed: int = 0,
        batch_size: int = 32,
        multi_head: bool = False,
    ):
        self.name = name
        self.seed = check_seed(seed)
        self.batch_size = check_count("batch_size", batch_size)
        self.multi_head = bool(multi_head)
        self._tasks = {}

    @abc.abstractmethod
    def make_task(self, index: int) -> Task:
        """Returns a new task without reading its data.

        Args:
            index: Integer, at least 0 and below `len(self)`.
        """

    @property
    @abc.abstractmethod
    def num_classes(self) -> int:
        """Number of outputs that a network needs."""

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(
                f"Expected the index of one of {len(self)} tasks. "
                f"Received: {index}"
            )
        if place not in self._tasks:
            self._tasks[place] = self.make_task(place)
        return self._tasks[place]

    def task_seed(self, index: int) -> int:
        """Returns the seed of the order of a task's training data."""
        sequence = np.random.SeedSequence([self.seed, index])
        return int(sequence.generate_state(1)[0])

    def get_config(self) -> dict:
        """Returns what makes the scenario, as a dictionary for JSON.

        Scenarios with equal configurations have equal tasks. No data and no
        path is in it.
        """
        return {
            "class_name": type(self).__name__,
            "name": self.name,
            "seed": self.seed,
            "batch_size": self.batch_size,
            "multi_head": self.multi_head,
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}, {len(self)} tasks>"
