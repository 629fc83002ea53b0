"""The command line: `python -m reproduce NAME`."""

import argparse
import os
import subprocess
import sys

# Keras and TensorFlow are imported by the experiments, after this.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from reproduce import report  # noqa: E402
from reproduce.comparison import MISSING  # noqa: E402
from reproduce.experiments import EXPERIMENTS  # noqa: E402


def main():
    parser = argparse.ArgumentParser(
        prog="python -m reproduce", description="Runs an experiment."
    )
    commands = parser.add_subparsers(
        title="experiments", required=True, metavar="NAME"
    )
    for name, module in {**EXPERIMENTS, "report": report}.items():
        summary = module.__doc__.splitlines()[0]
        command = commands.add_parser(name, help=summary, description=summary)
        experiment = getattr(module, "COMPARISON", module)
        experiment.add_arguments(command)
        command.set_defaults(run=experiment.run)
    every = commands.add_parser(
        "all", help="All experiments, one after the other, and the report."
    )
    every.add_argument(
        "--quick", action="store_true", help="the small version of each"
    )
    every.set_defaults(run=run_all)
    arguments = parser.parse_args()
    sys.exit(arguments.run(arguments))


def run_all(arguments):
    """Runs each in a process of its own, so that one that fails does not keep
    the others from running."""
    names = [name for name in EXPERIMENTS if name != "digits"]
    options = ["--quick"] if arguments.quick else []
    failed = 0
    for name in names:
        print(f"\n## {name}", flush=True)
        command = [sys.executable, "-m", "reproduce", name, *options]
        code = subprocess.run(command).returncode
        if code not in (0, MISSING):
            print(f"{name} failed, with exit code {code}.", file=sys.stderr)
            failed = 1
    if not (failed or arguments.quick):
        subprocess.run([sys.executable, "-m", "reproduce", "report"])
    return failed


if __name__ == "__main__":
    main()
