"""The methods that an experiment compares, by the paper's names."""

import keras_bpn

METHODS = ("BD+EWC", "BD+PSP", "GD+EWC", "GD+PSP", "EWC", "PSP", "fine-tuning")
_DIRECTIONS = {"BD": "beneficial", "GD": "gradient"}


def settings(name: str, strength: float, epsilon: float) -> dict:
    """Returns what `BPNModel.compile` needs for a method.

    Args:
        name: One of `METHODS`.
        strength: Factor lambda of EWC.
        epsilon: Size of the sign steps of BD.
    """
    prefix, _, method = name.rpartition("+")
    consolidation = None
    if method == "EWC":
        consolidation = keras_bpn.consolidation.EWC(strength)
    elif method == "PSP":
        consolidation = keras_bpn.consolidation.PSP()
    return {
        "direction": _DIRECTIONS.get(prefix),
        "epsilon": epsilon,
        "consolidation": consolidation,
    }
