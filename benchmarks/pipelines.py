"""Examples per second that scenarios deliver, beside what training takes.

A pipeline is of use if training never waits for it. So each one is read to its
end, epoch after epoch, at batch 128, and then networks are trained for an epoch
on the same data, from memory: 784-300x5-10 (3072 inputs for CIFAR-10) as plain
Keras and as BD+EWC. Both are the only work of the process at that time, in turn
over some rounds; the lower quartile counts, as in `benchmarks.training`.

The second table is the time from asking for a task to its first batch, beside
training on it, for as many epochs as the paper takes: five where classes are
split (figure 6), and one here, the least there can be, for permuted pixels.
"""

import argparse
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import keras
import numpy as np

import keras_bpn
from keras_bpn.scenarios import PermutedPixels
from keras_bpn.scenarios import SplitClasses

LIMIT = 3.0
PREPARATION_LIMIT = 0.05
BATCH_SIZE = 128
EPOCHS = {SplitClasses: 5, PermutedPixels: 1}


def synthetic(shape):
    """Returns random images in the numbers of MNIST and CIFAR-10."""
    generator = np.random.default_rng(0)
    x = generator.integers(256, size=(60000, *shape), dtype="uint8")
    y = generator.integers(10, size=60000)
    return (x[:50000], y[:50000]), (x[50000:], y[50000:])


def load_scenarios():
    """Returns scenarios by label, and notes on what is synthetic."""
    scenarios, notes = {}, []
    data = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3)}
    options = {"batch_size": BATCH_SIZE, "download": False}
    for name, shape in data.items():
        dataset, label = name, f'"{name}"'
        try:
            split = SplitClasses(dataset, 2, **options)
        except FileNotFoundError:
            dataset, label = synthetic(shape), f"random, as {name}"
            notes.append(
                f"TFDS has not prepared {name}: random images stand in for it."
            )
            split = SplitClasses(dataset, 2, **options)
        scenarios[f"SplitClasses({label}, 2)"] = split
        if name == "mnist":
            permuted = PermutedPixels(dataset, 10, **options)
            scenarios[f"PermutedPixels({label}, 10)"] = permuted
    return scenarios, notes


def make_networks(inputs):
    """Returns the compiled networks by name."""
    layers = keras.layers.Dense, keras_bpn.layers.BPNDense
    models = keras.Model, keras_bpn.BPNModel
    ewc = {"consolidation": keras_bpn.consolidation.EWC()}
    networks = {}
    for layer, model, arguments in zip(layers, models, ({}, ewc)):
        x = first = keras.Input((inputs,))
        for _ in range(5):
            x = layer(300, activation="relu")(x)
        network = model(first, layer(10)(x))
        network.compile(
            optimizer=keras.optimizers.Adam(1e-3),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            **arguments,
        )
        networks["BPNModel, BD+EWC" if arguments else "keras.Model"] = network
    return networks


def read(dataset):
    """Returns the seconds that an epoch of batches takes to be read."""
    start = time.perf_counter()
    for _ in dataset:
        pass
    return time.perf_counter() - start


def train(network, x, y):
    """Returns the seconds that an epoch of training takes."""
    arguments = {}
    if isinstance(network, keras_bpn.BPNModel):
        arguments = {"task": "second", "consolidate": False}
    start = time.perf_counter()
    network.fit(x, y, batch_size=BATCH_SIZE, verbose=0, **arguments)
    return time.perf_counter() - start


def prepare(scenario, index):
    """Returns the seconds from asking for a task to its first batch."""
    start = time.perf_counter()
    next(iter(scenario.make_task(index).train))
    return time.perf_counter() - start


def measure(scenario, rounds):
    """Returns seconds by what was done, and the number of examples."""
    examples = scenario[0].examples("train")
    examples = examples.reshape((int(np.prod(examples.shape)),))
    x, y = examples.arrays()
    networks = make_networks(x.shape[1])
    # A first task, so that its protection has something to do.
    networks["BPNModel, BD+EWC"].fit(
        x[:BATCH_SIZE], y[:BATCH_SIZE], task="first", verbose=0
    )
    for network in networks.values():
        train(network, x, y)
    dataset = examples.batches(BATCH_SIZE, seed=0)
    read(dataset)
    prepare(scenario, 0)
    times = {name: [] for name in ("read", "prepare", *networks)}
    for i in range(rounds):
        times["read"].append(read(dataset))
        times["prepare"].append(prepare(scenario, i % len(scenario)))
        for name, network in networks.items():
            times[name].append(train(network, x, y))
    seconds = {name: np.quantile(t, 0.25) for name, t in times.items()}
    return seconds, len(examples)


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.pipelines",
        description=__doc__.splitlines()[0],
    )
    parser.add_argument("--rounds", type=int, default=8)
    arguments = parser.parse_args()
    scenarios, notes = load_scenarios()
    preparation = []
    print("| pipeline | delivers | network | trains on | ratio |")
    print("|---|---|---|---|---|")
    for label, scenario in scenarios.items():
        seconds, count = measure(scenario, arguments.rounds)
        delivered = count / seconds.pop("read")
        prepared = seconds.pop("prepare")
        for name, epoch in seconds.items():
            trained = count / epoch
            print(
                f"| {label} | {delivered:,.0f}/s | {name} | {trained:,.0f}/s "
                f"| {delivered / trained:.1f} |",
                flush=True,
            )
            epochs = EPOCHS[type(scenario)]
            preparation.append(
                f"| {label} | {1000 * prepared:.0f} ms | {name} | "
                f"{epochs} x {1000 * epoch:.0f} ms | "
                f"{prepared / (epochs * epoch):.1%} | {prepared / epoch:.1%} |"
            )
    print(f"\nThe ratio is to be at least {LIMIT}.\n")
    print("| task of | ready in | network | training | share | of one epoch |")
    print("|---|---|---|---|---|---|")
    print("\n".join(preparation))
    print(f"\nThe share is to be below {PREPARATION_LIMIT:.0%}.")
    print("".join(f"\n{note}" for note in notes))


if __name__ == "__main__":
    main()
