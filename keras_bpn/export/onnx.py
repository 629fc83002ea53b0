"""ONNX files of one mode, and of all."""

import contextlib
import json
import logging
import warnings

import keras
import tensorflow as tf

from keras_bpn.export.mode_functions import Modes
from keras_bpn.export.mode_functions import folded_function
from keras_bpn.export.signatures import batch_size
from keras_bpn.export.signatures import task_spec

# A row that no table has, so that an unknown name fails in its first use.
_NO_ROW = 2**31 - 1
_ROWS = "keras_bpn_rows"


def write_mode(model, path, task, specs, **options):
    """Writes an ONNX file of one mode.

    Args:
        model: `BPNModel`.
        path: Path of the file.
        task: Name of a task that has ended.
        specs: Structure of `tf.TensorSpec`, the inputs.
        **options: As those of `keras.Model.export` with `format="onnx"`.
    """
    function = folded_function(model, task)
    _write(path, model, [task], function, specs, options)


def write_modes(model, path, tasks, specs, **options):
    """Writes an ONNX file of several modes that takes the name of a task for
    each example, or one for all.

    Args:
        model: `BPNModel`.
        path: Path of the file.
        tasks: Sequence of names of tasks that have ended.
        specs: Structure of `tf.TensorSpec`, the inputs.
        **options: As those of `keras.Model.export` with `format="onnx"`.
    """
    function = Modes(model, tasks).function(specs, per_example=True)

    def call(inputs):
        row, inputs = inputs
        # One row broadcasts. Several have to be as many as there are examples.
        return function(tf.broadcast_to(row, [batch_size(inputs)]), inputs)

    rows = tf.TensorSpec((None,), "int32", name=_ROWS)
    _write(path, model, tasks, call, [rows, specs], options)
    _take_names(path, tasks, task_spec(specs).name)


def _write(path, model, tasks, function, specs, options):
    import onnx

    network = _Network(function)
    # Nothing is to be built: the weights are those of another model.
    network.built = True
    with _quiet():
        network.export(
            str(path),
            format="onnx",
            input_signature=[specs],
            verbose=False,
            **options,
        )
    file = onnx.load(str(path))
    _check_converted(file.graph, specs)
    _name_outputs(file.graph, model)
    file.metadata_props.add(key="tasks", value=json.dumps(list(tasks)))
    onnx.save(file, str(path))


def _check_converted(graph, specs):
    """Raises if tf2onnx left something out, which it only logs."""
    expected = {spec.name for spec in keras.tree.flatten(specs)}
    received = {value.name.partition(":")[0] for value in graph.input}
    tables = sorted({n.op_type for n in graph.node if "Table" in n.op_type})
    if received != expected or tables:
        raise ValueError(
            "Expected a network that ONNX can express, with the inputs "
            f"{sorted(expected)}. Received: inputs {sorted(received)} and "
            f"operations {tables}, of preprocessing layers with look-up tables "
            "or adapted values. Export a SavedModel, or do this part outside "
            "of the network"
        )


@contextlib.contextmanager
def _quiet():
    """Keeps to itself what Keras, which makes tf2onnx run with the names that
    NumPy has today, and tf2onnx, about collections of graphs, say."""
    logger = tf.get_logger()
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)
            yield
    finally:
        logger.setLevel(level)


class _Network(keras.Model):
    """A model around a function, as which `keras.Model.export` takes it."""

    def __init__(self, function):
        super().__init__(name="network")
        self._function = function

    def call(self, inputs):
        return self._function(inputs)


def _name_outputs(graph, model):
    """Gives the outputs the names that they have in a SavedModel, and the
    first axis of all that goes in and out the name of the batch."""
    names = [f"output_{i}" for i in range(len(graph.output))]
    if isinstance(model.output, dict):
        names = sorted(model.output)
    new = dict(zip((output.name for output in graph.output), names))
    for node in graph.node:
        node.output[:] = [new.get(name, name) for name in node.output]
        node.input[:] = [new.get(name, name) for name in node.input]
    for output in graph.output:
        output.name = new[output.name]
    for value in (*graph.input, *graph.output):
        dims = value.type.tensor_type.shape.dim
        if len(dims) and not dims[0].HasField("dim_value"):
            dims[0].dim_param = "batch" if value.name != _ROWS else "tasks"


def _take_names(path, tasks, name):
    """Puts a look-up of the names of tasks in front of the rows."""
    import onnx

    file = onnx.load(str(path))
    graph = file.graph
    lookup = onnx.helper.make_node(
        "LabelEncoder",
        [name],
        [f"{_ROWS}_found"],
        domain="ai.onnx.ml",
        keys_strings=list(tasks),
        values_int64s=range(len(tasks)),
        default_int64=_NO_ROW,
    )
    cast = onnx.helper.make_node(
        "Cast", [f"{_ROWS}_found"], [_ROWS], to=onnx.TensorProto.INT32
    )
    nodes = list(graph.node)
    del graph.node[:]
    graph.node.extend([lookup, cast, *nodes])
    inputs = [value for value in graph.input if value.name != _ROWS]
    names = onnx.helper.make_tensor_value_info(
        name, onnx.TensorProto.STRING, ["tasks"]
    )
    del graph.input[:]
    graph.input.extend([*inputs, names])
    if all(entry.domain != "ai.onnx.ml" for entry in file.opset_import):
        file.opset_import.append(onnx.helper.make_opsetid("ai.onnx.ml", 2))
    onnx.checker.check_model(file)
    onnx.save(file, str(path))
