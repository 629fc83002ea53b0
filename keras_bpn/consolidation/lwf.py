import math
import numbers

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation import distillation
from keras_bpn.consolidation.consolidation import Consolidation


@keras.saving.register_keras_serializable("keras_bpn")
class LwF(Consolidation):
    """Learning without forgetting.

    The network as it was when a task started, its teacher, is shown the data
    of the new task. What it says about the classes of earlier tasks is to stay
    as it was. The objective of a later task is

    `loss + strength * sum_k CE(softmax(teacher_k / T), softmax(student_k / T))`

    with `k` the earlier tasks, `teacher_k` and `student_k` their logits before
    and now, `T` the temperature, and `CE` the crossentropy, as a mean over the
    batch. There is no factor `T^2`. No data of earlier tasks is needed.

    - A network that ends in `keras_bpn.layers.TaskHeads` has one term per
      earlier task, over the classes of its head. Unlike in the paper, heads
      are frozen when their task ends: the shared weights alone keep their
      outputs as they were.
    - A network with one head for all tasks has one term, over the classes of
      all earlier tasks.
    - Where outputs depend on the mode, as with bias units or `PSP`, there is
      one term per earlier task in its own mode, over the classes up to that
      task. Each takes two more passes through the network in every step.

    The model has one output, logits or probabilities, and is compiled with a
    (sparse) categorical crossentropy.

    `model.remove_task()` drops the term of a task. In a network with one head
    the classes of a task count as those of later ones, and stay with these. A
    copy of a task is protected by the term of the task that it is a copy of,
    while that is there. Tasks that were combined or loaded have no term.

    Args:
        strength: Number of at least 0, the factor lambda of the paper.
        temperature: Positive number, `T`. Defaults to the paper's 2.
        warmup_steps: Integer. For so many steps of each task but the first,
            the shared weights stay as they are, and only what is new is
            trained: the head of the task, or, in a network with one head, the
            weights of classes that were not seen before; bias units in any
            case. The paper trains the new outputs until they converge before
            it goes on with all weights.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ...     direction=None,
    ...     consolidation=keras_bpn.consolidation.LwF(),
    ... )

    Reference:

    - [Li and Hoiem, 2016](https://arxiv.org/abs/1606.09282)
    """

    needs_data = True
    growing = ("row/", "classes/")

    def __init__(self, strength=1.0, temperature=2.0, warmup_steps=0):
        super().__init__()
        check_factor("strength", strength)
        check_factor("temperature", temperature, positive=True)
        check_count("warmup_steps", warmup_steps, least=0)
        self.strength = float(strength)
        self.temperature = float(temperature)
        self.warmup_steps = warmup_steps

    # Before training.

    def check(self, model):
        name = type(self).__name__
        if len(model.outputs) != 1:
            raise ValueError(
                f"Expected a model with one output for `{name}`. "
                f"Received: {len(model.outputs)} outputs"
            )
        if self.warmup_steps and not model.task_heads:
            width = model.outputs[0].shape[-1]
            weights = distillation.output_weights(model)
            if not weights or any(v.shape[-1] != width for v in weights):
                raise ValueError(
                    "Expected a model with `TaskHeads`, or one whose last "
                    "layer has weights for each class by itself, for "
                    f"`{name}` with `warmup_steps`. Received: a model with "
                    f"{width} outputs from {model.operations[-1]}"
                )

    def build(self, model):
        if "step" not in self._variables:
            self.add_variable("step", np.zeros((), "int32"))
        for key, variable in distillation.network_variables(model).items():
            if f"teacher/{key}" not in self._variables:
                self.add_variable(f"teacher/{key}", ops.zeros_like(variable))

    def start_task(self, model, task, data):
        distillation.gives_logits(model)
        # The number of terms and their classes are part of the compiled step.
        model._forget_training()
        self._restart(model)

    def _restart(self, model):
        if self._old_tasks():
            for variable, teacher in self._teacher(model):
                teacher.assign(variable)
        self._variables["step"].assign(0)

    def _teacher(self, model):
        """Returns pairs of a variable and its value in the teacher."""
        variables = distillation.network_variables(model)
        return [
            (variable, self._variables[f"teacher/{key}"])
            for key, variable in variables.items()
        ]

    # In each step.

    def loss(self, model, x, y, y_pred, calls):
        tasks = self._old_tasks()
        if not tasks:
            return None
        teacher = self._teacher(model)
        passes = distillation.passes(model, tasks, x, teacher, y_pred, calls)
        return self.penalty(model, tasks, passes)

    def penalty(self, model, tasks, passes):
        """Returns what is added to the loss of a batch.

        Args:
            model: The `BPNModel`.
            tasks: List of `OldTask`.
            passes: List of pairs of the `Pass` of the teacher and that of the
                student, one for each task.
        """
        if not model.task_heads and not distillation.is_run_by_task(model):
            # The last task has the classes of all tasks before it.
            tasks, passes = tasks[-1:], passes[-1:]
        loss = 0.0
        for task, (teacher, student) in zip(tasks, passes):
            loss += distillation.soft_crossentropy(
                distillation.task_logits(model, task, teacher),
                distillation.task_logits(model, task, student),
                self.temperature,
            )
        return self.strength * loss

    def after_update(self, model, task_gradients):
        if not self.warmup_steps or not self._old_tasks():
            return
        # The weights are put back, instead of having no gradient: the moments
        # of Adam would be zero after the warm-up, with the bias correction of
        # a late step, and the next steps several times too long.
        step = self._variables["step"]
        is_warmup = step < self.warmup_steps
        teacher = {id(v): value for v, value in self._teacher(model)}
        new_columns = self._new_columns(model)
        for variable in model.shared_variables:
            held = is_warmup
            if id(variable) in new_columns:
                held = ops.logical_and(held, ~new_columns[id(variable)])
            variable.assign(ops.where(held, teacher[id(variable)], variable))
        step.assign_add(1)

    def _new_columns(self, model):
        """Returns which elements of a weight belong to new classes, by ids."""
        if model.task_heads:
            return {}
        is_new = np.ones(model.outputs[0].shape[-1], "bool")
        for task in self._old_tasks():
            is_new[list(task.classes)] = False
        return {id(v): is_new for v in distillation.output_weights(model)}

    # After training.

    def end_task(self, model, task, data):
        classes = self._classes_of(model, task, data)
        old = self._old_tasks()
        if not model.task_heads and not distillation.is_masked_by_task(model):
            classes = sorted({*classes, *(c for t in old for c in t.classes)})
        row = model._registry.row(task)
        self.add_variable(f"row/{len(old)}", np.array(row, "int32"))
        self.add_variable(f"classes/{len(old)}", np.array(classes, "int32"))
        # The next task starts like this. One that cannot be started then
        # changes nothing.
        self._restart(model)

    def remove_task(self, model, name):
        rows = [task.row for task in self._old_tasks()]
        row = model._registry.row(name)
        if row in rows:
            self.remove_growing(rows.index(row))
            # The number of terms is part of the compiled step.
            model._forget_training()

    def _classes_of(self, model, task, data):
        classes = model.task_classes.get(task) or data.classes()
        width = model.outputs[0].shape[-1]
        if width is not None:
            classes = [c for c in classes or () if 0 <= c < width]
        if not classes:
            raise ValueError(
                "Expected the classes of a task to be known to "
                f"`{type(self).__name__}` when it ends. Pass labels, or add "
                "the task with `model.add_task(name, classes=...)` first. "
                f"Received: task={task!r} without labels"
            )
        return classes

    def _old_tasks(self):
        """Returns the tasks that have ended, in the order in which they did.

        In a single-head network, the classes of each are those of the tasks
        before it too.
        """
        tasks = []
        # Not symbolically: the steps of each task are compiled anew.
        with tf.init_scope():
            while f"row/{len(tasks)}" in self._variables:
                row = self._variables[f"row/{len(tasks)}"]
                classes = self._variables[f"classes/{len(tasks)}"]
                row, classes = map(ops.convert_to_numpy, (row, classes))
                tasks.append(
                    distillation.OldTask(int(row), tuple(classes.tolist()))
                )
        return tasks

    def get_config(self):
        return {
            "strength": self.strength,
            "temperature": self.temperature,
            "warmup_steps": self.warmup_steps,
        }


def check_factor(name, value, positive=False):
    """Raises unless a setting is a finite number of at least 0, or above."""
    valid = isinstance(value, numbers.Real) and not isinstance(value, bool)
    valid = valid and math.isfinite(value) and value >= 0
    if not valid or (positive and not value):
        least = "above 0" if positive else "of at least 0"
        raise ValueError(
            f"Expected `{name}` to be a finite number {least}. "
            f"Received: {name}={value!r}"
        )


def check_count(name, value, least):
    """Raises unless a setting is an integer of at least `least`."""
    if type(value) is not int or value < least:
        raise ValueError(
            f"Expected `{name}` to be an integer of at least {least}. "
            f"Received: {name}={value!r}"
        )
