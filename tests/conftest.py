import gc
import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import pytest


def pytest_collection_finish(session):
    # What was imported stays. To look through it again and again, as Keras has
    # Python do before each test, would take a quarter of the time of them all.
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def fresh_keras():
    """Each test starts from the same seed and the same names."""
    keras.utils.clear_session()
    keras.utils.set_random_seed(1234)
    yield
    keras.config.set_dtype_policy("float32")


@pytest.fixture(scope="session")
def mnist():
    """The real MNIST as flat images in [0, 1]: `(x, y), (x_test, y_test)`."""
    tfds = pytest.importorskip("tensorflow_datasets")
    try:
        splits = [
            tfds.load("mnist", split=split, batch_size=-1, download=False)
            for split in ("train", "test")
        ]
    except (AssertionError, tfds.core.DatasetNotFoundError) as error:
        pytest.skip(f"TFDS has not prepared the data set 'mnist': {error}")
    return [
        (
            split["image"].numpy().reshape(-1, 784).astype("float32") / 255,
            split["label"].numpy().astype("int32"),
        )
        for split in splits
    ]
