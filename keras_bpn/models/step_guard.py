import keras
import tensorflow as tf

# How many calls of the training function go by between two looks.
_INTERVAL = 100


class StepGuard(keras.callbacks.Callback):
    """Refuses steps whose gradients are not finite.

    One NaN in one gradient would be in all weights two steps later, and in
    everything that is stored when the task ends. A step with such a gradient
    is not taken, nor is any step after it, so that the weights stay as they
    were; the error that names the variable is raised outside of the compiled
    function, where XLA allows none.

    Where the loss is scaled for half precision, the optimizer skips such steps
    itself and goes on with a smaller scale, and the guard stands back.
    """

    def __init__(self):
        super().__init__()
        # One more than the place of the variable; zero if there was none.
        self._refused = tf.Variable(0, dtype=tf.int64, trainable=False)

    def update(self, gradients, apply):
        """Calls `apply` if all gradients are finite and always were.

        Args:
            gradients: List of gradients, some of them `None`.
            apply: Function without arguments and results.
        """
        # A sum is finite if all of its terms are, and takes one pass.
        sums = [
            tf.reduce_sum(_values(g), keepdims=False)
            if g is not None
            else tf.zeros(())
            for g in gradients
        ]
        sums = tf.stack([tf.cast(s, tf.float32) for s in sums])
        bad = tf.logical_not(tf.math.is_finite(sums))
        place = tf.where(tf.reduce_any(bad), 1 + tf.argmax(bad), 0)
        refused = tf.where(self._refused > 0, self._refused, place)

        def refuse():
            self._refused.assign(refused)

        tf.cond(refused > 0, refuse, lambda: _without_result(apply))

    def check(self, model):
        """Raises if a step was refused since the last look."""
        place = int(self._refused.numpy())
        if not place:
            return
        self._refused.assign(0)
        variable = model.trainable_variables[place - 1]
        raise ValueError(
            "Expected finite gradients. The step was refused, and the weights "
            "are as they were before it. Look for values in the data that are "
            "not finite, or lower the learning rate. "
            f"Received: a gradient of '{variable.path}' with NaN or infinity"
        )

    def on_train_batch_end(self, batch, logs=None):
        if batch % _INTERVAL == 0:
            self.check(self.model)

    def on_epoch_end(self, epoch, logs=None):
        self.check(self.model)


def _values(gradient):
    return getattr(gradient, "values", gradient)


def _without_result(function):
    function()
