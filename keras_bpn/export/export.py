import importlib.util
import os

from keras_bpn.export import litert
from keras_bpn.export import onnx
from keras_bpn.export import saved_model
from keras_bpn.export.signatures import input_signature
from keras_bpn.models.atomic import written_beside

# By format: what writes it, how its files end, and which packages it needs.
_FORMATS = {
    "tf_saved_model": (saved_model, "", ()),
    "litert": (litert, ".tflite", ()),
    "onnx": (onnx, ".onnx", ("tf2onnx", "onnx")),
}


def export(
    model, filepath, format, task, overwrite, verbose, signature, **options
):
    """Writes modes of a model for other programs; see `BPNModel.export`."""
    path = os.fspath(filepath)
    writer = _check_format(path, format)
    if format == "tf_saved_model" and options:
        raise ValueError(
            f"A SavedModel has no further options. Received: {sorted(options)}"
        )
    one = isinstance(task, str)
    tasks = [task] if one else tasks_to_export(model, task)
    for name in tasks:
        _check_ended(model, name)
    specs = input_signature(model, signature)
    if os.path.exists(path) and not overwrite:
        raise FileExistsError(
            "Expected a path where nothing is, or `overwrite=True`. "
            f"Received: filepath={path}"
        )
    with written_beside(path) as temporary:
        if one:
            writer.write_mode(model, temporary, task, specs, **options)
        else:
            writer.write_modes(model, temporary, tasks, specs, **options)
    if verbose is None or verbose:
        what = f"task '{task}'" if one else f"{len(tasks)} tasks"
        print(f"Saved {what} at '{path}'.")


def tasks_to_export(model, tasks):
    """Returns the names of the tasks, by default of all that have ended."""
    if tasks is None:
        tasks = [t for t in model.tasks if not model._registry.is_new(t)]
        if not tasks:
            raise ValueError(
                "Expected a model with a task that has ended: train one with "
                f"`fit(x, y, task=...)`. Received: tasks {list(model.tasks)}"
            )
        return tasks
    tasks = list(tasks)
    if not tasks or len(set(tasks)) < len(tasks):
        raise ValueError(
            "Expected the names of one or more tasks, each once. "
            f"Received: task={tasks}"
        )
    return tasks


def _check_format(path, format):
    if format not in _FORMATS:
        raise ValueError(
            f"Expected `format` to be one of {list(_FORMATS)}. "
            f"Received: format={format!r}"
        )
    writer, ending, packages = _FORMATS[format]
    if not path.endswith(ending):
        raise ValueError(
            f"Expected a path that ends in '{ending}' for format={format!r}. "
            f"Received: filepath={path}"
        )
    missing = [p for p in packages if importlib.util.find_spec(p) is None]
    if missing:
        raise ImportError(
            f"format={format!r} needs the packages {missing}, which are not "
            "installed. They come with `pip install 'keras-bpn[export]'`."
        )
    return writer


def _check_ended(model, task):
    model._registry.row(task)  # Says so if there is no such task.
    if task == model.open_task:
        raise ValueError(
            "Expected a task that has ended. End it with "
            "`model.consolidate(x, y)` first. "
            f"Received: task={task!r}, which is open"
        )
    if model._registry.is_new(task):
        raise ValueError(
            "Expected a task that was trained, with `fit(x, y, task=...)`. "
            f"Received: task={task!r}, which was only added"
        )
