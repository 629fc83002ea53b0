import threading

import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.layers import BPNDense
from keras_bpn.layers.task_scope import current_task
from keras_bpn.layers.task_scope import record_calls
from keras_bpn.layers.task_scope import report_call
from keras_bpn.layers.task_scope import task_scope


def test_no_task_outside_scopes():
    assert current_task() is None


def test_scopes_nest_and_restore():
    with task_scope(1, 2):
        assert current_task() == (1, 2)
        with task_scope(3, -1):
            assert current_task().row == 3
            assert current_task().open_row == -1
        assert current_task() == (1, 2)
    assert current_task() is None


def test_scope_restores_after_exception():
    with task_scope(1, 2):
        with pytest.raises(RuntimeError, match="inside"):
            with task_scope(3, -1):
                raise RuntimeError("inside")
        assert current_task() == (1, 2)
    assert current_task() is None


def test_scopes_belong_to_their_thread():
    seen = []

    def look():
        seen.append(current_task())
        with task_scope(5, 5), record_calls() as calls:
            report_call("inner", 0, 0)
            seen.append(current_task())
            seen.append(len(calls))

    with task_scope(1, 2), record_calls() as calls:
        thread = threading.Thread(target=look)
        thread.start()
        thread.join()
        assert seen == [None, (5, 5), 1]
        assert current_task() == (1, 2)
        assert calls == []


def test_calls_are_recorded_in_order_by_the_innermost_scope():
    report_call("lost", 0, 0)
    with record_calls() as outer:
        report_call("first", 1, 2)
        with record_calls() as inner:
            report_call("second", 3, 4)
        report_call("third", 5, 6)
    report_call("lost", 0, 0)
    assert outer == [("first", 1, 2), ("third", 5, 6)]
    assert inner == [("second", 3, 4)]
    assert (inner[0].layer, inner[0].inputs, inner[0].outputs) == (
        "second",
        3,
        4,
    )


def test_recording_restores_after_exception():
    with record_calls() as outer:
        with pytest.raises(RuntimeError):
            with record_calls():
                raise RuntimeError
        report_call("after", 1, 2)
    assert outer == [("after", 1, 2)]


def test_layer_reports_keyed_inputs_and_outputs_before_activation():
    layer = BPNDense(2, activation="relu", hidden_dim=1)
    layer.build((None, 3))
    layer.kernel.assign([[1.0, -1.0], [2.0, -2.0], [3.0, -3.0]])
    layer.task_keys.enable(1)
    key = layer.task_keys.table.numpy()[1].astype("float32")
    x = np.array([[1.0, 2.0, 4.0]], "float32")
    with record_calls() as calls, task_scope(1, -1):
        layer(x)
    (call,) = calls
    product = ((x * key) @ [1.0, 2.0, 3.0]).item()
    assert call.layer is layer
    np.testing.assert_array_equal(call.inputs, x * key)
    np.testing.assert_array_equal(call.outputs, [[product, -product]])


def test_switching_rows_retraces_nothing():
    layer, traces = BPNDense(3, hidden_dim=1), []
    layer.build((None, 2))
    layer.task_bias.table.assign(np.arange(27.0).reshape(9, 3))
    layer.task_bias.perturbation.assign([[2.0]])
    layer.task_bias.projection.assign([[1.0, 2.0, 3.0]])

    @tf.function
    def run(row, open_row):
        traces.append(1)
        with task_scope(row, open_row):
            return layer(np.zeros((1, 2), "float32"))

    for row, open_row, units in (
        (0, -1, [0, 1, 2]),
        (8, 2, [24, 25, 26]),
        (2, 2, [2, 4, 6]),
        (2, -1, [6, 7, 8]),
    ):
        outputs = run(tf.constant(row), tf.constant(open_row))
        np.testing.assert_array_equal(outputs, [units])
    assert len(traces) == 1
