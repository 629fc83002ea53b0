import dataclasses

from reproduce.contenders import Contender


@dataclasses.dataclass(frozen=True)
class FakeRun:
    """A run that takes no time: its result is what its settings say.

    Args:
        name: String.
        value: Number that is its result.
        folder: Path of a folder where each execution leaves a file, or `None`.
        fails: Whether it raises.
    """

    name: str
    value: float
    folder: str | None = None
    fails: bool = False

    @property
    def contender(self):
        return Contender(self.name, self.name)

    def key(self):
        return {
            "contender": dataclasses.asdict(self.contender),
            "value": self.value,
        }

    def title(self):
        return f"{self.name} {self.value}"

    def execute(self):
        if self.fails:
            raise RuntimeError(f"{self.name} fails")
        if self.folder is not None:
            with open(f"{self.folder}/{self.name}-{self.value}", "a") as file:
                file.write("x")
        return {"value": self.value}
