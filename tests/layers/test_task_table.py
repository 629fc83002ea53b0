import functools
import subprocess
import sys

import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bpn.layers import BPNDense
from keras_bpn.layers import ClassMask
from keras_bpn.layers import TaskBias
from keras_bpn.layers import TaskHeads
from keras_bpn.layers.task_scope import task_scope
from keras_bpn.layers.task_table import read_rows
from keras_bpn.layers.task_table import write_rows

COMPILERS = {
    "eager": lambda function: function,
    "graph": tf.function,
    "xla": functools.partial(tf.function, jit_compile=True),
}


def table_of(dtype="float32"):
    """A component whose table, of 9 rows, is filled with numbers."""
    bias = TaskBias(3, hidden_dim=2, dtype=dtype)
    bias.build()
    bias.table.assign(np.arange(27).reshape(9, 3))
    return bias


@pytest.mark.parametrize("compiler", COMPILERS)
@pytest.mark.parametrize("rows", [4, [0, 8, 8, 3]])
def test_rows_are_read_before_and_after_they_are_written(compiler, rows):
    variable = table_of().table
    index = tf.constant(rows)
    read = COMPILERS[compiler](lambda: read_rows(variable, index))
    before = variable.numpy()
    np.testing.assert_array_equal(read(), before[rows])
    write_rows(variable, 8, [0.1, 0.2, 0.3])
    expected = before.copy()
    expected[8] = np.float32([0.1, 0.2, 0.3])
    np.testing.assert_array_equal(read(), expected[rows])
    # What was read earlier does not change with the variable.
    np.testing.assert_array_equal(before, np.arange(27).reshape(9, 3))


@given(
    st.lists(
        st.tuples(
            st.lists(st.integers(0, 8), min_size=1, max_size=9, unique=True),
            st.integers(0, 99),
        ),
        max_size=8,
    )
)
@settings(deadline=None, max_examples=30)
def test_other_rows_are_left_alone(writes):
    variable = table_of().table
    handle = variable.value.handle
    expected = variable.numpy()
    for rows, seed in writes:
        new = np.random.default_rng(seed).normal(size=(len(rows), 3))
        write_rows(variable, rows, new)
        expected = expected.copy()
        expected[rows] = new.astype("float32")
        np.testing.assert_array_equal(variable.numpy(), expected)
    assert variable.value.handle is handle


def test_rows_keep_the_precision_of_variables():
    bias = table_of("mixed_float16")
    bias.perturbation.assign([[0.1, 0.2]])
    bias.projection.assign(np.full((2, 3), 0.3))
    bias.fold(1)
    assert bias.table.dtype == "float32"
    product = np.float32([[0.1, 0.2]]) @ np.full((2, 3), 0.3, "float32")
    np.testing.assert_array_equal(bias.table[1], product[0])


def test_folding_keeps_the_variable_and_all_other_rows():
    dense, heads = BPNDense(3, hidden_dim=2), TaskHeads(width=2)
    for layer in (dense, heads):
        layer.build((None, 4))
    generator = np.random.default_rng(0)
    for component in (dense.task_bias, heads):
        table, handle = component.table, component.table.value.handle
        expected = generator.normal(size=table.shape).astype("float32")
        table.assign(expected)
        for row in (3, 1, 8):
            component.draw(row)
            for variable in component.factors:
                value = generator.normal(size=variable.shape)
                variable.assign(value)
            first, last = [v.numpy() for v in component.factors]
            if component is heads:
                expected[row] = np.concatenate([first, last[None]])
            else:
                expected[row] = first @ last
            component.fold(row)
            np.testing.assert_array_equal(table, expected)
        assert component.table is table
        assert table.value.handle is handle


def called(layer, *inputs):
    """The graph of a layer's call in the modes of two examples."""

    @tf.function
    def call():
        with task_scope(tf.constant([1, 2]), tf.constant(3)):
            return layer(*inputs)

    return call.get_concrete_function().graph


def test_no_call_reads_a_whole_table():
    # Once a row was written in place, that would copy the table.
    x = tf.ones((2, 4))
    dense, heads = BPNDense(3, hidden_dim=2), TaskHeads(width=2)
    masks = [ClassMask("task"), ClassMask("seen")]
    for layer in (dense, heads, *masks):
        layer.build((None, 4))
    dense.task_keys.enable(1)
    tables = [dense.task_bias.table, dense.task_keys.table, heads.table]
    tables += [heads.sizes, *(mask.table for mask in masks)]
    handles = {id(variable.value.handle) for variable in tables}
    gathered = set()
    for layer in (dense, heads, *masks):
        graph = called(layer, x)
        captured = {id(inner): outer for outer, inner in graph.captures}
        for operation in graph.get_operations():
            outer = {
                id(captured[id(tensor)])
                for tensor in operation.inputs
                if id(tensor) in captured
            }
            if outer & handles:
                assert operation.type == "ResourceGather"
                gathered |= outer
    assert gathered == handles


_ON_REPLICAS = """
import numpy as np
import tensorflow as tf

cpu = tf.config.list_physical_devices("CPU")[0]
tf.config.set_logical_device_configuration(
    cpu, [tf.config.LogicalDeviceConfiguration()] * 2
)
from keras_bpn.layers import TaskBias
from keras_bpn.layers import TaskHeads
from keras_bpn.layers.task_table import read_rows

strategy = tf.distribute.MirroredStrategy(["CPU:0", "CPU:1"])
with strategy.scope():
    bias, heads = TaskBias(3, hidden_dim=2), TaskHeads(width=2)
    bias.build()
    heads.build((None, 4))
bias.perturbation.assign([[1, 2]])
bias.projection.assign([[1, 2, 3], [4, 5, 6]])
heads.set_classes({2: (0, 1)})
heads.kernel.assign(np.full((4, 2), 7))

# A task ends outside of the strategy's scope too.
bias.fold(2)
with strategy.scope():
    heads.fold(2)
for variable, expected in (
    (bias.table, [9, 12, 15]),
    (heads.table, [[7, 7]] * 4 + [[0, 0]]),
    (heads.sizes, 2),
):
    read = tf.function(
        lambda: strategy.run(lambda: read_rows(variable, 2))
    )
    values = strategy.experimental_local_results(read())
    assert len(values) == 2
    for value in values:
        np.testing.assert_array_equal(value, expected)
"""


def test_rows_are_written_on_every_replica():
    # Devices are split up before TensorFlow starts.
    subprocess.run([sys.executable, "-c", _ON_REPLICAS], check=True)
