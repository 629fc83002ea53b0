"""One of two processes that train together with
`MultiWorkerMirroredStrategy`.

Arguments are a folder, the number of devices of each, and what to do.
"""

import functools
import pathlib
import sys

import keras
import numpy as np
import tensorflow as tf
from tensorflow.python.eager import context

# On a busy machine a process may be silent for longer than TensorFlow waits,
# for which it has no public setting.
context.Context.configure_coordination_service = functools.partialmethod(
    context.Context.configure_coordination_service,
    heartbeat_timeout_in_ms=120_000,
)
# Before anything else runs in TensorFlow.
tf.config.set_logical_device_configuration(
    tf.config.list_physical_devices("CPU")[0],
    int(sys.argv[2]) * [tf.config.LogicalDeviceConfiguration()],
)
STRATEGY = tf.distribute.MultiWorkerMirroredStrategy()

import keras_bpn  # noqa: E402
from keras_bpn.models import workers  # noqa: E402
from tests.distribute import cases  # noqa: E402
from tests.distribute.processes import report  # noqa: E402
from tests.helpers import values  # noqa: E402

INDEX = workers.worker_index(STRATEGY)


def compare(name):
    """Returns differences to one process, and a code of the weights."""
    case = cases.CASES[name]
    # What is drawn without a seed follows the chief.
    model, spread = cases.train(STRATEGY, **case, seed=1 + INDEX)
    _, alone = cases.train(None, **case)
    bits = b"".join(v.tobytes() for v in values(model.weights))
    return {
        "differences": cases.differences(alone, spread),
        "code": workers.code(bits),
    }


def refusals(folder):
    """Returns the errors where workers are about to do different things."""
    errors = {}

    def attempt(name, *args, **kwargs):
        try:
            model.fit(*args, **{"task": "0", "verbose": 0, **kwargs})
        except ValueError as error:
            errors[name] = str(error)

    with STRATEGY.scope():
        model = cases.single_head()
        model.compile(
            "sgd",
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            consolidation=keras_bpn.consolidation.EWC(),
        )
    x, y = cases.data(model, 0)
    attempt("data", x + INDEX, y)
    attempt("task", x, y, task=str(INDEX))
    attempt("generator", ((x, y) for _ in range(2)), consolidate=False)
    options = tf.data.Options()
    options.experimental_distribute.auto_shard_policy = (
        tf.data.experimental.AutoShardPolicy.OFF
    )
    dataset = tf.data.Dataset.from_tensors((x, y)).with_options(options)
    attempt("own data", dataset)
    errors["tasks"] = list(model.tasks)
    return errors


def saved(folder):
    """Lets all workers save to one file, and goes on from it."""
    case = cases.CASES["BD+PSP"]
    model, _ = cases.train(STRATEGY, **case)
    path = pathlib.Path(folder, "model.keras")
    model.save(path, overwrite=False)
    model.save_weights(pathlib.Path(folder, "model.weights.h5"))
    _wait()
    with STRATEGY.scope():
        loaded = keras.models.load_model(path)
    results = []
    for each in (model, loaded):
        x, y = cases.data(each, 2)
        each.fit(x, y, task="new", batch_size=cases.BATCH_SIZE, verbose=0)
        results.append({"weights": values(each.weights)})
    return cases.differences(*results)


def learned(folder):
    """Stops a run of `learn()` and goes on with it."""

    class Stop(keras.callbacks.Callback):
        steps = 0

        def on_train_batch_end(self, batch, logs=None):
            self.steps += 1
            if self.steps == 6:
                raise InterruptedError

    results, stopped = [], False
    for name, stops in (("whole", False), ("stopped", True)):
        if stops:
            try:
                _learn(None, pathlib.Path(folder, name), [Stop()])
            except InterruptedError:
                stopped = True
            _wait()
        results.append(_learn(None, pathlib.Path(folder, name)))
    keras.utils.set_random_seed(1)
    alone = _learn(tf.distribute.get_strategy())
    return {
        "stopped": stopped,
        "resumed": cases.differences(results[0], results[1]),
        "alone": cases.differences(alone, results[0]),
        "files": sorted(
            p.name for p in pathlib.Path(folder, "whole").iterdir()
        ),
    }


def _learn(strategy=None, directory=None, callbacks=None):
    keras.utils.set_random_seed(1)
    strategy = strategy or STRATEGY
    with strategy.scope():
        inputs = keras.Input((2,))
        outputs = keras_bpn.layers.BPNDense(4, hidden_dim=5)(inputs)
        model = keras_bpn.BPNModel(inputs, outputs)
        model.compile(
            keras.optimizers.SGD(0.1),
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            metrics=["accuracy"],
            consolidation=keras_bpn.consolidation.SI(),
        )
    history = keras_bpn.learn(
        model,
        keras_bpn.scenarios.GaussianClusters(),
        batch_size=100,
        directory=directory,
        save_every=2,
        save_unit="steps",
        callbacks=callbacks,
        verbose=0,
    )
    matrix = np.nan_to_num(history.matrix.values)
    return {"weights": values(model.weights), "matrix": [matrix]}


def keras_faults(folder):
    """Returns the errors of Keras where nothing is mended."""
    errors = {}
    for mended in (False, True):
        with STRATEGY.scope():
            model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
            model.compile("sgd", "mse")
            if mended:
                model._maybe_symbolic_build = lambda iterator: None
        try:
            x = np.ones((8, 2), "float32")
            model.fit(x, x[:, :1], batch_size=8, verbose=0)
        except Exception as error:
            errors[f"mended={mended}"] = f"{type(error).__name__}: {error}"
    return errors


def _wait():
    """Waits until all workers are here."""
    workers.check_same(STRATEGY, {"place": "here"})


def main(folder, devices, *names):
    results = {}
    for name in names:
        if name in cases.CASES:
            results[name] = compare(name)
        else:
            results[name] = globals()[name](folder)
    report(results)


if __name__ == "__main__":
    main(*sys.argv[1:])
