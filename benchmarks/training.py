"""Time per training step, beside plain Keras.

The contenders train the same 784-300x5-10 network at batch 128 with equal
compile options, in one process and in turn, so that whatever else the machine
does falls on all of them alike. What counts is the ratio, that of the lower
quartiles of the time per step over many short epochs.

Why not the medians: on a machine with two cores an epoch runs at one of two
speeds, and the slower one, half as long again, is that of the same process
pinned to one core; it seems that two of TensorFlow's threads share a core then.
That befalls plain Keras, and a single batch repeated from memory, as it does
every other contender: a tenth of the epochs in one run, half of them in the
next. A median lands on the one speed or the other by chance. The lower quartile
is the time of an undisturbed epoch as long as a quarter of them are. The share
of slow epochs is printed beside it.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import keras_bpn

LIMIT = 1.25
SLOW = 1.25  # Times the lower quartile.
BATCH_SIZE = 128
OPTIONS = {
    "default": {},
    "jit_compile": {"jit_compile": True},
    "jit_compile, steps_per_execution=16": {
        "jit_compile": True,
        "steps_per_execution": 16,
    },
}
EWC, PSP = keras_bpn.consolidation.EWC, keras_bpn.consolidation.PSP


class EpochTimer(keras.callbacks.Callback):
    """Keeps the seconds of each epoch."""

    def __init__(self):
        super().__init__()
        self.seconds = []

    def on_epoch_begin(self, epoch, logs=None):
        self._start = time.perf_counter()

    def on_epoch_end(self, epoch, logs=None):
        self.seconds.append(time.perf_counter() - self._start)


class Contender:
    """A model that is trained for an epoch at a time."""

    def __init__(self, name, layer, model_class, options, **compile_arguments):
        self.name = name
        self.is_bpn = model_class is keras_bpn.BPNModel
        x = inputs = keras.Input((784,))
        for _ in range(5):
            x = layer(300, activation="relu")(x)
        self.model = model_class(inputs, layer(10)(x))
        self.model.compile(
            optimizer=keras.optimizers.Adam(1e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            **options,
            **compile_arguments,
        )

    def prepare(self, x, y):
        """Ends a first task, so that its protection has something to do."""
        if self.is_bpn:
            self.model.fit(x, y, task="first", batch_size=BATCH_SIZE, verbose=0)

    def step_times(self, x, y, epochs):
        """Returns the seconds per step of some epochs, less the first."""
        timer = EpochTimer()
        arguments = {"task": "second", "consolidate": False}
        self.model.fit(
            x,
            y,
            batch_size=BATCH_SIZE,
            epochs=epochs + 1,
            verbose=0,
            callbacks=[timer],
            **(arguments if self.is_bpn else {}),
        )
        steps = len(x) // BATCH_SIZE
        return [seconds / steps for seconds in timer.seconds[1:]]


def contenders(options):
    dense, bpn_dense = keras.layers.Dense, keras_bpn.layers.BPNDense
    model, bpn_model = keras.Model, keras_bpn.BPNModel
    return [
        Contender("keras.Model, Dense", dense, model, options),
        Contender(
            "BPNModel, BD+EWC",
            bpn_dense,
            bpn_model,
            options,
            consolidation=EWC(),
        ),
        Contender(
            "BPNModel, BD+PSP",
            bpn_dense,
            bpn_model,
            options,
            consolidation=PSP(),
        ),
    ]


def measure(options, rounds, epochs, steps):
    """Returns the seconds per step of all epochs by contender."""
    generator = np.random.default_rng(0)
    x = generator.random((steps * BATCH_SIZE, 784), dtype="float32")
    y = generator.integers(10, size=len(x)).astype("int32")
    entrants = contenders(options)
    times = {entrant.name: [] for entrant in entrants}
    for entrant in entrants:
        entrant.prepare(x, y)
        entrant.step_times(x, y, 0)
    for _ in range(rounds):
        for entrant in entrants:
            times[entrant.name] += entrant.step_times(x, y, epochs)
    return times


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.training",
        description=__doc__.splitlines()[0],
    )
    parser.add_argument("--rounds", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=2, help="per round")
    parser.add_argument("--steps", type=int, default=50, help="per epoch")
    arguments = parser.parse_args()
    print("| compile options | model | ms per step | ratio | slow epochs |")
    print("|---|---|---|---|---|")
    for label, options in OPTIONS.items():
        times = measure(options, **vars(arguments))
        plain = np.quantile(next(iter(times.values())), 0.25)
        for name, seconds in times.items():
            typical = np.quantile(seconds, 0.25)
            slow = np.mean(np.array(seconds) > SLOW * typical)
            print(
                f"| {label} | {name} | {1000 * typical:.2f} | "
                f"{typical / plain:.2f} | {slow:.0%} |",
                flush=True,
            )
    print(f"\nThe ratio is to be at most {LIMIT}.")


if __name__ == "__main__":
    main()
