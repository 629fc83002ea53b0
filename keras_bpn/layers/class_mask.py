import keras
import numpy as np
from keras import ops

from keras_bpn.layers.task_scope import current_task
from keras_bpn.layers.task_scope import given_weights
from keras_bpn.layers.task_table import TaskTable
from keras_bpn.layers.task_table import expand_rows
from keras_bpn.layers.task_table import read_rows
from keras_bpn.layers.task_table import write_rows

# Far below every score, with a probability of exactly zero, and within the
# range of half precision. Infinity would turn a product with zero into NaN.
MASKED = -1e4


@keras.saving.register_keras_serializable("keras_bpn")
class ClassMask(TaskTable):
    """Restricts the scores of a single-head network to some of its classes.

    To be put behind the layer that gives the scores, before a softmax. The
    scores of all other classes become -10,000: they have no probability, and
    nothing is learned about them.

    The classes of a task are given by `model.add_task("2/3", classes=[2, 3])`;
    where the labels are in memory, `fit` finds them out by itself.

    Args:
        classes: `"seen"` keeps the classes of all tasks that the model has so
            far, whatever the mode: the usual protocol of class-incremental
            learning. `"task"` keeps the classes of the task whose mode the
            model is in: a task oracle for the outputs.

    Input shape:
        N-D tensor with shape `(batch_size, ..., classes)`.

    Output shape:
        The same.

    Example:

    >>> inputs = keras.Input((784,))
    >>> x = keras_bpn.layers.BPNDense(300, activation="relu")(inputs)
    >>> x = keras_bpn.layers.BPNDense(10)(x)
    >>> outputs = keras_bpn.layers.ClassMask("seen")(x)
    >>> model = keras_bpn.BPNModel(inputs, outputs)
    """

    needs_classes = True

    def __init__(self, classes="seen", **kwargs):
        super().__init__(**kwargs)
        if classes not in ("seen", "task"):
            raise ValueError(
                "Expected `classes` to be 'seen' or 'task'. "
                f"Received: classes={classes!r}"
            )
        self.classes = classes
        self.width = None

    def build(self, input_shape):
        self.width = input_shape[-1]
        # Row 0 is the union of all others.
        self._set_table(self.initial_rows(0, self.capacity + 1))
        self.built = True

    def initial_rows(self, start, stop):
        return np.zeros((stop - start, self.width), "bool")

    def set_classes(self, classes):
        rows = list(classes)
        masks = np.zeros((len(rows), self.width), "bool")
        for mask, labels in zip(masks, classes.values()):
            mask[list(labels)] = True
        before = ops.convert_to_numpy(read_rows(self.table, [0, *rows]))
        write_rows(self.table, rows, masks)
        union = before[0] | masks.any(axis=0)
        if np.any(before[1:] & ~masks):
            # Other tasks may have the classes that a task had until now.
            union = ops.convert_to_numpy(self.table)[1:].any(axis=0)
        write_rows(self.table, 0, union)
        return False

    def call(self, inputs):
        weights = given_weights(self, inputs)
        if weights is not None:
            mask = expand_rows(weights["mask"], len(inputs.shape))
            return mask_outputs(inputs, mask)
        task = current_task()
        if task is None:
            return inputs
        mask = seen = read_rows(self.table, 0)
        if self.classes == "task":
            mask = expand_rows(self.rows_of(task), len(inputs.shape))
        # A network without tasks is not restricted.
        mask = ops.logical_or(mask, ops.logical_not(ops.any(seen)))
        return mask_outputs(inputs, mask)

    def mode_weights(self, row):
        """Returns a dictionary with the array `"mask"`, which is true for the
        classes that are kept in the mode of a row."""
        seen = ops.convert_to_numpy(read_rows(self.table, 0))
        mask = seen
        if self.classes == "task":
            mask = ops.convert_to_numpy(read_rows(self.table, row))
        # A network without tasks is not restricted.
        return {"mask": mask if seen.any() else np.ones_like(mask)}

    folded_weights = mode_weights

    def compute_output_shape(self, input_shape):
        return input_shape

    def save_own_variables(self, store):
        """Stores nothing: the model knows the classes of its tasks."""

    def load_own_variables(self, store):
        """See `save_own_variables`."""

    def get_config(self):
        return {**super().get_config(), "classes": self.classes}


def mask_outputs(outputs, mask):
    """Returns the outputs where the mask is true, and a score without any
    probability elsewhere."""
    return ops.where(mask, outputs, ops.cast(MASKED, outputs.dtype))
