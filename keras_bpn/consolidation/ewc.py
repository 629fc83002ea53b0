import random

import keras
from keras import ops

from keras_bpn.consolidation.fisher_labels import LABELS
from keras_bpn.consolidation.fisher_labels import fisher_objectives
from keras_bpn.consolidation.per_example import mean_moments
from keras_bpn.consolidation.quadratic import QuadraticPenalty


@keras.saving.register_keras_serializable("keras_bpn")
class EWC(QuadraticPenalty):
    """Elastic weight consolidation.

    The objective of a later task is

    `loss + strength * sum_j F_j * (theta_j - theta*_j)^2`

    with `F` the diagonal of the Fisher information of earlier tasks and
    `theta*` the weights after them. `strength` is the lambda of the BPN paper,
    without the factor 1/2 that other papers write before it.

    `F_j` is the mean, over the examples of a task, of the squared derivative
    of `log p(y | x)`, one example at a time. It is exact, over all of the
    data. For the layers of `keras_bpn` it is computed in closed form, for
    other layers one example after the other.

    Args:
        strength: Number of at least 0, lambda. Defaults to the paper's 2000.
        labels: Which `y` are meant. `"true"`: those of the data (the empirical
            Fisher information), for any loss. `"sampled"`: one per example,
            drawn from the model's own predictions. `"exact"`: the expectation
            over all classes under these predictions, at the cost of one pass
            per class. The last two need a (sparse) categorical crossentropy.
        terms: `"online"` or `"separate"`; see
            `keras_bpn.consolidation.QuadraticPenalty`.
        step: `"implicit"`, `"explicit"` or `"auto"`: how the penalty is kept
            stable; see `keras_bpn.consolidation.QuadraticPenalty`.
        seed: Integer from which labels are sampled, or `None`.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss="sparse_categorical_crossentropy",
    ...     direction="beneficial",
    ...     consolidation=keras_bpn.consolidation.EWC(2e3),
    ... )

    Reference:

    - [Kirkpatrick et al., 2017](https://arxiv.org/abs/1612.00796)
    - [Schwarz et al., 2018](https://arxiv.org/abs/1805.06370) for `"online"`
    - [Wen et al., 2021](https://doi.org/10.1109/TNNLS.2021.3054423),
      algorithm 2
    """

    needs_data = True

    def __init__(
        self,
        strength=2e3,
        labels="true",
        terms="online",
        step="auto",
        seed=None,
    ):
        super().__init__(strength, terms=terms, step=step)
        if labels not in LABELS:
            raise ValueError(
                f"Expected `labels` to be one of {list(LABELS)}. "
                f"Received: labels={labels!r}"
            )
        self.labels = labels
        self.seed = random.randint(1, 10**9) if seed is None else seed

    def build(self, model):
        super().build(model)
        if "num_tasks" not in self._variables:
            self.add_variable("num_tasks", ops.zeros((), "int32"))

    def end_task(self, model, task, data):
        objectives = fisher_objectives(model, self.labels, self._task_seed)
        fisher = mean_moments(
            model, data, ops.square, objectives, self.function
        )
        self.hold(model, fisher)
        self._variables["num_tasks"].assign_add(1)

    def _task_seed(self):
        return self.seed + self._variables["num_tasks"]

    def get_config(self):
        return {
            "strength": self.strength,
            "labels": self.labels,
            "terms": self.terms,
            "step": self.step,
            "seed": self.seed,
        }
