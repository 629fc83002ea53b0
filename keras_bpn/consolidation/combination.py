import itertools

import keras
from keras import ops

from keras_bpn.consolidation.consolidation import Consolidation
from keras_bpn.consolidation.quadratic import QuadraticPenalty


@keras.saving.register_keras_serializable("keras_bpn")
class Combination(Consolidation):
    """Several consolidations at once.

    The objective of a task is

    `loss + sum_k term_k`

    over the terms that each of the methods adds. In every step and at every
    task's start and end the methods act in the order in which they are given.
    Each adjusts the gradients that the one before it returned; what it learns
    from afterwards are the gradients before any adjustment. Factors lambda
    keep the meaning that they have in each method by itself.

    Methods of one class cannot be combined with one another, nor can two
    quadratic penalties (`EWC`, `MAS`, ...).

    Args:
        consolidations: List of at least two `keras_bpn.consolidation` objects.
            The members of a combination in it become members of this one.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss="sparse_categorical_crossentropy",
    ...     direction="beneficial",
    ...     consolidation=keras_bpn.consolidation.Combination(
    ...         [
    ...             keras_bpn.consolidation.EWC(2e3),
    ...             keras_bpn.consolidation.PSP(),
    ...         ]
    ...     ),
    ... )
    """

    def __init__(self, consolidations):
        super().__init__()
        self.consolidations = _checked(consolidations)

    @property
    def needs_data(self):
        return any(c.needs_data for c in self.consolidations)

    @property
    def growing(self):
        return tuple(
            prefix + name
            for prefix, member in self._members()
            for name in member.growing
        )

    def _members(self):
        """Returns pairs of the prefix of a member's state and the member."""
        return [(f"{type(c).__name__}/", c) for c in self.consolidations]

    # Hooks.

    def check(self, model):
        for member in self.consolidations:
            member.check(model)

    def build(self, model):
        for member in self.consolidations:
            member.build(model)

    def start_task(self, model, task, data):
        for member in self.consolidations:
            member.start_task(model, task, data)

    def cancel_task(self, model):
        # What was done last is taken back first.
        for member in reversed(self.consolidations):
            member.cancel_task(model)

    def loss(self, model, x, y, y_pred, calls):
        terms = [
            member.loss(model, x, y, y_pred, calls)
            for member in self.consolidations
        ]
        terms = [ops.cast(t, "float32") for t in terms if t is not None]
        return sum(terms) if terms else None

    def adjust_gradients(self, model, gradients):
        for member in self.consolidations:
            gradients = member.adjust_gradients(model, gradients)
        return gradients

    def after_update(self, model, task_gradients):
        for member in self.consolidations:
            member.after_update(model, task_gradients)

    def end_task(self, model, task, data):
        before = {
            name: ops.copy(variable)
            for name, variable in self.variables.items()
        }
        try:
            for member in self.consolidations:
                member.end_task(model, task, data)
        except BaseException:
            # A task whose end failed can be ended again, and counts once.
            for name, variable in self.variables.items():
                if name in before:
                    variable.assign(before[name])
            raise

    def rename_task(self, model, name, new_name):
        for member in self.consolidations:
            member.rename_task(model, name, new_name)

    def copy_task(self, model, name, new_name):
        for member in self.consolidations:
            member.copy_task(model, name, new_name)

    def remove_task(self, model, name):
        for member in self.consolidations:
            member.remove_task(model, name)

    def storage(self, model):
        parts = {}
        for member in self.consolidations:
            for part, size in member.storage(model).items():
                parts[part] = parts.get(part, 0) + size
        return parts

    # State.

    @property
    def variables(self):
        return {
            prefix + name: variable
            for prefix, member in self._members()
            for name, variable in member.variables.items()
        }

    def get_state(self):
        return {
            prefix + name: value
            for prefix, member in self._members()
            for name, value in member.get_state().items()
        }

    def set_state(self, state):
        prefixes = tuple(prefix for prefix, _ in self._members())
        for name in state:
            if not name.startswith(prefixes):
                raise ValueError(
                    "Expected the state of a combination to have names that "
                    f"start with one of {list(prefixes)}. Received: {name!r}"
                )
        for prefix, member in self._members():
            member.set_state(
                {
                    name[len(prefix) :]: value
                    for name, value in state.items()
                    if name.startswith(prefix)
                }
            )

    def forget_functions(self):
        super().forget_functions()
        for member in self.consolidations:
            member.forget_functions()

    # Configuration.

    def get_config(self):
        serialize = keras.saving.serialize_keras_object
        return {"consolidations": [serialize(c) for c in self.consolidations]}

    @classmethod
    def from_config(cls, config):
        deserialize = keras.saving.deserialize_keras_object
        return cls([deserialize(c) for c in config["consolidations"]])

    def __repr__(self):
        return f"{type(self).__name__}({self.consolidations!r})"


def _checked(consolidations):
    """Returns the members as a flat list, or raises."""
    try:
        given = list(consolidations)
    except TypeError:
        given = []
    members = []
    for each in given:
        nested = isinstance(each, Combination)
        members += each.consolidations if nested else [each]
    if len(members) < 2 or not all(
        isinstance(member, Consolidation) for member in members
    ):
        raise ValueError(
            "Expected `consolidations` to be a list of at least two "
            "`keras_bpn.consolidation` objects. "
            f"Received: consolidations={consolidations!r}"
        )
    for first, second in itertools.combinations(members, 2):
        # The names tell their states apart.
        if type(first).__name__ == type(second).__name__:
            raise ValueError(
                "Expected consolidations of different classes. Received: "
                f"{first!r} and {second!r}"
            )
        if isinstance(first, QuadraticPenalty) and isinstance(
            second, QuadraticPenalty
        ):
            raise ValueError(
                "Expected at most one quadratic penalty. The implicit step of "
                "each divides the gradients so far by `1 + lr * h`, with its "
                "own curvature `h`. Of two in turn, the second is not divided "
                "by the factor of the first, and the weights settle away from "
                "the minimum of the sum. "
                f"Received: {first!r} and {second!r}"
            )
    return members
