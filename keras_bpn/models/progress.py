import keras
import tensorflow as tf


class TaskProgbarLogger(keras.callbacks.ProgbarLogger):
    """Keras's progress bar, under a line with the task's name.

    Args:
        task: String, what is being trained, evaluated or predicted.
        verbose: As in `keras.Model.fit`.
    """

    def __init__(self, task, verbose):
        super().__init__()
        self.task = task
        self._task_verbose = 1 if verbose == "auto" else int(verbose)

    def set_params(self, params):
        # The model is asked to be silent, so that there is only this bar.
        super().set_params({**params, "verbose": self._task_verbose})

    def on_epoch_begin(self, epoch, logs=None):
        self._reset_progbar()
        self._maybe_init_progbar()
        self._print(f"{self.task} - Epoch {epoch + 1}/{self.epochs}")

    def _update_progbar(self, batch, logs=None):
        # The last call of an epoch may have room for more steps.
        last = batch if self.target is None else self.target - 1
        super()._update_progbar(min(batch, last), logs)

    def on_test_begin(self, logs=None):
        if not self._called_in_fit:
            self._print(self.task)
        super().on_test_begin(logs)

    def on_predict_begin(self, logs=None):
        self._print(self.task)
        super().on_predict_begin(logs)

    def _print(self, line):
        if self.verbose:
            print(line, flush=True)


def with_progress(task, verbose, callbacks):
    """Returns the callbacks with a bar for `task`, and the verbosity that is
    left for Keras.

    Args:
        task: String, the task or tasks as shown to the user.
        verbose: As in `keras.Model.fit`.
        callbacks: As in `keras.Model.fit`.
    """
    managed = isinstance(callbacks, keras.callbacks.CallbackList)
    if managed or not verbose:
        return callbacks, verbose
    return [*_as_list(callbacks), TaskProgbarLogger(task, verbose)], 0


def _as_list(callbacks):
    if callbacks is None:
        return []
    return callbacks if isinstance(callbacks, (list, tuple)) else [callbacks]


class EpochCounter(keras.callbacks.Callback):
    """Counts the epochs that a `BPNModel` was trained for.

    Attributes:
        epoch: `tf.Variable`, the number of the epoch that is running, counted
            over all of the model's training.
    """

    def __init__(self):
        super().__init__()
        self.epoch = tf.Variable(0, dtype=tf.int64, trainable=False)

    def on_epoch_begin(self, epoch, logs=None):
        self.epoch.assign(self.model._epochs)

    def on_epoch_end(self, epoch, logs=None):
        self.model._epochs += 1


def with_first(callbacks, model, *first):
    """Returns the callbacks with some others before them.

    They come first, so that callbacks that save the model save what includes
    the epoch.

    Args:
        callbacks: As in `keras.Model.fit`.
        model: The model that is trained.
        *first: `keras.callbacks.Callback` instances.
    """
    if not isinstance(callbacks, keras.callbacks.CallbackList):
        return [*first, *_as_list(callbacks)]
    for callback in first:
        callback.set_model(model)
    callbacks.callbacks[:0] = first
    return callbacks
