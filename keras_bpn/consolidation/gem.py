import json
import numbers
import random
import warnings

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation.consolidation import Consolidation
from keras_bpn.consolidation.episodic_memory import choose_examples
from keras_bpn.consolidation.nonnegative_program import project_gradients
from keras_bpn.models.optimizer_state import loss_scale
from keras_bpn.models.replicas import num_replicas
from keras_bpn.models.replicas import sum_over_replicas


@keras.saving.register_keras_serializable("keras_bpn")
class GEM(Consolidation):
    """Gradient episodic memory.

    Some examples of each task are kept. No step of a later task may raise the
    loss on them: with `g` the gradient of the batch and `g_k` that of the loss
    on the memory of task `k`, the shared weights follow

    `argmin_z 1/2 |z - g|^2`, subject to `z . g_k >= 0` for all `k`

    Where `g` satisfies this already, that is `g` itself. Otherwise it is
    computed from the dual program, as in the paper's official code,

    `z = g + G' v`, `v = argmin_v 1/2 v' (G G' + 1e-3 I) v + g' G' v`,
    `v >= margin`

    with the `g_k` as the rows of `G`. The program is solved exactly, in double
    precision, as part of the training step.

    `g_k` is computed in the mode of task `k`, without dropout and without
    sample weights. What belongs to one task alone, its bias units or its head,
    is not constrained. In the BPN paper, GEM is given the task: each has a
    final linear classifier of its own. That is a network which ends in
    `keras_bpn.layers.TaskHeads`.

    A step costs one more forward and backward pass for every task that has
    ended. `memory_batch_size` bounds the size of these passes.

    `model.remove_task()` drops the memory of a task. A copy of a task is
    protected by the memory of the task that it is a copy of, while that is
    there. Tasks that were combined or loaded have no memory.

    Args:
        memory_per_class: Positive integer, how many examples of each class of
            a task are kept, drawn at random when the task ends. Of a class
            that has fewer, all are kept, with a warning. Defaults to 256.
        margin: Number of at least 0, the lower bound of `v`, the `gamma` of
            the paper. Steps that are adjusted at all then go down on every
            memory, the more so the larger it is. Defaults to 0.5, the
            paper's.
        memory_batch_size: Positive integer, how many examples of each memory
            are used in a step, drawn anew in each. `None` uses all of them,
            as the paper does.
        seed: Integer from which examples are drawn, or `None`.

    Example:

    >>> model.compile(
    ...     optimizer=keras.optimizers.SGD(0.1),
    ...     loss="sparse_categorical_crossentropy",
    ...     direction=None,
    ...     consolidation=keras_bpn.consolidation.GEM(256),
    ... )

    Reference:

    - [Lopez-Paz and Ranzato, 2017](https://arxiv.org/abs/1706.08840)
    """

    needs_data = True
    growing = ("memory/",)

    def __init__(
        self,
        memory_per_class=256,
        margin=0.5,
        memory_batch_size=None,
        seed=None,
    ):
        super().__init__()
        _check_positive("memory_per_class", memory_per_class)
        if memory_batch_size is not None:
            _check_positive("memory_batch_size", memory_batch_size)
        is_number = isinstance(margin, numbers.Real)
        if isinstance(margin, bool) or not (is_number and 0 <= margin < np.inf):
            raise ValueError(
                "Expected `margin`, the lower bound of the multipliers, to be "
                f"a number of at least 0. Received: margin={margin!r}"
            )
        self.memory_per_class = memory_per_class
        self.margin = float(margin)
        self.memory_batch_size = memory_batch_size
        self.seed = random.randint(1, 10**9) if seed is None else seed
        # Of each memory, the name of its task and the structure of its inputs.
        self._records = []

    def check(self, model):
        if len(model.outputs) != 1:
            raise ValueError(
                "`GEM` chooses examples by their class, and needs a model with "
                f"one output. Received: a model with {len(model.outputs)}"
            )

    def adjust_gradients(self, model, gradients):
        if not self._records:
            return gradients
        memories = [
            self._memory_gradients(model, i) for i in range(len(self._records))
        ]
        # What no loss depends on stays `None`.
        used = [
            i
            for i, column in enumerate(zip(gradients, *memories))
            if any(gradient is not None for gradient in column)
        ]
        variables = [model.shared_variables[i] for i in used]
        task, *memories = [
            [_dense(row[i], v) for i, v in zip(used, variables)]
            for row in (gradients, *memories)
        ]
        # Losses are one replica's share, but the program is not linear.
        replicas = num_replicas()
        task = sum_over_replicas(task)
        scale = loss_scale(model.optimizer)
        factor = replicas if scale is None else replicas / scale
        memories = [
            [g * ops.cast(factor, g.dtype) for g in row] for row in memories
        ]
        adjusted, finite = project_gradients(task, memories, self.margin)
        # A step that would not be protected is not to be taken: an optimizer
        # that scales the loss skips it, otherwise it is refused with an error.
        result = [None] * len(gradients)
        for i, g in zip(used, adjusted):
            nan = tf.cast(float("nan"), g.dtype)
            result[i] = tf.where(finite, g / replicas, nan)
        return result

    def _memory_gradients(self, model, i):
        """Returns the gradients of the scaled loss on the memory of a task."""
        x, y = self._examples(model, i)
        with tf.GradientTape() as tape:
            y_pred = model(x, task=self._records[i]["task"], training=False)
            loss = model.compute_loss(
                x=x, y=y, y_pred=y_pred, sample_weight=None, training=False
            )
            # As in the training step, where half precision needs it.
            loss = model.optimizer.scale_loss(loss)
        return tape.gradient(loss, [v.value for v in model.shared_variables])

    def _examples(self, model, i):
        """Returns the examples of a memory that are used in a step."""
        structure = self._records[i]["inputs"]
        x = keras.tree.map_structure(
            lambda j: self._variables[f"memory/{i}/inputs/{j}"].value, structure
        )
        y = self._variables[f"memory/{i}/labels"].value
        size = y.shape[0]
        if self.memory_batch_size is None or self.memory_batch_size >= size:
            return keras.tree.map_structure(tf.convert_to_tensor, (x, y))
        # The optimizer counts the steps of a task, and is saved.
        state = np.random.SeedSequence([self.seed, len(self._records), i])
        seed = ops.stack(
            [
                ops.cast(int(state.generate_state(1)[0] >> 1), "int32"),
                ops.cast(model.optimizer.iterations, "int32"),
            ]
        )
        draws = tf.random.stateless_uniform((size,), seed)
        chosen = tf.math.top_k(draws, self.memory_batch_size).indices
        return keras.tree.map_structure(lambda a: tf.gather(a, chosen), (x, y))

    def end_task(self, model, task, data):
        number = len(self._records)
        x, y, counts = choose_examples(
            data, self.memory_per_class, [self.seed, number]
        )
        scarce = {
            c: n for c, n in sorted(counts.items()) if n < self.memory_per_class
        }
        if scarce:
            warnings.warn(
                f"Expected at least {self.memory_per_class} examples of each "
                f"class of task {task!r}. All are kept where there are fewer. "
                f"Received: {scarce} (class: examples)",
                stacklevel=2,
            )
        leaves = keras.tree.flatten(x)
        places = keras.tree.pack_sequence_as(x, list(range(len(leaves))))
        for j, leaf in enumerate(leaves):
            self.add_variable(f"memory/{number}/inputs/{j}", leaf)
        self.add_variable(f"memory/{number}/labels", y)
        self._records.append(None)
        self._set_record(number, {"task": task, "inputs": places})
        # A traced training step goes over the memories that there were when
        # it was traced.
        model._forget_functions()

    def _set_record(self, number, record):
        text = json.dumps(record)
        self.add_variable(
            f"memory/{number}/record", np.frombuffer(text.encode(), "uint8")
        )
        self._records[number] = json.loads(text)

    def rename_task(self, model, name, new_name):
        for number, record in enumerate(self._records):
            if record["task"] == name:
                self._set_record(number, {**record, "task": new_name})

    def remove_task(self, model, name):
        tasks = [record["task"] for record in self._records]
        if name in tasks:
            self.remove_growing(tasks.index(name))
            del self._records[tasks.index(name)]
            model._forget_functions()

    def set_state(self, state):
        super().set_state(state)
        count = sum(name.endswith("/record") for name in state)
        self._records = [
            json.loads(bytes(np.asarray(state[f"memory/{i}/record"], "uint8")))
            for i in range(count)
        ]

    def storage(self, model):
        if not self._records:
            return {"memory": 0}
        sizes = {"inputs": 0, "labels": 0}
        for name, variable in self._variables.items():
            part = name.split("/")[2]
            if part in sizes:
                itemsize = np.dtype(variable.dtype).itemsize
                sizes[part] += int(np.prod(variable.shape)) * itemsize
        return {
            f"memory of {part}": round(size / len(self._records))
            for part, size in sizes.items()
        }

    def get_config(self):
        return {
            "memory_per_class": self.memory_per_class,
            "margin": self.margin,
            "memory_batch_size": self.memory_batch_size,
            "seed": self.seed,
        }


def _dense(gradient, variable):
    if gradient is None:
        return tf.zeros(variable.shape, variable.dtype)
    return tf.convert_to_tensor(gradient)


def _check_positive(name, value):
    is_integer = isinstance(value, numbers.Integral)
    if not is_integer or isinstance(value, bool) or value < 1:
        raise ValueError(
            f"Expected `{name}` to be a positive integer. "
            f"Received: {name}={value!r}"
        )
