"""Experiments that change one thing about a method that was tuned elsewhere."""

import dataclasses
import inspect
import json

import keras_bpn
from reproduce.comparison import Comparison
from reproduce.contenders import Contender
from reproduce.networks import BiasUnits
from reproduce.search import trials_of


@dataclasses.dataclass(frozen=True)
class Variant:
    """A method with the settings that a search has found, but for changes.

    Args:
        method: Name of a method.
        changes: Dictionary of settings.
        factors: Dictionary from names of settings to what the values that were
            found are multiplied by.
        settings_of: Name of the method whose settings were searched for;
            those that `method` lacks are left out. Defaults to `method`.
    """

    method: str
    changes: dict = dataclasses.field(default_factory=dict)
    factors: dict = dataclasses.field(default_factory=dict)
    settings_of: str | None = None

    def settings(self, chosen: dict) -> dict:
        """Returns all settings, from those that were found."""
        chosen = {
            name: value
            for name, value in chosen[self.settings_of or self.method].items()
            if name in _known_settings(self.method)
        }
        for name, factor in self.factors.items():
            chosen[name] = float(f"{chosen[name] * factor:.3g}")
        return {**chosen, **self.changes}


def _known_settings(method):
    """Returns the names of the settings that a method has."""
    arguments = keras_bpn.methods.get(method)
    names = {"learning_rate"}
    if arguments["direction"] is not None:
        names |= {field.name for field in dataclasses.fields(BiasUnits)}
    if arguments["direction"] == "beneficial":
        names.add("epsilon")
    if arguments["consolidation"] is not None:
        cls = type(arguments["consolidation"])
        names |= set(inspect.signature(cls).parameters)
    return names


@dataclasses.dataclass(frozen=True)
class Variation(Comparison):
    """A comparison of variants, with the settings of another comparison.

    Args:
        base: The `Comparison` that has searched for settings.
        variants: Dictionary from names to `Variant`.
    """

    base: Comparison | None = None
    variants: dict = dataclasses.field(default_factory=dict)

    def quick_version(self):
        # Some are enough to see that they run.
        methods = self.methods[:: max(1, len(self.methods) // 6)]
        quick = super().quick_version()
        return dataclasses.replace(quick, methods=methods, seeds=1)

    def contender(self, method):
        return Contender(method, self.variants[method].method)

    def choose(self, methods, folder, jobs=None):
        path = self.base.folder / "search.json"
        if self.protocol != self.base.protocol:
            # A small version, which needs no good settings.
            names = {v.settings_of or v.method for v in self.variants.values()}
            chosen = {name: trials_of(name, 1)[0] for name in names}
        elif path.exists():
            chosen = json.loads(path.read_text())["chosen"]
        else:
            raise FileNotFoundError(
                "Expected the settings that `python -m reproduce "
                f"{self.base.name}` finds. Received: no file {path}"
            )
        return {m: self.variants[m].settings(chosen) for m in methods}
