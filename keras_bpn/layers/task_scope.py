"""The mode that layers run in, and the calls they make, as open scopes."""

import contextlib
import threading
from collections import namedtuple

ActiveTask = namedtuple("ActiveTask", ["row", "open_row"])
ActiveTask.__doc__ = """The rows of the task tables that a forward pass uses.

Row 0 is the network without any task. `row` is one integer for the whole
batch, or a vector with one row per example. `open_row` is the row of the task
in training, whose bias units are still the product of two factors, or -1. In
a training step both are one and the same object.
"""

LayerCall = namedtuple("LayerCall", ["layer", "inputs", "outputs"])
LayerCall.__doc__ = """What entered a layer's kernel, and what it produced.

`inputs` are the values that multiply the kernel; `outputs` are taken before
the activation.
"""

# Replicas of a distribution strategy are traced in threads of their own.
_state = threading.local()


@contextlib.contextmanager
def task_scope(row, open_row):
    """Runs the layers called inside in the mode of the given rows."""
    previous = current_task()
    _state.task = ActiveTask(row, open_row)
    try:
        yield
    finally:
        _state.task = previous


def current_task():
    """Returns the `ActiveTask` of the innermost scope, or `None`."""
    return getattr(_state, "task", None)


@contextlib.contextmanager
def weights_scope(weights):
    """Runs the layers called inside with given weights of a mode, whatever the
    task.

    Args:
        weights: Dictionary from the `id` of a layer that has `mode_weights()`
            to a dictionary of tensors, or of functions of the layer's inputs
            that return them: what that method returns, or `folded_weights()`.
    """
    previous = getattr(_state, "weights", None)
    _state.weights = weights
    try:
        yield
    finally:
        _state.weights = previous


def given_weights(layer, inputs):
    """Returns the weights that the innermost `weights_scope` gives to a layer
    for its inputs, or `None` outside of one."""
    weights = getattr(_state, "weights", None)
    if weights is None:
        return None
    return {
        name: value(inputs) if callable(value) else value
        for name, value in weights[id(layer)].items()
    }


@contextlib.contextmanager
def record_calls():
    """Collects a `LayerCall` for each call of a layer that reports them."""
    previous = getattr(_state, "calls", None)
    _state.calls = calls = []
    try:
        yield calls
    finally:
        _state.calls = previous


def report_call(layer, inputs, outputs):
    """Reports a call to the innermost `record_calls` scope, if there is one."""
    calls = getattr(_state, "calls", None)
    if calls is not None:
        calls.append(LayerCall(layer, inputs, outputs))
