import argparse
import os

# Keras and TensorFlow are imported by the experiments, after this.
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

from reproduce import digits  # noqa: E402

EXPERIMENTS = {"digits": digits}


def main():
    parser = argparse.ArgumentParser(
        prog="python -m reproduce", description="Runs an experiment."
    )
    commands = parser.add_subparsers(
        title="experiments", required=True, metavar="NAME"
    )
    for name, module in EXPERIMENTS.items():
        summary = module.__doc__.splitlines()[0]
        command = commands.add_parser(name, help=summary, description=summary)
        module.add_arguments(command)
        command.set_defaults(run=module.run)
    arguments = parser.parse_args()
    arguments.run(arguments)


if __name__ == "__main__":
    main()
