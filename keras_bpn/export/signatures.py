"""The inputs of what is exported, and functions that are bound to a task."""

import re

import keras
import tensorflow as tf

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


def task_spec(specs):
    """Returns the `tf.TensorSpec` of the names of tasks beside the inputs."""
    names = {spec.name for spec in keras.tree.flatten(specs)}
    name = "task"
    while name in names:
        name += "_name"
    return tf.TensorSpec(None, "string", name=name)


def batch_size(inputs):
    """Returns the number of examples, a tensor."""
    return tf.shape(keras.tree.flatten(inputs)[0])[0]


def bound_function(model, function, task, row):
    """Returns a function of the inputs that calls another for one task.

    With a head for every task, it gives the outputs of its own.

    Args:
        model: `BPNModel`.
        function: Function of a row and the inputs.
        task: Name of the task.
        row: Integer, the row of the task in the tables of `function`.
    """

    def call(inputs):
        # Of a constant row, a converter would make a copy of all weights with
        # the key and the bias units of the task in them. None can know that
        # the size of a batch is not negative.
        dynamic = row + tf.minimum(batch_size(inputs), 0)
        return model.trim_outputs(function(dynamic, inputs), task)

    return call
