"""Jobs, each in a process of its own."""

import json
import os
import pathlib
import subprocess
import sys

import numpy as np

from benchmarks.harness import Unavailable
from keras_bpn.scenarios import SplitClasses

HERE = pathlib.Path(__file__).parent
JOB = HERE / "job.json"
PEER_PYTHON = "KERAS_BPN_PEER_PYTHON"
OURS = "keras_bpn"
OURS_DRAWING = "keras_bpn, drawing from memories"
SCRIPTS = {
    "Avalanche": HERE / "scripts" / "with_avalanche.py",
    "plain PyTorch": HERE / "scripts" / "plain_torch.py",
}


def sides(method):
    """Returns the names of those that do a job."""
    drawing = (OURS_DRAWING,) if method == "GEM" else ()
    return (*SCRIPTS, OURS, *drawing)


def peer_python():
    """Returns the path of the Python that has Avalanche and PyTorch."""
    path = os.environ.get(PEER_PYTHON)
    if not path:
        raise Unavailable(
            "It needs a Python with Avalanche and PyTorch, an environment of "
            "its own that benchmarks/peers/README.md describes. Give its path "
            f"as --peer-python, or in the environment variable {PEER_PYTHON}."
        )
    if not os.access(path, os.X_OK):
        raise Unavailable(
            f"Expected the path of a Python with Avalanche. Received: {path!r}"
        )
    return path


def write_data(path, job, images):
    """Writes the tasks for all sides: MNIST, or so many random images."""
    if images:
        generator = np.random.default_rng(0)
        x = generator.random((images, 784), dtype="float32")
        dataset = (x, np.arange(images) % 10), (x, np.arange(images) % 10)
    else:
        dataset = "mnist"
    try:
        scenario = SplitClasses(
            dataset,
            job["classes_per_task"],
            validation_split=0,
            download=False,
        )
    except FileNotFoundError as error:
        raise Unavailable(f"It needs MNIST. {error}") from error
    arrays = {}
    for i, task in enumerate(scenario):
        for split in ("train", "test"):
            x, y = task.examples(split).reshape((784,)).arrays()
            arrays[f"x_{split}_{i}"] = x
            arrays[f"y_{split}_{i}"] = y.astype("int64")
    np.savez(path, **arrays)
    return sum(len(arrays[f"y_train_{i}"]) for i in range(job["tasks"]))


def run_job(side, method, folder, seed):
    """Does a job in a process of its own.

    Args:
        side: String, a name from `sides`.
        method: String, "fine-tuning", "EWC" or "GEM".
        folder: Path with the files `job.json` and `data.npz`.
        seed: Integer.

    Returns:
        Dictionary with `train_seconds`, `end_seconds` and `accuracy`, lists
        with one number for each task, and `versions`.
    """
    output = folder / "result.json"
    output.unlink(missing_ok=True)
    command = [sys.executable, "-m", "benchmarks.peers.ours"]
    if side in SCRIPTS:
        command = [peer_python(), str(SCRIPTS[side])]
    elif side == OURS_DRAWING:
        command.append("--draw")
    command += [
        method,
        f"--job={folder / 'job.json'}",
        f"--data={folder / 'data.npz'}",
        f"--output={output}",
        f"--seed={seed}",
    ]
    process = subprocess.run(
        command, cwd=HERE.parent.parent, capture_output=True, text=True
    )
    if process.returncode != 0:
        raise RuntimeError(
            f"{side} could not do the job ({' '.join(command)}):\n"
            f"{process.stderr[-2000:]}"
        )
    return json.loads(output.read_text())
