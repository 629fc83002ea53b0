import doctest

import pytest

import keras_bpn
from keras_bpn import evaluation

DOCUMENTED = [
    getattr(evaluation, name)
    for name in evaluation.__all__
    if "Example:" in getattr(evaluation, name).__doc__
]


@pytest.mark.parametrize("documented", DOCUMENTED, ids=lambda d: d.__name__)
def test_examples(documented):
    (test,) = doctest.DocTestFinder(recurse=False).find(
        documented, globs={"keras_bpn": keras_bpn}
    )
    assert test.examples
    assert doctest.DocTestRunner().run(test).failed == 0
