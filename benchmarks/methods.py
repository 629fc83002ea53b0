"""Time per step and per end of a task of every method.

All train the same 784-300x5-10 network at batch 128, on a second task, in one
process and in turn. Times are relative to fine-tuning with the same options;
as in `benchmarks.training`, the lower quartile over many short epochs counts.
The end of a task is relative to an epoch of fine-tuning on the same data: what
the consolidation does with the data, and the folding of the bias units.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import keras_bpn
from benchmarks.training import BATCH_SIZE
from benchmarks.training import EpochTimer

METHODS = (
    "fine-tuning",  # What the others are measured by.
    "EWC",
    "SI",
    "MAS",
    "PSP",
    "BD+EWC",
    "BD+PSP",
    "GD+EWC",
    "SLNID",
    "LwF",
    "EBLL",
    "IMM",
    "GEM",
)
LIMITS = {
    **dict.fromkeys(("EWC", "SI", "MAS", "PSP", "BD+EWC", "BD+PSP"), 1.3),
    **dict.fromkeys(("LwF", "EBLL", "SLNID"), 2.5),
}
OPTIONS = {"default": {}, "jit_compile": {"jit_compile": True}}


class Contender:
    """A model with one task behind it and one in training."""

    def __init__(self, method, options, x, y):
        inputs = keras.Input((784,))
        h = inputs
        for _ in range(5):
            h = keras_bpn.layers.BPNDense(300, activation="relu")(h)
        outputs = keras_bpn.layers.BPNDense(10)(h)
        self.model = keras_bpn.BPNModel(inputs, outputs)
        self.model.compile(
            optimizer=keras.optimizers.Adam(1e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            **options,
            **keras_bpn.methods.get(method),
        )
        self.x, self.y = x, y
        self._fit("first", y // 5, epochs=1)
        self.model.consolidate(x, y // 5)
        self.ends = 1

    def _fit(self, task, y, epochs, callbacks=()):
        self.model.fit(
            self.x,
            y,
            task=task,
            batch_size=BATCH_SIZE,
            epochs=epochs,
            verbose=0,
            callbacks=list(callbacks),
            consolidate=False,
        )

    def step_times(self, epochs):
        """Returns the seconds per step of some epochs, less the first."""
        timer = EpochTimer()
        self._fit("second", self.y, epochs + 1, [timer])
        steps = len(self.x) // BATCH_SIZE
        return [seconds / steps for seconds in timer.seconds[1:]]

    def end_time(self):
        """Returns the seconds that the end of the second task takes, once its
        functions are compiled."""
        self.model.consolidate(self.x, self.y, batch_size=BATCH_SIZE)
        self._fit("third", self.y, 1)
        start = time.perf_counter()
        self.model.consolidate(self.x, self.y, batch_size=BATCH_SIZE)
        return time.perf_counter() - start


def measure(methods, options, rounds, epochs, steps):
    """Returns seconds per step of all epochs, and per task end, by method."""
    generator = np.random.default_rng(0)
    x = generator.random((steps * BATCH_SIZE, 784), dtype="float32")
    y = generator.integers(10, size=len(x)).astype("int32")
    contenders = {name: Contender(name, options, x, y) for name in methods}
    for contender in contenders.values():
        contender.step_times(0)
    times = {name: [] for name in methods}
    for _ in range(rounds):
        for name, contender in contenders.items():
            times[name] += contender.step_times(epochs)
    ends = {name: c.end_time() for name, c in contenders.items()}
    return times, ends


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.methods",
        description=__doc__.splitlines()[0],
    )
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--epochs", type=int, default=2, help="per round")
    parser.add_argument("--steps", type=int, default=50, help="per epoch")
    parser.add_argument(
        "--methods",
        nargs="+",
        default=METHODS[1:],
        help="measured beside fine-tuning",
    )
    arguments = vars(parser.parse_args())
    methods = [METHODS[0], *arguments.pop("methods")]
    print(
        "| compile options | method | ms per step | ratio | limit | task end |"
    )
    print("|---|---|---|---|---|---|")
    for label, options in OPTIONS.items():
        times, ends = measure(methods, options, **arguments)
        plain = np.quantile(times["fine-tuning"], 0.25)
        for name, seconds in times.items():
            typical = np.quantile(seconds, 0.25)
            end = ends[name] / (plain * arguments["steps"])
            print(
                f"| {label} | {name} | {1000 * typical:.2f} | "
                f"{typical / plain:.2f} | {LIMITS.get(name, '')} | {end:.2f} |",
                flush=True,
            )
    print("\nA task end of 1.00 takes as long as an epoch of fine-tuning.")


if __name__ == "__main__":
    main()
