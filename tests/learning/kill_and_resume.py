"""Kills a run of `learn()` again and again, and lets it go on each time.

    python -m tests.learning.kill_and_resume --kills 30 --data mnist

One process learns undisturbed. Another is killed with SIGKILL: while it trains,
while it saves, and while a task ends, in turn. It is started again each time,
and in the end both must have the same accuracies and weights to the bit.
"""

import argparse
import itertools
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import numpy as np

# What the victim says just before it does it, and how long that may take.
MOMENTS = {"trains": 0.5, "saves": 0.05, "ends": 0.5}
# In turn. There are few ends: one for each task.
ORDER = ("trains", "saves", "ends", "saves", "trains", "saves")


def learn_tasks(data, directory, result):
    """Learns all tasks, or goes on with that, and says where it is."""
    import keras

    import keras_bpn
    from keras_bpn.learning.run_directory import RunDirectory

    units, size, hidden_dim = (
        ((300, 300), 784, 100) if data == "mnist" else ((30,), 64, 10)
    )
    # The network of a process that goes on is another one at first.
    saved = list(pathlib.Path(directory).glob("*-step"))
    saved += pathlib.Path(directory).glob("*-task")
    keras.utils.set_random_seed(time.time_ns() % 2**32 if saved else 0)
    x = inputs = keras.Input((size,))
    for n in units:
        x = keras_bpn.layers.BPNDense(
            n, activation="relu", hidden_dim=hidden_dim
        )(x)
        x = keras.layers.Dropout(0.1)(x)
    outputs = keras_bpn.layers.BPNDense(10, hidden_dim=hidden_dim)(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    model.compile(
        optimizer=keras.optimizers.Adam(1e-3),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        consolidation=keras_bpn.consolidation.EWC(2e3),
    )
    scenario = (
        keras_bpn.scenarios.SplitClasses("mnist", 2)
        if data == "mnist"
        else keras_bpn.scenarios.Digits()
    )

    class Announce(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            print("trains", flush=True)

    save, consolidate = RunDirectory.save, model.consolidate

    def announce_save(*args, **kwargs):
        print("saves", flush=True)
        save(*args, **kwargs)
        print("trains", flush=True)

    def announce_end(*args, **kwargs):
        print("ends", flush=True)
        consolidate(*args, **kwargs)

    RunDirectory.save, model.consolidate = announce_save, announce_end
    history = keras_bpn.learn(
        model,
        scenario,
        epochs=5 if data == "mnist" else 2,
        batch_size=128 if data == "mnist" else 16,
        patience=2,
        directory=directory,
        save_every=20 if data == "mnist" else 7,
        save_unit="steps",
        callbacks=[Announce()],
        verbose=0,
    )
    logs = [
        value
        for epoch in history.epochs
        for _, value in sorted(epoch["logs"].items())
    ]
    weights = {f"{i:03d}": w for i, w in enumerate(model.get_weights())}
    optimizer = {
        f"optimizer{i:03d}": np.asarray(v)
        for i, v in enumerate(model.optimizer.variables)
    }
    np.savez(
        result,
        matrix=history.matrix.values,
        logs=logs,
        **weights,
        **optimizer,
    )


def start(data, directory, result):
    return subprocess.Popen(
        [sys.executable, "-m", __spec__.name, "--data", data, "--run"]
        + [str(directory), str(result)],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )


def finish(process):
    process.communicate()
    if process.returncode:
        raise RuntimeError(f"The run failed with {process.returncode}")


def kill_once(process, moment, generator):
    """Kills a process at a moment.

    Returns:
        Whether it was still running, with work left to do.
    """
    skipped = generator.randrange(3)
    for line in process.stdout:
        if line.strip() == moment:
            if not skipped or moment == "ends":
                time.sleep(generator.random() * MOMENTS[moment])
                break
            skipped -= 1
    else:
        # It came to its end before that.
        finish(process)
        return False
    was_running = process.poll() is None
    process.kill()
    process.communicate()
    return was_running


def compare(data, kills, seed, report=print):
    """Kills runs until that was done often enough, and compares each.

    Raises:
        AssertionError: If the results differ.
    """
    generator = random.Random(seed)
    moments = itertools.cycle(ORDER)
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        finish(start(data, folder / "calm", folder / "calm.npz"))
        killed = 0
        for number in itertools.count():
            place = folder / f"rough-{number}"
            result = folder / f"rough-{number}.npz"
            while killed < kills:
                moment = next(moments)
                if not kill_once(start(data, place, result), moment, generator):
                    break
                killed += 1
                kept = sorted(os.listdir(place))
                report(f"kill {killed} of {kills} ({moment}): {kept}")
            finish(start(data, place, result))
            assert_same(result, folder / "calm.npz")
            report(f"Run {number + 1} is equal to the bit")
            if killed == kills:
                return


def assert_same(first, second):
    """Checks two results for equality to the bit."""
    with np.load(first) as first, np.load(second) as second:
        if set(first.files) != set(second.files):
            raise AssertionError("The runs have other weights")
        for name in first.files:
            np.testing.assert_array_equal(
                first[name], second[name], err_msg=name
            )


def main():
    parser = argparse.ArgumentParser(
        prog="python -m tests.learning.kill_and_resume",
        description=__doc__.splitlines()[0],
    )
    parser.add_argument("--kills", type=int, default=30)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--data", choices=("digits", "mnist"), default="mnist")
    parser.add_argument(
        "--run",
        nargs=2,
        metavar=("DIRECTORY", "RESULT"),
        help="learn in a folder and write what came out; used by the script",
    )
    arguments = parser.parse_args()
    if arguments.run:
        learn_tasks(arguments.data, *arguments.run)
    else:
        compare(
            arguments.data,
            arguments.kills,
            arguments.seed,
            report=lambda line: print(line, flush=True),
        )


if __name__ == "__main__":
    main()
