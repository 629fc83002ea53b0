"""How results are written: as JSON, with what is needed to get them again."""

import datetime
import json
import os
import pathlib
import platform
import sys

import keras
import numpy as np
import psutil
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
    }


def machine() -> dict:
    """Returns what of the machine a measured time depends on."""
    cpu = platform.processor() or platform.machine()
    description = pathlib.Path("/proc/cpuinfo")  # Of Linux alone.
    if description.exists():
        fields = (
            line.partition(":") for line in description.read_text().splitlines()
        )
        models = [v.strip() for name, _, v in fields if "model name" in name]
        cpu = next(iter(models), cpu)
    return {
        "cpu": cpu,
        "cores": os.cpu_count(),
        "memory_gb": round(psutil.virtual_memory().total / 2**30, 1),
    }


def write_json(
    path: pathlib.Path, record: dict, command: str | None = None
) -> None:
    """Writes a record in one move, with what is needed to get it again.

    Args:
        path: Where to write.
        record: Dictionary of what JSON can hold.
        command: The command that the record came from. By default, the one
            that runs an experiment, as it was given.
    """
    record = {
        "command": command or " ".join(["python -m reproduce", *sys.argv[1:]]),
        "date": datetime.date.today().isoformat(),
        "versions": versions(),
        "machine": machine(),
        **record,
    }
    write_text(path, json.dumps(record, indent=1) + "\n")


def write_text(path: pathlib.Path, text: str) -> None:
    """Writes a text file beside its target and moves it into place."""
    path.parent.mkdir(parents=True, exist_ok=True)
    # Not by `tempfile`, whose files nobody else may read.
    beside = path.with_name(f"{path.name}.{os.getpid()}")
    beside.write_text(text)
    os.replace(beside, path)
