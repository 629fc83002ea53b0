import json
import os

import numpy as np
import tensorflow as tf

from keras_bpn.evaluation import LearningHistory
from tests.evaluation.helpers import make_history


def read_events(path):
    for record in tf.data.TFRecordDataset(os.fspath(path)):
        event = tf.compat.v1.Event.FromString(record.numpy())
        for value in event.summary.value:
            yield event.step, value


def read_scalars(path):
    scalars = {}
    for step, value in read_events(path):
        if value.metadata.plugin_data.plugin_name == "scalars":
            assert value.metadata.data_class == 1
            assert value.tensor.dtype == tf.float32.as_datatype_enum
            number = tf.make_ndarray(value.tensor)
            assert number.shape == ()
            scalars.setdefault(value.tag, []).append((step, float(number)))
    return scalars


def test_tensorboard(tmp_path):
    other = tmp_path / "events.out.tfevents.1"
    other.write_bytes(b"of another run")
    history = make_history()
    history.write_tensorboard(tmp_path)
    history.record_task("4/5", {"4/5": 1.0})
    # It replaces its own file, and no other.
    history.write_tensorboard(str(tmp_path))
    assert other.read_bytes() == b"of another run"
    (path,) = set(tmp_path.iterdir()) - {other}
    assert "tfevents" in path.name
    scalars = read_scalars(path)
    f = lambda value: float(np.float32(value))  # noqa: E731
    assert scalars.pop("epochs/loss")[:2] == [(1, 1.5), (2, f(0.1))]
    assert scalars == {
        "tasks/accuracy/0/1": [(0, 0.5), (1, 1.0), (2, 0.75)],
        "tasks/accuracy/2/3": [(0, 0.25), (1, 0.5), (2, f(0.1))],
        "tasks/accuracy/4/5": [(3, 1.0)],
        "tasks/average_accuracy": [(1, 1.0), (2, f(0.425))],
        "tasks/learning_accuracy": [(1, 1.0), (2, f(0.55)), (3, f(2.1 / 3))],
        "tasks/forgetting": [(2, 0.25)],
        "tasks/backward_transfer": [(2, -0.25)],
        "tasks/forward_transfer": [(2, 0.25)],
        "tasks/seconds": [(1, 2.5), (2, 3.0)],
        "tasks/peak_memory": [(1, 1000.0)],
        "tasks/stored_bytes": [(1, 840.0), (2, 860.0)],
        "tasks/added_parameters": [(1, 210.0)],
        "epochs/accuracy/0/1": [(1, 0.75), (2, 1.0), (4, 0.5)],
    }


def test_tensorboard_has_the_settings(tmp_path):
    make_history().write_tensorboard(tmp_path / "new" / "folder")
    (path,) = (tmp_path / "new" / "folder").iterdir()
    (text,) = [
        value.tensor.string_val[0].decode()
        for _, value in read_events(path)
        if value.metadata.plugin_data.plugin_name == "text"
    ]
    record = json.loads(text)
    assert record["schema_version"] == 1
    assert record["settings"] == {"seed": 1, "units": [300, 300]}
    assert record["tasks"] == ["0/1", "2/3", "4/5"]


def test_an_empty_history(tmp_path):
    LearningHistory([]).write_tensorboard(tmp_path / "events")
    (path,) = (tmp_path / "events").iterdir()
    assert read_scalars(path) == {}
