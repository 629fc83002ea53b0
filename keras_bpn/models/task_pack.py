import dataclasses
import datetime
import hashlib
import json
import re

import numpy as np
from safetensors import numpy as safetensors

from keras_bpn.models import checks
from keras_bpn.models.weights_fingerprint import WeightsFingerprint

FORMAT = 1
# Serial numbers go on from the greatest one that is read.
MAX_SERIAL = 2**32
_ENTRY = "keras_bpn.task_pack"
# No path of a layer begins with a slash.
_HASHES, _SKETCHES = "/hashes", "/sketches"
_DIGITS = 32
# Quotes inside the entry are escaped, so that no name in it can look like this.
_CHECKSUM = re.compile(
    rb'"%s":"\{\\"checksum\\":\\"([0-9a-f]{%d})\\"'
    % (re.escape(_ENTRY).encode(), _DIGITS)
)


@dataclasses.dataclass(frozen=True)
class TaskPack:
    """What one task alone owns, as `save_task` puts it into a file.

    The file is in the format of safetensors, which holds arrays and text and
    no code. Its one entry of metadata is a JSON object with `checksum`,
    `format`, `task`, `classes`, `trained`, `keys` and `weights`, the shapes of
    the weights in the fingerprint by layer and name. The checksum is the
    BLAKE2b hash of the whole file, with zeros in the place of its digits.

    Attributes:
        task: Name of the task.
        classes: Tuple of its labels, or `None`.
        trained: When it was trained, in UTC as in ISO 8601, or `None`.
        rows: Dictionary from the path of each layer that keeps a row for the
            task to an array.
        keys: Dictionary from the path of each layer with keys to the seed and
            the serial number that the key of the task was drawn from.
        fingerprint: `WeightsFingerprint` of the weights that all tasks share.
    """

    task: str
    classes: tuple | None
    trained: str | None
    rows: dict
    keys: dict
    fingerprint: WeightsFingerprint

    def to_bytes(self):
        """Returns the content of a file."""
        content = {
            "checksum": _DIGITS * "0",
            "format": FORMAT,
            "task": self.task,
            "classes": self.classes,
            "trained": self.trained,
            "keys": self.keys,
            "weights": {},
        }
        for path, shape in self.fingerprint.shapes.items():
            layer, name = path.rsplit("/", 1)
            content["weights"].setdefault(layer, {})[name] = shape
        arrays = {
            **self.rows,
            _HASHES: self.fingerprint.hashes,
            _SKETCHES: self.fingerprint.sketches,
        }
        text = json.dumps(content, separators=(",", ":"))
        arrays = {n: np.ascontiguousarray(a) for n, a in arrays.items()}
        data = safetensors.save(arrays, {_ENTRY: text})
        start, stop = _CHECKSUM.search(data).span(1)
        return data[:start] + _checksum(data, start, stop) + data[stop:]

    @classmethod
    def from_bytes(cls, data):
        """Returns the pack in the content of a file, or raises `ValueError`."""
        _check_whole(data)
        try:
            size = int.from_bytes(data[:8], "little")
            header = json.loads(data[8 : 8 + size])
            content = json.loads(header["__metadata__"][_ENTRY])
            version = content["format"]
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            raise ValueError(_unreadable(error)) from error
        if version != FORMAT:
            raise ValueError(
                f"Expected a task pack of format {FORMAT}. Received: "
                f"format={version!r}. A newer version of keras_bpn may have "
                "written it"
            )
        try:
            return cls._from_content(content, safetensors.load(data))
        # What the library raises for broken files is just an `Exception`.
        except Exception as error:
            raise ValueError(_unreadable(error)) from error

    @classmethod
    def _from_content(cls, content, arrays):
        task, trained = content["task"], content["trained"]
        if not isinstance(task, str) or not task:
            raise ValueError(f"the name of the task is {task!r}")
        if trained is not None:
            datetime.datetime.fromisoformat(trained)
        classes = content["classes"]
        shapes = {
            f"{layer}/{name}": tuple(_integers(shape, 2**63))
            for layer, weights in content["weights"].items()
            for name, shape in weights.items()
        }
        fingerprint = WeightsFingerprint(
            shapes, arrays.pop(_HASHES), arrays.pop(_SKETCHES)
        )
        sizes = fingerprint.hashes.shape, fingerprint.sketches.shape
        types = fingerprint.hashes.dtype, fingerprint.sketches.dtype
        if sizes != WeightsFingerprint.sizes(len(shapes)) or types != (
            "uint8",
            "float32",
        ):
            raise ValueError(f"the fingerprint has shapes {sizes}")
        keys = {}
        for path, origin in content["keys"].items():
            seed, serial = _integers(origin, 2**64)
            if not 0 < serial < MAX_SERIAL:
                raise ValueError(f"the serial number of a key is {serial}")
            keys[path] = (seed, serial)
        return cls(
            task,
            None if classes is None else checks.as_classes(list(classes)),
            trained,
            arrays,
            keys,
            fingerprint,
        )


def _check_whole(data):
    """Raises unless the content of a file is all there, and as it was."""
    size = int.from_bytes(data[:8], "little")
    found = _CHECKSUM.search(data, 8, 8 + size) if size < len(data) else None
    if found is None:
        raise ValueError(
            "Expected a task pack that `save_task` wrote. Received: "
            f"{len(data)} bytes that do not begin like one"
        )
    start, stop = found.span(1)
    checksum = _checksum(data, start, stop)
    if checksum != found[1]:
        raise ValueError(
            f"Expected a task pack with the checksum {found[1].decode()}. "
            f"Received: {len(data)} bytes with {checksum.decode()}. The file "
            "is damaged"
        )


def _checksum(data, start, stop):
    """Returns the checksum of a file whose place for it is given."""
    digest = hashlib.blake2b(data[:start], digest_size=_DIGITS // 2)
    digest.update(_DIGITS * b"0")
    digest.update(data[stop:])
    return digest.hexdigest().encode()


def _integers(values, limit):
    values = list(values)
    if not all(type(v) is int and 0 <= v < limit for v in values):
        raise ValueError(f"{values} are not integers below {limit}")
    return values


def _unreadable(error):
    return (
        "Expected a task pack that can be read. Received: a file where "
        f"{type(error).__name__}: {error}"
    )
