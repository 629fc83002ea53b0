"""Examples per second that scenarios deliver, beside what training takes.

A pipeline is of use if training never waits for it. So each one is read to its
end, epoch after epoch, at batch 128, and then networks are trained for an epoch
on the same data, from memory: 784-300x5-10 (3072 inputs for CIFAR-10) as plain
Keras and as BD+EWC. Each is the only work of the process at that time, in turn
over some rounds; what counts is the median over rounds of the ratio of two
times of the same round.

The second table of each is the time from asking for a task to its first batch,
beside training on it, for as many epochs as the paper takes: five where classes
are split (figure 6), and one here, the least there can be, for permuted pixels.
"""

import functools
import itertools

import numpy as np

import keras_bpn
from benchmarks import command
from benchmarks.harness import alternate
from benchmarks.harness import paired_ratio
from benchmarks.networks import BATCH_SIZE
from benchmarks.networks import make_bpn
from benchmarks.networks import make_plain
from benchmarks.tables import Row
from benchmarks.tables import Table
from keras_bpn.scenarios import PermutedPixels
from keras_bpn.scenarios import SplitClasses

LIMIT = ">= 3"
PREPARATION_LIMIT = "< 0.05"
SHAPES = {"mnist": (28, 28, 1), "cifar10": (32, 32, 3), "random": (28, 28, 1)}
EPOCHS = {SplitClasses: 5, PermutedPixels: 1}
NETWORKS = ("keras.Model", "BPNModel, BD+EWC")
SETTINGS = {"rounds": 8, "datasets": ["mnist", "cifar10"], "images": 60000}
QUICK = {"rounds": 1, "datasets": ["random"], "images": 1200}


def run(quick=False, **changes):
    settings = {**SETTINGS, **(QUICK if quick else {}), **changes}
    tables = []
    for name in settings["datasets"]:
        scenarios, note = load_scenarios(name, settings["images"])
        for label, scenario in scenarios.items():
            seconds, examples = measure(scenario, settings["rounds"])
            epochs = EPOCHS[type(scenario)]
            tables.append(delivery(label, seconds, examples, note))
            tables.append(preparation(label, seconds, epochs, note))
    return tables


def load_scenarios(name, images):
    """Returns scenarios by label, and a note if their data is synthetic."""
    dataset, label, note = name, f'"{name}"', ""
    options = {"batch_size": BATCH_SIZE, "download": False}
    try:
        if name == "random":
            raise FileNotFoundError
        split = SplitClasses(dataset, 2, **options)
    except FileNotFoundError:
        dataset, label = synthetic(SHAPES[name], images), f"not {name}"
        note = f"{images} random images: TFDS has not prepared {name!r}."
        split = SplitClasses(dataset, 2, **options)
    scenarios = {f"SplitClasses({label}, 2)": split}
    if name != "cifar10":
        permuted = PermutedPixels(dataset, 10, **options)
        scenarios[f"PermutedPixels({label}, 10)"] = permuted
    return scenarios, note


def synthetic(shape, images):
    """Returns random images, a sixth of them for tests."""
    generator = np.random.default_rng(0)
    x = generator.integers(256, size=(images, *shape), dtype="uint8")
    y = np.arange(images) % 10
    count = images * 5 // 6
    return (x[:count], y[:count]), (x[count:], y[count:])


def measure(scenario, rounds):
    """Returns seconds by what was done, and the number of examples."""
    examples = scenario[0].examples("train")
    examples = examples.reshape((int(np.prod(examples.shape)),))
    x, y = examples.arrays()
    dataset = examples.batches(BATCH_SIZE, seed=0)
    networks = {
        NETWORKS[0]: make_plain(inputs=x.shape[1]),
        NETWORKS[1]: make_bpn("BD+EWC", inputs=x.shape[1]),
    }
    # A first task, so that its protection has something to do.
    networks[NETWORKS[1]].fit(
        x[:BATCH_SIZE], y[:BATCH_SIZE], task="first", verbose=0
    )
    tasks = itertools.cycle(range(len(scenario)))
    contenders = {
        "reading": lambda: read(dataset),
        "preparing": lambda: prepare(scenario, next(tasks)),
    }
    for name, network in networks.items():
        contenders[name] = functools.partial(train, network, x, y)
    return alternate(contenders, rounds), len(examples)


def read(dataset):
    """Reads an epoch of batches."""
    for _ in dataset:
        pass


def prepare(scenario, index):
    """Asks for a task and reads its first batch."""
    next(iter(scenario.make_task(index).train))


def train(network, x, y):
    """Trains an epoch."""
    arguments = {}
    if isinstance(network, keras_bpn.BPNModel):
        arguments = {"task": "second", "consolidate": False}
    network.fit(x, y, batch_size=BATCH_SIZE, verbose=0, **arguments)


def delivery(label, seconds, examples, note):
    """Returns the table of examples per second."""
    rows = [Row("read", examples / median(seconds["reading"]), "/s")]
    for name in NETWORKS:
        ratio, spread = paired_ratio(seconds[name], seconds["reading"])
        trained = examples / median(seconds[name])
        rows.append(Row(name, trained, "/s", ratio, spread, LIMIT))
    columns = ("", "examples", "reading to training")
    return Table(label, rows, columns, note)


def preparation(label, seconds, epochs, note):
    """Returns the table of the time until the first batch."""
    ready = median(seconds["preparing"])
    rows = [Row("first batch of a task", 1000 * ready, "ms")]
    for name in NETWORKS:
        training = [epochs * s for s in seconds[name]]
        ratio, spread = paired_ratio(seconds["preparing"], training)
        rows.append(
            Row(
                f"{name}, epochs: {epochs}",
                1000 * median(training),
                "ms",
                ratio,
                spread,
                PREPARATION_LIMIT,
            )
        )
    columns = ("", "time", "preparing to training")
    return Table(label, rows, columns, note)


def median(seconds):
    return float(np.median(seconds))


if __name__ == "__main__":
    command.main("pipelines")
