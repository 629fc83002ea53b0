import random

import keras
from keras import ops

from keras_bpn.consolidation.fisher_labels import LABELS
from keras_bpn.consolidation.fisher_labels import fisher_objectives
from keras_bpn.consolidation.per_example import mean_moments
from keras_bpn.consolidation.quadratic import QuadraticPenalty

# Where no task has any information on a weight, the mode is the mean.
_SMALLEST = 1e-8


@keras.saving.register_keras_serializable("keras_bpn")
class IMM(QuadraticPenalty):
    """Incremental moment matching.

    Each task is trained from where the last one ended, with the objective

    `loss + strength * sum_j (theta_j - theta_prev_j)^2`

    of a weak pull back to the weights after the last task (the L2-transfer of
    the paper, `strength` its lambda). When a task ends, the shared weights of
    all tasks so far are merged, each task with the same ratio:

    - `merge="mean"`: `theta = sum_k theta_k / K`;
    - `merge="mode"`: `theta = sum_k F_k * theta_k / sum_k F_k`, with `F_k` the
      diagonal of the Fisher information of task `k`.

    The model has the merged weights between tasks. While a task is trained it
    has the weights of that task: metrics of the training, also for validation,
    are those before the merge. The next task goes on from the weights before
    the merge. Sums over tasks are kept, not the weights of each task.

    Only weights that all tasks share and that are trained are merged: not bias
    units or heads, and not moving statistics, as of `BatchNormalization`.

    Args:
        merge: `"mean"` or `"mode"`.
        strength: Number of at least 0, the factor lambda of the L2-transfer.
            Defaults to 1e-4.
        labels: For `"mode"`, which labels the Fisher information is computed
            for: `"sampled"`, `"true"` or `"exact"`; see
            `keras_bpn.consolidation.EWC`. Defaults to `"sampled"`, as in the
            paper.
        seed: Integer from which labels are sampled, or `None`.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss="sparse_categorical_crossentropy",
    ...     direction=None,
    ...     consolidation=keras_bpn.consolidation.IMM("mode"),
    ... )

    Reference:

    - [Lee et al., 2017](https://arxiv.org/abs/1703.08475)
    """

    def __init__(
        self, merge="mean", strength=1e-4, labels="sampled", seed=None
    ):
        super().__init__(strength)
        if merge not in ("mean", "mode"):
            raise ValueError(
                "Expected `merge` to be 'mean' or 'mode'. "
                f"Received: merge={merge!r}"
            )
        if labels not in LABELS:
            raise ValueError(
                f"Expected `labels` to be one of {list(LABELS)}. "
                f"Received: labels={labels!r}"
            )
        self.merge = merge
        self.labels = labels
        self.seed = random.randint(1, 10**9) if seed is None else seed
        self.needs_data = merge == "mode"

    def build(self, model):
        super().build(model)
        if "num_tasks" not in self._variables:
            self.add_variable("num_tasks", ops.zeros((), "int32"))
        for variable in model.shared_variables:
            key = self._keys[id(variable)]
            if f"merged/{key}" not in self._variables:
                zeros = ops.zeros_like(variable)
                self.add_variable(f"merged/{key}", zeros)
                # For the mean, all elements of a weight have the same total.
                total = zeros if self.merge == "mode" else ops.sum(zeros)
                self.add_variable(f"total/{key}", total)

    def merged(self, variable):
        """Returns the variable that holds the merge of a weight."""
        return self._variables[f"merged/{self._keys[id(variable)]}"]

    def total(self, variable):
        """Returns the variable with the sum of a weight's ratios so far."""
        return self._variables[f"total/{self._keys[id(variable)]}"]

    def start_task(self, model, task, data):
        # The anchors are where the last task ended, before the merge.
        self._put_back(model, self.anchor)

    def cancel_task(self, model):
        """Takes back `start_task`."""
        self._put_back(model, self.merged)

    def end_task(self, model, task, data):
        ratios = self._ratios(model, data)
        ones = [1 - self.importance(v) for v in model.shared_variables]
        self.hold(model, ones)
        for variable, ratio in zip(model.shared_variables, ratios):
            merged, total = self.merged(variable), self.total(variable)
            total.assign_add(ratio)
            # The weighted mean so far and its new member.
            merged.assign_add(ratio / total * (variable - merged))
            variable.assign(merged)
        self._variables["num_tasks"].assign_add(1)

    def _ratios(self, model, data):
        """Returns how much each weight of this task counts in the merge."""
        if self.merge == "mean":
            return [1.0 for _ in model.shared_variables]
        objectives = fisher_objectives(model, self.labels, self._task_seed)
        fisher = mean_moments(
            model, data, ops.square, objectives, self.function
        )
        return [f + _SMALLEST for f in fisher]

    def _put_back(self, model, stored):
        for variable in model.shared_variables:
            # A weight that no task has trained yet stays as it is.
            trained = self.total(variable) > 0
            value = ops.where(trained, stored(variable), variable)
            variable.assign(value)

    def _task_seed(self):
        return self.seed + self._variables["num_tasks"]

    def get_config(self):
        return {
            "merge": self.merge,
            "strength": self.strength,
            "labels": self.labels,
            "seed": self.seed,
        }
