"""BD+EWC as one would write it by hand, for one network and one optimizer."""

import numpy as np
import tensorflow as tf

LEARNING_RATE, BETA_1, BETA_2, TINY = 1e-3, 0.9, 0.999, 1e-7
EPSILON, STRENGTH, HIDDEN_DIM = 0.01, 2e3, 100


class HandWrittenLoop:
    """Epochs of BD+EWC with Adam, in one loop that XLA compiles.

    All that a `BPNModel` computes in a step is computed, loss and accuracy
    included. There is nothing else: no layers, no optimizer, no callbacks, and
    the last batch of an epoch is left out where it is not full. Data and
    weights stay on the device.

    Args:
        x, y: Arrays of examples and labels.
        units: List of the units of all layers.
        batch_size: Positive integer.
    """

    def __init__(self, x, y, units, batch_size):
        self.data = tf.constant(x), tf.constant(y)
        self.batch_size = batch_size
        self.num_steps = len(x) // batch_size
        generator = np.random.default_rng(0)

        def normal(rows, columns):
            values = generator.normal(size=(rows, columns))
            return tf.constant(values / np.sqrt(rows), tf.float32)

        widths = [x.shape[1], *units]
        weights = []
        for rows, columns in zip(widths, widths[1:]):
            weights += [normal(rows, columns), tf.zeros(columns)]
        projections = [normal(HIDDEN_DIM, columns) for columns in units]
        zeros = [tf.zeros_like(w) for w in weights + projections]
        self.state = (
            tf.constant(0.0),
            tuple(weights),
            tuple(projections),
            tuple(tf.zeros((1, HIDDEN_DIM)) for _ in units),
            tuple(zeros),
            tuple(zeros),
            tf.constant(0.0),
            tf.constant(0.0),
        )
        self.importances = [1e-3 * tf.abs(w) for w in weights]
        self.anchors = list(weights)
        self._function = tf.function(
            self._epoch, jit_compile=True, autograph=False
        )

    def train(self):
        """Trains for an epoch and returns its loss."""
        order = tf.random.shuffle(tf.range(len(self.data[0])))
        before = self.state[-2]
        self.state = self._function(
            *self.data, order, self.state, self.importances, self.anchors
        )
        return float(self.state[-2] - before) / self.num_steps

    def _epoch(self, x, y, order, state, importances, anchors):
        def step(i, t, weights, projections, factors, m, v, loss_sum, correct):
            start = [i * self.batch_size]
            chosen = tf.slice(order, start, [self.batch_size])
            x_batch, y_batch = tf.gather(x, chosen), tf.gather(y, chosen)
            with tf.GradientTape() as tape:
                tape.watch((weights, projections, factors))
                logits = forward(x_batch, weights, projections, factors)
                loss = tf.reduce_mean(
                    tf.nn.sparse_softmax_cross_entropy_with_logits(
                        y_batch, logits
                    )
                )
            gradients = tape.gradient(loss, (weights, projections, factors))
            held = [
                g + 2 * STRENGTH * f * (w - a)
                for g, f, w, a in zip(
                    gradients[0], importances, weights, anchors
                )
            ]
            trained, m, v = adam(
                t, weights + projections, (*held, *gradients[1]), m, v
            )
            factors = tuple(
                f - EPSILON * tf.sign(g) for f, g in zip(factors, gradients[2])
            )
            hits = tf.argmax(logits, 1, output_type=y.dtype) == y_batch
            return (
                i + 1,
                t + 1,
                trained[: len(weights)],
                trained[len(weights) :],
                factors,
                m,
                v,
                loss_sum + loss,
                correct + tf.reduce_mean(tf.cast(hits, tf.float32)),
            )

        return tf.while_loop(
            lambda i, *_: i < self.num_steps, step, (tf.constant(0), *state)
        )[1:]


def forward(x, weights, projections, factors):
    """Returns the outputs in the mode of the open task."""
    for i, (projection, factor) in enumerate(zip(projections, factors)):
        bias = weights[2 * i + 1] + tf.reshape(factor @ projection, (-1,))
        x = x @ weights[2 * i] + bias
        if i + 1 < len(projections):
            x = tf.nn.relu(x)
    return x


def adam(step, weights, gradients, m, v):
    """Returns weights and moments after a step of Adam."""
    t = step + 1
    rate = LEARNING_RATE * tf.sqrt(1 - BETA_2**t) / (1 - BETA_1**t)
    m = tuple(a + (g - a) * (1 - BETA_1) for a, g in zip(m, gradients))
    v = tuple(a + (g * g - a) * (1 - BETA_2) for a, g in zip(v, gradients))
    weights = tuple(
        w - rate * a / (tf.sqrt(b) + TINY) for w, a, b in zip(weights, m, v)
    )
    return weights, m, v
