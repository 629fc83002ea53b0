"""What is searched for each method, and between which bounds."""

import dataclasses
import math


@dataclasses.dataclass(frozen=True)
class LogUniform:
    """Numbers between two bounds, all orders of magnitude alike.

    Args:
        low: Positive number.
        high: Number.
        default: Number that the first trial takes.
    """

    low: float
    high: float
    default: float

    def at(self, fraction: float) -> float:
        """Returns the number so far between the bounds."""
        low, high = math.log(self.low), math.log(self.high)
        # Three digits are as many as anybody would set.
        return float(f"{math.exp(low + fraction * (high - low)):.3g}")


@dataclasses.dataclass(frozen=True)
class Choice:
    """One of several values.

    Args:
        values: Tuple; the first trial takes the first.
    """

    values: tuple

    @property
    def default(self):
        return self.values[0]

    def at(self, fraction: float):
        """Returns the value so far into them."""
        return self.values[int(fraction * len(self.values))]


_LEARNING_RATE = LogUniform(3e-5, 3e-3, default=1e-3)
_DIRECTIONS = {
    "BD": {
        "epsilon": LogUniform(1e-3, 5e-2, default=0.01),
        "hidden_gain": LogUniform(1.0, 20.0, default=10.0),
    },
    "GD": {"hidden_gain": LogUniform(1.0, 20.0, default=10.0)},
}
_PROTECTION = {
    "fine-tuning": {},
    "STL": {},
    "PSP": {},
    "EWC": {"strength": LogUniform(10.0, 1e5, default=2e3)},
    "SI": {
        "strength": LogUniform(1e-2, 1e2, default=0.1),
        "damping": LogUniform(1e-3, 1.0, default=0.1),
    },
    "MAS": {"strength": LogUniform(1e-2, 1e3, default=1.0)},
    "GEM": {"margin": Choice((0.5, 0.0, 0.25, 1.0))},
    "IMM": {
        "strength": LogUniform(1e-6, 1e-1, default=1e-4),
        "merge": Choice(("mean", "mode")),
    },
    "LwF": {"strength": LogUniform(0.1, 30.0, default=1.0)},
    "EBLL": {
        "strength": LogUniform(0.1, 30.0, default=1.0),
        "code_strength": LogUniform(1e-3, 1.0, default=0.1),
    },
    "SLNID": {
        "strength": LogUniform(1e-5, 1e-2, default=1e-3),
        "mas_strength": LogUniform(1e-2, 1e3, default=0.1),
    },
}


def space_of(method: str) -> dict[str, LogUniform | Choice]:
    """Returns what is searched for a method, by the name of a setting."""
    direction, _, protection = method.rpartition("+")
    return {
        "learning_rate": _LEARNING_RATE,
        **_PROTECTION[protection],
        **_DIRECTIONS.get(direction, {}),
    }
