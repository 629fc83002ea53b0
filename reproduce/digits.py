"""Five tasks on the 1,797 real digits that scikit-learn carries.

The classes come in pairs, one pair after the other, and the network has one
output for each of the ten digits (single head). Each method learns all five
tasks in order; what it then still knows is measured on examples that it was
not trained on.
"""

import argparse
import pathlib
import time

import keras
import numpy as np
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

import keras_bpn
from reproduce.figures import accuracy_over_epochs
from reproduce.progress import ProgressLine
from reproduce.records import RESULTS
from reproduce.records import write_json
from reproduce.records import write_text

METHODS = ("BD+EWC", "BD+PSP", "GD+EWC", "GD+PSP", "EWC", "PSP", "fine-tuning")
TASKS = ("0/1", "2/3", "4/5", "6/7", "8/9")
UNITS = 100
BATCH_SIZE = 16


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--methods",
        nargs="+",
        type=method_name,
        default=list(METHODS),
        metavar="METHOD",
        help="which methods to compare: names of `keras_bpn.methods`, or 'all' "
        "for the paper's thirteen, with BD+X beside every X "
        f"(default: {', '.join(METHODS)})",
    )
    parser.add_argument("--epochs", type=int, default=10, help="per task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--epsilon", type=float, default=0.01)
    parser.add_argument("--strength", type=float, default=2e3, help="of EWC")
    parser.add_argument(
        "--output",
        type=pathlib.Path,
        default=RESULTS / "digits",
        help="folder to write to (default: %(default)s)",
    )


def method_name(name: str) -> str:
    """Checks a name from the command line."""
    if name == "all":
        return name
    try:
        keras_bpn.methods.get(name)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"invalid choice: {error}") from error
    return name


def all_methods() -> list[str]:
    """Returns the thirteen of the paper, each `X` followed by its `BD+X`."""
    names = list(keras_bpn.methods.names())
    single = [name for name in names if "+" not in name]
    pairs = [
        pair
        for name in single
        for pair in ((name,) if name == "STL" else (name, f"BD+{name}"))
    ]
    return pairs + [name for name in names if name not in pairs]


def run(arguments: argparse.Namespace) -> None:
    start = time.monotonic()
    if "all" in arguments.methods:
        arguments.methods = all_methods()
    data = load_tasks(arguments.seed)
    progress = ProgressLine(
        len(arguments.methods) * len(TASKS) * arguments.epochs
    )
    histories = {
        method: learn_tasks(method, data, arguments, progress)
        for method in arguments.methods
    }
    progress.close()
    results = {method: summarize(h) for method, h in histories.items()}
    table = make_table(results)
    print(table)
    write_text(arguments.output / "table.md", table + "\n")
    write_json(
        arguments.output / "results.json",
        {
            "settings": {
                name: value
                for name, value in vars(arguments).items()
                if name not in ("run", "output")
            },
            "tasks": TASKS,
            "seconds": round(time.monotonic() - start, 1),
            "results": results,
        },
    )
    accuracy_over_epochs(
        histories,
        "Real digits, two classes per task, single head",
        arguments.output / "accuracy.png",
    )
    print(f"\nWritten to {arguments.output}")


def load_tasks(seed: int) -> dict:
    """Returns `(x_train, y_train, x_test, y_test)` by the name of a task."""
    x, y = load_digits(return_X_y=True)
    x = (x / 16).astype("float32")
    y = y.astype("int32")
    x_train, x_test, y_train, y_test = train_test_split(
        x, y, test_size=0.25, stratify=y, random_state=seed
    )
    data = {}
    for t, task in enumerate(TASKS):
        train, test = y_train // 2 == t, y_test // 2 == t
        data[task] = (
            x_train[train],
            y_train[train],
            x_test[test],
            y_test[test],
        )
    return data


def make_model() -> keras_bpn.BPNModel:
    inputs = keras.Input((64,))
    x = inputs
    for _ in range(2):
        x = keras_bpn.layers.BPNDense(UNITS, activation="relu")(x)
    return keras_bpn.BPNModel(inputs, keras_bpn.layers.BPNDense(10)(x))


def learn_tasks(
    method: str,
    data: dict,
    arguments: argparse.Namespace,
    progress: ProgressLine,
) -> keras_bpn.evaluation.LearningHistory:
    """Trains one method on all tasks."""
    keras.utils.set_random_seed(arguments.seed)
    settings = {}
    if method.startswith("BD+"):
        settings["epsilon"] = arguments.epsilon
    if method.endswith("EWC"):
        settings["strength"] = arguments.strength
    model = keras_bpn.methods.build(method, make_model)
    model.compile(
        optimizer=keras.optimizers.Adam(arguments.learning_rate),
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **keras_bpn.methods.get(method, **settings),
    )
    history = keras_bpn.evaluation.LearningHistory(TASKS)

    def after_epoch(epoch, logs):
        history.record_epoch(model.task, epoch, logs, accuracies(model, data))
        last = model.task == TASKS[-1] and epoch + 1 == arguments.epochs
        progress.advance(
            f"{method}: task {model.task}, epoch {epoch + 1}", keep=last
        )

    for task, (x, y, _, _) in data.items():
        model.fit(
            x,
            y,
            task=task,
            batch_size=BATCH_SIZE,
            epochs=arguments.epochs,
            verbose=0,
            callbacks=[
                keras.callbacks.LambdaCallback(on_epoch_end=after_epoch)
            ],
        )
        history.record_task(
            task,
            accuracies(model, data),
            stored_bytes=model.storage().bytes_per_task,
        )
    return history


def summarize(history: keras_bpn.evaluation.LearningHistory) -> dict:
    """Returns accuracies over epochs and after the last task, and what is
    stored for a task."""
    return {
        "accuracy": history.matrix.values[-1].tolist(),
        "mean": history.matrix.average_accuracy(),
        "bytes_per_task": history.costs[-1]["stored_bytes"],
        "history": [
            [epoch["accuracy"].get(task) for task in TASKS]
            for epoch in history.epochs
        ],
    }


def accuracies(model, data: dict) -> dict[str, float]:
    """Returns the test accuracy of every task that has started.

    All tasks are predicted as one mixed batch.
    """
    tasks = [task for task in data if task in model.tasks]
    x = np.concatenate([data[task][2] for task in tasks])
    y = np.concatenate([data[task][3] for task in tasks])
    names = [task for task in tasks for _ in data[task][3]]
    correct = np.argmax(model(x, task=names), axis=-1) == y
    return {
        task: float(correct[np.array(names) == task].mean()) for task in tasks
    }


def make_table(results: dict) -> str:
    """Returns a Markdown table with a row per method."""
    tasks = [f"task {i} ({task})" for i, task in enumerate(TASKS, 1)]
    heads = ["method", *tasks, "mean", "bytes per task"]
    lines = [
        "Accuracy after all tasks; task 1 is the oldest.",
        "",
        " | ".join([f"| {heads[0]:<11}", *heads[1:]]) + " |",
        "|" + "---|" * len(heads),
    ]
    for method, result in results.items():
        cells = [f"| {method:<11}"]
        for head, accuracy in zip(heads[1:], result["accuracy"]):
            cells.append(f"{accuracy:<{len(head)}.3f}")
        cells.append(f"{result['mean']:.3f}")
        cells.append(f"{result['bytes_per_task']:>14,}")
        lines.append(" | ".join(cells) + " |")
    return "\n".join(lines)
