from collections.abc import Callable

import keras

from keras_bpn.evaluation import LearningHistory
from keras_bpn.learning import run_checks
from keras_bpn.learning.learner import Learner
from keras_bpn.learning.run_directory import RunDirectory
from keras_bpn.learning.run_settings import describe_run
from keras_bpn.learning.run_settings import network_of
from keras_bpn.models.workers import is_chief
from keras_bpn.scenarios import Scenario


def learn(
    model,
    scenario: Scenario,
    epochs: int = 1,
    batch_size: int | None = None,
    evaluate_every: int = 1,
    evaluate_unit: str = "tasks",
    metric: str = "accuracy",
    patience: int | None = None,
    forward_transfer: bool = False,
    callbacks: list | Callable | None = None,
    directory=None,
    save_every: int | None = None,
    save_unit: str = "epochs",
    verbose: str | int = "auto",
) -> LearningHistory:
    """Trains a model on the tasks of a scenario, one after the other.

    Each task is trained with `model.fit` and ended with `model.consolidate`,
    on its training data alone. Then the model is evaluated on the test data of
    all tasks so far. Test data is used for nothing else.

    With a `directory`, a run that was stopped at any moment, by an error or
    by a power cut, goes on when `learn()` is called again with the same
    arguments and with a model that was built and compiled in the same way. It
    then ends with the weights and the accuracies of a run that was never
    stopped, to the bit: weights, optimizer, state of the consolidation, random
    state and the place in the shuffled data are all kept. What is kept of a
    run that has ended is its last state, and calling `learn()` once more
    returns its history. Callbacks of your own are not kept: they start anew.

    Args:
        model: Compiled `keras_bpn.BPNModel`, or what
            `keras_bpn.methods.build()` returns. Images are flattened if its
            inputs are.
        scenario: The tasks: a `keras_bpn.scenarios.Scenario`.
        epochs: Positive integer, the epochs of each task.
        batch_size: Positive integer, or `None` for that of the scenario.
        evaluate_every: Positive integer. After so many tasks, and after the
            last one, the model is evaluated on all tasks so far; after the
            others on the task just learned.
        evaluate_unit: `"tasks"`, or `"epochs"` to evaluate after every so many
            epochs of a task as well as at its end.
        metric: Name of the metric that the model is compiled with and that is
            kept in the history's matrix.
        patience: Positive integer. A task stops when its loss on its own
            validation data has not fallen for so many epochs, and goes back to
            the weights of the best one. `None` trains for all epochs.
        forward_transfer: Boolean, whether to evaluate each task before it is
            trained too, by the untrained network and by the one that has
            learned the tasks before it. Needs outputs that all tasks share.
        callbacks: List of Keras callbacks for each task's `fit`, or a function
            from a `keras_bpn.scenarios.Task` to such a list.
        directory: Path of a folder to keep the run in, or `None`. Where
            several workers train the model, all have to see the same folder;
            the chief writes to it.
        save_every: Positive integer, or `None`. With a directory, the run is
            saved at the end of each task and so often within it.
        save_unit: `"epochs"`, or `"steps"` for batches.
        verbose: 0 is silent. `"auto"` and 1 show the progress bar of Keras
            for each task, 2 one line per epoch; both show a bar over tasks.

    Returns:
        `keras_bpn.evaluation.LearningHistory`.

    Example:

    >>> inputs = keras.Input((64,))
    >>> outputs = keras_bpn.layers.BPNDense(10)(inputs)
    >>> model = keras_bpn.BPNModel(inputs, outputs)
    >>> model.compile(
    ...     optimizer="adam",
    ...     loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ...     metrics=["accuracy"],
    ...     consolidation=keras_bpn.consolidation.EWC(2e3),
    ... )
    >>> scenario = keras_bpn.scenarios.Digits()
    >>> history = keras_bpn.learn(model, scenario, epochs=2, verbose=0)
    >>> model.tasks
    ('0/1', '2/3', '4/5', '6/7', '8/9')
    >>> history.matrix.values.shape
    (5, 5)
    """
    batch_size = scenario.batch_size if batch_size is None else batch_size
    arguments = {
        "epochs": epochs,
        "batch_size": batch_size,
        "evaluate_every": evaluate_every,
        "evaluate_unit": evaluate_unit,
        "metric": metric,
        "patience": patience,
        "forward_transfer": forward_transfer,
    }
    run_checks.check_arguments(arguments, save_every, save_unit, callbacks)
    run_checks.check_model(model, metric)
    run_checks.check_tasks(model, scenario, patience, forward_transfer)
    settings = describe_run(model, scenario, arguments)
    learner = Learner(
        model,
        scenario,
        **arguments,
        callbacks=callbacks,
        save_every=save_every,
        save_unit=save_unit,
        verbose=_as_level(verbose),
        history=LearningHistory([task.name for task in scenario], settings),
    )
    if directory is None:
        return learner.run()
    writes = is_chief(network_of(model).distribute_strategy)
    with RunDirectory(directory, settings, writes).opened() as kept:
        return learner.run(kept)


def _as_level(verbose):
    if verbose == "auto":
        return 1 if keras.config.is_interactive_logging_enabled() else 2
    return int(verbose)
