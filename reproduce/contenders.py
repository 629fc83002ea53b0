"""Who takes part in a comparison: methods, by their names in tables."""

import dataclasses
import re


@dataclasses.dataclass(frozen=True)
class Contender:
    """A method, with what of it is given and not searched for.

    Args:
        name: String that tables call it by.
        method: String, a name of `keras_bpn.methods`.
        fixed: Dictionary of settings that are given.
        own_heads: Whether every task has outputs of its own, instead of one
            head over the classes of all tasks.
    """

    name: str
    method: str
    fixed: dict = dataclasses.field(default_factory=dict)
    own_heads: bool = False


def parse(name: str, **fixed) -> Contender:
    """Returns the contender that tables call by a name.

    `"GEM(10)"` is GEM with 10 images of each class in its memory and, as in
    the paper, a final linear classifier of its own for each task;
    `"GEM(10), one head"` goes without the latter. All other names are those of
    `keras_bpn.methods`, with one head.

    Args:
        name: String.
        **fixed: Settings that are given.
    """
    memory = re.fullmatch(r"GEM\((\d+)\)(, one head)?", name)
    if memory is None:
        return Contender(name, name, fixed)
    fixed = {"memory_per_class": int(memory[1]), **fixed}
    return Contender(name, "GEM", fixed, own_heads=not memory[2])
