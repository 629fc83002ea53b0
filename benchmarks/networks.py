"""The paper's network for incremental MNIST, and how its epochs are timed."""

import time

import keras
import numpy as np

import keras_bpn

BATCH_SIZE = 128
HIDDEN = (300,) * 5
OPTIONS = {
    "default": {},
    "steps_per_execution=1": {"steps_per_execution": 1},
    "jit_compile": {"jit_compile": True},
    "jit_compile, steps_per_execution=16": {
        "jit_compile": True,
        "steps_per_execution": 16,
    },
}


class EpochTimer(keras.callbacks.Callback):
    """Keeps the seconds of each epoch."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self._start)


def make_plain(options=None, inputs=784, units=HIDDEN):
    """Returns the network of `keras.layers.Dense`, compiled."""
    return _make(keras.Model, keras.layers.Dense, inputs, units, options or {})


def make_bpn(method, options=None, inputs=784, units=HIDDEN):
    """Returns the network of `BPNDense`, compiled with a method by name."""
    options = {**(options or {}), **keras_bpn.methods.get(method)}
    dense = keras_bpn.layers.BPNDense
    return _make(keras_bpn.BPNModel, dense, inputs, units, options)


def _make(model_class, layer, inputs, units, options):
    x = first = keras.Input((inputs,))
    for n in units:
        x = layer(n, activation="relu")(x)
    model = model_class(first, layer(10)(x))
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **options,
    )
    return model


def random_data(steps):
    """Returns images and labels for so many steps of an epoch."""
    generator = np.random.default_rng(0)
    x = generator.random((steps * BATCH_SIZE, 784), dtype="float32")
    y = generator.integers(10, size=len(x)).astype("int32")
    return x, y


def mnist_or_random(size):
    """Returns training images of MNIST, their labels and the name of the data.

    They are random where TFDS has not prepared MNIST.
    """
    try:
        scenario = keras_bpn.scenarios.SplitClasses(
            "mnist", classes_per_task=10, download=False
        )
    except FileNotFoundError:
        return *random_data(size // BATCH_SIZE), "random images"
    x, y = scenario[0].examples("train").reshape((784,)).arrays()
    return x[:size], y[:size], "MNIST"


def step_time(model, x, y, epochs, **arguments):
    """Returns the seconds per step of the fastest of some epochs.

    They follow one that does not count, in which `fit` gets ready. The fastest
    is that of an undisturbed epoch: on two cores an epoch runs at one of two
    speeds, whatever the model.
    """
    timer = EpochTimer()
    model.fit(
        x,
        y,
        batch_size=BATCH_SIZE,
        epochs=epochs + 1,
        verbose=0,
        callbacks=[timer],
        **arguments,
    )
    return min(timer.seconds[1:]) / (len(x) // BATCH_SIZE)
