import functools
import pathlib
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from keras_bpn.scenarios.checks import check_count
from keras_bpn.scenarios.checks import check_options
from keras_bpn.scenarios.class_tasks import ClassTasks
from keras_bpn.scenarios.class_tasks import describe
from keras_bpn.scenarios.class_tasks import function_name
from keras_bpn.scenarios.data import Data
from keras_bpn.scenarios.examples import Examples
from keras_bpn.scenarios.open_data import is_folder
from keras_bpn.scenarios.open_data import open_data
from keras_bpn.scenarios.partition import Partition
from keras_bpn.scenarios.scenario import Scenario
from keras_bpn.scenarios.task import Task
from keras_bpn.scenarios.transform import Transform


class DatasetSequence(Scenario):
    """Data sets to learn one after the other, each of them a task.

    Labels count from 0 in each task, for networks with outputs of their own
    for every task (`keras_bpn.layers.TaskHeads`). All images get one size, and
    grey images are repeated in three channels if others are in colour.

    No data set is downloaded or decoded before the data of its task is asked
    for; only in folders, the first images are looked at for their shape.

    Args:
        datasets: List of data sets, or dictionary from names of tasks to data
            sets. A data set is what `keras_bpn.scenarios.SplitClasses` takes,
            and has all its classes; or a `SplitClasses` or another scenario
            over one data set, and has the classes of all its tasks. In a list
            it is the name of a data set in TFDS, which names the task too, or a
            pair of name and data set.
        image_size: Height and width to resize images to. Needed where images
            differ in size.
        channels: Number of channels of all images: 3, or 1 where all are grey.
            Defaults to the largest among the data sets.
        name: Name of the scenario.
        validation_split, test_split, preprocess, batch_size, seed, data_dir,
            download, memory_limit: See `keras_bpn.scenarios.SplitClasses`.
            `memory_limit` is that of each data set.

    Example:

    >>> x = np.random.randint(256, size=(90, 28, 28, 3), dtype="uint8")
    >>> y = np.arange(90) % 3
    >>> digits = keras_bpn.scenarios.Digits()
    >>> scenario = keras_bpn.scenarios.DatasetSequence(
    ...     {"digits": digits, "own": (x, y)}, image_size=(16, 16)
    ... )
    >>> [(task.name, len(task.classes)) for task in scenario]
    [('digits', 10), ('own', 3)]
    >>> scenario[0].examples("train").shape
    (16, 16, 3)
    """

    def __init__(
        self,
        datasets: Sequence[Any] | Mapping[str, Any],
        image_size: tuple[int, int] | None = None,
        channels: int | None = None,
        name: str = "data sets",
        validation_split: float = 0.1,
        test_split: float = 0.2,
        preprocess: Callable[[Any], Any] | None = None,
        batch_size: int = 32,
        seed: int = 0,
        data_dir: str | None = None,
        download: bool = True,
        memory_limit: int | None = None,
    ):
        options = check_options(
            seed=seed,
            batch_size=batch_size,
            validation_split=validation_split,
            test_split=test_split,
            image_size=image_size,
            memory_limit=memory_limit,
        )
        super().__init__(name, seed, batch_size, multi_head=True)
        self.image_size = options["image_size"]
        self.preprocess = preprocess
        self.validation_split = options["validation_split"]
        self.test_split = options["test_split"]
        named = _named(datasets)
        self._names = tuple(named)
        self._partitions = []
        for entry in named.values():
            data = self._open(
                entry,
                image_size=self.image_size,
                memory_limit=memory_limit,
                data_dir=data_dir,
                download=download,
            )
            self._partitions.append(
                Partition(
                    data,
                    self._choose(entry, data),
                    self.validation_split,
                    self.test_split,
                    self.seed,
                )
            )
        self.channels = self._check_shapes(channels)

    def _open(self, entry: Any, **options) -> Data:
        """Returns a data set, without reading it."""
        if isinstance(entry, ClassTasks):
            entry = entry.data
        return open_data(entry, **options)

    def _choose(self, entry: Any, data: Data) -> tuple[int, ...]:
        """Returns the labels of a data set that its task has."""
        if isinstance(entry, ClassTasks):
            return tuple(sorted({c for g in entry.classes for c in g}))
        return data.classes

    def __len__(self) -> int:
        return len(self._names)

    @property
    def num_classes(self) -> int:
        return max(len(partition.classes) for partition in self._partitions)

    def make_task(self, index: int) -> Task:
        partition = self._partitions[index]
        classes = partition.classes
        return Task(
            self._names[index],
            tuple(range(len(classes))),
            functools.partial(self._load, index),
            self.batch_size,
            self.task_seed(index),
            describe(partition.data, classes),
        )

    def _load(self, index: int, split: str) -> Examples | None:
        classes = self._partitions[index].classes
        transform = Transform(
            channels=self.channels, preprocess=self.preprocess, labels=classes
        )
        return self._partitions[index].examples(split, classes, transform)

    def _check_shapes(self, channels):
        """Returns the number of channels that all examples are to have."""
        shapes = {
            name: tuple(partition.data.shape())
            for name, partition in zip(self._names, self._partitions)
        }
        if all(len(shape) == 3 for shape in shapes.values()):
            found = {shape[-1] for shape in shapes.values()}
            largest = max(found)
            channels = largest if channels is None else channels
            check_count("channels", channels)
            if not found <= {1, channels}:
                raise ValueError(
                    "Expected `channels` to be the number of channels of all "
                    "images that are not grey. "
                    f"Received: channels={channels}, images of shapes {shapes}"
                )
            sizes = {shape[:-1] for shape in shapes.values()}
        elif channels is not None:
            raise ValueError(
                "Expected images where `channels` is given. "
                f"Received: channels={channels}, examples of shapes {shapes}"
            )
        else:
            sizes = set(shapes.values())
        if len(sizes) > 1 or None in next(iter(sizes)):
            raise ValueError(
                "Expected the examples of all data sets to have one shape. "
                "Images that differ in size are resized by "
                "`image_size=(height, width)`. "
                f"Received: examples of shapes {shapes}"
            )
        return channels

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "tasks": {
                name: {
                    "dataset": partition.data.get_config(),
                    "classes": list(partition.classes),
                }
                for name, partition in zip(self._names, self._partitions)
            },
            "image_size": self.image_size and list(self.image_size),
            "channels": self.channels,
            "validation_split": self.validation_split,
            "test_split": self.test_split,
            "preprocess": function_name(self.preprocess),
        }


def _named(datasets):
    """Returns the data sets by the names of their tasks."""
    pairs = []
    if isinstance(datasets, Mapping):
        pairs = list(datasets.items())
    elif isinstance(datasets, (list, tuple)):
        for entry in datasets:
            if isinstance(entry, str):
                is_path = is_folder(entry)
                name = pathlib.Path(entry).name if is_path else entry
                entry = (name, entry)
            pairs.append(entry)
    valid = pairs and all(
        isinstance(pair, tuple)
        and len(pair) == 2
        and isinstance(pair[0], str)
        and pair[0]
        for pair in pairs
    )
    if not valid:
        raise ValueError(
            "Expected `datasets` to be a list of names of data sets and of "
            "pairs (name, data set), or a dictionary of them. "
            f"Received: datasets={str(datasets)[:200]}"
        )
    names = [name for name, _ in pairs]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise ValueError(
            "Expected the names of tasks to be unique. "
            f"Received: {repeated} more than once"
        )
    return dict(pairs)
