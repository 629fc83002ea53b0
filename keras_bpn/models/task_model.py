import contextlib

import keras
import numpy as np
from keras import ops

from keras_bpn.layers.task_bias import TaskBias
from keras_bpn.layers.task_heads import TaskHeads
from keras_bpn.layers.task_scope import task_scope
from keras_bpn.layers.task_table import INITIAL_CAPACITY
from keras_bpn.layers.task_table import TaskTable
from keras_bpn.models import checks
from keras_bpn.models.multi_worker_trainer import MultiWorkerTrainer
from keras_bpn.models.progress import with_progress
from keras_bpn.models.replicas import fill_empty
from keras_bpn.models.replicas import without_filling
from keras_bpn.models.task_classes import check_task_classes
from keras_bpn.models.task_data import TaskData
from keras_bpn.models.task_registry import TaskRegistry
from keras_bpn.models.workers import variable_scope

# Keys under which a mixed batch travels through `predict`.
_INPUTS, _ROWS = "keras_bpn_inputs", "keras_bpn_rows"

# Names of the metrics that are the accuracy of a task.
_ACCURACIES = (
    "accuracy",
    "acc",
    "sparse_categorical_accuracy",
    "categorical_accuracy",
    "binary_accuracy",
)


class TaskModel(MultiWorkerTrainer):
    """A functional model that knows its tasks and switches between them.

    This is the part of `BPNModel` that uses what was learned: tasks and their
    rows, the mode, and calls, evaluation and prediction in a mode.
    """

    # Keras revives a subclass as a functional model only with this signature.
    def __init__(self, *args, **kwargs):
        given = len(args) + ("inputs" in kwargs) + ("outputs" in kwargs)
        if given < 2:
            raise TypeError(
                f"Expected a `{type(self).__name__}` to be built like a "
                "functional model, from inputs and outputs. "
                f"Received: {len(args)} arguments and {sorted(kwargs)}"
            )
        super().__init__(*args, **kwargs)
        self._registry = TaskRegistry()
        self._capacity = INITIAL_CAPACITY
        self._mode = self._add_row("mode", 0)
        self._open_row = self._add_row("open_row", -1)

    def _add_row(self, name, value):
        return self.add_weight(
            name=name,
            shape=(),
            dtype="int32",
            initializer=keras.initializers.Constant(value),
            trainable=False,
            autocast=False,
            aggregation="only_first_replica",
        )

    # Parts of the model.

    @property
    def task_tables(self):
        """The components that keep a row per task, `TaskBias` among them."""
        layers = self._flatten_layers(include_self=False)
        return [layer for layer in layers if isinstance(layer, TaskTable)]

    @property
    def task_biases(self):
        """The bias units of all layers."""
        return [t for t in self.task_tables if isinstance(t, TaskBias)]

    @property
    def task_heads(self):
        """The layers with outputs of their own for every task."""
        return [t for t in self.task_tables if isinstance(t, TaskHeads)]

    @property
    def perturbations(self):
        """The factor `M_t` of the bias units, of each layer."""
        return [bias.perturbation for bias in self.task_biases]

    @property
    def shared_variables(self):
        """The trainable variables that all tasks share."""
        factors = {id(v) for t in self.task_tables for v in t.factors}
        return [v for v in self.trainable_variables if id(v) not in factors]

    # Tasks and modes.

    @property
    def tasks(self):
        """Names of all tasks, in the order in which they came."""
        return self._registry.names

    @property
    def task(self):
        """Name of the task whose mode the model is in, or `None`.

        Setting it switches the mode. `None` is the network without any task's
        bias units.
        """
        return self._registry.name(int(self._mode.numpy()))

    @task.setter
    def task(self, name):
        self._mode.assign(self._registry.row(name))

    @property
    def open_task(self):
        """Name of the task that was trained and has not ended, or `None`."""
        return self._registry.open_task

    @property
    def task_classes(self):
        """Dictionary from the name of a task to the tuple of its labels.

        They are known where they were given to `add_task`, or where `fit` had
        the labels in memory.
        """
        return dict(self._registry.classes)

    def add_task(self, name, classes=None):
        """Adds a task without training it.

        Args:
            name: String, not the name of another task.
            classes: The labels of the task: a sequence of integers, or an
                integer `n` for the labels 0 to `n - 1`. A network that ends in
                `TaskHeads` gets a head of that size.
        """
        if classes is not None:
            classes = check_task_classes(self, name, classes)
        self._registry.add(name)
        row, serial = self._registry.row(name), self._registry.serial(name)
        if row > self._capacity:
            self._reserve(2 * self._capacity)
        if serial != row:
            for table in self.task_tables:
                table.give_row(row, serial)
        if classes is not None:
            self._set_classes({name: classes})

    def _clear_row(self, name):
        """Makes the row of a task what it was before it was given to it."""
        if name in self._registry.classes:
            self._set_classes({name: ()})
        row = self._registry.row(name)
        for table in self.task_tables:
            table.clear(row)

    def _take_back_tasks(self, size):
        """Takes back the last tasks that were added, but for `size` tasks."""
        for name in self.tasks[size:]:
            self._clear_row(name)
        self._registry.truncate(size)

    def _set_classes(self, classes):
        """Takes note of the labels of tasks, given by their names."""
        self._registry.classes.update(classes)
        rows = {self._registry.row(n): c for n, c in classes.items()}
        with variable_scope(self.distribute_strategy):
            replaced = [t.set_classes(rows) for t in self.task_tables]
        if any(replaced):
            self._forget_functions()

    def _reserve(self, capacity):
        self._capacity = max(capacity, self._capacity)
        with variable_scope(self.distribute_strategy):
            replaced = [t.reserve(self._capacity) for t in self.task_tables]
        if any(replaced):
            self._forget_functions()

    def _forget_training(self):
        """Drops traced training steps."""
        self.train_function = None

    def _forget_functions(self):
        """Drops traced functions, which hold on to replaced tables."""
        self._forget_training()
        self.test_function = None
        self.predict_function = None

    def _mark_open_row(self):
        name = self.open_task
        self._open_row.assign(-1 if name is None else self._registry.row(name))

    @contextlib.contextmanager
    def _in_mode(self, task):
        """Runs a block in the mode of a task; `None` keeps the mode."""
        if task is None:
            if self.task_heads and self.task is None:
                raise ValueError(
                    "Expected the name of a task, because every task has a "
                    f"head of its own: one of {list(self.tasks)}. "
                    "Received: task=None"
                )
            yield
            return
        row = self._registry.row(task)
        previous = int(self._mode.numpy())
        self._mode.assign(row)
        try:
            yield
        finally:
            self._mode.assign(previous)

    def _rows_of(self, tasks, x):
        checks.check_lengths(tasks, x)
        return np.array([self._registry.row(t) for t in tasks], "int32")

    def __call__(self, *args, task=None, **kwargs):
        row = self._mode
        if isinstance(task, str):
            row = ops.convert_to_tensor(self._registry.row(task), "int32")
        elif task is not None:
            row = ops.convert_to_tensor(self._rows_of(task, args[0]))
        return self._call_in_row(row, *args, **kwargs)

    def _call_in_row(self, row, *args, **kwargs):
        with task_scope(row, self._open_row):
            return super().__call__(*args, **kwargs)

    # Evaluation and prediction.

    def evaluate(
        self,
        x=None,
        y=None,
        batch_size=None,
        verbose="auto",
        sample_weight=None,
        steps=None,
        callbacks=None,
        return_dict=False,
        task=None,
        **kwargs,
    ):
        """Returns the loss and metrics of a task, as `keras.Model.evaluate`.

        Args:
            x, y, batch_size, verbose, sample_weight, steps, callbacks,
                return_dict: As in `keras.Model.evaluate`.
            task: Name of the task whose mode to evaluate. `None` keeps the
                mode that the model is in.
        """
        data = {
            "x": x,
            "y": y,
            "batch_size": batch_size,
            "sample_weight": sample_weight,
        }
        taken = self._test_data(data, steps, callbacks)
        if kwargs:
            # Keras has the data ready, within `fit`.
            taken = contextlib.nullcontext(data)
        with self._in_mode(task), taken as data:
            callbacks, verbose = with_progress(
                f"Task '{self.task}'", verbose, callbacks
            )
            results = super().evaluate(
                **data,
                verbose=verbose,
                steps=steps,
                callbacks=callbacks,
                return_dict=return_dict,
                **kwargs,
            )
            if task is not None:
                self._note_accuracy(task)
            return results

    def _note_accuracy(self, task):
        """Takes note of the accuracy that was measured just now."""
        results = self.get_metrics_result()
        for name in _ACCURACIES:
            if name in results:
                accuracy = float(ops.convert_to_numpy(results[name]))
                self._registry.set_accuracy(task, accuracy)
                return

    @contextlib.contextmanager
    def _test_data(self, data, steps, callbacks):
        """Gets ready for an evaluation, and yields the data for Keras.

        Args:
            data: Dictionary of the arguments of `evaluate` that are data.
            steps, callbacks: As in `evaluate`.
        """
        yield data

    def predict(
        self,
        x,
        batch_size=None,
        verbose="auto",
        steps=None,
        callbacks=None,
        task=None,
    ):
        """Returns the predictions of a task, as `keras.Model.predict`.

        Args:
            x, batch_size, verbose, steps, callbacks: As in
                `keras.Model.predict`.
            task: Name of the task whose mode to predict in, or, where `x` are
                arrays, a sequence with one name per example. `None` keeps the
                mode that the model is in.

        Returns:
            Arrays of predictions. With `TaskHeads`, those of one task have a
            column for each of its classes, and those of several tasks as many
            as the widest head.
        """
        mixed = not (task is None or isinstance(task, str))
        if mixed:
            data = TaskData(x)
            if not data.in_memory:
                raise ValueError(
                    "Expected arrays where one task per example is given. "
                    f"Received: x of type {type(x).__name__}"
                )
            x = {_INPUTS: data.x, _ROWS: self._rows_of(task, data.x)}
        with self._in_mode(None if mixed else task):
            title = "Mixed tasks" if mixed else f"Task '{self.task}'"
            callbacks, verbose = with_progress(title, verbose, callbacks)
            outputs = super().predict(
                x,
                batch_size=batch_size,
                verbose=verbose,
                steps=steps,
                callbacks=callbacks,
            )
            return outputs if mixed else self.trim_outputs(outputs, self.task)

    def row_of(self, task):
        """Returns the row of a task in the tables of the layers."""
        return self._registry.row(task)

    def trim_outputs(self, outputs, task):
        """Leaves out what lies beyond the classes of a task."""
        if len(self.task_heads) != 1 or keras.tree.is_nested(outputs):
            return outputs
        return outputs[..., : len(self._registry.classes[task])]

    def predict_step(self, data):
        part, _, _ = keras.utils.unpack_x_y_sample_weight(data)
        x = fill_empty(part)
        row = self._mode
        if isinstance(x, dict) and _ROWS in x:
            row, x = x[_ROWS], x[_INPUTS]
        y_pred = self._call_in_row(row, x, training=False)
        return without_filling(y_pred, part)
