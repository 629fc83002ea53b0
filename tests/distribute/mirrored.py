"""Compares `MirroredStrategy` on two devices of the CPU with one device."""

import pathlib
import re
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf

_CPU = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    _CPU, 2 * [tf.config.LogicalDeviceConfiguration()]
)

import keras_bpn  # noqa: E402
from tests.distribute import cases  # noqa: E402
from tests.distribute.processes import report  # noqa: E402
from tests.helpers import values  # noqa: E402


def compare(strategy, name):
    case = cases.CASES[name]
    _, alone = cases.train(None, **case)
    model, spread = cases.train(strategy, **case)
    # All replicas hold the same bits.
    for variable in model.weights:
        first, second = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(first, second)
    return model, cases.differences(alone, spread)


def learn(strategy):
    """Returns differences of weights and accuracies after `learn()`."""
    results = []
    for scope in (tf.distribute.get_strategy(), strategy):
        keras.utils.set_random_seed(1)
        with scope.scope():
            inputs = keras.Input((64,))
            outputs = keras_bpn.layers.BPNDense(10, hidden_dim=5)(inputs)
            model = keras_bpn.BPNModel(inputs, outputs)
            model.compile(
                keras.optimizers.SGD(0.1),
                keras.losses.SparseCategoricalCrossentropy(from_logits=True),
                metrics=["accuracy"],
                consolidation=keras_bpn.consolidation.SI(),
            )
        scenario = keras_bpn.scenarios.Digits()
        with tempfile.TemporaryDirectory() as folder:
            history = keras_bpn.learn(
                model, scenario, 1, 50, directory=f"{folder}/run", verbose=0
            )
        matrix = np.nan_to_num(history.matrix.values)
        results.append({"weights": values(model.weights), "matrix": [matrix]})
    return cases.differences(*results)


def save_and_load(strategy, model, on_one_device):
    """Returns how far a loaded model is from one that was never saved."""
    with tempfile.TemporaryDirectory() as folder:
        model.save(f"{folder}/model.keras")
        with strategy.scope():
            loaded = keras.models.load_model(f"{folder}/model.keras")
        if on_one_device:
            loaded = keras.models.load_model(f"{folder}/model.keras")
    results = []
    for each in (model, loaded):
        x, y = cases.data(each, 2)
        each.fit(x, y, task="new", batch_size=cases.BATCH_SIZE, verbose=0)
        results.append({"weights": values(each.weights)})
    return cases.differences(*results)


def named_modes(strategy, model):
    """Returns how far modes are from before others came and went."""
    x, _ = cases.data(model, 0)

    def predictions(*names):
        return [model.predict(x, task=name, verbose=0) for name in names]

    before = predictions("0", "1", "0", "0")
    with tempfile.TemporaryDirectory() as folder:
        model.save_task(f"{folder}/pack", "0")
        model.copy_task("0", "copy")
        model.rename_task("1", "one")
        model.remove_task("0")
        model.load_task(f"{folder}/pack")
    model.combine_tasks("sum", {"copy": 0.5, "0": 0.5})
    after = predictions("copy", "one", "0", "sum")
    x, y = cases.data(model, 2)
    model.fit(x, y, task="more", batch_size=cases.BATCH_SIZE, verbose=0)
    for variable in model.weights:
        first, second = strategy.experimental_local_results(variable.value)
        np.testing.assert_array_equal(first, second)
    return cases.differences({"modes": before}, {"modes": after})


def refusals(strategy):
    """Returns the errors for what is not supported."""
    errors = {}

    def attempt(name, function):
        try:
            function()
        except ValueError as error:
            errors[name] = str(error)

    def compile(loss=None, **arguments):
        with strategy.scope():
            model = cases.single_head()
            optimizer = keras.optimizers.SGD(**arguments.pop("optimizer", {}))
            loss = loss or keras.losses.SparseCategoricalCrossentropy()
            model.compile(optimizer, loss, **arguments)
        return model

    crossentropy = keras.losses.SparseCategoricalCrossentropy
    for name, value in (
        ("clipnorm", 1.0),
        ("clipvalue", 1.0),
        ("global_clipnorm", 1.0),
        ("gradient_accumulation_steps", 2),
    ):
        settings = {"optimizer": {name: value}, "direction": "gradient"}
        attempt(name, lambda: compile(**settings))
    attempt("reduction", lambda: compile(crossentropy(reduction="sum")))
    attempt("ignore_class", lambda: compile(crossentropy(ignore_class=1)))
    attempt("jit_compile", lambda: compile(jit_compile=True))
    attempt("steps_per_execution", lambda: compile(steps_per_execution=2))

    outside = keras.optimizers.SGD()
    with strategy.scope():
        model = cases.single_head()
    attempt("optimizer outside", lambda: model.compile(outside, "mse"))
    alone = cases.single_head()
    with strategy.scope():
        attempt("model outside", lambda: alone.compile("sgd", "mse"))

    model = compile()
    with strategy.scope():
        x, y = cases.data(model, 0)
        attempt("fit inside", lambda: model.fit(x, y, task="0"))
    errors["tasks"] = list(model.tasks)
    return errors


def refuses_steps(strategy):
    """Trains on a batch with NaN in the part of the second replica."""
    with strategy.scope():
        model = cases.single_head()
        model.compile(
            "sgd", keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        )
    x, y = cases.data(model, 0)
    x = np.copy(x)
    x[6] = np.nan
    before = values(model.shared_variables)
    try:
        model.fit(x[:8], y[:8], task="0", shuffle=False, verbose=0)
        error = None
    except ValueError as received:
        error = str(received)
    changed = cases.differences(
        {"weights": before}, {"weights": values(model.shared_variables)}
    )
    return {"error": error, "changed": changed["weights"]}


def keras_fault(strategy):
    """Returns the error of Keras for an only batch of seven examples."""
    with strategy.scope():
        model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
        model.compile("sgd", "mse")
    x = np.ones((7, 2), "float32")
    try:
        model.fit(x, x[:, :1], batch_size=8, verbose=0)
    except Exception as error:
        return str(error)


def documented(strategy):
    """Runs the example of the documentation; returns the names of its tasks."""
    page = pathlib.Path(__file__).parents[2] / "docs" / "distributed.md"
    (code, *_) = re.findall(r"```python\n(.*?)```", page.read_text(), re.S)
    names = {}
    devices = ["CPU:0", "CPU:1"]
    code = code.replace("MirroredStrategy()", f"MirroredStrategy({devices})")
    exec(code, names)
    return list(names["model"].tasks)


def main(names):
    strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    results, model = {}, None
    for name in names:
        if name in cases.CASES:
            model, results[name] = compare(strategy, name)
        elif name.startswith("saved"):
            alone = name.endswith("one device")
            results[name] = save_and_load(strategy, model, alone)
        elif name == "named_modes":
            results[name] = named_modes(strategy, model)
        else:
            results[name] = globals()[name](strategy)
    report(results)


if __name__ == "__main__":
    main(sys.argv[1:])
