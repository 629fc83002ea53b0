"""How results are written: as JSON, with what is needed to get them again."""

import json
import os
import pathlib
import platform
import sys
import tempfile

import keras
import numpy as np
import tensorflow as tf

import keras_bpn

RESULTS = pathlib.Path(__file__).parent / "results"


def versions() -> dict:
    """Returns the versions that a result depends on."""
    return {
        "keras_bpn": keras_bpn.__version__,
        "keras": keras.__version__,
        "tensorflow": tf.__version__,
        "numpy": np.__version__,
        "python": platform.python_version(),
        "cores": os.cpu_count(),
    }


def write_json(path: pathlib.Path, record: dict) -> None:
    """Writes a record, with the command and the versions, in one move."""
    record = {
        "command": " ".join(["python -m reproduce", *sys.argv[1:]]),
        "versions": versions(),
        **record,
    }
    write_text(path, json.dumps(record, indent=1) + "\n")


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a text file beside its target and moves it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(
        "w", dir=path.parent, suffix=path.suffix, delete=False
    ) as file:
        file.write(text)
    os.replace(file.name, path)
