"""The state of Python's and NumPy's random generators, as JSON can hold it.

New networks and layers draw their seeds from the first one.
"""

import random

import numpy as np


def get_random_state() -> dict:
    name, keys, *rest = np.random.get_state()
    return {
        "python": random.getstate(),
        "numpy": [name, keys.tolist(), *rest],
    }


def set_random_state(state: dict) -> None:
    version, keys, gauss = state["python"]
    random.setstate((version, tuple(keys), gauss))
    name, keys, *rest = state["numpy"]
    np.random.set_state((name, np.array(keys, "uint32"), *rest))
