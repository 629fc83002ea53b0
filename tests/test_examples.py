"""Every example in the docstrings and the README runs."""

import doctest
import pathlib
import re

import keras
import numpy as np
import pytest

import keras_bpn
from tests.helpers import make_model

README = pathlib.Path(__file__).parent.parent / "README.md"


@pytest.mark.parametrize(
    "documented",
    [
        keras_bpn.BPNModel,
        keras_bpn.layers.BPNDense,
        keras_bpn.consolidation.EWC,
        keras_bpn.consolidation.PSP,
    ],
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


def test_readme_example(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (code,) = re.findall(r"```python\n(.*?)```", README.read_text(), re.S)
    names = {}
    exec(compile(code, "README.md", "exec"), names)
    model = names["model"]
    assert model.tasks == ("0/1", "2/3", "4/5", "6/7", "8/9")
    assert (tmp_path / "digits.keras").exists()
    # What the README is about: the first task is still there.
    chosen = names["tasks"]["0/1"]
    x, y = names["x"][chosen], names["y"][chosen]
    assert model.evaluate(x, y, task="0/1", verbose=0)[1] > 0.9
