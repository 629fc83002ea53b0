import functools
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

from keras_bpn.scenarios.data import Data
from keras_bpn.scenarios.partition import Partition
from keras_bpn.scenarios.scenario import Scenario
from keras_bpn.scenarios.task import Task
from keras_bpn.scenarios.transform import Transform

# Task names list up to this many classes.
_LISTED = 10


class ClassTasks(Scenario):
    """Tasks that are groups of a data set's classes.

    Args:
        data: `Data`.
        classes: The labels of each task.
        names: The names of the tasks. Defaults to their labels.
        multi_head, batch_size, seed: See `keras_bpn.scenarios.Scenario`.
        validation_split, test_split: See `Partition`.
        preprocess: See `Transform`.

    Attributes:
        data: See above.
        classes: Tuple of tuples, the data set's labels in each task.
    """

    def __init__(
        self,
        data: Data,
        classes: Sequence[tuple[int, ...]],
        names: Sequence[str] | None = None,
        multi_head: bool = False,
        validation_split: float = 0.1,
        test_split: float = 0.2,
        preprocess: Callable[[Any], Any] | None = None,
        batch_size: int = 32,
        seed: int = 0,
    ):
        super().__init__(data.name, seed, batch_size, multi_head)
        self.classes = tuple(classes)
        self.validation_split = validation_split
        self.test_split = test_split
        self.preprocess = preprocess
        self.data = data
        self._names = names or [task_name(group) for group in self.classes]
        self._partition = Partition(
            data,
            tuple(sorted({c for group in self.classes for c in group})),
            validation_split,
            test_split,
            self.seed,
        )

    def __len__(self) -> int:
        return len(self.classes)

    @property
    def num_classes(self) -> int:
        if self.multi_head:
            return max(len(group) for group in self.classes)
        return max(max(group) for group in self.classes) + 1

    def make_task(self, index: int) -> Task:
        classes = self.classes[index]
        transform = Transform(
            preprocess=self.preprocess,
            labels=classes if self.multi_head else None,
        )
        return Task(
            self._names[index],
            tuple(range(len(classes))) if self.multi_head else classes,
            functools.partial(
                self._partition.examples, classes=classes, transform=transform
            ),
            self.batch_size,
            self.task_seed(index),
            describe(self.data, classes),
        )

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "dataset": self.data.get_config(),
            "classes": [list(group) for group in self.classes],
            "validation_split": self.validation_split,
            "test_split": self.test_split,
            "preprocess": function_name(self.preprocess),
        }


def task_name(classes: Sequence[int]) -> str:
    """Returns the labels of a task as one string."""
    if len(classes) > _LISTED:
        return f"{classes[0]}/.../{classes[-1]}"
    return "/".join(map(str, classes))


def describe(data: Data, classes: Sequence[int]) -> dict:
    """Returns what is known about classes of a data set, for JSON."""
    names = data.class_names
    return {
        "dataset": data.name,
        "version": data.version,
        "classes": list(classes),
        "class_names": names and [names[c] for c in classes],
    }


def function_name(function) -> str | None:
    """Returns what tells a function from others in a configuration."""
    if function is None:
        return None
    module = getattr(function, "__module__", type(function).__module__)
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{module}.{name}"
