import dataclasses
import math

import keras
import tensorflow as tf

from keras_bpn.evaluation import LearningHistory
from keras_bpn.learning import run_checks
from keras_bpn.learning.early_stopping import EarlyStopping
from keras_bpn.learning.random_state import get_random_state
from keras_bpn.learning.random_state import set_random_state
from keras_bpn.learning.resource_meter import ResourceMeter
from keras_bpn.learning.run_directory import entries_under
from keras_bpn.learning.task_epochs import TaskEpochs
from keras_bpn.learning.task_evaluator import TaskEvaluator
from keras_bpn.learning.task_evaluator import evaluation_batches
from keras_bpn.learning.trackers import EpochTracker
from keras_bpn.learning.trackers import StepTracker

_WEIGHTS, _HISTORY = "model.weights.h5", "history.json"
_METRIC, _STOPPING = "metric/", "early_stopping/"
_AVERAGE = "average_accuracy"


@dataclasses.dataclass
class Position:
    """What comes next: a task, an epoch of it and a batch of that."""

    task: int = 0
    epoch: int = 0
    step: int = 0


class Learner:
    """A run of `learn()`: where it is, and how it goes on.

    See `keras_bpn.learn` for the arguments.
    """

    def __init__(
        self,
        model,
        scenario,
        epochs,
        batch_size,
        evaluate_every,
        evaluate_unit,
        metric,
        patience,
        forward_transfer,
        callbacks,
        save_every,
        save_unit,
        verbose,
        history,
    ):
        self.model = model
        self.scenario = scenario
        self.epochs = epochs
        self.batch_size = batch_size
        self.evaluate_every = evaluate_every
        self.evaluate_unit = evaluate_unit
        self.evaluator = TaskEvaluator(model, metric)
        self.forward_transfer = forward_transfer
        self.callbacks = callbacks
        self.save_every = save_every
        self.save_unit = save_unit
        self.verbose = verbose
        self.history = history
        self.directory = None
        self.position = Position()
        self.early_stopping = EarlyStopping(patience)
        self.meter = ResourceMeter()
        self._metric_values = []
        self._first_step = 0
        self._epoch = tf.Variable(0, dtype=tf.int64, trainable=False)

    def run(self, directory=None) -> LearningHistory:
        """Learns all tasks that are left.

        Args:
            directory: Opened `RunDirectory`, or `None`.
        """
        self.directory = directory
        restored = directory is not None and self._restore()
        run_checks.check_workers(self.model, restored, self.position)
        if not restored:
            for task in self.scenario:
                self.model._registry.check_trainable(task.name)
            if self.forward_transfer:
                untrained = self.evaluator.untrained_accuracies(self.scenario)
                self.history.matrix.set_untrained(untrained)
            # With the weights that everything starts from.
            self._save()
        bar = keras.utils.Progbar(
            len(self.scenario),
            verbose=min(self.verbose, 1),
            stateful_metrics=[_AVERAGE],
            unit_name="task",
        )
        while self.position.task < len(self.scenario):
            self._learn_task(self.scenario[self.position.task])
            self._show_progress(bar)
        return self.history

    # One task.

    def _learn_task(self, task):
        index = self.position.task
        if task.name not in self.model.tasks:
            self.model.add_task(task.name, task.classes)
            if self.forward_transfer and index:
                ahead = self.evaluator.accuracies([task])
                self.history.matrix.set_row(index - 1, {**self._row(), **ahead})
        train = self.evaluator.examples(task, "train")
        self._fit(task, train)
        self.early_stopping.restore_best(self._network(task))
        self.model.consolidate(self._data(train))

        by_tasks = self.evaluate_unit == "tasks"
        is_last = index + 1 == len(self.scenario)
        if by_tasks and (index + 1) % self.evaluate_every and not is_last:
            # Enough to tell later what was forgotten.
            accuracy = self.evaluator.accuracies([task])
        else:
            accuracy = self._evaluate_all()
        storage = self.model.storage()
        seconds, peak_memory = self.meter.read()
        self.history.record_task(
            task.name,
            accuracy,
            seconds=seconds,
            peak_memory=peak_memory,
            stored_bytes=storage.bytes_per_task,
            added_parameters=storage.parameters_per_task,
        )
        self.position = Position(index + 1)
        self.early_stopping.start_task()
        self.meter.start()
        self._save(ends_task=True)

    def _fit(self, task, train):
        order = self.scenario.task_seed(self.position.task)
        self._steps = math.ceil(len(train) / self.batch_size)
        first = self.position.step
        if first:
            # The rest of an epoch that was broken off. Metrics go on from
            # where they were, and exist only once they were used.
            self._network(task).evaluate(
                train.batches(self.batch_size).take(1),
                task=task.name,
                verbose=0,
            )
            rest = self._data(train, order, self.position.epoch, first)
            self._fit_until(self.position.epoch + 1, task, rest)
        data = self._data(train, order, self._epoch)
        self._fit_until(self.epochs, task, data)

    def _data(self, train, seed=None, epoch=0, skip=0):
        """Returns the training data of a task in a form that `fit` takes."""
        if train.in_memory:
            return TaskEpochs(train, self.batch_size, seed, epoch, skip)
        batches = train.batches(self.batch_size, seed, epoch, skip)
        if skip:
            batches = batches.apply(
                tf.data.experimental.assert_cardinality(self._steps - skip)
            )
        return batches

    def _fit_until(self, epoch, task, data):
        if self.position.epoch >= epoch or self.early_stopping.stopped:
            return
        self._first_step = self.position.step
        validation = self.evaluator.examples(task, "validation")
        if validation is not None:
            validation = evaluation_batches(validation)
        callbacks = self.callbacks or []
        callbacks = callbacks(task) if callable(callbacks) else callbacks
        by_steps = self.save_unit == "steps" and self._saves()
        tracker = StepTracker if by_steps else EpochTracker
        self.model.fit(
            data,
            task=task.name,
            initial_epoch=self.position.epoch,
            epochs=epoch,
            validation_data=validation,
            callbacks=[*callbacks, self.early_stopping, tracker(self)],
            verbose=self.verbose,
            shuffle=False,
            consolidate=False,
        )

    def _evaluate_all(self):
        """Returns the accuracies of all tasks up to the present one."""
        tasks = self.scenario[: self.position.task + 1]
        return self.evaluator.accuracies(tasks)

    def _row(self):
        """Returns what was measured after the task before."""
        matrix = self.history.matrix
        row = zip(matrix.tasks, matrix.values[self.position.task - 1])
        return {name: a for name, a in row if not math.isnan(a)}

    def _network(self, task):
        """Returns the `keras.Model` that a task is trained in."""
        if isinstance(self.model, keras.Model):
            return self.model
        return self.model.network(task.name)

    # What the trackers tell.

    def epoch_begins(self, epoch):
        self._epoch.assign(epoch)
        if self._metric_values:
            variables = self._metric_variables()
            for variable, value in zip(variables, self._metric_values):
                variable.assign(value)
            self._metric_values = []

    def step_ends(self, step):
        """Takes note of the last step of an execution within an epoch."""
        position = self._first_step + step + 1
        due = position - self.position.step >= self.save_every
        if due and position < self._steps:
            self.position.step = position
            self._save()

    def epoch_ends(self, epoch, logs):
        self._first_step = 0
        self.position.epoch, self.position.step = epoch + 1, 0
        by_epochs = self.evaluate_unit == "epochs"
        is_due = by_epochs and (epoch + 1) % self.evaluate_every == 0
        task = self.scenario[self.position.task]
        self.history.record_epoch(
            task.name, epoch, logs, self._evaluate_all() if is_due else None
        )
        saves = self._saves() and self.save_unit == "epochs"
        if saves and (epoch + 1) % self.save_every == 0:
            self._save()

    # Progress.

    def _show_progress(self, bar):
        done = self.position.task
        average = self.history.matrix.average_so_far()[done - 1]
        measured = [] if math.isnan(average) else [(_AVERAGE, average)]
        bar.update(done, measured)
        if self.verbose and done < len(self.scenario):
            # The bars of the next task start on a line of their own.
            print(flush=True)

    # Saving.

    def _saves(self):
        return self.directory is not None and self.save_every is not None

    def _save(self, ends_task=False):
        if self.directory is None:
            return
        seconds, peak_memory = self.meter.read()
        progress = {
            "position": dataclasses.asdict(self.position),
            "seconds": seconds,
            "peak_memory": peak_memory,
            "random_state": get_random_state(),
            "history": self.history.to_dict(),
        }
        arrays = {
            _STOPPING + name: value
            for name, value in self.early_stopping.get_state().items()
        }
        if self.position.step:
            for i, variable in enumerate(self._metric_variables()):
                arrays[f"{_METRIC}{i:04d}"] = variable.numpy()
        self.directory.save(
            progress,
            arrays,
            lambda folder: self.model.save_weights(folder / _WEIGHTS),
            ends_task,
        )
        if ends_task and self.directory.writes:
            self.history.save(self.directory.path / _HISTORY)

    def _restore(self):
        """Goes to where the run was when it was saved, if it was."""
        restored = self.directory.restore(
            lambda folder: self.model.load_weights(folder / _WEIGHTS)
        )
        if restored is None:
            return False
        progress, arrays = restored
        self.position = Position(**progress["position"])
        self.history = LearningHistory.from_dict(progress["history"])
        self.meter.start(progress["seconds"], progress["peak_memory"])
        self.early_stopping.set_state(entries_under(arrays, _STOPPING))
        metrics = entries_under(arrays, _METRIC)
        self._metric_values = [metrics[name] for name in sorted(metrics)]
        set_random_state(progress["random_state"])
        return True

    def _metric_variables(self):
        task = self.scenario[self.position.task]
        metrics = self._network(task).metrics
        return [v for metric in metrics for v in metric.variables]
