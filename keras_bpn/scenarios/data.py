"""Data sets of labelled examples."""

import abc
import hashlib

import numpy as np
import psutil

from keras_bpn.scenarios.sources import Source

# The part of the free memory that decoded images may take.
_MEMORY_SHARE = 0.25


class Data(abc.ABC):
    """A data set: its classes, its splits, and how they are read.

    Attributes:
        name: String.
        version: String, or `None`.
        classes: Tuple of all labels.
        class_names: Tuple with the name of label `i` at `i`, or `None`.
        splits: Those of `"train"`, `"validation"` and `"test"` that there are.
        labels_known: Whether labels are at hand without reading images.
        is_prepared: Whether the data is on this machine.
    """

    name: str
    version: str | None = None
    classes: tuple[int, ...]
    class_names: tuple[str, ...] | None = None
    splits: tuple[str, ...]
    labels_known: bool = False
    is_prepared: bool = True

    @abc.abstractmethod
    def load(self, classes: tuple[int, ...]) -> dict[str, Source]:
        """Reads the data, or labels alone where it is to be streamed.

        Args:
            classes: Labels that are needed; others may be left out.

        Returns:
            The source of each split.
        """

    @abc.abstractmethod
    def shape(self) -> tuple[int | None, ...]:
        """Returns the shape of examples, with `None` where they may differ."""

    @abc.abstractmethod
    def get_config(self) -> dict:
        """Returns what tells this data set from others, for JSON."""

    @abc.abstractmethod
    def resized(self, image_size: tuple[int, int]) -> "Data":
        """Returns the same data with images of another size."""

    def prepare(self) -> None:
        """Gets the data onto this machine where it is not there yet."""

    def labels(self) -> dict[str, np.ndarray]:
        """Returns the labels of each split, where they are at hand."""
        raise NotImplementedError


def default_memory_limit() -> int:
    """Returns the bytes that decoded images may take by default."""
    return int(_MEMORY_SHARE * psutil.virtual_memory().available)


def fingerprint(sources: dict[str, Source]) -> str:
    """Returns a hash of the content of all splits."""
    content = hashlib.blake2b(digest_size=16)
    for split, source in sorted(sources.items()):
        order = np.argsort(source.ranks)
        content.update(f"{split}{source.shape}".encode())
        content.update(source.keys[order].astype("<u8").tobytes())
        content.update(source.y[order].astype("<i4").tobytes())
    return content.hexdigest()
