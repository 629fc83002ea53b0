"""Small data sets in all the forms that scenarios take."""

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds


def make_images(sizes=(7, 5, 6, 9), shape=(4, 3, 1), seed=0):
    """Returns random images, no two alike, with `sizes` of each class."""
    generator = np.random.default_rng(seed)
    y = generator.permutation(np.repeat(np.arange(len(sizes)), sizes))
    x = generator.integers(256, size=(len(y), *shape)).astype("uint8")
    return x, y.astype("int32")


def make_splits(train=(7, 5, 6, 9), test=(3, 2, 2, 4), **kwargs):
    return make_images(train, seed=1, **kwargs), make_images(
        test, seed=2, **kwargs
    )


def write_folder(root, x, y, names=None):
    """Writes images as PNG files, in a folder for each class."""
    for i, (image, label) in enumerate(zip(x, y)):
        folder = root / (str(label) if names is None else names[label])
        folder.mkdir(parents=True, exist_ok=True)
        # Not in the order of the arrays.
        path = folder / f"{(i * 7919) % 10007}.png"
        path.write_bytes(tf.io.encode_png(image).numpy())


class TinyImages(tfds.core.GeneratorBasedBuilder):
    """Images in the way of TFDS, which shuffles them as it writes them."""

    VERSION = tfds.core.Version("1.2.3")

    def __init__(self, splits, names=None, shape=None, **kwargs):
        self.arrays = splits
        self.names = names
        self.shape = shape
        super().__init__(**kwargs)

    def _info(self):
        x, y = next(iter(self.arrays.values()))
        classes = max(y.max() for _, y in self.arrays.values()) + 1
        names = self.names or [f"class {i}" for i in range(classes)]
        shape = x.shape[1:] if self.shape is None else self.shape
        return tfds.core.DatasetInfo(
            builder=self,
            features=tfds.features.FeaturesDict(
                {
                    "image": tfds.features.Image(
                        shape=shape, encoding_format="png"
                    ),
                    "label": tfds.features.ClassLabel(names=names),
                    "parity": tfds.features.ClassLabel(num_classes=2),
                    "text": tfds.features.Text(),
                }
            ),
            supervised_keys=("image", "label"),
        )

    def _split_generators(self, dl_manager):
        return {
            split: self._generate_examples(*arrays)
            for split, arrays in self.arrays.items()
        }

    def _generate_examples(self, x, y):
        for i, (image, label) in enumerate(zip(x, y)):
            yield (
                i,
                {
                    "image": image,
                    "label": int(label),
                    "parity": int(label) % 2,
                    "text": f"image {i}",
                },
            )


def prepare_tiny(path, splits, **kwargs):
    """Returns a prepared builder of some arrays by split."""
    builder = TinyImages(splits, data_dir=str(path), **kwargs)
    builder.download_and_prepare(
        download_config=tfds.download.DownloadConfig(verify_ssl=False)
    )
    return builder


def rows(x, y):
    """Returns examples as a sorted list, to be compared as a set."""
    return sorted((a.tobytes(), int(b)) for a, b in zip(np.asarray(x), y))


def collect(batches):
    """Returns the arrays of all batches, put together."""
    x, y = zip(*batches.as_numpy_iterator())
    return np.concatenate(x), np.concatenate(y)


def assert_same_tasks(first, second):
    """Checks two scenarios for equal tasks, to the bit."""
    assert len(first) == len(second)
    for a, b in zip(first, second):
        assert a.name == b.name and a.classes == b.classes
        for split in ("train", "validation", "test"):
            for left, right in zip(
                a.examples(split).arrays(), b.examples(split).arrays()
            ):
                np.testing.assert_array_equal(left, right)
        for left, right in zip(
            *(
                collect(task.examples("train").batches(4, seed=7, epoch=1))
                for task in (a, b)
            )
        ):
            np.testing.assert_array_equal(left, right)
