"""Names of layers and weights that two networks of one architecture share."""

import re


def layer_paths(model):
    """Returns the paths of all layers within a model, by their ids.

    A path joins the names of the layers from the outside in, without the name
    of the model. Names that were given are kept. A name that Keras made from
    the class of a layer has a number that depends on how many such layers the
    process has made before, as in `"bpn_dense_3"`. Here these numbers count the
    layers of that class in the same place, in the order in which they were
    made, so that networks built by the same code have the same paths.

    Layers are not told apart by their places: one that is put between others
    leaves the paths of layers of other classes as they are. Whoever matches
    layers by their paths checks their shapes as well.
    """
    paths, taken = {}, set()

    def walk(layer, prefix):
        parts = layer._flatten_layers(include_self=False, recursive=False)
        for part, name in zip(parts, _relative_names(parts)):
            if id(part) in paths:
                continue
            path = prefix + name
            while path in taken:
                path += "'"
            taken.add(path)
            paths[id(part)] = path
            walk(part, f"{path}/")

    walk(model, "")
    return paths


def shared_weights(model):
    """Returns the weights of a `BPNModel` that tasks share, by their paths."""
    own = {id(v) for table in model.task_tables for v in table.variables}
    own |= {id(model._mode), id(model._open_row)}
    paths, owners = layer_paths(model), {}
    # From the outside in, so that the innermost layer is the owner.
    layers = model._flatten_layers(include_self=False)
    for layer in sorted(layers, key=lambda layer: paths[id(layer)].count("/")):
        owners.update((id(v), paths[id(layer)]) for v in layer.weights)
    weights = {}
    for variable in model.weights:
        if id(variable) not in own:
            path = f"{owners[id(variable)]}/{variable.name}"
            while path in weights:
                path += "'"
            weights[path] = variable
    return weights


def _relative_names(layers):
    names = [layer.name for layer in layers]
    automatic = {}
    for i, layer in enumerate(layers):
        base = _snake_case(type(layer).__name__)
        match = re.fullmatch(rf"{re.escape(base)}(?:_(\d+))?", layer.name)
        if match:
            number = int(match[1] or 0)
            automatic.setdefault(base, []).append((number, i))
    for base, numbered in automatic.items():
        for rank, (_, i) in enumerate(sorted(numbered)):
            names[i] = f"{base}_{rank}" if rank else base
    return names


def _snake_case(name):
    """As Keras makes the name of a layer from that of its class."""
    name = re.sub(r"\W+", "", name)
    name = re.sub("(.)([A-Z][a-z]+)", r"\1_\2", name)
    return re.sub("([a-z])([A-Z])", r"\1_\2", name).lower()
