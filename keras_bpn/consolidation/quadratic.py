import keras
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation.consolidation import Consolidation
from keras_bpn.models.replicas import num_replicas

STEPS = ("auto", "implicit", "explicit")


class QuadraticPenalty(Consolidation):
    """Base class of methods that hold weights by springs.

    The objective of a later task is

    `loss + strength * sum_j importance_j * (theta_j - anchor_j)^2`

    over all shared weights `theta`. Subclasses say how important a weight is.
    The gradient of the penalty, `h * (theta - anchor)` with the curvature
    `h = 2 * strength * importance`, is added to the gradients `g` of the loss
    in closed form.

    **Stability.** A plain gradient step of length `lr` along a parabola of
    curvature `h` overshoots its minimum where `lr * h > 1` and diverges where
    `lr * h > 2`. At the strength of the paper, 2000, that is the case for many
    weights at common learning rates. With `step="implicit"` the penalty is
    evaluated at the end of the step instead of its beginning:

    `theta' = theta - lr * (g + h * (theta' - anchor))`, that is
    `theta' = theta - lr * (g + h * (theta - anchor)) / (1 + lr * h)`

    so the gradients of each weight are divided by `1 + lr * h`. This is the
    proximal step for the penalty. It is stable for every strength and learning
    rate, it never passes the anchor, it has the same fixed points, and where
    `lr * h` is small it is the plain step. `"auto"` takes it for `SGD`, with
    or without momentum. Optimizers that divide a gradient by its own size
    (`Adam`, `RMSprop`, ...) take steps of bounded length and ignore such a
    factor; for them the plain step is as good, and `"auto"` takes that.

    Args:
        strength: Number of at least 0, the factor lambda of the penalty.
        terms: `"online"` keeps one term: importances are added up over tasks,
            and the anchor is where the last task ended. `"separate"` keeps one
            term per task with an anchor of its own. The sum of parabolas is a
            parabola, so both store the same two numbers per weight.
        step: `"implicit"`, `"explicit"` or `"auto"`.
    """

    def __init__(self, strength, terms="online", step="auto"):
        super().__init__()
        if isinstance(strength, bool) or not strength >= 0:
            raise ValueError(
                "Expected `strength`, the factor lambda of the penalty, to be "
                f"at least 0. Received: strength={strength!r}"
            )
        if terms not in ("online", "separate"):
            raise ValueError(
                "Expected `terms` to be 'online' or 'separate'. "
                f"Received: terms={terms!r}"
            )
        if step not in STEPS:
            raise ValueError(
                f"Expected `step` to be one of {list(STEPS)}. "
                f"Received: step={step!r}"
            )
        self._keys = {}
        self.strength = float(strength)
        self.terms = terms
        self.step = step

    def build(self, model):
        # By place and name, as Keras keys weights: the names of layers may
        # differ between a model and one that loads its weights. What belongs
        # to tasks does not count: there may be more of it later.
        own = {id(v) for table in model.task_tables for v in table.variables}
        weights = [v for v in model.weights if id(v) not in own]
        for i, variable in enumerate(weights):
            self._keys[id(variable)] = f"{i}/{variable.name}"
        for variable in model.shared_variables:
            key = self._keys[id(variable)]
            if f"importance/{key}" not in self._variables:
                zeros = ops.zeros_like(variable)
                self.add_variable(f"importance/{key}", zeros)
                self.add_variable(f"anchor/{key}", zeros)

    def importance(self, variable):
        """Returns the variable that holds the importance of a weight."""
        return self._variables[f"importance/{self._keys[id(variable)]}"]

    def anchor(self, variable):
        """Returns the variable that holds where a weight is held."""
        return self._variables[f"anchor/{self._keys[id(variable)]}"]

    def adjust_gradients(self, model, gradients):
        # Each replica adds its share, and the optimizer sums over replicas.
        replicas = num_replicas()
        adjusted = []
        for variable, gradient in zip(model.shared_variables, gradients):
            curvature = 2 * self.strength * self.importance(variable)
            penalty = curvature * (variable - self.anchor(variable))
            if replicas > 1:
                penalty = penalty / replicas
            if gradient is not None:
                penalty = penalty + tf.convert_to_tensor(gradient)
            if self._is_implicit(model.optimizer, variable):
                rate = _learning_rate(model.optimizer, variable)
                penalty = penalty / (1 + rate * curvature)
            adjusted.append(penalty)
        return adjusted

    def hold(self, model, importances):
        """Adds the importances of the task that ends, and sets the anchors.

        Args:
            model: The `BPNModel`.
            importances: List of arrays, one per shared variable.
        """
        for variable, new in zip(model.shared_variables, importances):
            importance = self.importance(variable)
            anchor = self.anchor(variable)
            total = ops.add(importance, new)
            if self.terms == "separate":
                # sum_k F_k (w - a_k)^2 = F (w - a)^2 + const, with F the sum
                # of all F_k and a their weighted mean.
                share = ops.where(total > 0, new / total, 1.0)
                anchor.assign_add(share * (variable - anchor))
            else:
                anchor.assign(variable)
            importance.assign(total)

    def _is_implicit(self, optimizer, variable):
        if self.step != "auto":
            return self.step == "implicit"
        return isinstance(
            _optimizer_of(optimizer, variable), keras.optimizers.SGD
        )

    def get_config(self):
        return {
            "strength": self.strength,
            "terms": self.terms,
            "step": self.step,
        }


def _optimizer_of(optimizer, variable):
    if isinstance(optimizer, keras.optimizers.LossScaleOptimizer):
        return _optimizer_of(optimizer.inner_optimizer, variable)
    if isinstance(optimizer, keras.optimizers.MultiOptimizer):
        # Keras has no public way to ask which optimizer a variable has.
        return optimizer._optimizer_map(variable)
    return optimizer


def _learning_rate(optimizer, variable):
    rate = _optimizer_of(optimizer, variable).learning_rate
    return ops.cast(rate, variable.dtype)
