import dataclasses
from collections.abc import Callable
from collections.abc import Mapping
from collections.abc import Sequence
from typing import Any

from keras_bpn.scenarios.data import Data
from keras_bpn.scenarios.dataset_sequence import DatasetSequence
from keras_bpn.scenarios.open_data import open_data
from keras_bpn.scenarios.prepare import how_to_prepare


@dataclasses.dataclass(frozen=True)
class _Entry:
    """A data set of TFDS, and how the field uses it."""

    dataset: str
    train: str = "train"
    test: str = "test"
    label: str | None = None
    num_classes: int | None = None


_ENTRIES = {
    # 2,040 images for training and 6,149 for test, as in table 1 of Kornblith
    # et al. (2019), https://arxiv.org/abs/1805.08974.
    "Flowers": _Entry("oxford_flowers102", train="train+validation"),
    "Scenes": _Entry("mit_indoor_scenes"),
    "Birds": _Entry("caltech_birds2011"),
    "Cars": _Entry("stanford_cars"),
    # The paper counts 70 classes: the families. 6,667 images for training and
    # 3,333 for test, as in the same table.
    "Aircraft": _Entry(
        "fgvc_aircraft", train="train+validation", label="family"
    ),
    # The labels of the official test set are not public. Without the persons
    # that do none of the ten actions, which are the last label.
    "Actions": _Entry("voc2012_actions", test="validation", num_classes=10),
    "Letters": _Entry("chars74k"),
    # Without the "extra" images.
    "SVHN": _Entry("svhn_cropped"),
}


class ObjectRecognition(DatasetSequence):
    """Eight object recognition data sets, one after the other.

    They are those of table 2 of the paper, in its order, with the splits that
    the field uses:

    | task | TFDS | training | test |
    |---|---|---|---|
    | Flowers | `oxford_flowers102` | train+validation | test |
    | Scenes | `mit_indoor_scenes` | train | test |
    | Birds | `caltech_birds2011` | train | test |
    | Cars | `stanford_cars` | train | test |
    | Aircraft | `fgvc_aircraft`, families | train+validation | test |
    | Actions | `voc2012_actions`, ten actions | train | validation |
    | Letters | `chars74k` | train | test |
    | SVHN | `svhn_cropped` | train | test |

    Validation data is held out of the training data of every class.

    Making the scenario reads and downloads nothing. `prepared` tells which data
    sets are on this machine, and `how_to_prepare()` how to get the others:
    four of them have to be downloaded by hand.

    Args:
        image_size: Height and width to resize images to.
        tasks: Names of the tasks to have, in order. Defaults to all eight.
        datasets: Dictionary from names of tasks to other data sets to use
            instead, as `keras_bpn.scenarios.DatasetSequence` takes them; for
            example smaller versions of the same.
        validation_split, preprocess, batch_size, seed, data_dir, download,
            memory_limit: See `keras_bpn.scenarios.DatasetSequence`.

    Example:

    >>> scenario = keras_bpn.scenarios.ObjectRecognition()
    >>> [task.name for task in scenario][:4]
    ['Flowers', 'Scenes', 'Birds', 'Cars']
    >>> scenario[0].classes[-1]
    101

    Reference:

    - [Wen et al., 2021](https://arxiv.org/abs/2009.13954), table 2
    - [Aljundi et al., 2018](https://arxiv.org/abs/1711.09601), for the sequence
    """

    def __init__(
        self,
        image_size: tuple[int, int] = (224, 224),
        tasks: Sequence[str] | None = None,
        datasets: Mapping[str, Any] | None = None,
        validation_split: float = 0.1,
        preprocess: Callable[[Any], Any] | None = None,
        batch_size: int = 32,
        seed: int = 0,
        data_dir: str | None = None,
        download: bool = True,
        memory_limit: int | None = None,
    ):
        chosen = tuple(_ENTRIES) if tasks is None else tuple(tasks)
        unknown = sorted({*chosen, *(datasets or {})} - set(_ENTRIES))
        if unknown:
            raise ValueError(
                f"Expected tasks among {', '.join(_ENTRIES)}. "
                f"Received: {', '.join(map(str, unknown))}"
            )
        entries = {**_ENTRIES, **(datasets or {})}
        super().__init__(
            [(task, entries[task]) for task in chosen],
            image_size,
            channels=3,
            name="object recognition",
            validation_split=validation_split,
            preprocess=preprocess,
            batch_size=batch_size,
            seed=seed,
            data_dir=data_dir,
            download=download,
            memory_limit=memory_limit,
        )

    @property
    def prepared(self) -> dict[str, bool]:
        """Whether the data set of each task is prepared on this machine."""
        return {
            name: partition.data.is_prepared
            for name, partition in zip(self._names, self._partitions)
        }

    def how_to_prepare(self) -> str:
        """Returns how to get the data sets that are missing, for reading."""
        lines = []
        for name, partition in zip(self._names, self._partitions):
            data = partition.data
            if data.is_prepared:
                continue
            lines.append(f"{name}: {how_to_prepare(data.builder)}")
            manual = data.builder.MANUAL_DOWNLOAD_INSTRUCTIONS
            if manual:
                lines += [f"  {line}" for line in _dedent(manual)]
        return "\n".join(lines) or "All data sets are prepared."

    def _open(self, entry: Any, **options) -> Data:
        if not isinstance(entry, _Entry):
            return super()._open(entry, **options)
        return open_data(
            entry.dataset,
            splits={"train": entry.train, "test": entry.test},
            label=entry.label,
            **options,
        )

    def _choose(self, entry: Any, data: Data) -> tuple[int, ...]:
        if not isinstance(entry, _Entry):
            return super()._choose(entry, data)
        return data.classes[: entry.num_classes]


def _dedent(text):
    return [line.strip() for line in text.strip().splitlines()]
