"""A batch whose examples belong to several tasks, with a network for each."""

import keras
import numpy as np

from keras_bpn.layers.class_mask import MASKED
from keras_bpn.models import checks


def run_mixed_batch(x, tasks, function):
    """Returns one row of outputs per example, each from its own network.

    Where networks have heads of different widths, what a head lacks is filled
    with a score without any probability.

    Args:
        x: Arrays with the batch as their first axis.
        tasks: Sequence with the name of a task for each example.
        function: Function from the examples of a task and its name to outputs.
    """
    checks.check_lengths(tasks, x)
    names = np.array(tasks)
    places, parts = [], []
    for name in dict.fromkeys(tasks):
        chosen = np.flatnonzero(names == name)
        part = keras.tree.map_structure(lambda a: a[chosen], x)
        places.append(chosen)
        parts.append(keras.ops.convert_to_numpy(function(part, name)))
    width = max(part.shape[-1] for part in parts)
    padding = [(0, 0)] * (parts[0].ndim - 1)
    parts = [
        np.pad(
            part,
            [*padding, (0, width - part.shape[-1])],
            constant_values=MASKED,
        )
        for part in parts
    ]
    order = np.argsort(np.concatenate(places))
    return np.concatenate(parts)[order]
