"""LiteRT files, with a signature for each mode."""

import pathlib
import tempfile

import keras
import tensorflow as tf

from keras_bpn.export.mode_functions import Modes
from keras_bpn.export.mode_functions import folded_function
from keras_bpn.export.signature_names import signature_names
from keras_bpn.export.signatures import bound_function


def write_mode(model, path, task, specs, **options):
    """Writes a LiteRT file of one mode.

    Args:
        model: `BPNModel`.
        path: Path of the file.
        task: Name of a task that has ended.
        specs: Structure of `tf.TensorSpec`, the inputs.
        **options: Attributes of `tf.lite.TFLiteConverter`.
    """
    function = folded_function(model, task)
    _write(path, {"serving_default": function}, specs, options)


def write_modes(model, path, tasks, specs, **options):
    """Writes a LiteRT file with a signature for each of several tasks.

    Args:
        model: `BPNModel`.
        path: Path of the file.
        tasks: Sequence of names of tasks that have ended.
        specs: Structure of `tf.TensorSpec`, the inputs.
        **options: Attributes of `tf.lite.TFLiteConverter`.
    """
    function = Modes(model, tasks).function(specs)
    functions = {
        name: bound_function(model, function, task, row)
        for row, (task, name) in enumerate(signature_names(tasks).items())
    }
    _write(path, functions, specs, options)


def _write(path, functions, specs, options):
    archive = keras.export.ExportArchive()
    for name, function in functions.items():
        archive.add_endpoint(name, function, [specs])
    with tempfile.TemporaryDirectory() as folder:
        archive.write_out(folder, verbose=False)
        converter = tf.lite.TFLiteConverter.from_saved_model(
            folder, signature_keys=list(functions)
        )
        for name, value in options.items():
            if not hasattr(converter, name):
                raise ValueError(
                    "Expected options of LiteRT to be attributes of "
                    f"`tf.lite.TFLiteConverter`. Received: {name}={value!r}"
                )
            setattr(converter, name, value)
        content = converter.convert()
    pathlib.Path(path).write_bytes(_share_buffers(content))


def _share_buffers(content):
    """Returns a LiteRT model in which equal weights are stored once.

    The converter gives each signature a graph with weights of its own.
    """
    from tensorflow.lite.tools import flatbuffer_utils

    model = flatbuffer_utils.convert_bytearray_to_object(bytearray(content))
    if len(model.subgraphs) == 1:
        return content
    first, used = {}, {0}
    for graph in model.subgraphs:
        for tensor in graph.tensors:
            data = model.buffers[tensor.buffer].data
            if data is not None and len(data):
                tensor.buffer = first.setdefault(bytes(data), tensor.buffer)
            used.add(tensor.buffer)
    for metadata in model.metadata or ():
        used.add(metadata.buffer)
    for i, buffer in enumerate(model.buffers):
        if i not in used:
            buffer.data = None
    return bytes(flatbuffer_utils.convert_object_to_bytearray(model))
