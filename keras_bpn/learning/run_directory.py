import contextlib
import hashlib
import json
import pathlib
import re
import warnings

import numpy as np

from keras_bpn.learning.run_settings import differences
from keras_bpn.models.atomic import remove_leftovers
from keras_bpn.models.atomic import remove_whole
from keras_bpn.models.atomic import written_beside

try:
    import fcntl
except ImportError:  # There is none on Windows.
    fcntl = None

SCHEMA_VERSION = 1
_SETTINGS, _MANIFEST = "run.json", "manifest.json"
_PROGRESS, _ARRAYS = "progress.json", "arrays.npz"
_NAME = re.compile(r"(\d{6,})-(task|step)")
# How many checkpoints from the ends of tasks are kept. If the newest of all
# cannot be read, there is the task before.
_KEPT = 2


class RunDirectory:
    """The folder in which a run of `learn()` is kept.

    `run.json` tells which run it is. Beside it lie checkpoints, each a folder
    that is written under another name and then renamed, with a manifest of the
    digests of its files. A checkpoint is there as a whole or not at all, and
    one that was damaged later is recognised.

    Args:
        path: Path of the folder; it is made if it is not there.
        settings: Dictionary that identifies the run.
        writes: Boolean, whether this process writes. Of several workers that
            train a model together, the chief does, and the others read.
    """

    def __init__(self, path, settings: dict, writes: bool = True):
        self.path = pathlib.Path(path)
        self.settings = settings
        self.writes = writes
        self._lock = None

    @contextlib.contextmanager
    def opened(self):
        """Opens the folder for one process.

        Raises:
            ValueError: If the folder belongs to another run.
        """
        self._check()
        if not self.writes:
            yield self
            return
        self.path.mkdir(parents=True, exist_ok=True)
        with open(self.path / ".lock", "w") as self._lock:
            self._take_lock()
            remove_leftovers(self.path)
            if not (self.path / _SETTINGS).exists():
                self._write_json(
                    self.path / _SETTINGS,
                    {"schema_version": SCHEMA_VERSION, **self.settings},
                )
            yield self

    def _check(self):
        path = self.path / _SETTINGS
        if not path.exists():
            if self.path.is_file():
                raise NotADirectoryError(
                    "Expected `directory` to be a folder. "
                    f"Received: directory={self.path}"
                )
            if self.path.is_dir() and self._visible():
                raise ValueError(
                    "Expected `directory` to be new, empty, or that of an "
                    f"earlier run. Received: directory={self.path} with "
                    f"{self._visible()[:5]}"
                )
            return
        try:
            found = json.loads(path.read_text())
            version = found.pop("schema_version")
        except (ValueError, KeyError, AttributeError, TypeError) as error:
            raise ValueError(
                f"Expected '{path}' to describe a run of `learn()`. "
                f"Received: {type(error).__name__}: {error}"
            ) from error
        if version != SCHEMA_VERSION:
            raise ValueError(
                f"Expected a run of schema version {SCHEMA_VERSION} in "
                f"'{self.path}'. Received: version {version}. Another version "
                "of keras_bpn wrote it"
            )
        changed = differences(found, json.loads(json.dumps(self.settings)))
        if changed:
            raise ValueError(
                "Expected the arguments of the run in "
                f"'{self.path}', to go on with it. Use another `directory` "
                "for another run. Received:\n  " + "\n  ".join(changed)
            )

    def _visible(self):
        names = (path.name for path in self.path.iterdir())
        return sorted(name for name in names if not name.startswith("."))

    def _take_lock(self):
        if fcntl is None:
            return
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise RuntimeError(
                "Expected a run to be continued by one process at a time. "
                f"Received: directory={self.path}, which another one uses"
            ) from error
        except OSError:
            # Some network drives have no locks.
            pass

    # Checkpoints.

    def checkpoints(self) -> list:
        """Returns the checkpoints' paths, the newest first."""
        if not self.path.is_dir():
            return []
        paths = [p for p in self.path.iterdir() if _NAME.fullmatch(p.name)]
        return sorted(paths, key=_number, reverse=True)

    def save(self, progress: dict, arrays: dict, write, ends_task: bool):
        """Writes a checkpoint, and removes those that it replaces.

        Args:
            progress: Dictionary that JSON can hold.
            arrays: Dictionary of NumPy arrays by name.
            write: Function that writes further files to the folder it is
                given.
            ends_task: Whether a task has just ended.
        """
        if not self.writes:
            return
        earlier = self.checkpoints()
        number = _number(earlier[0]) + 1 if earlier else 0
        path = self.path / f"{number:06d}-{'task' if ends_task else 'step'}"
        try:
            with written_beside(path) as folder:
                folder.mkdir()
                write(folder)
                np.savez(folder / _ARRAYS, **arrays)
                (folder / _PROGRESS).write_text(json.dumps(progress))
                digests = _digests(folder)
                (folder / _MANIFEST).write_text(
                    json.dumps(
                        {"schema_version": SCHEMA_VERSION, "sha256": digests}
                    )
                )
        except OSError as error:
            newest = earlier[0].name if earlier else "none"
            error.add_note(
                f"The checkpoint '{path}' could not be written, and nothing of "
                f"it is left. The last one before it is {newest}: once there "
                "is room, the same call of `learn()` goes on from there."
            )
            raise
        ends = [p for p in earlier if p.name.endswith("-task")]
        for old in set(earlier) - set(ends[: _KEPT - ends_task]):
            remove_whole(old)

    def restore(self, read) -> tuple | None:
        """Reads the newest checkpoint that is whole.

        Args:
            read: Function that reads the files which `write` wrote. It is
                given the folder.

        Returns:
            The `progress` and the `arrays` that were saved, or `None` where
            no checkpoint is there.
        """
        checkpoints = self.checkpoints()
        for path in checkpoints:
            try:
                progress, arrays = _read_checkpoint(path)
            except (OSError, ValueError, KeyError, TypeError) as error:
                warnings.warn(
                    f"The checkpoint '{path}' is damaged ({error}). Going on "
                    "from the one before it.",
                    stacklevel=3,
                )
                continue
            read(path)
            return progress, arrays
        if checkpoints:
            raise ValueError(
                "Expected at least one whole checkpoint in "
                f"'{self.path}'. Received: {len(checkpoints)} that are "
                "damaged. Remove the folder to start anew"
            )
        return None

    def write_json(self, name: str, content: dict):
        """Writes a file beside the checkpoints."""
        self._write_json(self.path / name, content)

    def _write_json(self, path, content):
        with written_beside(path) as temporary:
            temporary.write_text(json.dumps(content, indent=1))


def entries_under(arrays: dict, prefix: str) -> dict:
    """Returns the entries whose names start with a prefix, without it."""
    return {
        name[len(prefix) :]: value
        for name, value in arrays.items()
        if name.startswith(prefix)
    }


def _number(path):
    return int(_NAME.fullmatch(path.name).group(1))


def _digests(folder):
    return {
        str(path.relative_to(folder)): _digest(path)
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != _MANIFEST
    }


def _digest(path):
    with open(path, "rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _read_checkpoint(path):
    """Returns progress and arrays, once all files are known to be whole."""
    manifest = json.loads((path / _MANIFEST).read_text())
    if manifest["schema_version"] != SCHEMA_VERSION:
        raise ValueError(f"schema version {manifest['schema_version']}")
    found = _digests(path)
    for name, digest in manifest["sha256"].items():
        if found.get(name) != digest:
            raise ValueError(f"the file '{name}' is not as it was written")
    progress = json.loads((path / _PROGRESS).read_text())
    with np.load(path / _ARRAYS, allow_pickle=False) as arrays:
        return progress, {name: arrays[name] for name in arrays.files}
