"""Models that are trained with and without a strategy, to be compared.

Gradients are added in another order over replicas, so that weights differ by
rounding, by 1e-7 or so. Two things would make more of it, and are kept out:

- A sign step moves `M_t` by epsilon one way or the other. Where a gradient is
  as small as rounding, it may go either way. Gradients of these clusters are
  around 1e-2, and with some hundred of them none comes near 1e-9; those of dead
  neurons are exactly 0 everywhere, and so is their step.
- Adam divides a gradient by its size, and so makes steps of rounding, above all
  in the first steps. The optimizer is SGD with momentum.
"""

import contextlib

import keras
import numpy as np

import keras_bpn
from keras_bpn import consolidation as c
from keras_bpn.layers import BPNDense
from keras_bpn.layers import TaskHeads
from tests.helpers import make_data
from tests.helpers import values

# The last batch of an epoch has one example, which leaves a replica of two
# without any; that of a half of it has three, two for one replica.
SIZE, BATCH_SIZE = 33, 8


def single_head():
    inputs = keras.Input((6,))
    x = BPNDense(8, activation="relu", hidden_dim=5)(inputs)
    return keras_bpn.BPNModel(inputs, BPNDense(6, hidden_dim=5)(x))


def heads():
    inputs = keras.Input((6,))
    x = BPNDense(8, activation="relu", hidden_dim=5)(inputs)
    return keras_bpn.BPNModel(inputs, TaskHeads()(x))


def with_dense():
    """A network with a layer, a regularizer and a constraint of Keras."""
    inputs = keras.Input((6,))
    x = keras.layers.Dense(
        8,
        activation="relu",
        kernel_regularizer=keras.regularizers.L2(1e-2),
        kernel_constraint=keras.constraints.MaxNorm(1.0),
    )(inputs)
    return keras_bpn.BPNModel(inputs, BPNDense(6, hidden_dim=5)(x))


def case(make=single_head, method=lambda: None, **arguments):
    return {"make": make, "method": method, **arguments}


CASES = {
    # All hooks at once, because most of the time goes into tracing.
    "BD with many methods": case(
        heads,
        lambda: c.Combination(
            [
                c.LocalInhibition(1e-2),
                c.SI(),
                c.GEM(4, seed=3),
            ]
        ),
    ),
    "GD with other methods": case(
        heads,
        lambda: c.Combination([c.SI(), c.LwF(warmup_steps=2)]),
        direction="gradient",
    ),
    "BD": case(),
    "BD+EWC": case(method=lambda: c.EWC(5.0)),
    "BD+EWC of exact labels": case(
        method=lambda: c.EWC(5.0, labels="exact", terms="separate")
    ),
    "BD+SI": case(method=c.SI),
    "BD+MAS": case(method=lambda: c.MAS(0.1)),
    "BD+PSP": case(method=lambda: c.PSP(seed=2)),
    "BD+GEM": case(method=lambda: c.GEM(4, seed=3, memory_batch_size=3)),
    "BD+LwF": case(method=c.LwF),
    "BD+EBLL": case(
        method=lambda: c.EBLL(code_units=4, encoder_epochs=1, seed=4)
    ),
    "BD+SLNID": case(method=lambda: c.SLNID(1e-2)),
    "BD+IMM": case(method=lambda: c.IMM("mode", seed=5)),
    "EWC": case(method=lambda: c.EWC(5.0), direction=None),
    "GD": case(direction="gradient"),
    "heads with GEM": case(heads, lambda: c.GEM(4, seed=3)),
    "layers of Keras": case(with_dense, lambda: c.EWC(5.0)),
    "nine tasks": case(tasks=9, epochs=1),
}


def train(
    strategy,
    make,
    method,
    direction="beneficial",
    tasks=2,
    epochs=2,
    seed=1,
    **compile,
):
    """Returns what comes of a case: weights, logs, and results of use.

    Args:
        strategy: `tf.distribute.Strategy` or `None`.
        make, method: Functions that return a model and its consolidation.
        direction: As in `BPNModel.compile`.
        tasks, epochs, seed: Integers.
        **compile: Other arguments of `compile`.
    """
    keras.utils.set_random_seed(seed)
    with strategy.scope() if strategy else contextlib.nullcontext():
        model = make()
        model.compile(
            keras.optimizers.SGD(0.02, momentum=0.5),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            direction=direction,
            consolidation=method(),
            **compile,
        )
    logs = []
    for number in range(tasks):
        x, y = data(model, number)
        history = model.fit(
            x,
            y,
            task=str(number),
            epochs=epochs,
            batch_size=BATCH_SIZE,
            sample_weight=np.linspace(0.5, 1.5, SIZE, dtype="float32"),
            verbose=0,
        )
        logs += history.history.values()
    return model, {
        "weights": values(model.weights),
        "state": state_of(model.consolidation),
        "logs": [np.ravel(logs)],
        **use(model),
    }


def use(model):
    x, y = data(model, 0)
    arguments = {"batch_size": BATCH_SIZE, "verbose": 0}
    return {
        "evaluation": [model.evaluate(x, y, task="0", **arguments)],
        "predictions": [
            model.predict(x, task="0", **arguments),
            model.predict(x, task=["0", "1", "0"] * (SIZE // 3), **arguments),
        ],
    }


def data(model, number):
    """Returns the data of a task; heads have two classes, then three."""
    x, y = make_data(number % 3, size=SIZE)
    if model.task_heads:
        y = np.where(np.arange(SIZE) % 4 == 0, number + 1, y - 2 * number)
    return x, y.astype("int32")


def state_of(method):
    return [] if method is None else list(method.get_state().values())


def differences(first, second):
    """Returns the largest difference in each part of two results.

    Of numbers above 1 it is relative to them.
    """
    return {
        part: max(
            (_difference(a, b) for a, b in zip(first[part], second[part])),
            default=0.0,
        )
        for part in first
        if len(first[part]) == len(second[part])
    }


def _difference(first, second):
    first, second = np.asarray(first, float), np.asarray(second, float)
    size = np.maximum(1.0, np.abs(first))
    return float(np.max(np.abs(first - second) / size, initial=0.0))
