"""SavedModels of one mode, and of all."""

import json
import pathlib

import keras
import tensorflow as tf

from keras_bpn.export.mode_functions import Modes
from keras_bpn.export.mode_functions import folded_function
from keras_bpn.export.signature_names import signature_names
from keras_bpn.export.signatures import batch_size
from keras_bpn.export.signatures import bound_function
from keras_bpn.export.signatures import task_spec

TASKS_FILE = "assets.extra/tasks.json"


def write_mode(model, path, task, specs):
    """Writes a SavedModel of one mode.

    Args:
        model: `BPNModel`.
        path: Path of a folder that is not there yet.
        task: Name of a task that has ended.
        specs: Structure of `tf.TensorSpec`, the inputs.
    """
    archive = keras.export.ExportArchive()
    _track_tables(archive, model)
    archive.add_endpoint("serve", folded_function(model, task), [specs])
    archive.write_out(str(path), verbose=False)
    _write_tasks(path, {task: "serving_default"})


def write_modes(model, path, tasks, specs):
    """Writes a SavedModel with a signature for each of several tasks, and
    `serving_default`, which takes the inputs and the names of tasks.

    Args:
        model: `BPNModel`.
        path: Path of a folder that is not there yet.
        tasks: Sequence of names of tasks that have ended.
        specs: Structure of `tf.TensorSpec`, the inputs.
    """
    archive = keras.export.ExportArchive()
    _track_tables(archive, model)
    modes = Modes(model, tasks)
    one = modes.function(specs)
    each = modes.function(specs, per_example=True)
    names = signature_names(tasks)
    for row, (task, name) in enumerate(names.items()):
        function = bound_function(model, one, task, row)
        archive.add_endpoint(name, function, [specs])
    table = _row_table(tasks)
    archive.track(table)
    archive.add_endpoint(
        "serving_default",
        _by_name(one, each, table, tasks),
        [specs, task_spec(specs)],
    )
    archive.write_out(str(path), verbose=False)
    _write_tasks(path, names)


def _by_name(one, each, table, tasks):
    """Returns a function of the inputs and the names of tasks."""
    expected = f"Expected the names of tasks, of [{', '.join(tasks)}]."

    def call(inputs, task):
        size = batch_size(inputs)
        rows = tf.reshape(table.lookup(task), [-1])
        given = tf.reshape(task, [-1])
        unknown = tf.boolean_mask(given, rows < 0)
        checks = [
            tf.debugging.Assert(
                tf.equal(tf.size(unknown), 0),
                [expected, "Received:", unknown],
            ),
            tf.debugging.Assert(
                tf.logical_or(
                    tf.equal(tf.size(rows), 1), tf.equal(tf.size(rows), size)
                ),
                [
                    "Expected the name of one task, or one for each example. "
                    "Received: names and examples",
                    tf.size(rows),
                    size,
                ],
            ),
        ]
        with tf.control_dependencies(checks):
            rows = tf.identity(rows)
        return tf.cond(
            tf.equal(tf.size(rows), 1),
            lambda: one(rows[0], inputs),
            lambda: each(rows, inputs),
        )

    return call


def _row_table(tasks):
    """Returns a table that maps names to rows, and all others to -1."""
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(
            list(tasks), list(range(len(tasks))), "string", "int32"
        ),
        default_value=-1,
    )


def _track_tables(archive, model):
    """Has look-up tables of preprocessing layers saved as well."""
    for layer in model._flatten_layers(include_self=False):
        for value in vars(layer).values():
            if isinstance(value, tf.saved_model.experimental.TrackableResource):
                archive.track(value)


def _write_tasks(path, names):
    """Writes what the tasks of the signatures are called, for whoever loads
    them: TensorFlow leaves such files alone."""
    file = pathlib.Path(path) / TASKS_FILE
    file.parent.mkdir()
    signatures = {name: task for task, name in names.items()}
    file.write_text(json.dumps(signatures, indent=1, ensure_ascii=False) + "\n")
