"""Checks of what cannot be right under a `tf.distribute` strategy, made before
anything changes."""

import keras
import numpy as np
import tensorflow as tf

from keras_bpn.models import workers
from keras_bpn.models.optimizer_state import inner_optimizers
from keras_bpn.models.replicas import num_replicas

_MEANS = ("sum_over_batch_size", "mean")
_OPTIMIZER_SETTINGS = {
    "clipnorm": "it would clip the gradients of each replica by themselves",
    "clipvalue": "it would clip the gradients of each replica by themselves",
    "global_clipnorm": "it would clip the gradients of each replica by "
    "themselves",
    "gradient_accumulation_steps": "Keras cannot accumulate gradients over "
    "replicas",
}
# How many examples of data in memory are compared between workers.
_COMPARED = 1024


def check_compile(model, optimizer, loss, jit_compile, steps_per_execution):
    """Checks what a model that is spread over devices is compiled with.

    Args:
        model: `BPNModel`.
        optimizer: Keras optimizer or `None`.
        loss, jit_compile, steps_per_execution: As in `BPNModel.compile`.
    """
    strategy = model.distribute_strategy
    current = tf.distribute.get_strategy()
    if tf.distribute.has_strategy() and model._distribute_strategy is None:
        raise ValueError(
            "Expected the model to be built inside of the scope of the "
            "strategy that it is compiled in, `with strategy.scope():`. "
            f"Received: a model built outside of that of {current}"
        )
    if strategy.num_replicas_in_sync == 1:
        return
    kinds = (
        tf.distribute.MirroredStrategy,
        tf.distribute.MultiWorkerMirroredStrategy,
    )
    if not isinstance(strategy, kinds):
        raise ValueError(
            "Expected `tf.distribute.MirroredStrategy` or "
            "`MultiWorkerMirroredStrategy`. "
            f"Received: a model built in the scope of {strategy}"
        )
    for name, value, allowed, reason in (
        (
            "jit_compile",
            jit_compile,
            (None, False, "auto"),
            "XLA compiles for one device",
        ),
        (
            "steps_per_execution",
            steps_per_execution,
            (1, "auto"),
            "Keras repeats steps on one device only",
        ),
    ):
        if value not in allowed:
            raise ValueError(
                f"`{name}` is not supported with several replicas: {reason}. "
                f"Received: {name}={value}"
            )
    if optimizer is not None:
        _check_optimizer(optimizer, strategy)
    for loss in keras.tree.flatten(loss):
        _check_loss(loss)


def _check_optimizer(optimizer, strategy):
    for inner in inner_optimizers(optimizer):
        # Keras has no public way to ask where an optimizer was made.
        made_in = getattr(inner, "_distribution_strategy", strategy)
        if made_in is not strategy:
            raise ValueError(
                "Expected the optimizer to be made inside of the scope of the "
                "model's strategy, `with strategy.scope():`. "
                f"Received: optimizer={inner.name!r}, made outside of it"
            )
        for name, reason in _OPTIMIZER_SETTINGS.items():
            value = getattr(inner, name)
            if value:
                raise ValueError(
                    f"`{name}` is not supported with several replicas: "
                    f"{reason}. Received: {name}={value}"
                )


def _check_loss(loss):
    reduction = getattr(loss, "reduction", "sum_over_batch_size")
    if reduction not in _MEANS:
        raise ValueError(
            "Expected a loss that is a mean over the examples of a batch, "
            "because each replica sees only a part of them. "
            f"Received: loss={loss!r} with reduction={reduction!r}"
        )
    ignored = getattr(loss, "ignore_class", None)
    if ignored is not None:
        raise ValueError(
            "`ignore_class` is not supported with several replicas: each would "
            "take the mean over the examples that are left in its own part of "
            "a batch. Give them a `sample_weight` of 0 instead. "
            f"Received: ignore_class={ignored}"
        )


def check_fit(model, task, data, consolidate):
    """Checks what a task is about to be trained on, or ended with.

    Args:
        model: `BPNModel`.
        task: Name of the task.
        data: `TaskData`.
        consolidate: Boolean, whether the task ends with that data.
    """
    _check_outside_scope()
    method = model.consolidation
    needs_data = consolidate and method is not None and method.needs_data
    _check_data(model, data, needs_data)
    _check_same_task(model, task, data)


def _check_data(model, data, needs_data):
    if needs_data and isinstance(data.x, tf.distribute.DistributedDataset):
        raise ValueError(
            f"{type(model.consolidation).__name__} reads the data again when "
            "the task ends, as a whole. Pass arrays or a `tf.data.Dataset`. "
            f"Received: x={data.x!r}"
        )
    if workers.num_workers(model.distribute_strategy) == 1:
        return
    if data.x is not None and not data.indexed:
        if not isinstance(
            data.x, (tf.data.Dataset, tf.distribute.DistributedDataset)
        ):
            raise ValueError(
                "Expected arrays or a `tf.data.Dataset`, of which each worker "
                "can take its share. "
                f"Received: x of type {type(data.x).__name__}"
            )
        if needs_data and _is_own(data.x):
            raise ValueError(
                f"{type(model.consolidation).__name__} reads the data again "
                "when the task ends, as a whole. Give every worker the same "
                "dataset, with another `auto_shard_policy`. "
                "Received: AutoShardPolicy.OFF"
            )


def _check_outside_scope():
    # Losses are divided by the number of replicas there, also where they are
    # computed over all data at the end of a task.
    if num_replicas() > 1:
        raise ValueError(
            "Expected a model to be trained outside of `strategy.scope()`; "
            "only building and compiling it belongs inside. "
            f"Received: the scope of {tf.distribute.get_strategy()}"
        )


def _check_same_task(model, task, data):
    strategy = model.distribute_strategy
    if workers.num_workers(strategy) == 1:
        return
    workers.check_same(
        strategy,
        {
            "task": repr(task),
            "earlier tasks": str(
                (model._registry.get_state(), model._registry.get_rows())
            ),
            "number of epochs so far": str(model._epochs),
            "data": _describe(data),
        },
    )


def _is_own(dataset):
    options = dataset.options().experimental_distribute
    off = tf.data.experimental.AutoShardPolicy.OFF
    return options.auto_shard_policy == off


def _describe(data):
    """Returns what tells data apart, as far as it can be told quickly."""
    if isinstance(data.x, tf.data.Dataset):
        if _is_own(data.x):
            return "data of its own"
        return f"{data.x.element_spec}, {int(data.x.cardinality())} batches"
    if not data.in_memory:
        return type(data.x).__name__
    rows = np.unique(
        np.linspace(0, data.num_examples - 1, _COMPARED, dtype=int)
    )
    arrays = keras.tree.flatten((data.x, data.y, data.sample_weight))
    parts = [f"batch_size={data.batch_size}"]
    for array in arrays:
        if array is not None:
            chosen = np.ascontiguousarray(np.asarray(array)[rows])
            code = workers.code(chosen.tobytes())
            parts.append(f"shape={tuple(array.shape)} code={code}")
    return ", ".join(parts)
