"""Every example in the docstrings and the README runs."""

import doctest
import pathlib
import re

import keras
import numpy as np
import pytest
import tensorflow as tf
from matplotlib import pyplot

import keras_bpn
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.learning.helpers import build

README = pathlib.Path(__file__).parent.parent / "README.md"


def documented_objects():
    for module in (
        keras_bpn.consolidation,
        keras_bpn.layers,
        keras_bpn.methods,
        keras_bpn.models,
        keras_bpn.scenarios,
    ):
        for name in module.__all__:
            documented = getattr(module, name)
            if callable(documented) and "Example:" in documented.__doc__:
                yield documented
    yield keras_bpn.learn


@pytest.mark.parametrize(
    "documented", list(documented_objects()), ids=lambda d: d.__name__
)
def test_docstring_examples(documented):
    names = {
        "keras": keras,
        "keras_bpn": keras_bpn,
        "np": np,
        "model": make_model(),
    }
    tests = doctest.DocTestFinder(recurse=False).find(documented, globs=names)
    assert tests and tests[0].examples
    results = doctest.DocTestRunner().run(tests[0])
    assert results.failed == 0


def documented_methods():
    for name in dir(keras_bpn.BPNModel):
        documented = getattr(keras_bpn.BPNModel, name)
        module = getattr(documented, "__module__", None) or ""
        if module.startswith("keras_bpn.") and ">>> " in (
            documented.__doc__ or ""
        ):
            yield documented


@pytest.fixture(scope="module")
def file_of_a_model(tmp_path_factory):
    model = train_tasks(compile_model(make_model()), ["birds", "fish"])
    path = tmp_path_factory.mktemp("model") / "model.keras"
    model.save(path)
    return path


@pytest.mark.parametrize(
    "documented", list(documented_methods()), ids=lambda d: d.__name__
)
def test_method_examples(documented, file_of_a_model, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {"np": np, "model": keras.models.load_model(file_of_a_model)}
    (test,) = doctest.DocTestFinder(recurse=False).find(documented, globs=names)
    assert doctest.DocTestRunner().run(test).failed == 0


def python_blocks():
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.S)


def test_readme_comparison(monkeypatch):
    code = python_blocks()[1]
    monkeypatch.setattr(keras_bpn.methods, "names", lambda: ("STL", "BD+SI"))
    names = {
        "keras": keras,
        "keras_bpn": keras_bpn,
        "make_model": make_model,
        "tasks": {"a": make_data(0), "b": make_data(1)},
    }
    exec(compile(code, "README.md", "exec"), names)
    assert names["name"] == "BD+SI"
    assert names["model"].tasks == ("a", "b")


def test_readme_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code = python_blocks()[0]
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    model = names["model"]
    assert model.tasks == ("0/1", "2/3", "4/5", "6/7", "8/9")
    assert (tmp_path / "digits.keras").exists()
    # What the README is about: the first task is still there.
    chosen = names["tasks"]["0/1"]
    x, y = names["x"][chosen], names["y"][chosen]
    assert model.evaluate(x, y, task="0/1", verbose=0)[1] > 0.9


def test_readme_task_sequence(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    code = python_blocks()[2]
    model = build("BD+EWC")
    names = {"model": model}
    exec(
        compile(code.replace("epochs=10", "epochs=1"), "README.md", "exec"),
        names,
    )
    pyplot.close("all")
    assert model.tasks == ("0/1", "2/3", "4/5", "6/7", "8/9")
    assert "average accuracy" in capsys.readouterr().out
    assert {path.name for path in tmp_path.iterdir()} == {
        "runs",
        "digits.csv",
        "digits.png",
    }


def test_readme_modes_by_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = [b for b in python_blocks() if "load_task" in b]
    names = ["0/1", "2/3", "4/5"]
    model = train_tasks(compile_model(make_model()), names, epochs=1)
    x, y = make_data()
    other = compile_model(make_model())
    other.set_weights(model.get_weights())
    names = {"model": model, "other_model": other, "x": x, "y": y}
    exec(compile(code, "README.md", "exec"), names)
    assert model.tasks == ("4/5", "small digits", "between")
    assert other.tasks == ("small digits",)
    assert [path.name for path in tmp_path.iterdir()] == ["small.safetensors"]


@pytest.mark.data
def test_readme_data_of_your_own(tmp_path, monkeypatch, mnist):
    monkeypatch.chdir(tmp_path)
    code = python_blocks()[3]
    x, y = make_data(classes=4)
    generator = np.random.default_rng(0)
    for i in range(40):
        folder = tmp_path / "photos" / f"kind {i % 4}"
        folder.mkdir(parents=True, exist_ok=True)
        image = generator.integers(256, size=(9, 7, 3)).astype("uint8")
        (folder / f"{i}.png").write_bytes(tf.io.encode_png(image).numpy())
    made = []
    for line in code.splitlines():
        if not line.startswith("scenario"):
            continue
        names = {
            "SplitClasses": keras_bpn.scenarios.SplitClasses,
            "x": x,
            "y": y,
            "dataset": tf.data.Dataset.from_tensor_slices((x, y)),
        }
        exec(line, names)
        made.append(names["scenario"])
    assert [len(scenario) for scenario in made] == [5, 2, 2, 2]
    shapes = [tuple(next(iter(s[0].train))[0].shape[1:]) for s in made]
    assert shapes == [(28, 28, 1), (6,), (6,), (64, 64, 3)]


def test_readme_exports(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    model = train_tasks(compile_model(make_model()), ("birds", "cars"))
    names = {"model": model, "tf": tf, "x": tf.constant(make_data(size=3)[0])}
    for code in python_blocks():
        if "served/" in code:
            exec(compile(code, "README.md", "exec"), names)
    assert {path.name for path in tmp_path.rglob("*") if path.suffix} >= {
        "birds.tflite",
        "all.onnx",
    }
