"""What a model keeps besides its weights, as named entries of its file."""

import json

import numpy as np

from keras_bpn.models import checks
from keras_bpn.models.seeds import seeded_methods

FORMAT = 1
_CONSOLIDATION = "consolidation:"
_SEED = "seed:"


def save_state(model, store):
    """Writes the state of a `BPNModel` to a store of named arrays."""
    state = {
        "format": FORMAT,
        "tasks": model._registry.get_state(),
        "classes": model.task_classes,
        "task": model.task,
        "capacity": model._capacity,
        "shuffle_seed": model._shuffle_seed,
        "epochs": model._epochs,
        "consolidation": None,
        "seeds": [
            member.seed for member in seeded_methods(model.consolidation)
        ],
    }
    if model.consolidation is not None:
        state["consolidation"] = type(model.consolidation).__name__
        for name, value in model.consolidation.get_state().items():
            # A slash would be a folder inside the file.
            store[_CONSOLIDATION + name.replace("/", "|")] = value
    for i, generator in enumerate(_seed_generator_states(model)):
        store[f"{_SEED}{i}"] = generator
    store["state"] = np.frombuffer(json.dumps(state).encode(), "uint8")


def load_state(model, store):
    """Restores what `save_state` wrote.

    Keras calls this before it loads the layers, whose tables are made large
    enough here.
    """
    state = _read(store)
    entries = {
        name[len(_CONSOLIDATION) :].replace("|", "/"): store[name]
        for name in store.keys()
        if name.startswith(_CONSOLIDATION)
    }
    saved = state["consolidation"]
    if model.consolidation is not None:
        given = type(model.consolidation).__name__
        if given != saved:
            raise ValueError(
                "Expected a file of a model compiled with "
                f"`consolidation={given}`. Received: a file of a model "
                f"compiled with `consolidation={saved}`"
            )
    known = [model._registry.row(name) for name in model.task_classes]
    model._registry.set_state(state["tasks"])
    model._registry.classes = {}
    model._mode.assign(0)
    if known:
        for table in model.task_tables:
            table.set_classes(dict.fromkeys(known, ()))
    # Loaded without compiling, a model cannot go on to be protected.
    model._lost_consolidation = saved if model.consolidation is None else None
    model._shuffle_seed = int(state["shuffle_seed"])
    model._epochs = int(state["epochs"])
    model._reserve(max(state["capacity"], len(state["tasks"])))
    if state["classes"]:
        model._set_classes(
            {n: checks.as_classes(c) for n, c in state["classes"].items()}
        )
    model.task = state["task"]
    model._mark_open_row()
    if model.consolidation is not None:
        model.consolidation.set_state(entries)
        seeds = state.get("seeds", [])
        for member, seed in zip(seeded_methods(model.consolidation), seeds):
            member.seed = seed
        # Steps that were compiled know of other variables.
        model._forget_functions()
    for i, generator in enumerate(_seed_generator_states(model)):
        if f"{_SEED}{i}" in store.keys():
            generator.assign(store[f"{_SEED}{i}"])


def _read(store):
    if "state" not in store.keys():
        raise ValueError(
            "Expected a file written by a `keras_bpn.BPNModel`. Received: a "
            "file without its entry 'state'"
        )
    try:
        state = json.loads(bytes(np.asarray(store["state"], "uint8")))
    except ValueError as error:
        raise ValueError(
            "Expected the entry 'state' of the file to be readable. "
            f"Received: {error}"
        ) from error
    if state.get("format") != FORMAT:
        raise ValueError(
            f"Expected a file of format {FORMAT}. Received: format="
            f"{state.get('format')}. A newer version of keras_bpn may have "
            "written it"
        )
    capacity = state["capacity"]
    if not isinstance(capacity, int) or not (
        0 < capacity <= max(8, 4 * len(state["tasks"]))
    ):
        raise ValueError(
            "Expected the capacity of the task tables to fit the number of "
            f"tasks, {len(state['tasks'])}. Received: capacity={capacity}"
        )
    return state


def _seed_generator_states(model):
    """Random state of layers such as `Dropout`, which Keras does not save."""
    weights = {id(w) for w in model.weights}
    return [
        v
        for v in model.variables
        if id(v) not in weights and v.name == "seed_generator_state"
    ]
