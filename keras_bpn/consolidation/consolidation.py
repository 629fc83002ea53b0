import keras
import numpy as np


class Consolidation:
    """Base class of what protects the shared weights from later tasks.

    A method overrides the hooks that it needs. A `BPNModel` calls them in this
    order:

    - `check(model)` and `build(model)` from `compile()`;
    - `start_task(model, task, data)` before the first step of a task;
    - in each step `loss(model, x, y, y_pred, calls)`,
      `adjust_gradients(model, gradients)` and, once the weights are updated,
      `after_update(model, task_gradients)`;
    - `end_task(model, task, data)` when the task ends, in its mode and before
      its bias units are folded;
    - `rename_task(model, name, new_name)`, `copy_task(model, name, new_name)`
      and `remove_task(model, name)` from the model's methods of these names.

    `data` is iterated over in batches `(x, y, sample_weight)`. A method that
    reads it in `end_task` sets `needs_data = True`.

    State is kept in variables from `add_variable()`, which the model saves and
    restores. Variables that come with each task have names that start with one
    of the prefixes in `growing`, such as `"memory/"`, and go on with a number
    that counts the tasks from 0, as `"memory/0/labels"`. A method is a Keras
    object: it is registered under the package `"keras_bpn"` or the user's own,
    and `get_config()` returns the arguments of its constructor.
    """

    needs_data = False
    growing = ()

    def __init__(self):
        self._variables = {}
        self._functions = {}

    # Hooks.

    def check(self, model):
        """Raises if the method cannot be used with the model."""

    def build(self, model):
        """Creates the variables of the method.

        May be called again on the same model, which is then compiled anew.
        """

    def start_task(self, model, task, data):
        """Called before the first step of a task."""

    def cancel_task(self, model):
        """Takes back `start_task` where not a single step could be taken.

        May be called where `start_task` failed or was not reached.
        """

    def loss(self, model, x, y, y_pred, calls):
        """Returns a scalar to add to the loss of a batch, or `None`.

        Args:
            model: The `BPNModel`.
            x, y: The batch.
            y_pred: The outputs of the model.
            calls: List of what entered and left each layer of `keras_bpn` in
                the forward pass, before its activation: records with the
                attributes `layer`, `inputs` and `outputs`.
        """
        return None

    def adjust_gradients(self, model, gradients):
        """Returns new gradients for `model.shared_variables`.

        Args:
            model: The `BPNModel`.
            gradients: List of the gradients of the loss, in the order of
                `model.shared_variables`. An entry is `None` where the loss
                does not depend on the variable.
        """
        return gradients

    def after_update(self, model, task_gradients):
        """Called when the weights are updated.

        Args:
            model: The `BPNModel`.
            task_gradients: The gradients before `adjust_gradients`.
        """

    def end_task(self, model, task, data):
        """Called when a task ends."""

    # What is kept about all tasks together stays as it is where tasks come and
    # go: importances, anchors and merged weights protect what was learned, also
    # under another name. Methods that keep something for each task by itself
    # override these.

    def rename_task(self, model, name, new_name):
        """Called before a task is renamed."""

    def copy_task(self, model, name, new_name):
        """Called when an ended task was copied."""

    def remove_task(self, model, name):
        """Called before a task, which is not open, is removed."""

    def storage(self, model):
        """Returns the bytes that each task adds to what has to be stored.

        Returns:
            Dictionary from a description of a part to its bytes.
        """
        return {}

    # State.

    @property
    def variables(self):
        """Dictionary of the variables of the method by name."""
        return dict(self._variables)

    def add_variable(self, name, value, trainable=False):
        """Creates a variable that is saved with the model.

        Args:
            name: String, distinct within the method.
            value: Initial value.
            trainable: Boolean, as in `keras.Variable`.
        """
        self._variables[name] = keras.Variable(
            value,
            trainable=trainable,
            name=name.replace("/", "_"),
            autocast=False,
        )
        return self._variables[name]

    def get_state(self):
        """Returns the state as a dictionary of arrays by name, in order."""
        return {
            name: keras.ops.convert_to_numpy(variable)
            for name, variable in sorted(self._variables.items())
        }

    def set_state(self, state):
        """Restores what `get_state()` returned.

        Args:
            state: Dictionary of arrays by name.
        """
        fixed, grown = {}, {}
        for name, value in state.items():
            (grown if self._grows(name) else fixed)[name] = value
        shapes = {
            name: tuple(v.shape)
            for name, v in self._variables.items()
            if not self._grows(name)
        }
        given = {name: np.shape(value) for name, value in fixed.items()}
        if given != shapes:
            differing = sorted(
                name
                for name in {*shapes, *given}
                if shapes.get(name) != given.get(name)
            )
            name = differing[0]
            raise ValueError(
                f"Expected the state of {type(self).__name__} to hold the "
                f"entry {name!r} of shape {shapes.get(name)}. "
                f"Received: shape {given.get(name)}"
            )
        for name, value in fixed.items():
            self._variables[name].assign(value)
        for name in [name for name in self._variables if self._grows(name)]:
            del self._variables[name]
        for name, value in grown.items():
            self.add_variable(name, value)

    def _grows(self, name):
        """Whether a variable came with a task."""
        return name.startswith(tuple(self.growing))

    def remove_growing(self, number):
        """Deletes the variables that came with a task. Those of later tasks
        move up.

        Args:
            number: Integer, counts the tasks from 0.
        """
        kept = {}
        for name, variable in self._variables.items():
            if self._grows(name):
                prefix, place, *rest = name.split("/")
                if int(place) == number:
                    continue
                place = int(place) - (int(place) > number)
                name = "/".join([prefix, str(place), *rest])
            kept[name] = variable
        self._variables = kept

    # Compiled functions.

    def function(self, name, make):
        """Returns a compiled function, made at the first use.

        Args:
            name: String, distinct within the method.
            make: Function without arguments that returns it.
        """
        if name not in self._functions:
            self._functions[name] = make()
        return self._functions[name]

    def forget_functions(self):
        """Drops compiled functions, whose variables may have been replaced."""
        self._functions.clear()

    # Configuration.

    def get_config(self):
        """Returns the arguments of the constructor."""
        return {}

    @classmethod
    def from_config(cls, config):
        return cls(**config)

    def __repr__(self):
        arguments = ", ".join(
            f"{k}={v!r}" for k, v in self.get_config().items()
        )
        return f"{type(self).__name__}({arguments})"
