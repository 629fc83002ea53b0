"""A run of a hundred permuted tasks: how long it takes, and where time goes.

`keras_bpn.learn` trains a 784-128x4-10 network with BD+EWC for one epoch on
each of a hundred permutations of MNIST (random images, where TFDS has not
prepared it), at batch 128, and evaluates all tasks so far after every ten. This
is one run, timed from outside.

Training steps are what lies between the beginning and the end of the epochs,
the first included, in which they are compiled. The end of a task is the exact
Fisher information over all of its 60,000 examples: a forward and a backward
pass and one product of matrices as large as those of a training step.
"""

import time

import keras

import keras_bpn
from benchmarks import command
from benchmarks.networks import BATCH_SIZE
from benchmarks.networks import EpochTimer
from benchmarks.networks import random_data
from benchmarks.tables import Row
from benchmarks.tables import Table

LIMIT = "<= 0.25"
SETTINGS = {"tasks": 100, "evaluate_every": 10, "data": "mnist"}
QUICK = {"tasks": 2, "evaluate_every": 2, "data": "random"}


class TimedModel(keras_bpn.BPNModel):
    """A model that knows how long its methods took, in seconds."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seconds = {"fit": 0.0, "consolidate": 0.0, "evaluate": 0.0}

    def fit(self, *args, **kwargs):
        return self._timed("fit", *args, **kwargs)

    def consolidate(self, *args, **kwargs):
        return self._timed("consolidate", *args, **kwargs)

    def evaluate(self, *args, **kwargs):
        return self._timed("evaluate", *args, **kwargs)

    def _timed(self, name, *args, **kwargs):
        start = time.perf_counter()
        try:
            return getattr(super(), name)(*args, **kwargs)
        finally:
            self.seconds[name] += time.perf_counter() - start


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    return [make_table(**settings)]


def make_table(tasks, evaluate_every, data):
    scenario, label = make_scenario(tasks, data)
    model = make_model()
    timer = EpochTimer()
    start = time.perf_counter()
    history = keras_bpn.learn(
        model,
        scenario,
        epochs=1,
        evaluate_every=evaluate_every,
        callbacks=[timer],
        verbose=0,
    )
    total = time.perf_counter() - start
    steps = sum(timer.seconds)
    parts = {
        "training steps": steps,
        "getting ready for them": model.seconds["fit"] - steps,
        "ends of tasks": model.seconds["consolidate"],
        "evaluation": model.seconds["evaluate"],
    }
    parts["all else"] = total - sum(parts.values())
    rows = [Row("the whole run", total, "s")]
    rows += [Row(n, t, "s", t / total) for n, t in parts.items()]
    outside = total - steps
    rows.append(
        Row(
            "outside of training steps",
            outside,
            "s",
            outside / total,
            limit=LIMIT,
        )
    )
    accuracy = history.summary()["average_accuracy"]
    return Table(
        f"{tasks} permuted tasks, {label}",
        rows,
        columns=("", "time", "share"),
        note=f"Average accuracy after the last task: {accuracy:.3f}.",
    )


def make_model():
    inputs = x = keras.Input((784,))
    for _ in range(4):
        x = keras_bpn.layers.BPNDense(128, activation="relu")(x)
    model = TimedModel(inputs, keras_bpn.layers.BPNDense(10)(x))
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **keras_bpn.methods.get("BD+EWC", strength=100.0),
    )
    return model


def make_scenario(tasks, data):
    """Returns the scenario, and the name of its data."""
    options = {
        "num_tasks": tasks,
        "batch_size": BATCH_SIZE,
        "validation_split": 0.0,
    }
    permuted = keras_bpn.scenarios.PermutedPixels
    if data != "random":
        try:
            return permuted(data, download=False, **options), "MNIST"
        except FileNotFoundError:
            pass
    x, y = random_data(60)
    split = len(x) * 5 // 6
    arrays = (x[:split], y[:split]), (x[split:], y[split:])
    return permuted(arrays, **options), "random images"


if __name__ == "__main__":
    command.main("hundred_tasks")
