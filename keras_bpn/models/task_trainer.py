import contextlib
import random

from keras_bpn.models import checks
from keras_bpn.models import strategy_checks
from keras_bpn.models.optimizer_state import rebuild
from keras_bpn.models.optimizer_state import restart
from keras_bpn.models.progress import EpochCounter
from keras_bpn.models.progress import with_first
from keras_bpn.models.progress import with_progress
from keras_bpn.models.step_trainer import StepTrainer
from keras_bpn.models.task_classes import classes_to_train
from keras_bpn.models.task_data import TaskData
from keras_bpn.models.workers import variable_scope


class TaskTrainer(StepTrainer):
    """A functional model that is trained task after task.

    This is the part of `BPNModel` that knows how a task starts, is trained and
    ends.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self._shuffle_seed = random.randint(1, 10**9)
        self._epochs = 0

    def fit(
        self,
        x=None,
        y=None,
        batch_size=None,
        epochs=1,
        verbose="auto",
        callbacks=None,
        validation_split=0.0,
        validation_data=None,
        shuffle=True,
        class_weight=None,
        sample_weight=None,
        initial_epoch=0,
        steps_per_epoch=None,
        validation_steps=None,
        validation_batch_size=None,
        validation_freq=1,
        task=None,
        consolidate=True,
    ):
        """Trains the model on a task.

        Arrays of at least 50 batches stay on the device, and many steps are
        taken in each call of a function that XLA compiles, unless `compile()`
        was told otherwise. Callbacks for epochs and the progress bar notice
        nothing of it. If a callback acts on single batches, each step is a call
        of its own, with the same results to the bit; without XLA, results are
        the same up to rounding. Generators and `tf.data.Dataset` objects, and
        networks with convolutions on a CPU, run as in `keras.Model.fit`.

        Args:
            x, y, batch_size, epochs, verbose, callbacks, validation_split,
                validation_data, shuffle, class_weight, sample_weight,
                initial_epoch, steps_per_epoch, validation_steps,
                validation_batch_size, validation_freq: As in
                `keras.Model.fit`.
            task: Name of the task. A new name is a new task. `None` goes on
                with the open task.
            consolidate: Whether the task ends when the training is done. If
                `False`, it stays open for another `fit`, and ends with
                `consolidate()`.

        Returns:
            A `keras.callbacks.History`, as from `keras.Model.fit`.
        """
        self._assert_compile_called("fit")
        task = self._task_to_train(task)
        data = TaskData(
            x, y, sample_weight, batch_size, class_weight, steps_per_epoch
        )
        strategy_checks.check_fit(self, task, data, consolidate)
        checks.check_data(self, data, consolidate)
        classes = classes_to_train(self, task, data)
        if validation_split and validation_data is None:
            data, validation_data = data.split(validation_split)
        counter = EpochCounter()
        epochs_of = data.epochs(shuffle, self._shuffle_seed, counter.epoch)
        runner = None
        if epochs_of is None:
            arguments = {
                "x": data.x,
                "y": data.y,
                "sample_weight": data.sample_weight,
                "batch_size": batch_size,
                "shuffle": shuffle,
                "class_weight": class_weight,
            }
        else:
            validation_batch_size = validation_batch_size or batch_size
            runner = self._runner_of(
                "train", epochs_of, callbacks, steps_per_epoch
            )
            batches = epochs_of.batches if runner is None else runner.iterations
            arguments = {"x": batches(), "shuffle": False}
        callbacks, verbose = with_progress(f"Task '{task}'", verbose, callbacks)
        first = [c for c in (counter, runner, self._guard) if c is not None]
        with (
            self._training(task, data, classes),
            self._running("train", runner),
        ):
            history = super().fit(
                **arguments,
                epochs=epochs,
                verbose=verbose,
                callbacks=with_first(callbacks, self, *first),
                validation_data=validation_data,
                initial_epoch=initial_epoch,
                steps_per_epoch=steps_per_epoch,
                validation_steps=validation_steps,
                validation_batch_size=validation_batch_size,
                validation_freq=validation_freq,
            )
        if consolidate:
            self._end_task(data)
        return history

    def consolidate(
        self,
        x=None,
        y=None,
        batch_size=None,
        sample_weight=None,
        class_weight=None,
        steps=None,
    ):
        """Ends the open task.

        Its bias units are stored and frozen, and the consolidation protects
        the shared weights.

        Args:
            x, y, batch_size, sample_weight, class_weight: The training data
                of the task, as in `fit`. Methods that do not look at the data
                again, such as `PSP`, need none.
            steps: Integer, the number of batches to read from data that does
                not end by itself.
        """
        if self.open_task is None:
            raise ValueError(
                "Only an open task can be ended. Train one with `fit(x, y, "
                "task=..., consolidate=False)` first. "
                f"Received: no open task among {list(self.tasks)}"
            )
        data = TaskData(x, y, sample_weight, batch_size, class_weight, steps)
        strategy_checks.check_fit(self, self.open_task, data, consolidate=True)
        checks.check_data(self, data, consolidate=True)
        self._end_task(data)

    def _task_to_train(self, task):
        if task is None:
            task = self.open_task
            if task is None:
                raise ValueError(
                    "`fit` needs the name of the task to train, "
                    "`fit(x, y, task=...)`, where no task is open. "
                    f"Received: task=None; tasks are {list(self.tasks)}"
                )
        self._registry.check_trainable(task)
        return task

    # How a task starts and ends.

    @contextlib.contextmanager
    def _training(self, task, data, classes):
        """Starts the task, and takes that back if no step could be taken."""
        size, known = len(self._registry), self._registry.classes.get(task)
        mode = int(self._mode.numpy())
        is_open = task == self.open_task
        first_step = None
        try:
            if task not in self._registry:
                self.add_task(task, classes)
            elif classes != known:
                self._set_classes({task: classes})
            if not is_open:
                self._start_task(task, data)
            self.task = task
            first_step = int(self.optimizer.iterations.numpy())
            with self._guard.watch(self):
                yield
        except BaseException:
            if first_step in (None, int(self.optimizer.iterations.numpy())):
                if not is_open:
                    self._cancel_task(task, known)
                self._take_back_tasks(size)
                self._mode.assign(mode)
                self._mark_open_row()
            raise

    def _start_task(self, task, data):
        if self.consolidation is not None:
            self.consolidation.start_task(self, task, data)
        for table in self.task_tables:
            table.draw(self._registry.row(task))
        # The moments of a task that was learned are tiny. If Adam kept them,
        # its first steps on a new task would be several times longer than the
        # learning rate, and wash away what the shared weights know.
        restart(self.optimizer)
        self._registry.start(task)
        self._mark_open_row()

    def _cancel_task(self, task, known):
        if self.consolidation is not None:
            self.consolidation.cancel_task(self)
        for table in self.task_tables:
            table.discard()
        if known is None and task in self._registry.classes:
            self._set_classes({task: ()})
            del self._registry.classes[task]
        self._registry.cancel_start()

    def _end_task(self, data):
        task = self.open_task
        if self.consolidation is not None:
            with self._in_mode(task):
                self.consolidation.end_task(self, task, data)
        for table in self.task_tables:
            table.fold(self._registry.row(task))
        self._registry.end_open_task()
        self._mark_open_row()

    def _set_classes(self, classes):
        factors = [id(v) for t in self.task_tables for v in t.factors]
        super()._set_classes(classes)
        if factors != [id(v) for t in self.task_tables for v in t.factors]:
            # A wider head has other variables.
            if getattr(self, "optimizer", None) is not None:
                with variable_scope(self.distribute_strategy):
                    rebuild(self.optimizer, self.trainable_variables)

    def _forget_functions(self):
        super()._forget_functions()
        if self.consolidation is not None:
            self.consolidation.forget_functions()
