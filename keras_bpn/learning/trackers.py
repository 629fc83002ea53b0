"""Callbacks that tell a `Learner` how far `fit` has come."""

import keras


class EpochTracker(keras.callbacks.Callback):
    """Tells about epochs.

    It comes last, so that what is saved includes what all other callbacks did.

    Args:
        learner: `Learner`.
    """

    def __init__(self, learner):
        super().__init__()
        self.learner = learner

    def on_epoch_begin(self, epoch, logs=None):
        # Keras has just reset the metrics.
        self.learner.epoch_begins(epoch)

    def on_epoch_end(self, epoch, logs=None):
        self.learner.epoch_ends(
            epoch, {name: float(value) for name, value in logs.items()}
        )


class StepTracker(EpochTracker):
    """Tells about steps too, which costs a little time in each."""

    def on_train_batch_end(self, batch, logs=None):
        self.learner.step_ends(batch)
