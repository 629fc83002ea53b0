import keras
import numpy as np


class EarlyStopping(keras.callbacks.Callback):
    """Stops a task when its loss on the validation data no longer falls.

    Unlike the callback of Keras, it can be stopped itself: its state is a
    dictionary of arrays, and goes on with the run. It never looks at test data.

    Args:
        patience: Positive integer, after how many epochs without a lower
            loss the task stops. `None` never stops, and remembers nothing.
    """

    def __init__(self, patience):
        super().__init__()
        self.patience = patience
        self.start_task()

    def start_task(self):
        """Forgets the task before."""
        self.stopped = False
        self._best = np.inf
        self._wait = 0
        self._best_weights = []

    def on_epoch_end(self, epoch, logs=None):
        if self.patience is None:
            return
        loss = logs["val_loss"]
        if loss < self._best:
            self._best = loss
            self._wait = 0
            self._best_weights = self.model.get_weights()
            return
        self._wait += 1
        if self._wait >= self.patience:
            self.stopped = True
            self.model.stop_training = True

    def restore_best(self, network):
        """Gives a network the weights of its best epoch."""
        if self._best_weights:
            network.set_weights(self._best_weights)

    def get_state(self) -> dict:
        numbers = [self.stopped, self._best, self._wait]
        state = {"numbers": np.array(numbers, "float64")}
        for i, weight in enumerate(self._best_weights):
            state[f"best/{i:04d}"] = weight
        return state

    def set_state(self, state: dict):
        stopped, best, wait = state["numbers"]
        self.stopped, self._best, self._wait = bool(stopped), best, int(wait)
        self._best_weights = [
            state[name] for name in sorted(state) if name.startswith("best/")
        ]
