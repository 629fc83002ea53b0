import keras
import tensorflow as tf

# How TensorFlow begins when XLA lacks an operation of the network.
_UNSUPPORTED = "Detected unsupported operations"


class StepLoop:
    """The steps of a model, many in one call that XLA compiles.

    A block of batches goes in, with the number of the first step to take and
    how many: one compiled function serves for any number of steps, and each
    gives the same bits however many are taken in a call.

    Args:
        model: `BPNModel`.
        step: Function of a batch that updates the metrics of the model and
            returns its logs, such as `model.test_step`.
    """

    def __init__(self, model, step):
        self.model = model
        self._step = step
        self._loop = self._compile()
        self._single = tf.function(
            lambda batch: self._step(batch),
            autograph=False,
            jit_compile=model.jit_compile or None,
        )
        self._is_supported = True

    def _compile(self, step=None):
        """Returns the compiled loop over some steps of a block."""
        step = step or self._step

        def run(block, first, count):
            def body(i):
                step(
                    keras.tree.map_structure(
                        lambda a: a if a is None else a[i], block
                    )
                )
                return i + 1

            last = first + count
            tf.while_loop(
                lambda i: i < last, body, [first], parallel_iterations=1
            )
            return self.model.get_metrics_result()

        return tf.function(run, autograph=False, jit_compile=True)

    def run(self, block, first, count):
        """Takes some steps, and returns the logs after the last.

        Args:
            block: Structure of tensors of shape `(steps, batch, ...)`.
            first: Integer, the number of the first step in the block.
            count: Positive integer, how many steps to take.
        """
        if self._is_supported:
            try:
                return self._run(block, tf.constant(first), tf.constant(count))
            except tf.errors.InvalidArgumentError as error:
                if self.model.jit_compile or _UNSUPPORTED not in str(error):
                    raise
                # Nothing has run yet. Users did not ask for XLA.
                self._is_supported = False
        for i in range(first, first + count):
            logs = self.run_one(
                keras.tree.map_structure(
                    lambda a: a if a is None else a[i], block
                )
            )
        return logs

    def _run(self, *arguments):
        # Called like this, a function does not warn of being traced for each
        # of many networks.
        return self._loop.get_concrete_function(*arguments)(*arguments)

    def run_one(self, batch):
        """Takes a step on a batch of any size, as `keras.Model` would."""
        spec = keras.tree.map_structure(
            lambda a: (
                a if a is None else tf.TensorSpec((None, *a.shape[1:]), a.dtype)
            ),
            batch,
        )
        # One function for all sizes that a last batch may have.
        return self._single.get_concrete_function(spec)(batch)
