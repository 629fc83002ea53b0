"""What a model computes in its modes, as functions of tensors."""

import functools

import numpy as np
import tensorflow as tf

from keras_bpn.layers.task_scope import weights_scope


def layers_with_modes(model):
    """Returns the layers that compute something else in every mode."""
    layers = model._flatten_layers(include_self=False)
    return [layer for layer in layers if hasattr(layer, "mode_weights")]


def folded_function(model, task):
    """Returns a function of the inputs that is one mode and nothing else.

    Bias units are folded into biases and keys into kernels. It has variables
    of its own for these, and shares those of layers that know no tasks.

    Args:
        model: `BPNModel`.
        task: Name of a task that has ended.
    """
    row = model.row_of(task)
    weights = {
        id(layer): {
            name: _as_weight(value, f"{layer.path}/{name}")
            for name, value in layer.folded_weights(row).items()
        }
        for layer in layers_with_modes(model)
    }

    def call(inputs):
        with weights_scope(weights):
            return model(inputs, training=False)

    return call


def _as_weight(value, name):
    """Returns a variable for numbers, and a constant for a mask."""
    if value is None or value.dtype == "bool":
        return value
    return tf.Variable(value, name=name)


class Modes:
    """All modes of a model in one function, with weights that they share.

    What is another in each mode is kept in a table with a row for each task.
    The vectors of all layers lie side by side, so that a mode is read at once:
    single reads would take longer than the products of a small network.

    Args:
        model: `BPNModel`.
        tasks: Sequence of names of tasks that have ended, in the order of the
            rows.
    """

    def __init__(self, model, tasks):
        self._model = model
        self._names = {}
        self._single_tables = {}
        vectors = {}
        rows = [model.row_of(task) for task in tasks]
        for layer in layers_with_modes(model):
            modes = [layer.mode_weights(row) for row in rows]
            self._names[id(layer)] = list(modes[0])
            for name, first in modes[0].items():
                if first is None:
                    continue
                values = np.stack([mode[name] for mode in modes])
                place = (id(layer), name)
                if values.ndim == 2:
                    vectors.setdefault(values.dtype.name, {})[place] = values
                else:
                    self._single_tables[place] = _as_table(values, name)
        self._tables = {
            name: _as_table(np.concatenate(list(group.values()), 1), name)
            for name, group in vectors.items()
        }
        self._widths = {
            name: {place: v.shape[1] for place, v in group.items()}
            for name, group in vectors.items()
        }

    def function(self, specs, per_example=False):
        """Returns a TensorFlow function of a row and the inputs.

        Args:
            specs: Structure of `tf.TensorSpec`, the inputs.
            per_example: Whether there is a row for each example, not one for
                all.
        """
        shape = (None,) if per_example else ()
        row = tf.TensorSpec(shape, "int32", name="row")

        @tf.function(input_signature=[row, specs], autograph=False)
        def call(row, inputs):
            with weights_scope(self._weights(row)):
                return self._model(inputs, training=False)

        return call

    def _weights(self, row):
        """Returns the weights of every layer for a row, or for each of some."""
        weights = {
            layer: dict.fromkeys(names) for layer, names in self._names.items()
        }
        for (layer, name), table in self._single_tables.items():
            weights[layer][name] = tf.gather(table, row)
        # Many examples have few tasks. What they need of the tables is taken
        # apart before it is spread over the examples, which costs less.
        places = None
        if row.shape.rank:
            row, places = tf.unique(row)
        for dtype, widths in self._widths.items():
            vectors = tf.gather(self._tables[dtype], row)
            if dtype == "int8":
                # Keys, which multiply inputs.
                vectors = tf.cast(vectors, self._model.compute_dtype)
            parts = tf.split(vectors, list(widths.values()), axis=-1)
            for (layer, name), part in zip(widths, parts):
                weights[layer][name] = part
                if places is not None:
                    weights[layer][name] = functools.partial(
                        _spread, part, places
                    )
        return weights


def _spread(part, places, inputs):
    """Returns a row of `part` for each example, once the inputs of the layer
    are there: those of all layers at once would not fit into a cache."""
    with tf.control_dependencies([inputs]):
        return tf.gather(part, places)


def _as_table(values, name):
    return tf.Variable(values, trainable=False, name=f"{name}/modes")
