"""Data sets in whatever form they come."""

import os

import tensorflow as tf
import tensorflow_datasets as tfds

from keras_bpn.scenarios.array_data import ArrayData
from keras_bpn.scenarios.data import Data
from keras_bpn.scenarios.dataset_data import DatasetData
from keras_bpn.scenarios.folder_data import FolderData
from keras_bpn.scenarios.prepare import is_known
from keras_bpn.scenarios.tfds_data import TFDSData


def open_data(
    dataset,
    splits=None,
    image_size=None,
    memory_limit=None,
    data_dir=None,
    download=True,
    label=None,
) -> Data:
    """Returns the data set that a user means.

    Args:
        dataset, splits, image_size, memory_limit, data_dir, download, label:
            See `keras_bpn.scenarios.SplitClasses`.
    """
    if isinstance(dataset, Data):
        return dataset if image_size is None else dataset.resized(image_size)
    is_builder = isinstance(dataset, tfds.core.DatasetBuilder)
    if is_builder or (isinstance(dataset, str) and not is_folder(dataset)):
        return TFDSData(
            dataset,
            splits=splits,
            image_size=image_size,
            memory_limit=memory_limit,
            data_dir=data_dir,
            download=download,
            label=label,
        )
    if splits is not None or label is not None:
        raise ValueError(
            "Expected `splits` and `label` for data sets of TFDS alone. "
            f"Received: splits={splits!r}, label={label!r}"
        )
    if isinstance(dataset, (str, os.PathLike)):
        return FolderData(dataset, image_size, memory_limit)
    if _holds_datasets(dataset):
        return DatasetData(dataset, image_size, memory_limit)
    return ArrayData(dataset, image_size)


def is_folder(dataset: str) -> bool:
    """Whether a string is the path of a folder, not a name in TFDS."""
    if os.path.isabs(dataset) or dataset.startswith((".", "~")):
        return True
    return os.path.isdir(dataset) and not is_known(dataset)


def _holds_datasets(dataset):
    if isinstance(dataset, (tuple, list)):
        return any(isinstance(part, tf.data.Dataset) for part in dataset)
    return isinstance(dataset, tf.data.Dataset)
