"""What all methods of an experiment have in common: tasks and training."""

import dataclasses
import functools

import keras_bpn
from keras_bpn.scenarios.open_data import open_data

# Percent of the training data that nothing is trained on while settings are
# chosen.
_HELD_OUT = 10


@dataclasses.dataclass(frozen=True)
class Protocol:
    """A sequence of tasks, and how networks are trained on it.

    Args:
        dataset: Name of a data set in TFDS, or `"clusters"` for three normal
            distributions in the plane, at places that the seed draws.
        num_tasks: Number of tasks.
        outputs: Number of outputs of a single head, for the classes of all
            tasks.
        permuted: Whether each task has all classes and an order of the pixels
            of its own. If not, it has two of the classes.
        layers: Number of hidden layers.
        units: Number of units in each of them.
        hidden_dim: The inner dimension `H` of the bias units.
        epochs: Epochs of each task.
        batch_size: Examples in a batch.
        evaluate_every: After so many tasks, all tasks so far are evaluated.
        evaluate_unit: `"epochs"` for so many epochs.
        train_percent: How much of the training data is used.
        test_percent: How much of the test data is used.
    """

    dataset: str
    num_tasks: int
    outputs: int = 10
    permuted: bool = False
    layers: int = 5
    units: int = 300
    hidden_dim: int = 100
    epochs: int = 5
    batch_size: int = 128
    evaluate_every: int = 1
    evaluate_unit: str = "tasks"
    train_percent: int = 100
    test_percent: int = 100

    def splits(self, held_out: bool) -> dict[str, str]:
        """Returns the splits of TFDS to train on and to evaluate on.

        Args:
            held_out: Whether to evaluate on training data that is held out.
                The test data is not even opened then.
        """
        if not held_out:
            return {
                "train": f"train[:{self.train_percent}%]",
                "test": f"test[:{self.test_percent}%]",
            }
        first = 100 - _HELD_OUT
        last = min(first, self.train_percent)
        part = _HELD_OUT * self.test_percent // 100
        return {
            "train": f"train[:{last}%]",
            "test": f"train[{first}%:{first + part}%]",
        }

    def scenario(
        self,
        held_out: bool,
        seed: int,
        multi_head: bool = False,
        num_tasks: int | None = None,
    ) -> keras_bpn.scenarios.Scenario:
        """Returns the tasks, with the orders and permutations of a seed."""
        if self.dataset == "clusters":
            # The seed of the search has clusters of its own.
            return keras_bpn.scenarios.GaussianClusters(
                validation_split=0.0, batch_size=self.batch_size, seed=seed
            )
        data = _open(self.dataset, tuple(self.splits(held_out).items()))
        num_tasks = self.num_tasks if num_tasks is None else num_tasks
        options = {
            "validation_split": 0.0,
            "batch_size": self.batch_size,
            "seed": seed,
        }
        if self.permuted:
            return keras_bpn.scenarios.PermutedPixels(
                data, num_tasks, **options
            )
        return keras_bpn.scenarios.SplitClasses(
            data,
            classes_per_task=2,
            classes=range(2 * num_tasks),
            multi_head=multi_head,
            **options,
        )


@functools.lru_cache(maxsize=2)
def _open(dataset, splits):
    """Opens a data set, once for all runs of a process."""
    data = open_data(dataset, splits=dict(splits), download=False)
    data.prepare()
    return data
