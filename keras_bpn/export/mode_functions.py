"""What a model computes in its modes, as TensorFlow functions."""

import re

import keras
import numpy as np
import tensorflow as tf

from keras_bpn.layers.task_scope import folded_scope

# What Keras calls inputs that were given no name.
_AUTOMATIC = re.compile(r"(input_layer|keras_tensor)(_\d+)?")


def input_signature(model, given=None):
    """Returns the inputs of a model as a structure of `tf.TensorSpec`.

    Args:
        model: `BPNModel`.
        given: Structure of `keras.InputSpec`, `tf.TensorSpec` or tensors that
            says otherwise, or `None`.
    """
    inputs = keras.tree.flatten(model.input)
    names = [tensor.name for tensor in inputs]
    if len(names) == 1 and _AUTOMATIC.fullmatch(names[0]):
        names = ["inputs"]
    shapes = [(None, *tensor.shape[1:]) for tensor in inputs]
    if given is not None:
        inputs = keras.tree.flatten(given)
        shapes = [tensor.shape for tensor in inputs]
        if len(inputs) != len(names):
            raise ValueError(
                "Expected `input_signature` to have one entry for each input "
                f"of the model, {names}. Received: {len(inputs)} entries"
            )
    specs = [
        tf.TensorSpec(shape, tensor.dtype, name=name)
        for tensor, shape, name in zip(inputs, shapes, names)
    ]
    return keras.tree.pack_sequence_as(model.input, specs)


def folded_function(model, row):
    """Returns a function of the inputs that is one mode and nothing else.

    Bias units are folded into biases and keys into kernels. It has variables
    of its own for these, and shares those of layers that know no tasks.

    Args:
        model: `BPNModel`.
        row: Integer, the row of a task that has ended.
    """
    weights = {}
    for layer in model._flatten_layers(include_self=False):
        if hasattr(layer, "folded"):
            weights[id(layer)] = {
                name: _as_weight(value, f"{layer.path}/{name}")
                for name, value in layer.folded(row).items()
            }

    def call(inputs):
        with folded_scope(weights):
            return model.call_ended(row, inputs)

    return call


def _as_weight(value, name):
    """Returns a variable for numbers, and a constant for a mask."""
    if value is None:
        return None
    if np.issubdtype(value.dtype, np.bool_):
        return tf.constant(value)
    return tf.Variable(value, trainable=True, name=name)


def mode_function(model, specs, per_example=False):
    """Returns a TensorFlow function of a row and inputs, all modes in one.

    Args:
        model: `BPNModel`.
        specs: Structure of `tf.TensorSpec`, the inputs.
        per_example: Whether there is a row for each example, not one for all.
    """
    row = tf.TensorSpec((None,) if per_example else (), "int32", name="row")

    @tf.function(input_signature=[row, specs], autograph=False)
    def call(row, inputs):
        return model.call_ended(row, inputs)

    return call


def bound_function(model, function, task):
    """Returns a function of the inputs that calls a `mode_function` for one
    task. With a head for every task, it gives the outputs of its own."""
    row = model._registry.row(task)

    def call(inputs):
        # Of a constant row, a converter would make a copy of all weights with
        # the keys and bias units of the task in them. None can know that the
        # size of a batch is not negative.
        size = tf.shape(keras.tree.flatten(inputs)[0])[0]
        outputs = function(row + tf.minimum(size, 0), inputs)
        return model.trim_outputs(outputs, task)

    return call


def task_spec(specs):
    """Returns the `tf.TensorSpec` of the names of tasks beside the inputs."""
    names = {spec.name for spec in keras.tree.flatten(specs)}
    name = "task"
    while name in names:
        name += "_name"
    return tf.TensorSpec(None, "string", name=name)
