import contextlib

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.layers.task_scope import record_calls
from keras_bpn.models.epoch_runner import MIN_BATCHES
from keras_bpn.models.epoch_runner import EpochRunner
from keras_bpn.models.epoch_runner import suits_xla
from keras_bpn.models.epoch_runner import watches_steps
from keras_bpn.models.replicas import fill_empty
from keras_bpn.models.replicas import num_replicas
from keras_bpn.models.replicas import weigh_part
from keras_bpn.models.replicas import without_filling
from keras_bpn.models.step_guard import StepGuard
from keras_bpn.models.step_loop import StepLoop
from keras_bpn.models.task_data import TaskData
from keras_bpn.models.task_files import TaskFiles
from keras_bpn.models.train_loop import TrainLoop
from keras_bpn.models.update import update_weights


class StepTrainer(TaskFiles):
    """A functional model that takes training steps on its open task.

    This is the part of `BPNModel` that knows what a step is, and how many of
    them are taken in a call.
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.direction = None
        self.epsilon = None
        self.consolidation = None
        self._guard = StepGuard()
        self._compile_options = {}
        self._train_loop = None
        self._test_loop = None
        self._runners = {}

    def train_on_batch(self, x, y=None, *args, **kwargs):
        """Trains the open task on one batch, as `keras.Model.train_on_batch`.

        A task is opened by `fit(..., consolidate=False)`.
        """
        if self.open_task is None:
            raise ValueError(
                "`train_on_batch` trains the open task. Open one with "
                "`fit(x, y, task=..., consolidate=False)` first. "
                f"Received: no open task among {list(self.tasks)}"
            )
        with self._guard.watch(self):
            logs = super().train_on_batch(x, y, *args, **kwargs)
        self._guard.check(self)
        return logs

    def train_step(self, data):
        part = keras.utils.unpack_x_y_sample_weight(data)
        x, y, sample_weight = fill_empty(part)
        replicas = num_replicas()
        with tf.GradientTape() as tape:
            with record_calls() as calls:
                y_pred = self._call_in_row(self._open_row, x, training=True)
            loss = self.compute_loss(
                x=x,
                y=y,
                y_pred=y_pred,
                sample_weight=sample_weight,
                training=True,
            )
            if self.consolidation is not None:
                extra = self.consolidation.loss(self, x, y, y_pred, calls)
                if extra is not None:
                    # One replica's share, as the loss is.
                    loss = loss + ops.cast(extra / replicas, loss.dtype)
            scaled_loss = self.optimizer.scale_loss(weigh_part(loss, part[0]))
        gradients = tape.gradient(scaled_loss, self.trainable_variables)
        update_weights(self, gradients, self._guard)

        # The loss is one replica's share of the mean over all replicas.
        loss = loss * replicas
        tracker = next(m for m in self.metrics if m.name == "loss")
        x, y, sample_weight = part
        batch_size = ops.shape(keras.tree.flatten(x)[0])[0]
        tracker.update_state(loss, sample_weight=batch_size)
        y_pred = without_filling(y_pred, x)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    # Epochs that are compiled.

    @contextlib.contextmanager
    def _test_data(self, data, steps, callbacks):
        epoch = runner = None
        if data["x"] is not None:
            epoch = TaskData(**data).epochs(shuffle=False)
        if epoch is not None:
            runner = self._runner_of("test", epoch, callbacks, steps)
        with self._running("test", runner):
            if runner is not None:
                data = {"x": runner.iterations()}
            elif epoch is data["x"]:
                data = {"x": epoch.batches()}
            yield data

    def _runner_of(self, kind, data, callbacks, steps):
        """Returns what takes the steps of an epoch in compiled calls, or `None`
        where Keras takes them one by one.

        Which it is depends on the model and the number of batches alone, and
        so do the weights, to the bit.

        Args:
            kind: `"train"` or `"test"`.
            data: `EpochData`.
            callbacks: As in `fit`.
            steps: The number of steps that the user asks for, or `None`.
        """
        model_class, step = type(self), f"{kind}_step"
        jit_compile = self._compile_options.get("jit_compile")
        if (
            self._compile_options.get("steps_per_execution") != "auto"
            or jit_compile is False
            or (jit_compile == "auto" and not suits_xla(self))
            or self.run_eagerly
            or tf.config.functions_run_eagerly()
            or getattr(model_class, step) is not getattr(StepTrainer, step)
            or model_class.compute_metrics is not keras.Model.compute_metrics
            or steps
            or data.num_batches < MIN_BATCHES
            or self.distribute_strategy.num_replicas_in_sync > 1
        ):
            return None
        return EpochRunner(data, watches_steps(callbacks, kind))

    @contextlib.contextmanager
    def _running(self, kind, runner):
        """Lets Keras take the steps in a block by a runner, if not `None`."""
        if runner is None:
            yield
            return
        function = getattr(self, f"{kind}_function")
        self._runners[kind] = runner
        # Read when Keras makes its iterator, and only then.
        self.steps_per_execution = runner.steps_per_call
        try:
            yield
        finally:
            self.steps_per_execution = 1
            del self._runners[kind]
            runner.close()
            setattr(self, f"{kind}_function", function)

    def make_train_function(self, force=False):
        if "train" not in self._runners:
            return super().make_train_function(force)
        self._train_loop = self._train_loop or TrainLoop(self, self._guard)
        self.train_function = self._start_runner("train", self._train_loop)

    def make_test_function(self, force=False):
        if "test" not in self._runners:
            return super().make_test_function(force)
        self._test_loop = self._test_loop or StepLoop(self, self.test_step)
        self.test_function = self._start_runner("test", self._test_loop)

    def _start_runner(self, kind, loop):
        # The iterator is there. What is made from now on is for validation.
        self.steps_per_execution = 1
        self._runners[kind].steps = loop
        return self._runners[kind]

    def _forget_training(self):
        super()._forget_training()
        self._train_loop = None

    def _forget_functions(self):
        super()._forget_functions()
        self._test_loop = None
