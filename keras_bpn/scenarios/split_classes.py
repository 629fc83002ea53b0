from collections.abc import Callable
from collections.abc import Sequence
from typing import Any

import numpy as np

from keras_bpn.scenarios.checks import check_count
from keras_bpn.scenarios.checks import check_options
from keras_bpn.scenarios.class_tasks import ClassTasks
from keras_bpn.scenarios.open_data import open_data


class SplitClasses(ClassTasks):
    """The classes of a data set, some in each task.

    With `"mnist"` and two classes per task, the five tasks are `"0/1"`, `"2/3"`
    and so on. Labels are those of the data set, for one set of outputs, unless
    `multi_head` is set.

    Examples keep to their split. Where the data set has no validation data of
    its own, some training examples of every class are held out for it; where
    it has no test data, some are held out as well. Which ones depends on the
    seed, and on what the examples are: the same images give the same tasks
    whether they come as arrays, from TFDS or from a folder.

    Args:
        dataset: One of these:
            - Name of a classification data set in TFDS, such as `"mnist"`, or
              a `tfds.core.DatasetBuilder`.
            - Arrays `(x, y)`, or `((x_train, y_train), (x_test, y_test))`.
              Images in uint8 or uint16 are scaled to [0, 1]; all other numbers
              are taken as they are.
            - `tf.data.Dataset` of examples `(x, y)`, or a pair of them for
              training and test. It has to give the same order in each pass.
            - Path of a folder of images, `root/split/class/*.png` with splits
              `train`, `test` and maybe `validation`, as `tfds.ImageFolder` has
              it, or `root/class/*.png`. PNG and JPEG files are read.
        classes_per_task: Integer, or list with the size of each task.
        classes: Labels to use. Defaults to all.
        order: The labels in the order in which tasks take them, `"random"` for
            an order drawn from the seed, or `None` for ascending order.
        multi_head: Boolean, whether labels count from 0 in each task.
        validation_split: Fraction of the training data of every class to hold
            out for validation where the data set has no such split.
        test_split: Fraction to hold out for test where it has no such split.
        splits: Dictionary from `"train"`, `"validation"` and `"test"` to the
            splits of TFDS to use, such as `"train[:80%]"`. Defaults to those
            of the same names.
        image_size: Height and width to resize images to. Needed where images
            differ in size.
        preprocess: Function of a batch of float images in [0, 1], made of
            TensorFlow operations.
        batch_size: Size of the batches of the tasks.
        seed: Integer of at least 0.
        data_dir: Folder of prepared data sets. Defaults to that of TFDS, which
            the environment variable `TFDS_DATA_DIR` sets.
        download: Boolean, whether to download and prepare a data set of TFDS
            that is not there.
        memory_limit: Bytes that decoded images may take. Above, they are
            decoded anew for each pass, and training data is mixed in a buffer
            only. Defaults to a quarter of the free memory. Arrays are in
            memory in any case.
        label: Name of the feature with the labels, for data sets of TFDS that
            have several, such as `"coarse_label"`.

    Attributes:
        classes: Tuple of tuples, the data set's labels in each task.

    Example:

    >>> x = np.random.randint(256, size=(600, 28, 28, 1), dtype="uint8")
    >>> y = np.arange(600) % 10
    >>> scenario = keras_bpn.scenarios.SplitClasses((x, y), classes_per_task=2)
    >>> [task.name for task in scenario]
    ['0/1', '2/3', '4/5', '6/7', '8/9']
    >>> scenario[0].metadata["examples"]
    {'train': 84, 'validation': 12, 'test': 24}
    """

    def __init__(
        self,
        dataset: Any,
        classes_per_task: int | Sequence[int],
        classes: Sequence[int] | None = None,
        order: Sequence[int] | str | None = None,
        multi_head: bool = False,
        validation_split: float = 0.1,
        test_split: float = 0.2,
        splits: dict[str, str] | None = None,
        image_size: tuple[int, int] | None = None,
        preprocess: Callable[[Any], Any] | None = None,
        batch_size: int = 32,
        seed: int = 0,
        data_dir: str | None = None,
        download: bool = True,
        memory_limit: int | None = None,
        label: str | None = None,
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
        data = open_data(
            dataset,
            splits=splits,
            image_size=options["image_size"],
            data_dir=data_dir,
            download=download,
            memory_limit=memory_limit,
            label=label,
        )
        data.prepare()
        labels = _ordered(data, classes, order, seed)
        super().__init__(
            data,
            _grouped(labels, classes_per_task),
            None,
            multi_head,
            options["validation_split"],
            options["test_split"],
            preprocess,
            batch_size,
            seed,
        )
        self.image_size = options["image_size"]

    def get_config(self) -> dict:
        return {
            **super().get_config(),
            "image_size": self.image_size and list(self.image_size),
        }


def choose_classes(data, classes: Sequence[int] | None) -> tuple[int, ...]:
    """Returns the labels to use, in ascending order."""
    if classes is None:
        return data.classes
    chosen = _check_labels("classes", classes)
    unknown = sorted(set(chosen) - set(data.classes))
    if unknown or not chosen:
        raise ValueError(
            f"Expected `classes` to be labels of '{data.name}', which has "
            f"{len(data.classes)} from {data.classes[0]} to "
            f"{data.classes[-1]}. Received: classes={list(chosen)}, of which "
            f"{unknown} are unknown"
        )
    return tuple(sorted(chosen))


def _ordered(data, classes, order, seed):
    """Returns the labels to use, in the order of the tasks."""
    chosen = choose_classes(data, classes)
    if order is None:
        return chosen
    if isinstance(order, str):
        if order != "random":
            raise ValueError(
                'Expected `order` to be labels, "random" or None. '
                f"Received: order={order!r}"
            )
        generator = np.random.default_rng([seed, len(chosen)])
        return tuple(int(c) for c in generator.permutation(chosen))
    ordered = _check_labels("order", order)
    if set(ordered) != set(chosen):
        raise ValueError(
            "Expected `order` to hold each of the labels in use once. "
            f"Received: order without {sorted(set(chosen) - set(ordered))} "
            f"and with {sorted(set(ordered) - set(chosen))} besides"
        )
    return ordered


def _check_labels(name, labels):
    try:
        checked = tuple(check_count(name, c, minimum=0) for c in labels)
    except (TypeError, ValueError) as error:
        raise ValueError(
            f"Expected `{name}` to be a list of labels, integers of at least "
            f"0. Received: {name}={labels!r}"
        ) from error
    repeated = sorted({c for c in checked if checked.count(c) > 1})
    if repeated:
        raise ValueError(
            f"Expected `{name}` to hold each label once. "
            f"Received: {name} with {repeated} more than once"
        )
    return checked


def _grouped(labels, classes_per_task):
    """Returns the labels in groups, one per task."""
    if isinstance(classes_per_task, (list, tuple)):
        sizes = [check_count("classes_per_task", n) for n in classes_per_task]
    else:
        size = check_count("classes_per_task", classes_per_task)
        sizes = [size] * max(1, len(labels) // size)
    if sum(sizes) != len(labels):
        raise ValueError(
            f"Expected `classes_per_task` to share out {len(labels)} classes. "
            f"Received: classes_per_task={classes_per_task!r}, which takes "
            f"{sum(sizes)} of them"
        )
    stops = np.cumsum(sizes)
    return tuple(labels[stop - size : stop] for size, stop in zip(sizes, stops))
