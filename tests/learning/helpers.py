"""Small models and scenarios for the tests of `learn()`."""

import keras
import numpy as np

import keras_bpn
from tests.helpers import values


def build(name="BD+EWC", heads=False, dropout=0.0, optimizer="adam", **compile):
    """Returns a compiled model for the 8x8 digits."""

    def make_model():
        inputs = keras.Input((64,))
        x = keras_bpn.layers.BPNDense(
            20, activation="relu", hidden_dim=6 if "+" in name else 0
        )(inputs)
        if dropout:
            x = keras.layers.Dropout(dropout)(x)
        if heads:
            return keras_bpn.BPNModel(inputs, keras_bpn.layers.TaskHeads()(x))
        return keras_bpn.BPNModel(
            inputs,
            keras_bpn.layers.BPNDense(10, hidden_dim=6 if "+" in name else 0)(
                x
            ),
        )

    model = keras_bpn.methods.build(name, make_model)
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **keras_bpn.methods.get(name),
        **compile,
    )
    return model


def make_arrays(seed=0, size=120, classes=6):
    """Returns noisy 8x8 images, of a class each."""
    generator = np.random.default_rng(seed)
    y = np.arange(size) % classes
    centres = np.random.default_rng(99).random((classes, 64))
    x = centres[y] + 0.2 * generator.random((size, 64))
    return x.astype("float32"), y.astype("int32")


def make_scenario(**kwargs):
    """Returns three tasks of two classes each."""
    arrays = (make_arrays(0), make_arrays(1, 60))
    kwargs = {"dataset": arrays, "batch_size": 8, **kwargs}
    return keras_bpn.scenarios.SplitClasses(classes_per_task=2, **kwargs)


def full_state(model):
    """Everything that decides how training goes on."""
    networks = [model]
    if not isinstance(model, keras.Model):
        networks = [*(model.network(t) for t in model.tasks)]
        networks.append(model.next_network)
    state = []
    for network in networks:
        state += network.get_weights() + values(network.optimizer.variables)
        if network.consolidation is not None:
            state += list(network.consolidation.get_state().values())
    return state
