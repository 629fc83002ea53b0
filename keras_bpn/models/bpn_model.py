import contextlib
import os
import random

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.models import checks
from keras_bpn.models import model_state
from keras_bpn.models import storage
from keras_bpn.models.atomic import written_beside
from keras_bpn.models.optimizer_state import check_sign_steps
from keras_bpn.models.optimizer_state import restart
from keras_bpn.models.progress import EpochCounter
from keras_bpn.models.progress import with_progress
from keras_bpn.models.task_data import TaskData
from keras_bpn.models.task_model import TaskModel
from keras_bpn.models.update import update_weights


@keras.saving.register_keras_serializable("keras_bpn")
class BPNModel(TaskModel):
    """A functional model with one mode per task.

    The weights are shared by all tasks. Each task adds a row of bias units to
    each layer that has them (Wen et al., equation 1), and the name of the task
    turns the network into its mode. A `BPNModel` is built and used like any
    functional `keras.Model`; `fit`, `evaluate`, `predict` and calling it take
    the name of a `task` besides.

    A new name in `fit` is a new task. When `fit` is done, the task ends: its
    bias units are stored and frozen, and the consolidation (`EWC`, `PSP`, ...)
    protects the shared weights from what comes later. The `loss` in the logs
    is that of the task; a quadratic penalty acts on the gradients and is not
    added to it.

    Each task starts with the optimizer as new, apart from its learning rate:
    moments, momentum and the step that a schedule counts from are those of a
    first step. Kept from a task that was learned, they would make the first
    steps on the next one several times too long.

    Arrays are shuffled in an order that depends on the model and the number of
    epochs it was trained for alone, so that a model that was saved and loaded
    goes on as if it had not been.

    Example:

    >>> inputs = keras.Input((64,))
    >>> x = keras_bpn.layers.BPNDense(32, activation="relu")(inputs)
    >>> model = keras_bpn.BPNModel(inputs, keras_bpn.layers.BPNDense(10)(x))
    >>> model.compile(
    ...     optimizer="adam",
    ...     loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ...     direction="beneficial",
    ...     epsilon=0.01,
    ...     consolidation=keras_bpn.consolidation.EWC(2e3),
    ... )
    >>> x, y = np.random.rand(100, 64), np.random.randint(2, size=100)
    >>> history = model.fit(x, y, task="0/1", verbose=0)
    >>> history = model.fit(x, y + 2, task="2/3", verbose=0)
    >>> model.tasks
    ('0/1', '2/3')
    >>> model.predict(x, task="0/1", verbose=0).shape
    (100, 10)

    Reference:

    - [Wen et al., 2021](https://doi.org/10.1109/TNNLS.2021.3054423)
    """

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.direction = None
        self.epsilon = None
        self.consolidation = None
        self._consolidation_in_file = None
        self._shuffle_seed = random.randint(1, 10**9)
        self._epochs = 0

    # Compiling.

    def compile(
        self,
        *args,
        direction="beneficial",
        epsilon=0.01,
        consolidation=None,
        **kwargs,
    ):
        """Configures the model for training.

        Args:
            *args: As in `keras.Model.compile`: optimizer, loss, and so on.
            direction: How the factor `M_t` of the bias units is trained:
                `"beneficial"` (BD) moves it by `epsilon` against the sign of
                its gradient, `"gradient"` (GD) leaves it to the optimizer,
                and `None` trains without bias units.
            epsilon: Number, the size of the sign step.
            consolidation: What protects the shared weights when a task has
                ended: an instance of a class in `keras_bpn.consolidation`, or
                `None` for plain fine-tuning. Cannot be changed once a task
                was trained; to compile again with another optimizer, pass
                `consolidation=model.consolidation`.
            **kwargs: As in `keras.Model.compile`. To give the factor `W_t` a
                learning rate of its own, pass a
                `keras.optimizers.MultiOptimizer` that maps
                `".*task_bias/projection"` to another optimizer.
        """
        checks.check_direction(direction, epsilon, bool(self.task_biases))
        checks.check_consolidation(consolidation)
        consolidation = self._keep_consolidation(consolidation)
        self._check_same_direction(direction)
        optimizer = args[0] if args else kwargs.get("optimizer", "rmsprop")
        if direction == "beneficial":
            check_sign_steps(keras.optimizers.get(optimizer))
        if consolidation is not None:
            consolidation.check(self)

        super().compile(*args, **kwargs)
        self.direction = direction
        self.epsilon = float(epsilon)
        self.consolidation = consolidation
        for bias in self.task_biases:
            bias.active = direction is not None
            bias.perturbation.overwrite_with_gradient = (
                direction == "beneficial"
            )
        if consolidation is not None:
            consolidation.build(self)
            consolidation.forget_functions()
        if self.optimizer is not None and not self.optimizer.built:
            # Keras would wait for the first step, and then skip its state when
            # weights are loaded before that.
            self.optimizer.build(self.trainable_variables)

    def _keep_consolidation(self, given):
        """Returns what to consolidate with, with the state it has so far."""
        current = self.consolidation
        if given is current or not self._registry.any_started():
            return given
        if (
            current is not None
            and type(given) is type(current)
            and given.get_config() == current.get_config()
        ):
            return current
        name = repr(current)
        if current is None and self._consolidation_in_file is not None:
            name = (
                f"{self._consolidation_in_file} (load the model with "
                "`compile=True` to go on training it)"
            )
        raise ValueError(
            "`consolidation` cannot be changed once a task was trained, "
            "because the shared weights are protected with it. "
            f"Received: consolidation={given!r}; the model has {name}"
        )

    def _check_same_direction(self, direction):
        if not self._registry.any_started() or not self.task_biases:
            return
        active = self.task_biases[0].active
        if active != (direction is not None):
            had = "with" if active else "without"
            raise ValueError(
                "`direction` cannot be changed from or to `None` once a task "
                f"was trained. Received: direction={direction!r}; the tasks "
                f"so far were trained {had} bias units"
            )

    def get_compile_config(self):
        config = super().get_compile_config()
        if config:
            serialize = keras.saving.serialize_keras_object
            config["direction"] = self.direction
            config["epsilon"] = self.epsilon
            config["consolidation"] = serialize(self.consolidation)
            # Keras stores the optimizer without the loss scaling that it may
            # have added, and adds it by the policy of the loading process.
            config["optimizer"] = serialize(self.optimizer)
        return config

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))

    # Training.

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
        self._check_data(data, consolidate)
        if validation_split and validation_data is None:
            data, validation_data = data.split(validation_split)
        callbacks, verbose = with_progress(f"Task '{task}'", verbose, callbacks)
        arguments = {"x": data.x, "y": data.y, "shuffle": shuffle}
        if data.in_memory and shuffle is True:
            dataset, num_batches = data.shuffled(
                self._shuffle_seed, self._epochs
            )
            arguments = {"x": dataset, "shuffle": False}
            steps_per_epoch = steps_per_epoch or num_batches
            validation_batch_size = validation_batch_size or batch_size
        else:
            arguments["sample_weight"] = data.sample_weight
            arguments["batch_size"] = batch_size
        with self._training(task, data):
            history = super().fit(
                **arguments,
                epochs=epochs,
                verbose=verbose,
                callbacks=EpochCounter.added_to(callbacks),
                validation_data=validation_data,
                class_weight=class_weight,
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
        if self._registry.open_task is None:
            raise ValueError(
                "Only an open task can be ended. Train one with `fit(x, y, "
                "task=..., consolidate=False)` first. "
                f"Received: no open task among {list(self.tasks)}"
            )
        data = TaskData(x, y, sample_weight, batch_size, class_weight, steps)
        self._check_data(data, consolidate=True)
        self._end_task(data)

    def _task_to_train(self, task):
        if task is None:
            task = self._registry.open_task
            if task is None:
                raise ValueError(
                    "`fit` needs the name of the task to train, "
                    "`fit(x, y, task=...)`, where no task is open. "
                    f"Received: task=None; tasks are {list(self.tasks)}"
                )
        self._registry.check_trainable(task)
        return task

    def _check_data(self, data, consolidate):
        if data.in_memory:
            checks.check_labels(self.loss, self.outputs, data.y)
        method = self.consolidation
        if not consolidate or method is None or not method.needs_data:
            return
        advice = (
            f"{type(method).__name__} reads the data again when the task ends."
            " Train with `fit(..., consolidate=False)`, then call "
            "`model.consolidate(...)` with data that can be read then"
        )
        if data.x is None:
            raise ValueError(f"{advice}. Received: x=None")
        if data.read_once:
            raise ValueError(f"{advice}. Received: x={data.x!r}")
        if data.endless:
            raise ValueError(
                f"{advice}, or pass `steps_per_epoch`. Received: data that "
                "does not end"
            )

    @contextlib.contextmanager
    def _training(self, task, data):
        """Starts the task, and takes that back if no step could be taken."""
        tasks = self._registry.get_state()
        mode = int(self._mode.numpy())
        is_open = task == self._registry.open_task
        first_step = None
        try:
            if task not in self._registry:
                self.add_task(task)
            if not is_open:
                self._start_task(task, data)
            self.task = task
            first_step = int(self.optimizer.iterations)
            yield
        except BaseException:
            if first_step in (None, int(self.optimizer.iterations)):
                self._registry.set_state(tasks)
                self._mode.assign(mode)
                self._mark_open_row()
                if not is_open:
                    for bias in self.task_biases:
                        bias.discard()
            raise

    def _start_task(self, task, data):
        if self.consolidation is not None:
            self.consolidation.start_task(self, task, data)
        for bias in self.task_biases:
            bias.draw(self._registry.row(task))
        # The moments of a task that was learned are tiny. If Adam kept them,
        # its first steps on a new task would be several times longer than the
        # learning rate, and wash away what the shared weights know.
        restart(self.optimizer)
        self._registry.start(task)
        self._mark_open_row()

    def _end_task(self, data):
        task = self._registry.open_task
        if self.consolidation is not None:
            with self._in_mode(task):
                self.consolidation.end_task(self, task, data)
        for bias in self.task_biases:
            bias.fold(self._registry.row(task))
        self._registry.end_open_task()
        self._mark_open_row()

    def _forget_functions(self):
        super()._forget_functions()
        if self.consolidation is not None:
            self.consolidation.forget_functions()

    def train_step(self, data):
        x, y, sample_weight = keras.utils.unpack_x_y_sample_weight(data)
        with tf.GradientTape() as tape:
            y_pred = self(x, training=True)
            loss = self.compute_loss(
                x=x,
                y=y,
                y_pred=y_pred,
                sample_weight=sample_weight,
                training=True,
            )
            if self.consolidation is not None:
                extra = self.consolidation.loss(self, x, y, y_pred)
                if extra is not None:
                    loss = loss + ops.cast(extra, loss.dtype)
            scaled_loss = self.optimizer.scale_loss(loss)
        gradients = tape.gradient(scaled_loss, self.trainable_variables)
        update_weights(self, gradients)

        # The loss is one replica's share of the mean over all replicas.
        loss = loss * tf.distribute.get_strategy().num_replicas_in_sync
        tracker = next(m for m in self.metrics if m.name == "loss")
        batch_size = ops.shape(keras.tree.flatten(x)[0])[0]
        tracker.update_state(loss, sample_weight=batch_size)
        return self.compute_metrics(x, y, y_pred, sample_weight=sample_weight)

    def storage(self):
        """Returns what each task adds to what has to be stored."""
        return storage.measure(self)

    # Saving.

    def save(self, filepath, overwrite=True, zipped=None, **kwargs):
        """Saves the model as a `.keras` file, as `keras.Model.save` does.

        `keras.models.load_model` brings back tasks, bias units, keys,
        importances, optimizer, random state and compile settings, so that
        training goes on as if it had never stopped. The file is written beside
        its target and moved into place.

        Args:
            filepath: Path that ends in `.keras`, or, with `zipped=False`, of a
                folder.
            overwrite: Whether to replace what is there.
            zipped: As in `keras.Model.save`.
        """
        if not isinstance(filepath, (str, os.PathLike)):
            return super().save(filepath, overwrite, zipped, **kwargs)
        path = os.fspath(filepath)
        if path.startswith("hf://"):
            return super().save(path, overwrite, zipped, **kwargs)
        if zipped is not False and not path.endswith(".keras"):
            raise ValueError(
                "Expected a path that ends in '.keras'; other formats do not "
                f"keep the tasks. Received: filepath={path}"
            )
        if os.path.exists(path) and not overwrite:
            raise FileExistsError(
                "Expected a path where nothing is, or `overwrite=True`. "
                f"Received: filepath={path}"
            )
        with written_beside(path) as temporary:
            super().save(str(temporary), True, zipped, **kwargs)

    def save_own_variables(self, store):
        model_state.save_state(self, store)

    def load_own_variables(self, store):
        model_state.load_state(self, store)
