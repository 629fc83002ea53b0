import concurrent.futures

import keras
import tensorflow as tf

# Where an epoch is shorter, compiling takes longer than it saves.
MIN_BATCHES = 50
# Of the examples that are gathered for one call, and of steps in it.
_BLOCK_BYTES = 2**25
_BLOCK_STEPS = 128
# On a CPU, XLA takes twice as long for them as TensorFlow by itself.
_SLOW_ON_CPU = (
    keras.layers.Conv1D,
    keras.layers.Conv1DTranspose,
    keras.layers.Conv2D,
    keras.layers.Conv2DTranspose,
    keras.layers.Conv3D,
    keras.layers.Conv3DTranspose,
    keras.layers.DepthwiseConv1D,
    keras.layers.DepthwiseConv2D,
    keras.layers.SeparableConv1D,
    keras.layers.SeparableConv2D,
)


class EpochRunner(keras.callbacks.Callback):
    """A training or test function that takes many steps in one call.

    Keras asks for `steps_per_call` steps at a time, whatever the iterator
    holds, and the runner takes them from the data.

    Args:
        data: `EpochData`.
        one_by_one: Boolean, whether callbacks want to know of each step.

    Attributes:
        steps: The `StepLoop` that takes them, to be set before the first.
        steps_per_call: Integer.
    """

    follows_blocks = True

    def __init__(self, data, one_by_one):
        super().__init__()
        self.data = data
        self.steps = None
        self._block_steps = self._fitting_steps()
        self.steps_per_call = 1 if one_by_one else self._block_steps
        self._order = None
        self._start = self._step = 0
        self._block = None
        self._next = None
        self._thread = concurrent.futures.ThreadPoolExecutor(1)

    def _fitting_steps(self):
        example = self.data.example()
        leaves = [a for a in keras.tree.flatten(example) if a is not None]
        size = self.data.batch_size * sum(
            a.shape.num_elements() * a.dtype.size for a in leaves
        )
        # The same for data of any length, so that it is compiled once.
        return max(1, min(_BLOCK_STEPS, _BLOCK_BYTES // size))

    def iterations(self):
        """Returns a dataset of as many elements as there are steps to take."""
        return tf.data.Dataset.range(self.data.num_batches - self.data.skip)

    def on_epoch_begin(self, epoch, logs=None):
        # Drawn with the first step, when other callbacks had their turn.
        self._order = None

    def close(self):
        """Lets go of the data. No more steps can be taken."""
        self._thread.shutdown()
        self._order = self._block = self._next = None

    def __call__(self, iterator):
        if self._order is None:
            self._order = self.data.order()
            self._step, self._block, self._next = 0, None, None
        size = self.data.batch_size
        full, rest = divmod(self._order.shape[0], size)
        last = min(self._step + self.steps_per_call, full + bool(rest))
        while self._step < last:
            if self._step == full:
                batch = self.data.take(self._order[full * size :])
                logs = self.steps.run_one(batch)
                self._step += 1
                continue
            first = self._fill_block(full)
            count = min(last, first + self._block_steps, full) - self._step
            logs = self.steps.run(self._block, self._step - first, count)
            self._step += count
        return logs

    def _fill_block(self, full):
        """Gets the block that the next step is in, and returns the number of
        its first step."""
        if self._block is not None:
            if self._step < self._start + self._block_steps:
                return self._start
        self._start = self._step
        gathered, self._next = self._next, None
        if gathered is None:
            self._block = self._gather(full, self._start)
        else:
            self._block = gathered.result()
        following = self._start + self._block_steps
        if following < full:
            # While steps leave a core idle, which they often do.
            self._next = self._thread.submit(self._gather, full, following)
        return self._start

    def _gather(self, full, start):
        """Returns the block that begins with a step."""
        size, count = self.data.batch_size, self._block_steps
        stop = min(start + count, full)
        order = self._order[start * size : stop * size]
        missing = count * size - order.shape[0]
        # All blocks have one shape, for which steps are compiled.
        order = tf.pad(order, [[0, missing]], constant_values=order[0])
        return keras.tree.map_structure(
            lambda a: (
                a if a is None else tf.reshape(a, (count, size, *a.shape[1:]))
            ),
            self.data.take(order),
        )


def suits_xla(model):
    """Whether XLA can be expected to make the steps of a model faster."""
    if tf.config.list_logical_devices("GPU"):
        return True
    layers = model._flatten_layers(include_self=False)
    return not any(isinstance(layer, _SLOW_ON_CPU) for layer in layers)


def watches_steps(callbacks, kind):
    """Whether any of the callbacks acts on single steps.

    Args:
        callbacks: As in `keras.Model.fit`.
        kind: `"train"` or `"test"`.
    """
    callbacks = keras.tree.flatten(getattr(callbacks, "callbacks", callbacks))
    hooks = {
        "train": (
            "on_batch_begin",
            "on_batch_end",
            "on_train_batch_begin",
            "on_train_batch_end",
        ),
        "test": ("on_test_batch_begin", "on_test_batch_end"),
    }[kind]
    return any(
        _watches_steps(callback, hooks)
        for callback in callbacks
        if callback is not None
    )


def _watches_steps(callback, hooks):
    by_epochs = (
        keras.callbacks.ModelCheckpoint,
        keras.callbacks.BackupAndRestore,
    )
    if isinstance(callback, by_epochs) and callback.save_freq == "epoch":
        return False
    if getattr(callback, "follows_blocks", False) or isinstance(
        callback, keras.callbacks.ProgbarLogger
    ):
        return False
    base = keras.callbacks.Callback
    return any(
        getattr(getattr(callback, name), "__func__", None)
        is not getattr(base, name)
        for name in hooks
    )
