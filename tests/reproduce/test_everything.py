import os
import pathlib
import subprocess
import sys

import pytest

from reproduce.experiments import EXPERIMENTS

ROOT = pathlib.Path(__file__).parent.parent.parent
HAS_RESULTS = [
    name
    for name, module in EXPERIMENTS.items()
    if hasattr(module, "COMPARISON")
    and (module.COMPARISON.folder / "runs.json").exists()
]


def run(*arguments):
    return subprocess.run(
        [sys.executable, "-m", "reproduce", *arguments],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env=os.environ,
    )


@pytest.mark.slow
@pytest.mark.data
def test_small_versions_of_all_experiments():
    done = run("all", "--quick")
    assert done.returncode == 0, done.stderr[-3000:]
    missing = done.stderr.count("was not run")
    assert done.stdout.count("Written to") == len(EXPERIMENTS) - 1 - missing


@pytest.mark.slow
@pytest.mark.data
@pytest.mark.parametrize("name", HAS_RESULTS)
def test_a_stored_run_gives_its_numbers_again(name):
    """On the machine that it was stored on: others round differently."""
    method = EXPERIMENTS[name].COMPARISON.methods[1]
    done = run(name, "--repeat", method)
    if "was not run" in done.stderr:
        pytest.skip(done.stderr.strip())
    assert done.returncode == 0, done.stdout[-3000:]
