import math

import tensorflow as tf

from keras_bpn.learning.run_settings import network_of
from keras_bpn.learning.task_epochs import TaskEpochs
from keras_bpn.models.epoch_runner import MIN_BATCHES
from keras_bpn.scenarios import Examples
from keras_bpn.scenarios import Task

# Of the inputs in a batch, at most.
_BATCH_BYTES = 2**23
# Of data that is evaluated in a compiled loop.
_BATCH_SIZE = 128


class TaskEvaluator:
    """Measures a model on the test data of tasks.

    Args:
        model: Compiled `BPNModel` or `SingleTaskModels`.
        metric: Name of the metric to return.
    """

    def __init__(self, model, metric: str):
        self.model = model
        self.metric = metric

    def examples(self, task: Task, split: str) -> Examples | None:
        """Returns examples in the shape of the model's inputs."""
        examples = task.examples(split)
        shape = network_of(self.model).input_shape
        if examples is None or not isinstance(shape, tuple):
            return examples
        if None in shape[1:] or shape[1:] == examples.shape:
            return examples
        return examples.reshape(shape[1:])

    def accuracies(self, tasks: list[Task]) -> dict[str, float]:
        """Returns the accuracies of tasks by name, each in its own mode."""
        return {t.name: self._measure(self.model, t, t.name) for t in tasks}

    def untrained_accuracies(self, tasks: list[Task]) -> dict[str, float]:
        """Returns the accuracies of a network without any task's mode."""
        network = network_of(self.model)
        return {t.name: self._measure(network, t, None) for t in tasks}

    def _measure(self, model, task, mode):
        examples = self.examples(task, "test")
        if examples.in_memory and len(examples) >= MIN_BATCHES * _BATCH_SIZE:
            data = TaskEpochs(examples, _BATCH_SIZE)
        else:
            data = evaluation_batches(examples)
        logs = model.evaluate(data, task=mode, return_dict=True, verbose=0)
        return float(logs[self.metric])


def evaluation_batches(examples: Examples) -> tf.data.Dataset:
    """Returns batches that are large where examples are small."""
    size = 4 * math.prod(examples.shape)
    return examples.batches(min(1024, max(32, _BATCH_BYTES // size)))
