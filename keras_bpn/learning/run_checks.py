"""Checks of the arguments of `learn()`, made before anything changes."""

import numbers

import keras

from keras_bpn.learning.run_settings import network_of
from keras_bpn.models.workers import check_same


def check_arguments(arguments, save_every, save_unit, callbacks):
    counts = {**arguments, "save_every": save_every}
    for name in (
        "epochs",
        "batch_size",
        "evaluate_every",
        "patience",
        "save_every",
    ):
        value = counts[name]
        if value is None and name in ("patience", "save_every"):
            continue
        whole = isinstance(value, numbers.Integral)
        if not whole or isinstance(value, bool) or value < 1:
            raise ValueError(
                f"Expected `{name}` to be a positive integer. "
                f"Received: {name}={value!r}"
            )
    for name, value, choices in (
        (
            "evaluate_unit",
            arguments["evaluate_unit"],
            ("tasks", "epochs"),
        ),
        ("save_unit", save_unit, ("epochs", "steps")),
    ):
        if value not in choices:
            raise ValueError(
                f"Expected `{name}` to be one of {list(choices)}. "
                f"Received: {name}={value!r}"
            )
    if callbacks is not None and not callable(callbacks):
        for callback in callbacks:
            if not isinstance(callback, keras.callbacks.Callback):
                raise ValueError(
                    "Expected `callbacks` to be a list of Keras callbacks, or "
                    "a function that returns one. Received: a list with "
                    f"{callback!r}"
                )


def check_workers(model, restored, position):
    """Checks that all workers that train a model go on from one place."""
    strategy = network_of(model).distribute_strategy
    place = f"restored={restored} {position}"
    check_same(strategy, {"place in the run": place})


def check_model(model, metric):
    network = network_of(model)
    network._assert_compile_called("learn")
    metrics = (network.get_compile_config() or {}).get("metrics")
    names = [
        m if isinstance(m, str) else m["config"]["name"]
        for m in _flatten(metrics)
    ]
    if metric not in names:
        raise ValueError(
            "Expected the model to be compiled with the metric that `learn()` "
            f"keeps: `compile(..., metrics=[{metric!r}])`. "
            f"Received: metric={metric!r} with metrics={names}"
        )


def _flatten(metrics):
    """Returns the names and configurations in a compile argument."""
    if metrics is None:
        return []
    if isinstance(metrics, dict) and "config" not in metrics:
        metrics = list(metrics.values())
    if isinstance(metrics, (list, tuple)):
        return [m for entry in metrics for m in _flatten(entry)]
    return [metrics]


def check_tasks(model, scenario, patience, forward_transfer):
    if not len(scenario):
        raise ValueError(
            "Expected a scenario with at least one task. "
            f"Received: scenario={scenario!r}"
        )
    network = network_of(model)
    if forward_transfer and network.task_heads:
        raise ValueError(
            "Expected `forward_transfer=False` for a network with a head for "
            "each task: there is none before a task is trained. "
            "Received: forward_transfer=True"
        )
    for task in scenario:
        _check_classes(network, task)
    if patience is not None:
        without = [t.name for t in scenario if not t.examples("validation")]
        if without:
            raise ValueError(
                "Expected validation data where `patience` is given, by which "
                f"a task is stopped. Received: patience={patience} with tasks "
                f"{without} without any"
            )


def _check_classes(network, task):
    if network.task_heads:
        if task.classes != tuple(range(len(task.classes))):
            raise ValueError(
                "Expected the labels of a task to count from 0 for a network "
                "with a head for each task. Make the scenario with "
                f"`multi_head=True`. Received: task {task.name!r} with "
                f"classes={task.classes}"
            )
        return
    width = network.outputs[0].shape[-1]
    if width is not None and max(task.classes) >= width:
        raise ValueError(
            f"Expected labels from 0 to {width - 1}, because the model has "
            f"{width} outputs. Received: task {task.name!r} with "
            f"classes={task.classes}"
        )
