"""A `LearningHistory` as an event file for TensorBoard.

TensorFlow itself has all that is needed to write one. `tf.summary.scalar` and
`tf.summary.text` would import TensorBoard, which TensorFlow does not install.
"""

import json
import math
import pathlib
import shutil
import tempfile

import numpy as np
import tensorflow as tf

from keras_bpn.evaluation.history_files import FORMAT
from keras_bpn.evaluation.history_files import SCHEMA_VERSION
from keras_bpn.evaluation.records import COSTS
from keras_bpn.models.atomic import written_beside

# TensorBoard reads every file with "tfevents" in its name.
FILE_NAME = "events.out.tfevents.keras_bpn"
_METRICS = (
    "average_accuracy",
    "learning_accuracy",
    "forgetting",
    "backward_transfer",
    "forward_transfer",
)


def write_events(history, logdir):
    """Writes the event file of a history, in one move."""
    logdir = pathlib.Path(logdir)
    logdir.mkdir(parents=True, exist_ok=True)
    # A half-written file would be shown by a TensorBoard that is watching.
    with tempfile.TemporaryDirectory() as folder:
        writer = tf.summary.create_file_writer(folder)
        with writer.as_default():
            _write_settings(history)
            for tag, value, step in _scalars(history):
                _write_scalar(tag, value, step)
        writer.close()
        (written,) = pathlib.Path(folder).iterdir()
        with written_beside(logdir / FILE_NAME) as temporary:
            shutil.move(written, temporary)


def _scalars(history):
    """Gives tag, value and step of everything that was measured."""
    values, untrained = history.matrix.values, history.matrix.untrained
    for step, row in enumerate([untrained, *values]):
        for task, value in zip(history.tasks, row):
            if not np.isnan(value):
                yield f"tasks/accuracy/{task}", value, step
    for i, cost in enumerate(history.costs):
        for name in _METRICS:
            value = getattr(history.matrix, name)(after=i)
            if not math.isnan(value):
                yield f"tasks/{name}", value, i + 1
        for name in COSTS:
            if cost[name] is not None:
                yield f"tasks/{name}", cost[name], i + 1
    for step, epoch in enumerate(history.epochs, 1):
        for name, value in epoch["logs"].items():
            if not isinstance(value, list):
                yield f"epochs/{name}", value, step
        for task, value in epoch["accuracy"].items():
            yield f"epochs/accuracy/{task}", value, step


def _write_scalar(tag, value, step):
    metadata = _metadata("scalars")
    # DATA_CLASS_SCALAR, which has no public name.
    metadata.data_class = 1
    value = tf.constant(value, "float32")
    tf.summary.write(tag, value, step=step, metadata=metadata)


def _write_settings(history):
    record = {
        "format": FORMAT,
        "schema_version": SCHEMA_VERSION,
        "tasks": history.tasks,
        "settings": history.settings,
    }
    text = json.dumps(record, indent=1)
    # TensorBoard shows Markdown, in which this is a block of code.
    text = "\n".join(f"    {line}" for line in text.splitlines())
    metadata = _metadata("text")
    # DATA_CLASS_TENSOR
    metadata.data_class = 2
    tf.summary.write("settings", tf.constant(text), step=0, metadata=metadata)


def _metadata(plugin):
    metadata = tf.compat.v1.SummaryMetadata()
    metadata.plugin_data.plugin_name = plugin
    return metadata
