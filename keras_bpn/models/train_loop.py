import tensorflow as tf

from keras_bpn.models.optimizer_state import clips_values
from keras_bpn.models.optimizer_state import loss_scale
from keras_bpn.models.step_loop import StepLoop


class TrainLoop(StepLoop):
    """The training steps of a model.

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
        super().__init__(model, model.train_step)
        self.guard = guard
        self._checked = self._compile(checks="xla")
        self._variables = None
        self._read = self._is_finite = None

    def _compile(self, checks="unchecked"):
        def step(batch):
            with self.guard.checks(checks):
                self.model.train_step(batch)

        return super()._compile(step)

    def _run(self, *arguments):
        if self._variables is None:
            self._find_variables(arguments)
        # Not copied, unless a step writes to them.
        before = self._read()
        if clips_values(self.model.optimizer):
            # Would turn infinity into a number.
            return self._run_checked(arguments)
        logs = super()._run(*arguments)
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
        function = self._loop.get_concrete_function(*arguments)
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
