"""What a model keeps besides its weights, as named entries of its file."""

import json

import numpy as np

from keras_bpn.layers.task_keys import TaskKeys
from keras_bpn.models import checks
from keras_bpn.models.seeds import seeded_methods

# Format 2 is written where rows, serial numbers or keys do not just count. A
# program that knows format 1 alone would mistake one task for another.
FORMATS = (1, 2)
_CONSOLIDATION = "consolidation:"
_SEED = "seed:"
# How many times as many rows as are taken there may be.
_ROOM = 4


def save_state(model, store):
    """Writes the state of a `BPNModel` to a store of named arrays."""
    rows = _rows_of(model)
    counts = not rows and not any(
        isinstance(table, TaskKeys) and table.has_other_origins
        for table in model.task_tables
    )
    state = {
        "format": 1 if counts else 2,
        "tasks": model._registry.get_state(),
        **rows,
        **model._registry.get_records(),
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
    model._registry.set_state(state["tasks"], rows=state, records=state)
    model._registry.classes = {}
    model._mode.assign(0)
    if known:
        for table in model.task_tables:
            table.set_classes(dict.fromkeys(known, ()))
    # Loaded without compiling, a model cannot go on to be protected.
    model._lost_consolidation = saved if model.consolidation is None else None
    model._shuffle_seed = int(state["shuffle_seed"])
    model._epochs = int(state["epochs"])
    model._reserve(max(state["capacity"], _num_rows(state)))
    serials = {
        model._registry.row(name): model._registry.serial(name)
        for name in model.tasks
    }
    serials = {row: serial for row, serial in serials.items() if row != serial}
    for table in model.task_tables:
        table.set_serials(serials)
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
    if state.get("format") not in FORMATS:
        raise ValueError(
            f"Expected a file of one of the formats {FORMATS}. Received: "
            f"format={state.get('format')}. A newer version of keras_bpn may "
            "have written it"
        )
    capacity = state["capacity"]
    if not isinstance(capacity, int) or not (
        0 < capacity <= max(8, _ROOM * _num_rows(state))
    ):
        raise ValueError(
            "Expected the capacity of the task tables to fit the number of "
            f"rows, {_num_rows(state)}. Received: capacity={capacity}"
        )
    return state


def _rows_of(model):
    """Returns rows and serial numbers, as far as they do not just count."""
    state = model._registry.get_rows()
    rows = state.get("rows", list(range(len(model.tasks))))
    # Tables stay as large as they are when tasks are removed. A file that
    # makes large ones has to be large itself.
    missing = -(-model._capacity // _ROOM) - len(rows)
    if missing > 0 and model._capacity > 8:
        state["rows"] = rows + missing * [None]
    return state


def _num_rows(state):
    return len(state.get("rows", state["tasks"]))


def _seed_generator_states(model):
    """Random state of layers such as `Dropout`, which Keras does not save."""
    weights = {id(w) for w in model.weights}
    return [
        v
        for v in model.variables
        if id(v) not in weights and v.name == "seed_generator_state"
    ]
