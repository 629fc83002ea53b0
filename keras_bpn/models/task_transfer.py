"""Tasks that go from one model to another."""

import functools
import os
import pathlib
import warnings

import keras
import numpy as np

from keras_bpn.layers.task_heads import TaskHeads
from keras_bpn.layers.task_keys import TaskKeys
from keras_bpn.models.atomic import written_beside
from keras_bpn.models.layer_paths import layer_paths
from keras_bpn.models.layer_paths import shared_weights
from keras_bpn.models.task_classes import check_task_classes
from keras_bpn.models.task_pack import TaskPack
from keras_bpn.models.weights_fingerprint import WeightsFingerprint

# What a pack may have besides the rows, in bytes.
_ROOM = 2**22
# The most outputs that the head of a task is expected to have.
_MAX_CLASSES = 2**17


def write_pack(model, path, task, overwrite):
    """Writes the pack of a task that has ended."""
    path = pathlib.Path(path)
    if path.exists() and not overwrite:
        raise FileExistsError(
            "Expected a path where nothing is, or `overwrite=True`. "
            f"Received: path={path}"
        )
    if path.is_dir():
        raise IsADirectoryError(
            f"Expected the path of a file. Received: path={path}, a folder"
        )
    data = make_pack(model, task).to_bytes()
    with written_beside(path) as temporary:
        temporary.write_bytes(data)


def make_pack(model, task):
    """Returns the `TaskPack` of a task that has ended."""
    registry = model._registry
    row = registry.row(task)
    rows = {
        path: _storable(table.read_row(row))
        for path, table in _tables_with_rows(model).items()
    }
    keys = {path: k.origin(row) for path, k in _tables_with_keys(model).items()}
    return TaskPack(
        task,
        registry.classes.get(task),
        registry.trained(task),
        rows,
        keys,
        _fingerprint(model),
    )


def read_pack(model, path):
    """Returns the `TaskPack` in a file, which need not fit the model."""
    limit = _ROOM + sum(map(_largest, _tables_with_rows(model).values()))
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size > limit:
            raise ValueError(
                f"Expected a task pack of at most {limit:,} bytes for this "
                f"network. Received: {size:,} bytes in {path}"
            )
        data = file.read(limit)
    try:
        return TaskPack.from_bytes(data)
    except ValueError as error:
        raise ValueError(f"{error}. It was read from {path}") from error


def _largest(table):
    """Returns the most bytes that a row of a table may take in a file."""
    row = np.asarray(table.read_row(0), "float64")
    return len(row) * _MAX_CLASSES * 8 if row.ndim > 1 else row.nbytes


def fit_pack(model, pack):
    """Finds the places of a pack in a model, or raises if it does not fit.

    Returns:
        List of pairs of a table and what to write to its row, and list of
        pairs of `TaskKeys` and the origin of their key.
    """
    tables, keys = _tables_with_rows(model), _tables_with_keys(model)
    _check_paths(
        tables,
        pack.rows,
        "rows",
        "Models compiled with `direction=None` have no bias units",
    )
    _check_paths(
        keys, pack.keys, "keys", "Models compiled with `PSP` have keys"
    )
    shapes = shared_weights(model)
    shapes = {path: tuple(weight.shape) for path, weight in shapes.items()}
    _check_paths(shapes, pack.fingerprint.shapes, "shared weights", "")
    for path, shape in shapes.items():
        _check_shape(path, shape, pack.fingerprint.shapes[path])
    if pack.classes is not None:
        check_task_classes(model, pack.task, pack.classes)
    elif any(table.needs_classes for table in model.task_tables):
        raise ValueError(
            "Expected a pack with the classes of its task, because the outputs "
            "of the network depend on them. Received: a pack without classes"
        )
    rows = []
    for path, table in tables.items():
        row, own = pack.rows[path], table.read_row(0)
        shape = own.shape
        if isinstance(table, TaskHeads):
            shape = (len(own), len(pack.classes))
        _check_shape(path, shape, row.shape)
        if row.dtype != _storable(own).dtype:
            raise ValueError(
                f"Expected a row of type {_storable(own).dtype} for '{path}'. "
                f"Received: {row.dtype}"
            )
        rows.append((table, row))
    origins = [(table, pack.keys[path]) for path, table in keys.items()]
    return rows, origins


def warn_of_other_weights(model, pack):
    """Warns if a task was trained on shared weights that are not the model's.

    Args:
        model: `BPNModel`.
        pack: `TaskPack` that fits it.
    """
    before, now = pack.fingerprint, _fingerprint(model)
    differing = before.differing(now)
    if not differing:
        return
    warnings.warn(
        f"Expected the shared weights that task {pack.task!r} was saved with. "
        f"Received: weights that differ by about {before.distance(now):.2%} of "
        "their norm, an estimate from sketches, in "
        f"{len(differing)} of {len(before.shapes)} variables. The outputs of "
        "the task will not be those that it was saved with",
        stacklevel=3,
    )


def _fingerprint(model):
    return WeightsFingerprint.of(
        {
            path: functools.partial(keras.ops.convert_to_numpy, weight)
            for path, weight in shared_weights(model).items()
        }
    )


def _tables_with_rows(model):
    paths = layer_paths(model)
    return {
        paths[id(table)]: table
        for table in model.task_tables
        if table.read_row(0) is not None
    }


def _tables_with_keys(model):
    paths = layer_paths(model)
    return {
        paths[id(table)]: table
        for table in model.task_tables
        if isinstance(table, TaskKeys) and table.seed is not None
    }


def _storable(row):
    # NumPy has no such type, and safetensors does not read it into NumPy.
    return row.astype("float32") if row.dtype.name == "bfloat16" else row


def _check_paths(expected, received, kind, hint):
    missing = [path for path in expected if path not in received]
    unknown = [path for path in received if path not in expected]
    if missing or unknown:
        raise ValueError(
            f"Expected a pack with {kind} for {list(expected) or 'no layer'}, "
            "as the network has them. Received: a pack with those of "
            f"{list(received) or 'no layer'}; missing {missing}, unknown "
            f"{unknown}{hint and '. '}{hint}"
        )


def _check_shape(path, expected, received):
    if tuple(expected) != tuple(received):
        raise ValueError(
            f"Expected a pack for a network of the same shape, with "
            f"{tuple(expected)} for '{path}'. Received: {tuple(received)}"
        )
