import argparse
import os
import sys

from benchmarks import command
from benchmarks.peers.jobs import PEER_PYTHON
from benchmarks.records import RESULTS
from benchmarks.report import report

# Each is a module with a docstring that says what is measured and how, and a
# function `run(quick)` that returns a list of `benchmarks.tables.Table`. The
# numbers that it works with are in a dictionary `SETTINGS`, and those of a
# quick run in `QUICK`.
BENCHMARKS = (
    "training",
    "epochs",
    "methods",
    "task_ends",
    "pipelines",
    "hundred_tasks",
    "scale",
    "serving",
    "devices",
    "peers",
)


def main():
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks",
        description="Measures speed. `report` puts the results that were "
        "written into BENCHMARKS.md.",
    )
    parser.add_argument(
        "names",
        nargs="*",
        metavar="NAME",
        help=f"what to run: {', '.join(BENCHMARKS)}, or `report` "
        "(default: all but `report`)",
    )
    command.add_arguments(parser)
    parser.add_argument(
        "--peer-python",
        metavar="PATH",
        help="the Python of the environment that benchmarks/peers/README.md "
        f"describes (default: ${PEER_PYTHON})",
    )
    arguments = parser.parse_args()
    if arguments.peer_python:
        # For this process and those that it starts.
        os.environ[PEER_PYTHON] = arguments.peer_python
    names = arguments.names or list(BENCHMARKS)
    unknown = sorted(set(names) - {*BENCHMARKS, "report"})
    if unknown:
        parser.error(
            f"expected names among {[*BENCHMARKS, 'report']}, "
            f"received: {unknown}"
        )
    if names == ["report"]:
        report(output=arguments.output or RESULTS)
    elif "report" in names:
        parser.error("`report` stands alone")
    elif len(names) == 1:
        sys.exit(command.run(names[0], arguments.quick, arguments.output))
    else:
        sys.exit(command.run_each(names, arguments.quick, arguments.output))


if __name__ == "__main__":
    main()
