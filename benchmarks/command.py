"""Runs benchmarks by name, prints their tables and writes them."""

import argparse
import importlib
import pathlib
import subprocess
import sys

from benchmarks import records
from benchmarks.harness import Unavailable

UNAVAILABLE = 3  # The exit code of a benchmark that lacks what it needs.


def add_arguments(parser):
    """Adds the options that all benchmarks have."""
    parser.add_argument(
        "--quick",
        action="store_true",
        help="on the smallest sizes, to see that it runs; writes nothing "
        "unless --output is given",
    )
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        help=f"folder to write NAME.json to (default: {records.RESULTS})",
    )


def run(name, quick=False, output=None, **changes):
    """Runs a benchmark, prints its tables and writes them.

    Args:
        name: String, the name of a module of this package.
        quick: Boolean, whether to run it on the smallest sizes.
        output: Folder to write to. By default that of the results, for runs
            with the benchmark's own settings, and none for others.
        **changes: Settings that are not to be the benchmark's own.

    Returns:
        The exit code.
    """
    module = importlib.import_module(f"benchmarks.{name}")
    try:
        tables = module.run(quick, **changes)
    except Unavailable as error:
        print(f"{name} was not run. {error}", file=sys.stderr)
        return UNAVAILABLE
    print("\n\n".join(table.to_markdown() for table in tables), flush=True)
    if output is None and not (quick or changes):
        output = records.RESULTS
    if output is not None:
        settings = getattr(module, "SETTINGS", {})
        if quick:
            settings = {**settings, **getattr(module, "QUICK", {})}
        records.write(name, tables, {**settings, **changes}, output)
    return 0


def run_each(names, quick=False, output=None):
    """Runs benchmarks one after the other, each in a process of its own, so
    that none is slowed down by what another one has left.

    Returns:
        The exit code: zero if none failed. One that lacks what it needs has
        not failed.
    """
    options = ["--quick"] if quick else []
    if output is not None:
        options += ["--output", str(output)]
    failed = 0
    for name in names:
        print(f"\n## {name}\n", flush=True)
        command = [sys.executable, "-m", "benchmarks", name, *options]
        code = subprocess.run(command).returncode
        if code not in (0, UNAVAILABLE):
            print(f"{name} failed, with exit code {code}.", file=sys.stderr)
            failed = 1
    return failed


def main(name):
    """Runs one benchmark from the command line, with options for its
    settings."""
    module = importlib.import_module(f"benchmarks.{name}")
    parser = argparse.ArgumentParser(
        prog=f"python -m benchmarks.{name}",
        description=module.__doc__.splitlines()[0],
    )
    add_arguments(parser)
    for setting, value in module.SETTINGS.items():
        is_list = isinstance(value, (list, tuple))
        default = " ".join(map(str, value)) if is_list else value
        parser.add_argument(
            f"--{setting.replace('_', '-')}",
            type=type(value[0] if is_list else value),
            nargs="+" if is_list else None,
            default=argparse.SUPPRESS,
            help=f"(default: {default})",
        )
    sys.exit(run(name, **vars(parser.parse_args())))
