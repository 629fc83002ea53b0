import contextlib
import re

import keras
import numpy as np
import tensorflow as tf

from keras_bpn.models.replicas import sum_over_replicas

# How many calls of a function compiled by XLA go by between two looks.
_INTERVAL = 100
_MARK = "keras_bpn: gradients are not finite"


class StepGuard(keras.callbacks.Callback):
    """Refuses steps whose gradients are not finite.

    One NaN in one gradient would be in all weights two steps later, and in
    everything that is stored when the task ends. A step with such a gradient
    is not taken, and an error names the variable.

    XLA knows no errors. There, such a step and all that follow are passed over,
    so that the weights stay as they were, until the error can be raised outside
    of the compiled function.

    Where the loss is scaled for half precision, the optimizer skips such steps
    itself and goes on with a smaller scale, and the guard stands back.
    """

    # Looks in on some steps, but does not need to see each.
    follows_blocks = True

    def __init__(self):
        super().__init__()
        # One more than the place of the variable; zero if there was none.
        self._refused = tf.Variable(0, dtype=tf.int64, trainable=False)
        # Of the optimizer, before the latest step.
        self._iterations = tf.Variable(0, dtype=tf.int64, trainable=False)
        self._checks = None

    @contextlib.contextmanager
    def checks(self, kind):
        """Traces steps with checks of a kind.

        Args:
            kind: `"unchecked"` for steps that take all gradients, `"xla"` for
                steps that are passed over, `None` for what fits the model.
        """
        previous, self._checks = self._checks, kind
        try:
            yield
        finally:
            self._checks = previous

    def update(self, model, gradients, apply, after):
        """Calls `apply` and `after` if all gradients are finite.

        Args:
            model: `BPNModel` in its training step.
            gradients: List with one gradient per trainable variable, some of
                them `None`.
            apply: Function that takes the list of gradients and updates the
                trainable variables.
            after: Function without arguments, called after the update.
        """
        if self._checks == "unchecked":
            apply(gradients)
            after()
            return
        gradient_of = {
            id(v): g for v, g in zip(model.trainable_variables, gradients)
        }
        # A sum is finite if all of its terms are, and takes one pass.
        sums = tf.stack(
            [_sum(gradient_of[id(v)]) for v in guarded_variables(model)]
        )
        # All replicas take a step, or none.
        sums = sum_over_replicas(sums)
        finite = tf.math.is_finite(tf.reduce_sum(sums))
        checks = self._checks or ("xla" if model.jit_compile else "assert")
        if checks == "xla":

            def take():
                apply(gradients)
                after()

            self._update_in_xla(sums, finite, take)
            return
        # Cheaper than a condition around the update, which would have to
        # carry all variables and gradients. What follows from the gradients
        # waits for them; the optimizer's count of steps does not, and is put
        # back in `watch`.
        count = self._iterations.assign(model.optimizer.iterations)
        with tf.control_dependencies([count]):
            checked = tf.debugging.Assert(
                finite, [_MARK, sums], summarize=sums.shape[0]
            )
        waits_for = None if checked is None else [checked]
        with tf.control_dependencies(waits_for):
            gradients = [g if g is None else tf.identity(g) for g in gradients]
        apply(gradients)
        with tf.control_dependencies(waits_for):
            after()

    def _update_in_xla(self, sums, finite, take):
        def refuse():
            bad = tf.logical_not(tf.math.is_finite(sums))
            place = 1 + tf.argmax(bad)
            first = tf.where(self._refused > 0, self._refused, place)
            self._refused.assign(first)

        tf.cond(tf.logical_and(finite, self._refused == 0), take, refuse)

    @contextlib.contextmanager
    def watch(self, model):
        """Names the variable where TensorFlow stops a refused step.

        What the step did before it was stopped is undone.
        """
        try:
            yield
        except tf.errors.InvalidArgumentError as error:
            _, mark, rest = str(error).partition(_MARK)
            if not mark:
                raise
            model.optimizer.iterations.assign(self._iterations)
            # The sums stand behind it: in brackets in a graph, on a line of
            # their own where steps run eagerly.
            (sums,) = re.findall(r"[\[\n]([^\]\n]*)", rest)[:1]
            sums = np.array(re.findall(r"[-+.\w]+", sums), "float32")
            raise _refusal(model, np.argmin(np.isfinite(sums))) from None

    def check(self, model):
        """Raises if XLA passed over a step since the last look."""
        place = int(self._refused.numpy())
        if place:
            self._refused.assign(0)
            raise _refusal(model, place - 1)

    def on_train_batch_end(self, batch, logs=None):
        if batch % _INTERVAL == 0:
            self.check(self.model)

    def on_epoch_end(self, epoch, logs=None):
        self.check(self.model)


def guarded_variables(model):
    """Returns the variables whose gradients have to be looked at.

    Those of the bias units need not be: they are sums over the same gradients
    at a layer's outputs as those of its shared weights.
    """
    factors = {id(v) for bias in model.task_biases for v in bias.factors}
    return [v for v in model.trainable_variables if id(v) not in factors]


def _refusal(model, place):
    variable = guarded_variables(model)[place]
    return ValueError(
        "Expected finite gradients. The step was refused, and the weights are "
        "as they were before it. Look for values in the data that are not "
        "finite, or lower the learning rate. "
        f"Received: a gradient of '{variable.path}' with NaN or infinity"
    )


def _sum(gradient):
    if gradient is None:
        return tf.zeros(())
    values = getattr(gradient, "values", gradient)
    return tf.cast(tf.reduce_sum(values), tf.float32)
