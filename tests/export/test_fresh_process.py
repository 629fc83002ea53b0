"""Exported modes, read by programs that have no `keras_bpn`."""

import json
import pathlib
import subprocess
import sys

import keras
import numpy as np
import pytest

import keras_bpn

READ_MODES = pathlib.Path(__file__).parent / "read_modes.py"
PACKAGES = {"litert": ["ai_edge_litert"], "onnx": ["onnxruntime", "tf2onnx"]}


def train_digits(consolidation):
    """Returns a model with three tasks of real digits, and all test images."""
    scenario = keras_bpn.scenarios.Digits(classes=range(6))
    x = inputs = keras.Input((64,))
    for _ in range(2):
        x = keras_bpn.layers.BPNDense(40, activation="relu")(x)
    model = keras_bpn.BPNModel(inputs, keras_bpn.layers.BPNDense(10)(x))
    model.compile(
        optimizer="adam",
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        consolidation=consolidation,
    )
    keras_bpn.learn(model, scenario, epochs=3, verbose=0)
    images = [t.examples("test").arrays()[0] for t in scenario]
    return model, np.concatenate(images).reshape(-1, 64)


@pytest.fixture(
    scope="module",
    params=[pytest.param("BD+EWC", marks=pytest.mark.slow), "BD+PSP"],
)
def exported(request, tmp_path_factory):
    keras.utils.set_random_seed(7)
    folder = tmp_path_factory.mktemp("exported")
    consolidation = keras_bpn.methods.get(request.param)["consolidation"]
    model, x = train_digits(consolidation)
    outputs = {"x": x}
    model.export(folder / "all", verbose=False)
    for i, task in enumerate(model.tasks):
        outputs[f"y{i}"] = model.predict(x, task=task, verbose=0)
        model.export(folder / f"mode{i}", task=task, verbose=False)
    np.savez(folder / "expected.npz", **outputs)
    (folder / "tasks.json").write_text(json.dumps(model.tasks))
    return model, folder


@pytest.mark.parametrize(
    "what", ["saved_model", "keras_layer", "litert", "onnx"]
)
def test_outputs_are_those_of_predict(exported, what, tmp_path):
    for package in PACKAGES.get(what, ()):
        pytest.importorskip(package)
    model, folder = exported
    if what in PACKAGES:
        ending = {"litert": "tflite", "onnx": "onnx"}[what]
        files = {"all": None} | {
            f"mode{i}": task for i, task in enumerate(model.tasks)
        }
        for name, task in files.items():
            model.export(
                folder / f"{name}.{ending}",
                format=what,
                task=task,
                verbose=False,
            )
    done = subprocess.run(
        [sys.executable, READ_MODES, folder, what],
        cwd=tmp_path,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    differences = json.loads(done.stdout.splitlines()[-1])
    assert len(differences) >= 2 * len(model.tasks)
    assert all(d <= 1e-5 for d in differences.values()), differences
