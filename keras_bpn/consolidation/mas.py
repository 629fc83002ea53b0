import keras
from keras import ops

from keras_bpn.consolidation.per_example import mean_moments
from keras_bpn.consolidation.per_example import norm_gradients
from keras_bpn.consolidation.quadratic import QuadraticPenalty


@keras.saving.register_keras_serializable("keras_bpn")
class MAS(QuadraticPenalty):
    """Memory aware synapses.

    The objective of a later task is

    `loss + strength * sum_j Omega_j * (theta_j - theta*_j)^2`

    with `theta*` the weights after earlier tasks and `Omega` how much their
    outputs depend on a weight:

    `Omega_j = mean over examples of |d(sum of squared outputs) / d theta_j|`

    added up over tasks. `strength` is the lambda of the paper, without a
    factor 1/2.

    The absolute value is taken of one example at a time, over all of the data.
    For the layers of `keras_bpn` this is computed in closed form, for other
    layers one example after the other.

    Labels are not needed: `model.consolidate(x)` may end a task with any
    examples that the model will be used on. The outputs are those of the
    model. If they are logits, they tell more than the probabilities of a
    softmax, which hardly change where the model is sure.

    Args:
        strength: Number of at least 0, lambda. Defaults to the paper's 1.
        terms: `"online"` or `"separate"`; see
            `keras_bpn.consolidation.QuadraticPenalty`.
        step: `"implicit"`, `"explicit"` or `"auto"`: how the penalty is kept
            stable; see `keras_bpn.consolidation.QuadraticPenalty`.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ...     direction="beneficial",
    ...     consolidation=keras_bpn.consolidation.MAS(),
    ... )

    Reference:

    - [Aljundi et al., 2018](https://arxiv.org/abs/1711.09601)
    """

    needs_data = True

    def __init__(self, strength=1.0, terms="online", step="auto"):
        super().__init__(strength, terms=terms, step=step)

    def end_task(self, model, task, data):
        omega = mean_moments(
            model, data, ops.absolute, _squared_outputs, self.function
        )
        self.hold(model, omega)


def _squared_outputs(y, y_pred, first):
    return [(norm_gradients(y_pred), 1.0)]
