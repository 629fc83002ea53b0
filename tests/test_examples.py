"""Every example in the docstrings and the README runs."""

import doctest
import pathlib
import re

import keras
import numpy as np
import pytest

import keras_bpn
from tests.helpers import make_data
from tests.helpers import make_model

README = pathlib.Path(__file__).parent.parent / "README.md"


def documented_objects():
    for module in (
        keras_bpn.consolidation,
        keras_bpn.layers,
        keras_bpn.methods,
        keras_bpn.models,
    ):
        for name in module.__all__:
            documented = getattr(module, name)
            if "Example:" in documented.__doc__:
                yield documented


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


def python_blocks():
    return re.findall(r"```python\n(.*?)```", README.read_text(), re.S)


def test_readme_comparison(monkeypatch):
    _, code = python_blocks()
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
    code, _ = python_blocks()
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    model = names["model"]
    assert model.tasks == ("0/1", "2/3", "4/5", "6/7", "8/9")
    assert (tmp_path / "digits.keras").exists()
    # What the README is about: the first task is still there.
    chosen = names["tasks"]["0/1"]
    x, y = names["x"][chosen], names["y"][chosen]
    assert model.evaluate(x, y, task="0/1", verbose=0)[1] > 0.9
