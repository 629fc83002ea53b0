import random

import keras
import numpy as np

from keras_bpn.consolidation.consolidation import Consolidation
from keras_bpn.layers.task_keys import TaskKeys


@keras.saving.register_keras_serializable("keras_bpn")
class PSP(Consolidation):
    """Parameter superposition with binary keys.

    What enters each layer, the output layer included, is multiplied by a fixed
    random key of the current task, a vector of signs:

    `output = activation(dot(input * key_t, kernel) + bias + BIAS_t)`

    (Wen et al., algorithm 3). Tasks then use nearly orthogonal parts of the
    same kernel and disturb one another little; there is no penalty. Keys are
    drawn from a seed, the layer and the task, so that none has to be stored.

    Args:
        seed: Integer from which all keys are drawn, or `None`.

    Example:

    >>> model.compile(
    ...     optimizer=keras.optimizers.RMSprop(1e-4),
    ...     loss="sparse_categorical_crossentropy",
    ...     direction="beneficial",
    ...     consolidation=keras_bpn.consolidation.PSP(),
    ... )

    Reference:

    - [Cheung et al., 2019](https://arxiv.org/abs/1902.05522)
    - [Wen et al., 2021](https://doi.org/10.1109/TNNLS.2021.3054423),
      algorithms 3 and 4
    """

    def __init__(self, seed=None):
        super().__init__()
        self.seed = random.randint(1, 10**9) if seed is None else seed

    def check(self, model):
        layers = model._flatten_layers(include_self=False)
        keyed = set()
        for layer in layers:
            if _keys_of(layer):
                keyed |= {id(v) for v in layer.variables}
        bare = [
            v.path
            for v in model.shared_variables
            if len(v.shape) >= 2 and id(v) not in keyed
        ]
        if bare or not keyed:
            raise ValueError(
                "`PSP` needs keys on every layer with trainable kernels, as "
                "`keras_bpn.layers.BPNDense` has them. Use such layers, or "
                "freeze the others. Received: a model with "
                f"{bare or 'no trainable kernels'} without keys"
            )

    def build(self, model):
        for i, keys in enumerate(_all_keys(model)):
            state = np.random.SeedSequence([self.seed, i]).generate_state(1)
            keys.enable(int(state[0]))

    def storage(self, model):
        return {keys.path: 0 for keys in _all_keys(model)}

    def get_config(self):
        return {"seed": self.seed}


def _all_keys(model):
    layers = model._flatten_layers(include_self=False)
    return [layer for layer in layers if isinstance(layer, TaskKeys)]


def _keys_of(layer):
    return isinstance(getattr(layer, "task_keys", None), TaskKeys)
