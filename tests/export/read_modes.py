"""Reads exported modes where `keras_bpn` cannot be imported.

Run as a script by the tests: `python read_modes.py FOLDER WHAT`. Compares the
outputs of what is there with those in `FOLDER/expected.npz`, and prints the
largest difference for each mode.
"""

import json
import pathlib
import sys

import numpy as np

# As where it is not installed.
sys.modules["keras_bpn"] = None


def main(folder, what):
    folder = pathlib.Path(folder)
    expected = np.load(folder / "expected.npz")
    tasks = json.loads((folder / "tasks.json").read_text())
    differences = {}
    for i, task in enumerate(tasks):
        outputs = READERS[what](folder, i, task, expected["x"])
        for name, value in outputs.items():
            difference = np.abs(np.asarray(value) - expected[f"y{i}"]).max()
            differences[f"{task}, {name}"] = float(difference)
    print(json.dumps(differences))


def signature_of(folder, task):
    names = json.loads((folder / "all/assets.extra/tasks.json").read_text())
    return {t: name for name, t in names.items()}[task]


def saved_model(folder, i, task, x):
    import tensorflow as tf

    one = tf.saved_model.load(str(folder / f"mode{i}"))
    every = tf.saved_model.load(str(folder / "all"))
    name = signature_of(folder, task)
    default = every.signatures["serving_default"]
    x = tf.constant(x)
    each = tf.fill([len(x)], task)
    return {
        "folded": one.serve(x),
        "folded, signature": one.signatures["serving_default"](inputs=x)[
            "output_0"
        ],
        "shared": every.signatures[name](inputs=x)["output_0"],
        "shared, by name": default(inputs=x, task=tf.constant(task))[
            "output_0"
        ],
        "shared, name for each": default(inputs=x, task=each)["output_0"],
    }


def keras_layer(folder, i, task, x):
    import keras

    name = signature_of(folder, task)
    return {
        "folded": keras.layers.TFSMLayer(str(folder / f"mode{i}"))(x),
        "shared": keras.layers.TFSMLayer(str(folder / "all"), name)(x),
    }


def litert(folder, i, task, x):
    from ai_edge_litert.interpreter import Interpreter

    one = Interpreter(model_path=str(folder / f"mode{i}.tflite"))
    every = Interpreter(model_path=str(folder / "all.tflite"))
    name = signature_of(folder, task)
    return {
        "one mode": one.get_signature_runner()(inputs=x)["output_0"],
        "all modes": every.get_signature_runner(name)(inputs=x)["output_0"],
    }


def onnx(folder, i, task, x):
    import onnxruntime

    one = onnxruntime.InferenceSession(folder / f"mode{i}.onnx")
    every = onnxruntime.InferenceSession(folder / "all.onnx")
    names = np.full(len(x), task, object)
    return {
        "one mode": one.run(["output_0"], {"inputs": x})[0],
        "all modes": every.run(["output_0"], {"inputs": x, "task": names[:1]})[
            0
        ],
        "name for each": every.run(["output_0"], {"inputs": x, "task": names})[
            0
        ],
    }


READERS = {
    "saved_model": saved_model,
    "keras_layer": keras_layer,
    "litert": litert,
    "onnx": onnx,
}

if __name__ == "__main__":
    main(*sys.argv[1:])
