"""What a network and a frozen copy of it make of the same data."""

from collections import namedtuple

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bpn.layers.class_mask import ClassMask
from keras_bpn.layers.task_bias import TaskBias
from keras_bpn.layers.task_keys import TaskKeys
from keras_bpn.layers.task_scope import record_calls
from keras_bpn.models import checks

Pass = namedtuple("Pass", ["outputs", "calls"])
Pass.__doc__ = """The outputs of a network and the calls of its layers."""

OldTask = namedtuple("OldTask", ["row", "classes"])
OldTask.__doc__ = """A task that has ended, and the classes to be kept for it.
"""


def passes(model, tasks, x, weights, y_pred, calls):
    """Runs a frozen copy of a model, and the model where it has to be.

    Args:
        model: `BPNModel`.
        tasks: List of `OldTask`.
        x: Inputs.
        weights: List of pairs of a variable of the model and its value in the
            copy.
        y_pred: The outputs of the model.
        calls: The calls of its layers.

    Returns:
        List with one pair for each task: the `Pass` of the copy, the teacher,
        and that of the model, the student.
    """
    if not is_run_by_task(model):
        teacher = _teacher_pass(model, model._open_row, x, weights)
        student = Pass(_single(y_pred), calls)
        return [(teacher, student) for _ in tasks]
    rows = [ops.convert_to_tensor(task.row, "int32") for task in tasks]
    return [
        (_teacher_pass(model, row, x, weights), _student_pass(model, row, x))
        for row in rows
    ]


def _teacher_pass(model, row, x, weights):
    with keras.StatelessScope(weights), record_calls() as calls:
        outputs = model._call_in_row(row, x, training=False)
    calls = [
        call._replace(inputs=tf.stop_gradient(call.inputs)) for call in calls
    ]
    return Pass(tf.stop_gradient(_single(outputs)), calls)


def _student_pass(model, row, x):
    # What a second pass would update (moving statistics, losses of
    # activations) belongs to the first one, in the mode of the open task.
    with keras.StatelessScope(), record_calls() as calls:
        outputs = model._call_in_row(row, x, training=True)
    return Pass(_single(outputs), calls)


def _single(outputs):
    return keras.tree.flatten(outputs)[0]


def soft_crossentropy(teacher, student, temperature):
    """Returns the mean crossentropy between two softmaxes.

    Args:
        teacher, student: Logits of shape `(batch, ..., classes)`.
        temperature: Number by which both are divided.
    """
    targets = ops.softmax(teacher / temperature)
    scores = ops.log_softmax(student / temperature)
    return -ops.mean(ops.sum(targets * scores, axis=-1))


def task_logits(model, task, network):
    """Returns the logits of the classes of a task.

    Args:
        model: The `BPNModel`.
        task: `OldTask`.
        network: The `Pass` of the model or its teacher.
    """
    outputs = network.outputs
    if model.task_heads and not is_run_by_task(model):
        # The last layer was called with the head of another task.
        call = network.calls[-1]
        outputs = call.layer.outputs_of(call.inputs, task.row)
    outputs = ops.cast(outputs, "float32")
    if not gives_logits(model):
        outputs = ops.log(ops.clip(outputs, keras.config.epsilon(), 1.0))
    return ops.take(outputs, np.array(task.classes), axis=-1)


# Questions about a model.


def gives_logits(model):
    """Whether the outputs of a model are logits, not probabilities.

    Raises:
        ValueError: If its loss is no categorical crossentropy.
    """
    loss = keras.tree.flatten(model.loss)[0]
    if not checks.is_crossentropy(loss) or getattr(loss, "axis", -1) != -1:
        raise ValueError(
            "Expected a model compiled with `SparseCategoricalCrossentropy` or "
            "`CategoricalCrossentropy` over the last axis: its outputs are "
            "compared with earlier ones as probabilities. "
            f"Received: loss={model.loss!r}"
        )
    return bool(getattr(loss, "from_logits", False))


def is_run_by_task(model):
    """Whether the outputs of earlier tasks need a pass for each of them.

    They do not, where the mode of a task changes nothing, or nothing but the
    head that the model ends in.
    """
    if model.task_heads and model.operations[-1] not in model.task_heads:
        return True
    return is_masked_by_task(model) or any(
        (isinstance(table, TaskBias) and table.active)
        or (isinstance(table, TaskKeys) and table.seed is not None)
        for table in model.task_tables
    )


def is_masked_by_task(model):
    """Whether a single head gives each task its own classes only."""
    return any(
        isinstance(table, ClassMask) and table.classes == "task"
        for table in model.task_tables
    )


def output_layer(model):
    """Returns the layer whose weights the outputs are computed with.

    It is followed by operations without weights at most. `None` if there is
    no such layer, because the outputs are computed from several ones.
    """
    # Operations are sorted: what leads to the outputs in a chain comes last.
    for operation in reversed(model.operations):
        has_weights = getattr(operation, "weights", [])
        if has_weights and not isinstance(operation, ClassMask):
            return operation
        if isinstance(operation.input, (list, tuple, dict)):
            return None
    return None


def output_weights(model):
    """Returns the shared weights of the output layer."""
    shared = {id(v) for v in model.shared_variables}
    weights = getattr(output_layer(model), "trainable_weights", [])
    return [v for v in weights if id(v) in shared]


def network_variables(model):
    """Returns the variables that tasks share, by a name for each.

    These are trainable weights, and those like moving statistics that change
    as the model is trained. Layers that are frozen are left out.
    """
    task_variables = {id(v) for t in model.task_tables for v in t.variables}
    task_variables |= {id(model._mode), id(model._open_row)}
    frozen = {
        id(variable)
        for layer in model._flatten_layers(include_self=False)
        if not layer.trainable
        for variable in layer.variables
    }
    # By place and name, as Keras keys weights: the names of layers may differ
    # between a model and one that loads its weights. Tables come and go.
    weights = [v for v in model.weights if id(v) not in task_variables]
    return {
        f"{i}/{variable.name}": variable
        for i, variable in enumerate(weights)
        if id(variable) not in frozen
    }
