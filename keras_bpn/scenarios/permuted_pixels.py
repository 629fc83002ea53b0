import functools
import math
from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bpn.scenarios.checks import check_count
from keras_bpn.scenarios.checks import check_options
from keras_bpn.scenarios.class_tasks import describe
from keras_bpn.scenarios.class_tasks import function_name
from keras_bpn.scenarios.examples import Examples
from keras_bpn.scenarios.open_data import open_data
from keras_bpn.scenarios.partition import Partition
from keras_bpn.scenarios.scenario import Scenario
from keras_bpn.scenarios.split_classes import choose_classes
from keras_bpn.scenarios.task import Task
from keras_bpn.scenarios.transform import Transform


class PermutedPixels(Scenario):
    """All classes of a data set in every task, with the pixels shuffled.

    Each task has an order of the pixels of its own, all channels together,
    the same for all its images. They are put into this order batch by batch:
    a hundred tasks need the memory of one.

    Args:
        dataset: Data set of images, or vectors, of one size. See
            `keras_bpn.scenarios.SplitClasses`.
        num_tasks: Number of tasks.
        seed: Integer of at least 0. The permutation of task `t` depends on
            `seed` and `t` alone.
        classes: Labels to use. Defaults to all.
        validation_split, test_split, splits, image_size, preprocess,
            batch_size, data_dir, download, memory_limit: See
            `keras_bpn.scenarios.SplitClasses`. `preprocess` is called on
            images with permuted pixels.

    Example:

    >>> x = np.random.randint(256, size=(600, 28, 28, 1), dtype="uint8")
    >>> y = np.arange(600) % 10
    >>> scenario = keras_bpn.scenarios.PermutedPixels((x, y), num_tasks=100)
    >>> scenario[0].name, scenario[99].name
    ('permutation 1', 'permutation 100')

    Reference:

    - [Goodfellow et al., 2013](https://arxiv.org/abs/1312.6211)
    """

    def __init__(
        self,
        dataset: Any,
        num_tasks: int,
        seed: int = 0,
        classes: Sequence[int] | None = None,
        validation_split: float = 0.1,
        test_split: float = 0.2,
        splits: dict[str, str] | None = None,
        image_size: tuple[int, int] | None = None,
        preprocess: Callable[[Any], Any] | None = None,
        batch_size: int = 32,
        data_dir: str | None = None,
        download: bool = True,
        memory_limit: int | None = None,
    ):
        # Before a data set may be downloaded.
        options = check_options(
            seed=seed,
            batch_size=batch_size,
            validation_split=validation_split,
            test_split=test_split,
            image_size=image_size,
            memory_limit=memory_limit,
        )
        self.num_tasks = check_count("num_tasks", num_tasks)
        self._data = open_data(
            dataset,
            splits=splits,
            image_size=options["image_size"],
            memory_limit=memory_limit,
            data_dir=data_dir,
            download=download,
        )
        self._data.prepare()
        super().__init__(self._data.name, seed, batch_size)
        self.classes = choose_classes(self._data, classes)
        self.image_size = options["image_size"]
        self.preprocess = preprocess
        self.validation_split = options["validation_split"]
        self.test_split = options["test_split"]
        self._partition = Partition(
            self._data,
            self.classes,
            self.validation_split,
            self.test_split,
            self.seed,
        )

    def __len__(self) -> int:
        return self.num_tasks

    @property
    def num_classes(self) -> int:
        return max(self.classes) + 1

    def permutation(self, index: int) -> np.ndarray:
        """Returns the order that a task puts the flattened pixels into.

        Args:
            index: Integer, which task.

        Returns:
            Vector: pixel `i` of an image of the task is pixel `vector[i]` of
            the image in the data set.
        """
        index = range(self.num_tasks)[index]
        size = math.prod(self._partition.example_shape)
        generator = np.random.default_rng([self.seed, index])
        return generator.permutation(size).astype("int32")

    def make_task(self, index: int) -> Task:
        return Task(
            f"permutation {index + 1}",
            self.classes,
            functools.partial(self._load, index),
            self.batch_size,
            self.task_seed(index),
            {
                **describe(self._data, self.classes),
                "permutation": index + 1,
                "seed": self.seed,
            },
        )

    def _load(self, index: int, split: str) -> Examples | None:
        transform = Transform(
            permutation=self.permutation(index), preprocess=self.preprocess
        )
        return self._partition.examples(split, self.classes, transform)

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "dataset": self._data.get_config(),
            "num_tasks": self.num_tasks,
            "classes": list(self.classes),
            "validation_split": self.validation_split,
            "test_split": self.test_split,
            "image_size": self.image_size and list(self.image_size),
            "preprocess": function_name(self.preprocess),
        }
