import threading

import keras
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation.quadratic import QuadraticPenalty
from keras_bpn.models.replicas import sum_over_replicas

# Where the weights were before the step under way. Replicas of a distribution
# strategy are traced in threads of their own.
_step = threading.local()


@keras.saving.register_keras_serializable("keras_bpn")
class SI(QuadraticPenalty):
    """Synaptic intelligence.

    The objective of a later task is

    `loss + strength * sum_j Omega_j * (theta_j - theta*_j)^2`

    with `theta*` the weights after the last task. `strength` is the `c` of the
    paper, without a factor 1/2 before it.

    A weight is important if it contributed to the fall of the loss while a
    task was trained. Each step adds to `w_j` minus the product of the gradient
    and of how far the weight moved. The gradient is that of the task's loss
    alone, without the penalty. When the task ends, the importance grows by

    `Omega_j += max(w_j, 0) / (Delta_j^2 + damping)`

    with `Delta_j` the way from the start of the task to its end. All of this
    happens during training: the data is not read again.

    `w` is summed over all steps, and the noise of gradients adds to it, so the
    same strength holds weights more firmly after more epochs on a task.

    Args:
        strength: Number of at least 0, the factor `c` of the penalty. Defaults
            to 0.1, the paper's for permuted MNIST.
        damping: Positive number, the `xi` of the paper, which bounds the
            importance of weights that hardly moved. Defaults to 0.1, the
            paper's for permuted MNIST; for split MNIST it took 1e-3.
        step: `"implicit"`, `"explicit"` or `"auto"`: how the penalty is kept
            stable; see `keras_bpn.consolidation.QuadraticPenalty`.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss="sparse_categorical_crossentropy",
    ...     direction="beneficial",
    ...     consolidation=keras_bpn.consolidation.SI(0.1),
    ... )

    Reference:

    - [Zenke et al., 2017](https://arxiv.org/abs/1703.04200)
    """

    def __init__(self, strength=0.1, damping=0.1, step="auto"):
        super().__init__(strength, step=step)
        if isinstance(damping, bool) or not 0 < damping < float("inf"):
            raise ValueError(
                "Expected `damping`, the xi of the paper, to be positive and "
                f"finite. Received: damping={damping!r}"
            )
        self.damping = float(damping)

    def build(self, model):
        super().build(model)
        for variable in model.shared_variables:
            key = self._keys[id(variable)]
            if f"path/{key}" not in self._variables:
                self.add_variable(f"path/{key}", ops.zeros_like(variable))
                self.add_variable(f"start/{key}", ops.copy(variable))

    def path(self, variable):
        """Returns the variable with what a weight took off the loss so far."""
        return self._variables[f"path/{self._keys[id(variable)]}"]

    def start(self, variable):
        """Returns the variable with where a weight was as the task started."""
        return self._variables[f"start/{self._keys[id(variable)]}"]

    def start_task(self, model, task, data):
        for variable in model.shared_variables:
            self.path(variable).assign(ops.zeros_like(variable))
            self.start(variable).assign(variable)

    def adjust_gradients(self, model, gradients):
        _step.before = [tf.identity(v.value) for v in model.shared_variables]
        return super().adjust_gradients(model, gradients)

    def after_update(self, model, task_gradients):
        scaled = isinstance(
            model.optimizer, keras.optimizers.LossScaleOptimizer
        )
        moves = [
            v - old for v, old in zip(model.shared_variables, _step.before)
        ]
        _step.before = None
        # Each replica computed its share of the mean over the batch.
        dense = [
            g if g is None else tf.convert_to_tensor(g) for g in task_gradients
        ]
        for variable, move, gradient in zip(
            model.shared_variables, moves, sum_over_replicas(dense)
        ):
            if gradient is None:
                continue
            gain = gradient * move
            if scaled:
                # A step with gradients that are not finite was skipped: it
                # moved nothing, and counts nothing.
                gain = ops.where(move == 0, ops.zeros_like(move), gain)
            self.path(variable).assign_sub(gain)

    def end_task(self, model, task, data):
        importances = []
        for variable in model.shared_variables:
            way = variable - self.start(variable)
            gain = ops.relu(self.path(variable))
            importances.append(gain / (ops.square(way) + self.damping))
        self.hold(model, importances)
        # The next task starts like this. One that cannot be started then
        # changes nothing.
        self.start_task(model, task, data)

    def get_config(self):
        return {
            "strength": self.strength,
            "damping": self.damping,
            "step": self.step,
        }
