import numpy as np
import tensorflow as tf

from keras_bpn.scenarios.data import fingerprint
from keras_bpn.scenarios.record_data import RecordData


class DatasetData(RecordData):
    """A `tf.data.Dataset` of examples `(x, y)`, or one for each split.

    A pair of datasets is for training and test.
    The labels are read at once.

    Args:
        datasets: See above.
        image_size, memory_limit: See `RecordData`.
    """

    labels_known = True

    def __init__(self, datasets, image_size=None, memory_limit=None):
        super().__init__(image_size, memory_limit)
        if isinstance(datasets, tf.data.Dataset):
            datasets = (datasets,)
        for dataset in datasets:
            _check_dataset(dataset)
        if len(datasets) > 2:
            raise ValueError(
                "Expected a tf.data.Dataset, or a pair of them for training "
                f"and test. Received: {len(datasets)} datasets"
            )
        self.name = "dataset"
        self._datasets = dict(zip(("train", "test"), datasets))
        self.splits = tuple(self._datasets)
        labels = np.concatenate(list(self._labels.values()))
        if not len(labels) or labels.min() < 0:
            raise ValueError(
                "Expected a tf.data.Dataset with examples, and labels of at "
                f"least 0. Received: labels {np.unique(labels)[:10]}"
            )
        self.classes = tuple(int(c) for c in np.unique(labels))

    def records(self, split):
        return self._datasets[split]

    def decode(self, record):
        return record

    def labels(self):
        return self._labels

    def get_config(self):
        sources = self.load(self.classes)
        return {"name": self.name, "fingerprint": fingerprint(sources)}


def _check_dataset(dataset):
    spec = getattr(dataset, "element_spec", None)
    valid = (
        isinstance(spec, tuple)
        and len(spec) == 2
        and all(isinstance(part, tf.TensorSpec) for part in spec)
        and spec[1].dtype.is_integer
        and spec[1].shape.rank == 0
        and spec[0].shape.rank != 0
    )
    if not valid:
        raise ValueError(
            "Expected a tf.data.Dataset of single examples (x, y), with y an "
            "integer; `unbatch()` takes batches apart. "
            f"Received: {type(dataset).__name__} of {spec}"
        )
    if dataset.cardinality() == tf.data.INFINITE_CARDINALITY:
        raise ValueError(
            "Expected a tf.data.Dataset that ends. Received: an endless one"
        )
