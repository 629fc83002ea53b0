import contextlib
import functools

import numpy as np
import tensorflow_datasets as tfds
from absl import logging

from keras_bpn.scenarios.prepare import find_builder
from keras_bpn.scenarios.prepare import prepare
from keras_bpn.scenarios.record_data import RecordData
from keras_bpn.scenarios.task import SPLITS


class TFDSData(RecordData):
    """A classification data set of TFDS.

    Args:
        dataset: Name of a data set, or its builder.
        splits: Dictionary from `"train"`, `"validation"` and `"test"` to splits
            of TFDS, or `None` for those of the same names.
        image_size, memory_limit: See `RecordData`.
        data_dir: Folder of prepared data sets, or `None` for that of TFDS.
        download: Boolean, whether to download and prepare what is not there.
        label: Name of the feature with the labels, or `None` for that of
            `tfds.load(..., as_supervised=True)`.
    """

    def __init__(
        self,
        dataset,
        splits=None,
        image_size=None,
        memory_limit=None,
        data_dir=None,
        download=True,
        label=None,
    ):
        super().__init__(image_size, memory_limit)
        if isinstance(dataset, str):
            dataset = find_builder(dataset, data_dir)
        self.builder = dataset
        self.download = download
        info = self.builder.info
        self.name = self.builder.name
        self.version = str(info.version)
        self._x_key, self._y_key = _feature_keys(info, label)
        feature = info.features[self._y_key]
        self.classes = tuple(range(feature.num_classes))
        self.class_names = tuple(feature.names)
        self._wanted_splits = splits

    @property
    def is_prepared(self):
        return bool(self.builder.info.splits)

    def prepare(self):
        # Splits are known, and checked, only then.
        _ = self._specs

    @functools.cached_property
    def _specs(self):
        prepare(self.builder, self.download)
        return _check_splits(self.builder.info, self._wanted_splits)

    @property
    def splits(self):
        return tuple(self._specs)

    def shape(self):
        shape = tuple(self.builder.info.features[self._x_key].shape)
        if self.image_size is not None and len(shape) == 3:
            return (*self.image_size, shape[-1])
        return shape

    def records(self, split):
        return self._dataset(split, self._x_key, self._y_key).map(
            lambda record: (record[self._x_key], record[self._y_key])
        )

    def decode(self, record):
        feature = self.builder.info.features[self._x_key]
        if isinstance(feature, tfds.features.Image):
            return feature.decode_example(record)
        return record

    def read_labels(self, split):
        labels = self._dataset(split, self._y_key)
        labels = labels.map(lambda record: record[self._y_key]).batch(1024)
        return np.concatenate(list(labels.as_numpy_iterator()))

    def count(self):
        splits = self.builder.info.splits
        return sum(splits[spec].num_examples for spec in self._specs.values())

    def cache_key(self, split):
        return str(self.builder.data_dir), self._y_key, self._specs[split]

    def get_config(self):
        config = {
            "name": self.builder.info.full_name,
            "label": self._y_key,
            "splits": self._wanted_splits,
        }
        if not self._reads_records:
            # Such a builder has the same name and version for all data.
            splits = self.builder.info.splits
            config["class_names"] = list(self.class_names)
            config["counts"] = {k: splits[k].num_examples for k in splits}
        return config

    @property
    def _reads_records(self):
        """Whether TFDS wrote the data, and not someone else."""
        files = tfds.core.dataset_builder.FileReaderBuilder
        return isinstance(self.builder, files)

    def _dataset(self, split, *keys):
        """Returns records with some features; images stay encoded."""
        decoders = {}
        feature = self.builder.info.features[self._x_key]
        if isinstance(feature, tfds.features.Image) and self._x_key in keys:
            decoders = {self._x_key: tfds.decode.SkipDecoding()}
        if self._reads_records:
            decoders = tfds.decode.PartialDecoding(
                dict.fromkeys(keys, True), decoders
            )
        with _without_warnings():
            return self.builder.as_dataset(
                split=self._specs[split],
                shuffle_files=False,
                decoders=decoders,
                read_config=tfds.ReadConfig(try_autocache=False),
            )


@contextlib.contextmanager
def _without_warnings():
    """Mutes TFDS, which warns of what it uses itself to skip decoding."""
    level = logging.get_verbosity()
    logging.set_verbosity(logging.ERROR)
    try:
        yield
    finally:
        logging.set_verbosity(level)


def _feature_keys(info, label):
    """Returns the names of the features that hold examples and labels."""
    keys = info.supervised_keys
    if keys is None and {"image", "label"} <= set(info.features):
        keys = ("image", "label")
    if label is not None and keys is not None:
        keys = (keys[0], label)
    valid = (
        keys is not None
        and len(keys) == 2
        and set(keys) <= set(info.features)
        and _is_numeric(info.features[keys[0]])
        and isinstance(info.features[keys[1]], tfds.features.ClassLabel)
        and info.features[keys[1]].num_classes
    )
    if not valid:
        raise ValueError(
            f"Expected '{info.name}' to be a classification data set, with "
            "images or vectors of numbers, and class labels. Received: "
            f"label={label!r} and a data set with the features "
            f"{sorted(info.features)}"
        )
    return keys


def _is_numeric(feature):
    return (
        isinstance(feature, (tfds.features.Image, tfds.features.Tensor))
        and np.dtype(feature.np_dtype).kind in "buif"
        and len(feature.shape) > 0
    )


def _check_splits(info, splits):
    """Returns the specification of each split in TFDS."""
    if splits is None:
        splits = {split: split for split in SPLITS if split in info.splits}
    unknown = sorted(set(splits) - set(SPLITS))
    valid = all(isinstance(spec, str) for spec in splits.values())
    if unknown or "train" not in splits or not valid:
        raise ValueError(
            "Expected `splits` to name splits of TFDS for 'train', and maybe "
            f"for 'validation' and 'test'. Received: splits={splits!r} of "
            f"'{info.name}', which has the splits {sorted(info.splits)}"
        )
    taken = {}
    for split, spec in splits.items():
        try:
            parts = _absolute(info, spec)
        except (KeyError, ValueError, AssertionError) as error:
            raise ValueError(
                f"Expected splits of '{info.name}', which has "
                f"{sorted(info.splits)}. Received: splits={splits!r}"
            ) from error
        for name, start, stop in parts:
            for other, begin, end, owner in taken.get(name, []):
                if start < end and begin < stop:
                    raise ValueError(
                        "Expected `splits` that have no example in common. "
                        f"Received: {owner} and {split} with examples of "
                        f"'{other}' in common, splits={splits!r}"
                    )
            taken.setdefault(name, []).append((name, start, stop, split))
    return dict(splits)


def _absolute(info, spec):
    """Returns the ranges `(split of TFDS, start, stop)` of a specification."""
    split = tfds.core.splits.AbstractSplit.from_spec(spec)
    return [
        (
            part.splitname,
            part.from_ or 0,
            info.splits[part.splitname].num_examples
            if part.to is None
            else part.to,
        )
        for part in split.to_absolute(info.splits)
    ]
