"""Methods by the names that the paper gives them.

A comparison is a loop over names:

```python
for name in keras_bpn.methods.names():
    model = keras_bpn.methods.build(name, make_model)
    model.compile(
        optimizer="adam",
        loss="sparse_categorical_crossentropy",
        **keras_bpn.methods.get(name),
    )
    for task, (x, y) in tasks.items():
        model.fit(x, y, task=task)
```
"""

import difflib
import inspect

from keras_bpn import consolidation
from keras_bpn.models import SingleTaskModels

__all__ = ["build", "get", "names"]

_NAMES = (
    "STL",
    "EWC",
    "GEM",
    "IMM",
    "LwF",
    "EBLL",
    "SI",
    "MAS",
    "SLNID",
    "PSP",
    "BD+EWC",
    "BD+PSP",
    "GD+EWC",
)
_DIRECTIONS = {"BD": "beneficial", "GD": "gradient"}
_CONSOLIDATIONS = {
    "EWC": consolidation.EWC,
    "GEM": consolidation.GEM,
    "IMM": consolidation.IMM,
    "LwF": consolidation.LwF,
    "EBLL": consolidation.EBLL,
    "SI": consolidation.SI,
    "MAS": consolidation.MAS,
    "SLNID": consolidation.SLNID,
    "PSP": consolidation.PSP,
    "fine-tuning": None,
}


def names():
    """Returns the names of the thirteen methods of the paper.

    `get()` knows more: every `"BD+X"` and `"GD+X"`, with `X` one of EWC, GEM,
    IMM, LwF, EBLL, SI, MAS, SLNID, PSP and fine-tuning, and `X` alone.
    """
    return _NAMES


def get(name, **settings):
    """Returns what `BPNModel.compile` needs for a method.

    Args:
        name: String: `"STL"`; what protects the shared weights (`"EWC"`,
            `"SI"`, ...), or `"fine-tuning"` for nothing; or one of them with
            bias units, `"BD+EWC"` trained by sign steps or `"GD+EWC"` trained
            by gradients.
        **settings: Arguments of the class of that name in
            `keras_bpn.consolidation`, and `epsilon`, the size of the sign
            steps of BD.

    Returns:
        Dictionary with `direction` and `consolidation`, and `epsilon` if it
        was given.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss="sparse_categorical_crossentropy",
    ...     **keras_bpn.methods.get("BD+EWC", strength=2e3, epsilon=0.01),
    ... )
    """
    direction, method = _parse(name)
    arguments = {"direction": direction}
    allowed = []
    if direction == "beneficial":
        allowed.append("epsilon")
        if "epsilon" in settings:
            arguments["epsilon"] = settings.pop("epsilon")
    cls = _CONSOLIDATIONS.get(method)
    if cls is not None:
        allowed += inspect.signature(cls).parameters
    unknown = sorted(set(settings) - set(allowed))
    if unknown:
        raise ValueError(
            f"Expected settings of {name!r} to be among {allowed}. "
            f"Received: {', '.join(f'{k}={settings[k]!r}' for k in unknown)}"
        )
    arguments["consolidation"] = cls(**settings) if cls else None
    return arguments


def build(name, make_model):
    """Returns what is trained with a method.

    Args:
        name: As in `get()`.
        make_model: Function without arguments that returns a new
            `keras_bpn.BPNModel`.

    Returns:
        A new model; for `"STL"`, a `keras_bpn.models.SingleTaskModels` that
        makes a new one for each task.
    """
    _, method = _parse(name)
    return SingleTaskModels(make_model) if method == "STL" else make_model()


def _parse(name):
    """Returns the direction and what stands behind it."""
    prefix, plus, method = str(name).rpartition("+")
    known = method == "STL" or method in _CONSOLIDATIONS
    if known and not plus:
        return None, method
    if known and prefix in _DIRECTIONS and method != "STL":
        return _DIRECTIONS[prefix], method
    if known and prefix in _DIRECTIONS:
        raise ValueError(
            "Expected bias units to go with a network that tasks share; STL "
            f"has one network for each task. Received: name={name!r}"
        )
    every = ["STL", *_CONSOLIDATIONS]
    every += [f"{d}+{m}" for d in _DIRECTIONS for m in _CONSOLIDATIONS]
    nearest = difflib.get_close_matches(str(name), every, 1)
    hint = f" Did you mean {nearest[0]!r}?" if nearest else ""
    raise ValueError(
        f"Expected the name of a method: one of {['STL', *_CONSOLIDATIONS]}, "
        "or one of these but the first behind 'BD+' or 'GD+'. "
        f"Received: name={name!r}.{hint}"
    )
