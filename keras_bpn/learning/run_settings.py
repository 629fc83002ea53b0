"""What identifies a run of `learn()`, and in what two runs differ."""

import json

import keras

# Drawn at random or counted where the user gives none, or, as the width of
# heads, different as tasks come. A run that goes on has what it started with.
_IGNORED = ("name", "seed", "width")


def describe_run(model, scenario, arguments: dict) -> dict:
    """Returns the settings of a run as JSON can hold them.

    Args:
        model: Compiled `BPNModel` or `SingleTaskModels`.
        scenario: `keras_bpn.scenarios.Scenario`.
        arguments: The arguments of `learn()` that decide about its results.
    """
    network = network_of(model)
    compiled = network.get_compile_config() or {}
    settings = {
        "method": type(model).__name__,
        "network": [
            [type(layer).__name__, layer.get_config()]
            for layer in network.layers
        ],
        "compile": {
            name: compiled.get(name)
            for name in (
                "optimizer",
                "loss",
                "direction",
                "epsilon",
                "consolidation",
            )
        },
        "learn": arguments,
    }
    settings = _without_names(_plain(settings))
    # Names and seeds in there are the user's.
    return {**settings, "scenario": _plain(scenario.get_config())}


def network_of(model):
    """Returns the network that a task to come is trained in."""
    return model if isinstance(model, keras.Model) else model.next_network


def differences(first, second, path: str = "") -> list[str]:
    """Returns what differs between two descriptions, a line for each."""
    if isinstance(first, dict) and isinstance(second, dict):
        # In the order in which a user thinks of them.
        names = [*first, *(name for name in second if name not in first)]
        pairs = [(n, first.get(n), second.get(n)) for n in names]
    elif (
        isinstance(first, list)
        and isinstance(second, list)
        and len(first) == len(second)
    ):
        pairs = [(i, a, b) for i, (a, b) in enumerate(zip(first, second))]
    elif first == second:
        return []
    else:
        return [f"{path}: {_short(first)} in the run, {_short(second)} now"]
    return [
        line
        for name, a, b in pairs
        for line in differences(a, b, f"{path}.{name}" if path else str(name))
    ]


def _plain(value):
    """Returns what is left of a value in JSON, the same in every process."""
    text = json.dumps(value, default=lambda other: type(other).__name__)
    return json.loads(text)


def _without_names(value):
    if isinstance(value, dict):
        return {
            name: _without_names(entry)
            for name, entry in value.items()
            if name not in _IGNORED
        }
    if isinstance(value, list):
        return [_without_names(entry) for entry in value]
    return value


def _short(value):
    text = json.dumps(value)
    return text if len(text) <= 200 else f"{text[:200]}..."
