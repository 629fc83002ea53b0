import tensorflow as tf

from keras_bpn.models.epoch_data import EpochData
from keras_bpn.scenarios import Examples


class TaskEpochs(EpochData):
    """The examples of a task in memory, for `BPNModel.fit`.

    Args:
        examples: `Examples`.
        batch_size: Positive integer.
        seed, epoch: As in `Examples.batches`.
        skip: Integer, how many batches to leave out at the start.
    """

    def __init__(
        self, examples: Examples, batch_size, seed=None, epoch=0, skip=0
    ):
        super().__init__(batch_size, skip)
        self.examples = examples
        self.seed = seed
        self.epoch = epoch

    @property
    def num_examples(self):
        return len(self.examples)

    def order(self):
        order = self.examples.order(self.seed, self.epoch)
        return order[self.skip * self.batch_size :]

    def take(self, order):
        return self.examples.take(order)

    def example(self):
        # The examples of other tasks have numbers too.
        return self.examples.take(self.examples.indices[:1])

    def batches(self):
        batches = self.examples.batches(
            self.batch_size, self.seed, self.epoch, self.skip
        )
        return batches.apply(
            tf.data.experimental.assert_cardinality(
                self.num_batches - self.skip
            )
        )
