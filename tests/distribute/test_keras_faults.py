"""What `models/multi_worker_trainer.py` mends in Keras is still as it was.

Where one of these fails, Keras has changed: see whether it still needs to be
mended, with the slow tests of `test_two_workers.py`.
"""

import inspect

import keras
import pytest
from keras.src.backend.tensorflow import trainer

from tests.distribute import processes


def test_keras_calls_what_is_overridden():
    calls = inspect.getsource(trainer.TensorFlowTrainer)
    assert calls.count("self._maybe_symbolic_build(iterator=") == 2
    assert calls.count("self._make_function(self.") == 2
    for name, arguments in (
        ("_maybe_symbolic_build", ["self", "iterator", "data_batch"]),
        ("_make_function", ["self", "step_function"]),
    ):
        method = getattr(keras.Model, name)
        assert list(inspect.signature(method).parameters) == arguments


def test_keras_still_averages_logs_over_an_axis():
    source = inspect.getsource(trainer.reduce_per_replica)
    assert 'strategy.reduce("MEAN", v, axis=0)' in source


def test_keras_still_averages_batches():
    source = inspect.getsource(trainer.TensorFlowTrainer._maybe_symbolic_build)
    assert "distribute_strategy.reduce(" in source


@pytest.mark.slow
def test_keras_still_fails_on_parts_of_different_sizes():
    (results,) = processes.run("mirrored", "keras_fault")
    assert "must have the same size and shape" in results["keras_fault"]
