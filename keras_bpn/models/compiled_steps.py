import keras
import tensorflow as tf

from keras_bpn.models.optimizer_state import clips_values
from keras_bpn.models.optimizer_state import loss_scale

# How TensorFlow begins when XLA lacks an operation of the network.
_UNSUPPORTED = "Detected unsupported operations"


class CompiledSteps:
    """The training steps of a model, many in one call that XLA compiles.

    A block of batches goes in, with the number of the first step to take and
    how many: one compiled function serves for any number of steps, and each
    gives the same bits however many are taken in a call.

    A condition around every update, so that a step whose gradients are not
    finite can be refused, would cost a tenth of the time: no update could start
    before all gradients are there. What is not finite once stays so in weights
    and optimizer, therefore it is enough to look there when the call is over.
    If something is wrong, the weights go back to where they were before the
    call, and its steps are taken once more, with the condition.

    Args:
        model: `BPNModel`.
        guard: `StepGuard` that refuses steps.
    """

    def __init__(self, model, guard):
        self.model = model
        self.guard = guard
        self._fast = self._compile("unchecked")
        self._checked = self._compile("xla")
        self._single = tf.function(self._train_on, autograph=False)
        if model.jit_compile:
            self._single = tf.function(
                self._train_on, autograph=False, jit_compile=True
            )
        self._is_supported = True
        self._variables = None
        self._read = self._is_finite = None

    def _compile(self, checks):
        def run(block, first, count):
            def body(step):
                batch = keras.tree.map_structure(
                    lambda a: a if a is None else a[step], block
                )
                with self.guard.checks(checks):
                    self.model.train_step(batch)
                return step + 1

            last = first + count
            tf.while_loop(
                lambda step: step < last, body, [first], parallel_iterations=1
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
        for step in range(first, first + count):
            logs = self.run_one(
                keras.tree.map_structure(
                    lambda a: a if a is None else a[step], block
                )
            )
        return logs

    def _run(self, *arguments):
        if self._variables is None:
            self._find_variables(arguments)
        # Not copied, unless a step writes to them.
        before = self._read()
        if clips_values(self.model.optimizer):
            # Would turn infinity into a number.
            return self._run_checked(arguments)
        # Called like this, a function does not warn of being traced for each
        # of many networks.
        logs = self._fast.get_concrete_function(*arguments)(*arguments)
        if loss_scale(self.model.optimizer) is None and not self._is_finite():
            for variable, value in zip(self._variables, before):
                variable.assign(value)
            logs = self._run_checked(arguments)
        return logs

    def _run_checked(self, arguments):
        logs = self._checked.get_concrete_function(*arguments)(*arguments)
        self.guard.check(self.model)
        return logs

    def _find_variables(self, arguments):
        """Finds out what a step may write to, and what then tells."""
        function = self._fast.get_concrete_function(*arguments)
        self._variables = function.variables
        model = self.model
        told = [*model.trainable_variables, *model.optimizer.variables]
        told = [v.value for v in told if v.dtype.startswith("float")]

        @tf.function(autograph=False)
        def read():
            return [v.read_value() for v in self._variables]

        @tf.function(autograph=False)
        def is_finite():
            sums = [tf.cast(tf.reduce_sum(v), tf.float32) for v in told]
            return tf.reduce_all(tf.math.is_finite(tf.stack(sums)))

        self._read = read.get_concrete_function()
        self._is_finite = is_finite.get_concrete_function()

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

    def _train_on(self, batch):
        return self.model.train_step(batch)
