import os

import keras

from keras_bpn.export import export
from keras_bpn.models import checks
from keras_bpn.models import model_state
from keras_bpn.models import storage
from keras_bpn.models import strategy_checks
from keras_bpn.models.atomic import written_beside
from keras_bpn.models.optimizer_state import check_sign_steps
from keras_bpn.models.seeds import agree_on_seeds
from keras_bpn.models.task_trainer import TaskTrainer
from keras_bpn.models.workers import is_chief
from keras_bpn.models.workers import variable_scope


@keras.saving.register_keras_serializable("keras_bpn")
class BPNModel(TaskTrainer):
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
        self._lost_consolidation = None

    def compile(
        self,
        optimizer="rmsprop",
        loss=None,
        loss_weights=None,
        metrics=None,
        weighted_metrics=None,
        run_eagerly=False,
        steps_per_execution="auto",
        jit_compile="auto",
        auto_scale_loss=True,
        direction="beneficial",
        epsilon=0.01,
        consolidation=None,
    ):
        """Configures the model for training.

        Args:
            optimizer: As in `keras.Model.compile`. To give the factor `W_t` a
                learning rate of its own, pass a
                `keras.optimizers.MultiOptimizer` that maps
                `".*task_bias/projection"` to another optimizer.
            loss, loss_weights, metrics, weighted_metrics, run_eagerly,
                auto_scale_loss: As in `keras.Model.compile`.
            steps_per_execution: The number of batches in each call of a
                compiled function, as in `keras.Model.compile`, or `"auto"`:
                arrays of at least 50 batches are kept on the device, and `fit`
                takes as many steps as fit into some 30 MB of examples in one
                call that XLA compiles. See `fit`. 1 turns this off.
            jit_compile: As in `keras.Model.compile`. With `False`, XLA is not
                used for epochs either.
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
        """
        checks.check_direction(direction, epsilon, bool(self.task_biases))
        checks.check_consolidation(consolidation)
        consolidation = self._keep_consolidation(consolidation)
        self._check_same_direction(direction)
        checks.check_steps(steps_per_execution)
        with self.distribute_strategy.scope():
            optimizer = keras.optimizers.get(optimizer)
        if direction == "beneficial" and optimizer is not None:
            check_sign_steps(optimizer)
        if consolidation is not None:
            consolidation.check(self)
        strategy_checks.check_compile(
            self, optimizer, loss, jit_compile, steps_per_execution
        )

        with variable_scope(self.distribute_strategy):
            super().compile(
                optimizer=optimizer,
                loss=loss,
                loss_weights=loss_weights,
                metrics=metrics,
                weighted_metrics=weighted_metrics,
                run_eagerly=run_eagerly,
                steps_per_execution=(
                    1 if steps_per_execution == "auto" else steps_per_execution
                ),
                jit_compile=jit_compile,
                auto_scale_loss=auto_scale_loss,
            )
            self._set_up(direction, epsilon, consolidation)
        # As they were given: Keras keeps what "auto" is on this machine.
        self._compile_options = {
            "steps_per_execution": steps_per_execution,
            "jit_compile": jit_compile,
        }
        self._forget_functions()

    def _set_up(self, direction, epsilon, consolidation):
        strategy = self.distribute_strategy
        if strategy.num_replicas_in_sync > 1:
            # XLA, which "auto" may have chosen, compiles for one device.
            self.jit_compile = False
        agree_on_seeds(self, consolidation)
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
        current, lost = self.consolidation, self._lost_consolidation
        if not self._registry.any_started():
            return given
        if given is current and lost is None:
            return given
        if (
            current is not None
            and type(given) is type(current)
            and given.get_config() == current.get_config()
        ):
            return current
        name = repr(current)
        if lost is not None:
            name = f"{lost}; load it with `compile=True` to go on training it"
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
            config.update(self._compile_options)
            config["direction"] = self.direction
            config["epsilon"] = self.epsilon
            config["consolidation"] = serialize(self.consolidation)
            # Keras stores the optimizer without the loss scaling that it may
            # have added, and adds it by the policy of the loading process.
            config["optimizer"] = serialize(self.optimizer)
        return config

    def compile_from_config(self, config):
        self.compile(**keras.saving.deserialize_keras_object(config))

    def storage(self):
        """Returns what each task adds to what has to be stored."""
        return storage.measure(self)

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

        Where several workers train the model, all may call this, and the chief
        alone writes.
        """
        if not is_chief(self.distribute_strategy):
            return
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

    def export(
        self,
        filepath,
        format="tf_saved_model",
        verbose=None,
        input_signature=None,
        task=None,
        overwrite=False,
        **kwargs,
    ):
        """Writes modes of the model for programs that use it.

        What is written needs neither Keras nor `keras_bpn`, takes batches of
        any size, and gives the outputs of `predict`.

        - One mode, `task="birds"`, is a plain network: its bias units are
          folded into the biases, its keys into the kernels, and of heads only
          its own is there.
        - All modes share the weights. A SavedModel has a signature for each
          task, and `serving_default`, which takes the inputs and, as `task`,
          the name of a task, or one for each example. Names of signatures are
          those of the tasks, made valid (`"0/1"` becomes `task_0_1`);
          `assets.extra/tasks.json` lists which is which. A LiteRT file has the
          same signatures but for `serving_default`; an ONNX file takes the
          names as an input. With `TaskHeads`, what takes names gives outputs
          as wide as the widest head.

        The file or folder is written beside its target and moved into place.

        Args:
            filepath: Path of a folder, or of a file that ends in `.tflite` or
                `.onnx`.
            format: `"tf_saved_model"`, `"litert"` or `"onnx"`. The latter
                needs packages that `pip install "keras-bpn[export]"` brings.
            verbose: Whether to print a line when it is done. `None` does.
            input_signature: As in `keras.Model.export`.
            task: Name of the task whose mode to write, a sequence of names for
                some of the modes, or `None` for those of all tasks that were
                trained.
            overwrite: Whether to replace what is there.
            **kwargs: Attributes of `tf.lite.TFLiteConverter`, such as
                `optimizations`, or `opset_version` for ONNX.
        """
        export(
            self,
            filepath,
            format=format,
            task=task,
            overwrite=overwrite,
            verbose=verbose,
            signature=input_signature,
            **kwargs,
        )

    def save_weights(self, filepath, *args, **kwargs):
        """Saves all state, as `keras.Model.save_weights` does.

        Of several workers, the chief alone writes.
        """
        if is_chief(self.distribute_strategy):
            super().save_weights(filepath, *args, **kwargs)

    def load_weights(self, filepath, *args, **kwargs):
        """Loads what `save_weights` wrote."""
        with variable_scope(self.distribute_strategy):
            super().load_weights(filepath, *args, **kwargs)

    def save_own_variables(self, store):
        model_state.save_state(self, store)

    def load_own_variables(self, store):
        with variable_scope(self.distribute_strategy):
            model_state.load_state(self, store)
