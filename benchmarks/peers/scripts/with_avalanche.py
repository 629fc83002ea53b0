"""The job in Avalanche, with its own strategies and no metrics or loggers."""

import common
import torch

# The wheel of torchvision may be one for other devices than that of torch; it
# then does not find its operators, which nothing here calls, and cannot be
# imported. They have to be declared for as long as the process runs.
_operators = torch.library.Library("torchvision", "FRAGMENT")
for _schema in (
    "nms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
    "qnms(Tensor dets, Tensor scores, float iou_threshold) -> Tensor",
):
    try:
        _operators.define(_schema)
    except RuntimeError:
        pass  # Declared already.

import avalanche  # noqa: E402
import avalanche.benchmarks.utils.utils as dataset_utils  # noqa: E402
from avalanche.benchmarks import benchmark_from_datasets  # noqa: E402
from avalanche.training import EWC  # noqa: E402
from avalanche.training import GEM  # noqa: E402
from avalanche.training import Naive  # noqa: E402
from avalanche.training.plugins import EvaluationPlugin  # noqa: E402
from avalanche.training.plugins import SupervisedPlugin  # noqa: E402


class EndOfTask(SupervisedPlugin):
    """Reads the stopwatch when the last epoch of a task is done.

    It comes before the plugin of the method, whose work then begins.
    """

    def __init__(self):
        super().__init__()
        self.stopwatch = None
        self.train_seconds = None

    def after_training_exp(self, strategy, **kwargs):
        self.train_seconds = self.stopwatch.read()


def learn(method, job, tasks):
    """Trains all tasks; returns the network and the seconds of each task."""
    network = common.make_network(job)
    end_of_task = EndOfTask()
    arguments = {
        "model": network,
        "optimizer": torch.optim.Adam(
            network.parameters(), lr=job["learning_rate"]
        ),
        "criterion": torch.nn.CrossEntropyLoss(),
        "train_mb_size": job["batch_size"],
        "train_epochs": job["epochs"],
        "plugins": [end_of_task],
        "evaluator": EvaluationPlugin(),
    }
    if method == "EWC":
        strategy = EWC(ewc_lambda=job["ewc_strength"], **arguments)
    elif method == "GEM":
        strategy = GEM(
            patterns_per_exp=job["gem_patterns_per_task"],
            memory_strength=job["gem_memory_strength"],
            **arguments,
        )
    else:
        strategy = Naive(**arguments)
    seconds = []
    for experience in make_benchmark(tasks).train_stream:
        end_of_task.stopwatch = common.Stopwatch()
        # As in the other two, Adam starts anew with each task.
        strategy.train(experience, num_workers=0, reset_optimizer_state=True)
        end = end_of_task.stopwatch.read()
        seconds.append((end_of_task.train_seconds, end))
    return network, seconds


def make_benchmark(tasks):
    """Returns the tasks as an Avalanche benchmark of tensors in memory."""
    datasets = []
    for task in tasks:
        dataset = torch.utils.data.TensorDataset(
            task["x_train"], task["y_train"]
        )
        dataset.targets = task["y_train"].tolist()
        dataset.targets_task_labels = [0] * len(dataset)
        datasets.append(
            dataset_utils.as_taskaware_classification_dataset(dataset)
        )
    return benchmark_from_datasets(train=datasets)


if __name__ == "__main__":
    common.main(
        learn,
        {"avalanche": avalanche.__version__, "torch": torch.__version__},
    )
