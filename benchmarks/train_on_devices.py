"""What `benchmarks.devices` runs in processes of their own.

Arguments are the devices, the settings as JSON, and a file for the results.
"""

import contextlib
import json
import sys

import tensorflow as tf

ONE = "one device"
TWO = "two logical devices"
WORKERS = "two processes"


def make_strategy(name):
    """Returns the strategy of a contender, `None` for one device.

    Nothing may have run in TensorFlow before.
    """
    if name == WORKERS:
        return tf.distribute.MultiWorkerMirroredStrategy()
    if name == TWO:
        tf.config.set_logical_device_configuration(
            tf.config.list_physical_devices("CPU")[0],
            2 * [tf.config.LogicalDeviceConfiguration()],
        )
        return tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
    return None


def main(name, settings, output):
    strategy = make_strategy(name)
    # Imports that may run something in TensorFlow.
    import keras
    import numpy as np

    import keras_bpn
    from benchmarks.networks import EpochTimer

    settings = json.loads(settings)
    keras.utils.set_random_seed(0)
    generator = np.random.default_rng(0)
    size = (settings["examples"], 64)
    x = generator.normal(size=size).astype("float32")
    y = generator.integers(2, size=len(x)).astype("int32")

    with strategy.scope() if strategy else contextlib.nullcontext():
        inputs = keras.Input(x.shape[1:])
        hidden = keras_bpn.layers.BPNDense(128, activation="relu")(inputs)
        model = keras_bpn.BPNModel(inputs, keras_bpn.layers.BPNDense(6)(hidden))
        model.compile(
            # Without moments: Adam makes steps of rounding.
            optimizer=keras.optimizers.SGD(0.01),
            loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            # One step at a time, as under a strategy.
            steps_per_execution=1,
            consolidation=keras_bpn.consolidation.EWC(10.0),
        )
    arguments = {"batch_size": settings["batch_size"], "verbose": 0}
    for number in range(2):
        model.fit(
            x,
            y + 2 * number,
            task=str(number),
            epochs=settings["epochs"],
            **arguments,
        )
    weights = [keras.ops.convert_to_numpy(v) for v in model.weights]

    timer = EpochTimer()
    model.fit(
        x,
        y + 4,
        task="timed",
        # The first one traces.
        epochs=1 + settings["rounds"],
        callbacks=[timer],
        consolidate=False,
        **arguments,
    )
    steps = -(-len(x) // settings["batch_size"])
    seconds = np.array(timer.seconds[1:]) / steps
    if name != WORKERS or strategy.cluster_resolver.task_id == 0:
        np.savez(output, *weights, seconds=seconds)


if __name__ == "__main__":
    main(*sys.argv[1:])
