import contextlib
import copy
import json
import pathlib

import keras

from keras_bpn.models.atomic import written_beside
from keras_bpn.models.compile_arguments import copy_arguments
from keras_bpn.models.mixed_batch import run_mixed_batch
from keras_bpn.models.storage import Storage
from keras_bpn.models.task_registry import TaskRegistry
from keras_bpn.models.workers import is_chief

_TASKS_FILE = "tasks.json"


class SingleTaskModels:
    """Single-task learning: a fresh network for every task.

    Nothing is shared, so nothing is forgotten, and a whole network is stored
    per task. This is the upper bound that methods with one network are measured
    against (STL in the paper). It is trained and used like a
    `keras_bpn.BPNModel`, so that a comparison is a loop over methods; see
    `keras_bpn.methods.build`.

    Args:
        make_model: Function without arguments that returns a new
            `keras_bpn.BPNModel`. With a `tf.distribute` strategy, it opens the
            strategy's scope itself, because it is called for every task.

    Example:

    >>> def make_model():
    ...     inputs = keras.Input((64,))
    ...     x = keras_bpn.layers.BPNDense(32, activation="relu")(inputs)
    ...     outputs = keras_bpn.layers.BPNDense(10, activation="softmax")(x)
    ...     return keras_bpn.BPNModel(inputs, outputs)
    >>> models = keras_bpn.models.SingleTaskModels(make_model)
    >>> models.compile(optimizer="adam", loss="sparse_categorical_crossentropy")
    >>> x, y = np.random.rand(100, 64), np.random.randint(2, size=100)
    >>> history = models.fit(x, y, task="0/1", verbose=0)
    >>> history = models.fit(x, y + 2, task="2/3", verbose=0)
    >>> models.predict(x, task="0/1", verbose=0).shape
    (100, 10)
    """

    def __init__(self, make_model):
        self.make_model = make_model
        self._registry = TaskRegistry()
        self._networks = {}
        self._compile_arguments = None
        self._next = make_model()
        self._task = None

    @property
    def next_network(self):
        """The `BPNModel` that a task to come will be trained in."""
        return self._next

    # Tasks.

    @property
    def tasks(self):
        """Names of all tasks, in the order in which they came."""
        return self._registry.names

    @property
    def task(self):
        """Name of the task whose network is used where none is named."""
        return self._task

    @task.setter
    def task(self, name):
        self._registry.row(name)
        self._task = name

    @property
    def open_task(self):
        """As `BPNModel.open_task`."""
        return self._registry.open_task

    @property
    def task_classes(self):
        """As `BPNModel.task_classes`."""
        return {
            task: network.task_classes[task]
            for task, network in self._networks.items()
            if task in network.task_classes
        }

    def network(self, task=None):
        """Returns the `BPNModel` of a task."""
        name = self._task if task is None else task
        if name is None:
            raise ValueError(
                "Expected the name of a task, because every task has a network "
                f"of its own: one of {list(self.tasks)}. Received: task=None"
            )
        self._registry.row(name)
        return self._networks[name]

    def add_task(self, name, classes=None):
        """Adds a task and makes its network; as `BPNModel.add_task`."""
        if name in self._registry:
            self._registry.add(name)  # Says what is wrong.
        self._next.add_task(name, classes)
        self._registry.add(name)
        self._networks[name] = self._next
        self._make_next()

    def rename_task(self, name, new_name):
        """As `BPNModel.rename_task`."""
        self._registry.check_name(name)
        self._registry.row(name)
        self._registry.check_new_name(new_name)
        self._networks[name].rename_task(name, new_name)
        self._registry.rename(name, new_name)
        # In the order of the registry.
        networks = self._networks.items()
        self._networks = {
            new_name if task == name else task: network
            for task, network in networks
        }
        if self._task == name:
            self._task = new_name

    def remove_task(self, name):
        """Removes a task and its network; as `BPNModel.remove_task`."""
        self._registry.check_not_open(name)
        self._registry.remove(name)
        del self._networks[name]
        if self._task == name:
            self._task = None

    @contextlib.contextmanager
    def mode(self, task):
        """As `BPNModel.mode`."""
        self._registry.row(task)
        before = self._networks.get(self._task)
        self._task = task
        try:
            yield self
        finally:
            names = {id(n): name for name, n in self._networks.items()}
            self._task = names.get(id(before))

    def _make_next(self):
        """Makes the network of a task to come."""
        self._next = self.make_model()
        if self._compile_arguments is not None:
            args, kwargs = self._compile_arguments
            _compile(self._next, args, kwargs)

    # Training and use.

    def compile(self, *args, **kwargs):
        """Takes the arguments of `BPNModel.compile` for all networks.

        Each network has copies of the optimizer and the metrics of its own.
        Networks that are not shared need no protection: `consolidation` has to
        be `None`. They have no bias units unless `direction` is given.
        """
        kwargs = {"direction": None, **kwargs}
        if kwargs.get("consolidation") is not None:
            raise ValueError(
                "Expected `consolidation=None`: a network of one task has "
                "nothing to protect. Received: consolidation="
                f"{kwargs['consolidation']!r}"
            )
        _compile(self._next, args, kwargs)
        self._compile_arguments = (args, kwargs)
        for network in self._networks.values():
            _compile(network, args, kwargs)

    def fit(self, *args, task=None, consolidate=True, **kwargs):
        """Trains the network of a task; as `BPNModel.fit`."""
        if self._compile_arguments is None:
            raise ValueError("Expected `compile()` to be called before `fit()`")
        task = self.open_task if task is None else task
        self._registry.check_trainable(task)
        registry, networks = copy.deepcopy(self._registry), dict(self._networks)
        mode = self._task
        network = self._networks.get(task, self._next)
        if task not in self._registry:
            self._registry.add(task)
            self._networks[task] = network
        self._registry.start(task)
        self._task = task
        try:
            history = network.fit(
                *args, task=task, consolidate=consolidate, **kwargs
            )
        except BaseException:
            if network._registry.is_new(task):
                # Not a single step was taken.
                self._registry, self._networks = registry, networks
                self._task = mode
            elif network is self._next:
                self._make_next()
            raise
        if network is self._next:
            self._make_next()
        if consolidate:
            self._registry.end_open_task()
        return history

    def consolidate(self, *args, **kwargs):
        """Ends the open task; as `BPNModel.consolidate`."""
        if self.open_task is None:
            raise ValueError(
                "Only an open task can be ended. "
                f"Received: no open task among {list(self.tasks)}"
            )
        self._networks[self.open_task].consolidate(*args, **kwargs)
        self._registry.end_open_task()

    def evaluate(self, *args, task=None, **kwargs):
        """As `BPNModel.evaluate`, with the network of the task."""
        network = self.network(task)
        return network.evaluate(*args, task=task or self._task, **kwargs)

    def predict(self, x, *args, task=None, **kwargs):
        """As `BPNModel.predict`, with the network of the task or tasks."""
        if task is None or isinstance(task, str):
            network = self.network(task)
            name = task or self._task
            return network.predict(x, *args, task=name, **kwargs)
        return run_mixed_batch(
            x,
            task,
            lambda x, t: self.network(t).predict(x, *args, task=t, **kwargs),
        )

    def __call__(self, x, *args, task=None, **kwargs):
        if task is None or isinstance(task, str):
            network = self.network(task)
            return network(x, *args, task=task or self._task, **kwargs)
        outputs = run_mixed_batch(
            x, task, lambda x, t: self.network(t)(x, *args, task=t, **kwargs)
        )
        return keras.ops.convert_to_tensor(outputs)

    def storage(self):
        """Returns what each task adds to what has to be stored: a network."""
        networks = list(self._networks.values()) or [self._next]
        network = networks[0].storage()
        added = network.parameters + network.parameters_per_task
        size = 4 * network.parameters + network.bytes_per_task
        return Storage({"network": size}, network.parameters, added)

    # Files.

    def export(self, filepath, *args, task=None, **kwargs):
        """Writes the network of one task, as `BPNModel.export` does."""
        network = self.network(task)
        network.export(filepath, *args, task=task or self._task, **kwargs)

    def save(self, filepath, overwrite=True):
        """Saves all networks to a folder, from which `load()` goes on.

        Args:
            filepath: Path of the folder.
            overwrite: Whether to replace what is there.

        Of several workers, the chief alone writes.
        """
        if not is_chief(self._next.distribute_strategy):
            return
        path = pathlib.Path(filepath)
        if path.exists() and not overwrite:
            raise FileExistsError(
                "Expected a path where nothing is, or `overwrite=True`. "
                f"Received: filepath={path}"
            )
        with written_beside(path) as temporary:
            self._write(temporary, lambda n, file: n.save(f"{file}.keras"))

    @classmethod
    def load(cls, filepath, make_model):
        """Returns what `save()` wrote.

        Args:
            filepath: Path of the folder.
            make_model: As for the class; makes the networks of later tasks.
        """
        models = cls(make_model)
        models._read(
            pathlib.Path(filepath),
            lambda file: keras.models.load_model(f"{file}.keras"),
        )
        if models._next.compiled:
            config = models._next.get_compile_config()
            arguments = keras.saving.deserialize_keras_object(config)
            models._compile_arguments = ((), arguments)
        return models

    def save_weights(self, filepath):
        """Saves the state of all networks, for `load_weights()`.

        Args:
            filepath: Path of a folder where nothing is yet.

        Of several workers, the chief alone writes.
        """
        if not is_chief(self._next.distribute_strategy):
            return
        self._write(
            pathlib.Path(filepath),
            lambda n, file: n.save_weights(f"{file}.weights.h5"),
        )

    def load_weights(self, filepath):
        """Goes back to where the networks were when they were saved.

        Args:
            filepath: Path of a folder that `save_weights()` wrote.
        """

        def read(file):
            self._make_next()
            self._next.load_weights(f"{file}.weights.h5")
            return self._next

        self._read(pathlib.Path(filepath), read)

    def _write(self, path, write):
        path.mkdir(parents=True)
        state = {
            "tasks": self._registry.get_state(),
            "task": self._task,
            **self._registry.get_records(),
        }
        (path / _TASKS_FILE).write_text(json.dumps(state))
        for i, network in enumerate(self._networks.values()):
            write(network, path / str(i))
        write(self._next, path / "next")

    def _read(self, path, read):
        if not (path / _TASKS_FILE).is_file():
            raise ValueError(
                "Expected a folder that `SingleTaskModels` wrote. "
                f"Received: filepath={path}"
            )
        state = json.loads((path / _TASKS_FILE).read_text())
        registry = TaskRegistry()
        registry.set_state(state["tasks"], records=state)
        networks = {
            task: read(path / str(i)) for i, task in enumerate(registry.names)
        }
        self._next = read(path / "next")
        self._registry, self._task = registry, state["task"]
        self._networks = networks


def _compile(network, args, kwargs):
    # Optimizers belong into the scope of the strategy they are used with.
    with network.distribute_strategy.scope():
        network.compile(*copy_arguments(args), **copy_arguments(kwargs))
