"""Checks of what a user gives to a model, made before anything changes."""

import numbers

import keras
import numpy as np
import tensorflow as tf

from keras_bpn.models.epoch_data import EpochData

DIRECTIONS = ("beneficial", "gradient", None)
HOOKS = (
    "build",
    "start_task",
    "loss",
    "adjust_gradients",
    "after_update",
    "end_task",
)


def check_direction(direction, epsilon, has_bias_units):
    if direction not in DIRECTIONS:
        raise ValueError(
            f"Expected `direction` to be one of {list(DIRECTIONS)}. "
            f"Received: direction={direction!r}"
        )
    if isinstance(epsilon, bool) or not isinstance(epsilon, numbers.Real):
        raise ValueError(
            f"Expected `epsilon` to be a number. Received: epsilon={epsilon!r}"
        )
    if not (np.isfinite(epsilon) and epsilon >= 0):
        raise ValueError(
            "Expected `epsilon`, the size of a sign step, to be at least 0. "
            f"Received: epsilon={epsilon}"
        )
    if direction is not None and not has_bias_units:
        raise ValueError(
            "A `direction` needs layers with bias units, such as "
            "`keras_bpn.layers.BPNDense(units, hidden_dim=100)`, and the "
            "model has none. Pass `direction=None` to train it without. "
            f"Received: direction={direction!r}"
        )


def check_steps(steps_per_execution):
    if steps_per_execution == "auto":
        return
    if type(steps_per_execution) is not int or steps_per_execution < 1:
        raise ValueError(
            'Expected `steps_per_execution` to be a positive integer or "auto".'
            f" Received: steps_per_execution={steps_per_execution!r}"
        )


def check_consolidation(consolidation):
    if consolidation is None:
        return
    if isinstance(consolidation, type) or not all(
        callable(getattr(consolidation, hook, None)) for hook in HOOKS
    ):
        raise ValueError(
            "Expected `consolidation` to be an instance of a "
            "`keras_bpn.consolidation` class, or `None`. "
            f"Received: consolidation={consolidation!r}"
        )


def check_data(model, data, consolidate):
    """Checks the data that a model is to be trained on.

    Args:
        model: `BPNModel`.
        data: `TaskData`.
        consolidate: Boolean, whether the task ends with that data.
    """
    if data.in_memory:
        check_inputs(model.input, data.x)
        check_labels(model.loss, model.outputs, data.y)
    elif isinstance(data.x, EpochData):
        example = data.x.example()
        x, _, _ = keras.utils.unpack_x_y_sample_weight(example)
        check_inputs(model.input, x)
    elif isinstance(data.x, tf.data.Dataset):
        spec, _, _ = keras.utils.unpack_x_y_sample_weight(data.x.element_spec)
        check_inputs(model.input, spec)
    method = model.consolidation
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


def check_inputs(inputs, x):
    """Checks the shapes of data against the model's inputs.

    Args:
        inputs: The structure of the model's input tensors.
        x: Arrays, or specs of tensors, with the batch as their first axis.
    """
    expected, given = keras.tree.flatten(inputs), keras.tree.flatten(x)
    same_kind = isinstance(x, dict) == isinstance(inputs, dict)
    if not same_kind or len(given) != len(expected):
        return  # Keras matches them by name, or says what is missing.
    for tensor, array in zip(expected, given):
        wanted, shape = tuple(tensor.shape), tuple(array.shape)
        if len(wanted) != len(shape):
            continue  # Keras adds or drops an axis of size one.
        for size, other in zip(wanted[1:], shape[1:]):
            if None not in (size, other) and size != other:
                raise ValueError(
                    f"Expected inputs of shape {wanted}, as the model has "
                    f"them. Received: shape {shape}"
                )


def check_labels(loss, outputs, y):
    """Checks integer labels that are in memory against the model's outputs.

    Args:
        loss: The `loss` that the model was compiled with.
        outputs: List of the model's output tensors.
        y: Targets, of any kind.
    """
    if len(outputs) != 1 or not is_crossentropy(loss, sparse=True):
        return
    if y is None or isinstance(y, (list, tuple, dict)):
        return
    labels = np.asarray(y)
    ignored = getattr(loss, "ignore_class", None)
    if ignored is not None:
        labels = labels[labels != ignored]
    num_classes = outputs[0].shape[-1]
    if labels.size == 0 or labels.dtype.kind not in "biuf" or not num_classes:
        return
    low, high = labels.min(), labels.max()
    whole = np.array_equal(labels, np.round(labels))
    if not (whole and low >= 0 and high < num_classes):
        raise ValueError(
            "Expected labels to be integers from 0 to "
            f"{num_classes - 1}, because the model has {num_classes} outputs. "
            f"Received: labels from {low} to {high}"
        )


def as_classes(classes):
    """Returns the labels of a task as a sorted tuple of integers.

    Args:
        classes: Sequence of distinct labels, or their number.
    """
    if isinstance(classes, numbers.Integral) and not isinstance(classes, bool):
        given = range(classes)
    else:
        given = np.ravel(classes).tolist()
    valid = all(type(c) is int and c >= 0 for c in given)
    if not given or not valid or len(set(given)) != len(given):
        raise ValueError(
            "Expected `classes` to be a positive number of classes, or a "
            "sequence of distinct labels of at least 0. "
            f"Received: classes={classes!r}"
        )
    return tuple(sorted(given))


def check_classes(classes, outputs):
    """Checks the labels of a task against the outputs of a model."""
    num_classes = outputs[0].shape[-1]
    if num_classes is not None and classes[-1] >= num_classes:
        raise ValueError(
            f"Expected labels from 0 to {num_classes - 1}, because the model "
            f"has {num_classes} outputs. Received: classes={classes}"
        )


def is_crossentropy(loss, sparse=None):
    """Whether a loss is a categorical crossentropy of labels.

    Args:
        loss: The `loss` that a model was compiled with.
        sparse: Boolean, whether labels are integers; `None` for either.
    """
    if isinstance(loss, (list, tuple)) and len(loss) == 1:
        loss = loss[0]
    if isinstance(loss, str):
        try:
            loss = keras.losses.get(loss)
        except ValueError:
            return False
    kinds = {
        True: (
            keras.losses.SparseCategoricalCrossentropy,
            keras.losses.sparse_categorical_crossentropy,
        ),
        False: (
            keras.losses.CategoricalCrossentropy,
            keras.losses.categorical_crossentropy,
        ),
    }
    return any(
        isinstance(loss, cls) or loss is function
        for is_sparse, (cls, function) in kinds.items()
        if sparse in (None, is_sparse)
    )


def check_lengths(names, x):
    """Checks that there is one task name per example."""
    size = len(keras.tree.flatten(x)[0])
    if len(names) != size:
        raise ValueError(
            "Expected one name for the whole batch, or one per example. "
            f"Received: {len(names)} names for {size} examples"
        )
