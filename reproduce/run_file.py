"""Files of finished runs, to which an experiment that goes on adds more."""

import datetime
import json
import pathlib

from reproduce.records import machine
from reproduce.records import versions
from reproduce.records import write_text


class RunFile:
    """A JSON file with a line for each finished run.

    A line has the key of the run, its result, its seconds, and the day, the
    versions and the machine that it comes from. The file is replaced as a whole
    after each run, so that one that was stopped goes on from the last.

    Args:
        path: Where the file is, or will be. `None` for one that is never
            written.
    """

    def __init__(self, path=None):
        self.path = path and pathlib.Path(path)
        self.lines = []
        if path and self.path.exists():
            try:
                self.lines = json.loads(self.path.read_text())
            except ValueError as error:
                raise ValueError(
                    f"Expected a file of runs. Received: '{path}', which "
                    f"cannot be read: {error}"
                ) from error

    def find(self, run) -> dict | None:
        """Returns the result of a run, or `None` if it is not there."""
        key = _plain(run.key())
        for line in self.lines:
            if line["run"] == key:
                return line["result"]
        return None

    def add(self, run, result: dict, seconds: float) -> None:
        """Adds a run, or replaces it."""
        key = _plain(run.key())
        self.lines = [line for line in self.lines if line["run"] != key]
        self.lines.append(
            {
                "run": key,
                "result": result,
                "seconds": round(seconds, 1),
                "date": datetime.date.today().isoformat(),
                "versions": versions(),
                "machine": machine(),
            }
        )
        self._write()

    def keep(self, runs) -> None:
        """Drops all other lines of the methods of these runs, and puts these
        in order behind those of other methods."""
        keys = [_plain(run.key()) for run in runs]
        names = {key["contender"]["name"] for key in keys}
        others = [
            line
            for line in self.lines
            if line["run"]["contender"]["name"] not in names
        ]
        lines = [line for line in self.lines if line["run"] in keys]
        lines.sort(key=lambda line: keys.index(line["run"]))
        lines = others + lines
        if lines != self.lines:
            self.lines = lines
            self._write()

    def _write(self):
        if self.path is None:
            return
        # A line for each, so that a change shows as lines that changed.
        lines = ",\n".join(
            json.dumps(line, separators=(",", ":")) for line in self.lines
        )
        write_text(self.path, f"[\n{lines}\n]\n")


def _plain(key):
    """Returns a key as it comes back from a file."""
    return json.loads(json.dumps(key))
