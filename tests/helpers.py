"""Small models and data that many tests share."""

import keras
import numpy as np

import keras_bpn


def make_model(
    units=(12, 9), inputs=6, outputs=6, hidden_dim=5, activation="relu"
):
    """Returns a small fully connected `BPNModel`, not compiled."""
    x = first = keras.Input((inputs,))
    for n in units:
        x = keras_bpn.layers.BPNDense(
            n, activation=activation, hidden_dim=hidden_dim
        )(x)
    x = keras_bpn.layers.BPNDense(outputs, hidden_dim=hidden_dim)(x)
    return keras_bpn.BPNModel(first, x)


def compile_model(model, optimizer="adam", **kwargs):
    """Compiles for integer labels, with BD+EWC unless told otherwise."""
    kwargs.setdefault("consolidation", keras_bpn.consolidation.EWC(10.0))
    kwargs.setdefault("metrics", ["accuracy"])
    kwargs.setdefault(
        "loss", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    )
    model.compile(optimizer=optimizer, **kwargs)
    return model


def make_data(task=0, size=40, inputs=6, classes=2):
    """Returns clusters around random centres, with the labels of a task."""
    generator = np.random.default_rng(task)
    labels = generator.integers(classes, size=size)
    centres = generator.normal(size=(classes, inputs))
    x = centres[labels] + 0.3 * generator.normal(size=(size, inputs))
    return x.astype("float32"), (labels + classes * task).astype("int32")


def train_tasks(model, names=("a", "b"), **kwargs):
    """Trains the given tasks one after the other."""
    kwargs = {"epochs": 2, "batch_size": 8, "verbose": 0, **kwargs}
    for name in names:
        x, y = make_data(len(model.tasks) % 3)
        model.fit(x, y, task=name, **kwargs)
    return model


def values(variables):
    """Returns the values of variables as a list of arrays."""
    return [keras.ops.convert_to_numpy(v) for v in variables]


def assert_equal(first, second):
    """Checks two lists of arrays for equality to the bit."""
    assert len(first) == len(second)
    for a, b in zip(first, second):
        np.testing.assert_array_equal(a, b)
