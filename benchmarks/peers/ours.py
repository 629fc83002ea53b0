"""The job in keras_bpn: `python -m benchmarks.peers.ours METHOD ...`."""

import argparse
import json
import pathlib
import time

import keras
import numpy as np

import keras_bpn


def learn(method, job, tasks, draw=False):
    """Trains all tasks.

    Args:
        method: String, the name of a method.
        job: Dictionary of settings.
        tasks: List of dictionaries of arrays.
        draw: Boolean, whether GEM draws some patterns of each memory for a
            step, instead of taking all.

    Returns:
        The network, and the seconds of training and of its end for each task.
    """
    classes = job["tasks"] * job["classes_per_task"]
    x = inputs = keras.Input((784,))
    for _ in range(job["layers"]):
        x = keras_bpn.layers.BPNDense(job["units"], activation="relu")(x)
    model = keras_bpn.BPNModel(inputs, keras_bpn.layers.BPNDense(classes)(x))
    settings = {}
    if method == "EWC":
        settings["strength"] = job["ewc_strength"]
    elif method == "GEM":
        patterns = job["gem_patterns_per_task"] // job["classes_per_task"]
        settings["memory_per_class"] = patterns
        settings["margin"] = job["gem_memory_strength"]
        if draw:
            settings["memory_batch_size"] = job["gem_patterns_per_step"]
    model.compile(
        optimizer=keras.optimizers.Adam(job["learning_rate"]),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **keras_bpn.methods.get(method, **settings),
    )
    seconds = []
    for i, task in enumerate(tasks):
        start = time.perf_counter()
        model.fit(
            task["x_train"],
            task["y_train"],
            task=str(i),
            batch_size=job["batch_size"],
            epochs=job["epochs"],
            verbose=0,
            consolidate=False,
        )
        middle = time.perf_counter()
        model.consolidate(
            task["x_train"], task["y_train"], batch_size=job["batch_size"]
        )
        seconds.append((middle - start, time.perf_counter() - middle))
    return model, seconds


def load_tasks(path, count):
    """Returns a dictionary of arrays for each task."""
    with np.load(path) as data:
        return [
            {
                name: data[f"{name}_{i}"]
                for name in ("x_train", "y_train", "x_test", "y_test")
            }
            for i in range(count)
        ]


def accuracy(model, i, x, y):
    """Returns the fraction of examples whose class is found among all."""
    predictions = model.predict(x, task=str(i), batch_size=1024, verbose=0)
    return float(np.mean(predictions.argmax(axis=1) == y))


def main():
    parser = argparse.ArgumentParser(prog="python -m benchmarks.peers.ours")
    parser.add_argument("method")
    parser.add_argument("--job", type=pathlib.Path, required=True)
    parser.add_argument("--data", type=pathlib.Path, required=True)
    parser.add_argument("--output", type=pathlib.Path, required=True)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--draw", action="store_true")
    arguments = parser.parse_args()
    keras.utils.set_random_seed(arguments.seed)
    job = json.loads(arguments.job.read_text())
    tasks = load_tasks(arguments.data, job["tasks"])
    model, seconds = learn(arguments.method, job, tasks, arguments.draw)
    record = {
        "train_seconds": [train for train, _ in seconds],
        "end_seconds": [end for _, end in seconds],
        "accuracy": [
            accuracy(model, i, task["x_test"], task["y_test"])
            for i, task in enumerate(tasks)
        ],
        "versions": {"keras_bpn": keras_bpn.__version__},
    }
    arguments.output.write_text(json.dumps(record))


if __name__ == "__main__":
    main()
