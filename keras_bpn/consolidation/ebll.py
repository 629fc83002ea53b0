import random

import keras
import numpy as np
import tensorflow as tf
from keras import ops

from keras_bpn.consolidation import distillation
from keras_bpn.consolidation.lwf import LwF
from keras_bpn.consolidation.lwf import check_count
from keras_bpn.consolidation.lwf import check_factor
from keras_bpn.layers.bpn_dense import BPNDense
from keras_bpn.layers.task_heads import TaskHeads
from keras_bpn.layers.task_scope import record_calls
from keras_bpn.layers.task_scope import task_scope
from keras_bpn.models.task_data import TaskData

# Of Adam, which in as many steps reconstructs a little better than Adadelta,
# the paper's.
_LEARNING_RATE = 1e-3


@keras.saving.register_keras_serializable("keras_bpn")
class EBLL(LwF):
    """Encoder based lifelong learning.

    `LwF` keeps outputs. This method keeps what is important in the features
    that they are computed from, too: a code of them, one for each earlier
    task. The objective of a later task is that of `LwF` plus

    `code_strength * sum_k MSE(code_k(f), code_k(f*))`

    with `k` the earlier tasks, `f` the features of the new data, `f*` those
    of the network as it was when the task started, and `MSE` the mean squared
    difference over the batch and the units of the code. (With a sum over the
    units instead, `code_strength` would have to be smaller.)

    `f` is what enters the last layer, `TaskHeads` or `BPNDense`. Where it
    depends on the mode, the code of a task is taken in its own mode.

    When a task ends, an autoencoder is trained on the features of its data:

    `code(f) = sigmoid(f W + b)`, `decoded = code(f) V + c`

    by the objective

    `loss of outputs(decoded) + reconstruction_strength * MSE(decoded, f)`

    where `outputs` is the rest of the network, which does not change. The
    decoder is then thrown away. What is kept per task, for training only, are
    the weights of the encoder.

    Args:
        strength: Number of at least 0, the factor lambda of `LwF`.
        temperature: Positive number, as in `LwF`.
        code_strength: Number of at least 0, the alpha of the paper.
        code_units: Positive integer, the size of a code. The paper takes 100
            to 300.
        reconstruction_strength: Number of at least 0, the factor of the
            reconstruction as the autoencoder is trained.
        encoder_epochs: Positive integer, how often the data is read for that.
        warmup_steps: Integer, as in `LwF`.
        seed: Integer from which the autoencoders are drawn, or `None`.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ...     direction=None,
    ...     consolidation=keras_bpn.consolidation.EBLL(code_units=100),
    ... )

    Reference:

    - [Rannen Triki et al., 2017](https://arxiv.org/abs/1704.01920)
    """

    growing = (*LwF.growing, "encoder/")

    def __init__(
        self,
        strength=1.0,
        temperature=2.0,
        code_strength=0.1,
        code_units=100,
        reconstruction_strength=1.0,
        encoder_epochs=5,
        warmup_steps=0,
        seed=None,
    ):
        super().__init__(strength, temperature, warmup_steps)
        check_factor("code_strength", code_strength)
        check_factor("reconstruction_strength", reconstruction_strength)
        check_count("code_units", code_units, least=1)
        check_count("encoder_epochs", encoder_epochs, least=1)
        check_count("seed", 0 if seed is None else seed, least=0)
        self.code_strength = float(code_strength)
        self.code_units = code_units
        self.reconstruction_strength = float(reconstruction_strength)
        self.encoder_epochs = encoder_epochs
        self.seed = random.randint(1, 10**9) if seed is None else seed

    def check(self, model):
        super().check(model)
        layer = distillation.output_layer(model)
        if not isinstance(layer, (BPNDense, TaskHeads)):
            raise ValueError(
                "Expected a model whose last layer with weights is "
                "`keras_bpn.layers.TaskHeads` or `keras_bpn.layers.BPNDense` "
                "for `EBLL`, because what enters it is encoded. "
                f"Received: {layer!r}"
            )

    def penalty(self, model, tasks, passes):
        loss = 0.0
        for i, networks in enumerate(passes):
            before, now = (self.code(i, _features(n.calls)) for n in networks)
            loss += ops.mean(ops.square(now - before))
        outputs = super().penalty(model, tasks, passes)
        return outputs + self.code_strength * loss

    def code(self, i, features):
        """Returns the code of features by the `i`-th task that has ended."""
        kernel = self._variables[f"encoder/{i}/kernel"]
        bias = self._variables[f"encoder/{i}/bias"]
        return ops.sigmoid(ops.matmul(features, kernel) + bias)

    def end_task(self, model, task, data):
        number = len(self._old_tasks())
        autoencoder = Autoencoder(
            model,
            self.code_units,
            self.reconstruction_strength,
            np.random.SeedSequence([self.seed, number]),
        )
        autoencoder.fit(data, self.encoder_epochs)
        super().end_task(model, task, data)
        encoder = autoencoder.encoder
        self.add_variable(f"encoder/{number}/kernel", encoder.kernel.value)
        self.add_variable(f"encoder/{number}/bias", encoder.bias.value)

    def get_config(self):
        return {
            **super().get_config(),
            "code_strength": self.code_strength,
            "code_units": self.code_units,
            "reconstruction_strength": self.reconstruction_strength,
            "encoder_epochs": self.encoder_epochs,
            "seed": self.seed,
        }


class Autoencoder:
    """Encoder and decoder of what enters the last layer of a model.

    Args:
        model: `BPNModel` with an open task.
        code_units: Positive integer, the size of a code.
        strength: Number, the factor of the reconstruction in the objective.
        entropy: `np.random.SeedSequence`.
    """

    def __init__(self, model, code_units, strength, entropy):
        self.model = model
        self.strength = strength
        self.layer = distillation.output_layer(model)
        self.outputs = keras.Function(self.layer.input, model.output)
        # Seeds that also fit into a signed integer.
        seeds = [int(s) >> 1 for s in entropy.generate_state(3)]
        self.shuffle_seed = seeds[2]
        width = self.layer.input.shape[-1]
        self.encoder = _dense("encoder", width, code_units, "sigmoid", seeds[0])
        self.decoder = _dense("decoder", code_units, width, None, seeds[1])
        self.variables = self.encoder.weights + self.decoder.weights
        self.optimizer = keras.optimizers.Adam(_LEARNING_RATE)
        self.optimizer.build(self.variables)

    def fit(self, data, epochs):
        """Trains on a `TaskData`, in an order that depends on the seed."""
        step = tf.function(self.step, autograph=False, reduce_retracing=True)
        epoch = tf.Variable(0, dtype=tf.int64)
        if data.in_memory:
            data = TaskData(
                data.epochs(True, self.shuffle_seed, epoch),
                steps_per_epoch=data.steps_per_epoch,
            )
        for _ in range(epochs):
            for batch in data:
                if batch[1] is None:
                    raise ValueError(
                        "Expected labels when a task ends: `EBLL` learns which "
                        "features its outputs need. Received: y=None"
                    )
                step(*keras.tree.map_structure(_as_tensor, batch))
            epoch.assign_add(1)

    def step(self, x, y, sample_weight):
        row = self.model._open_row
        with record_calls() as calls:
            self.model._call_in_row(row, x, training=False)
        features = _features(calls)
        with tf.GradientTape() as tape:
            decoded = self.decoder(self.encoder(features))
            error = ops.mean(ops.square(decoded - features))
            loss = self.model.compute_loss(
                y=y,
                y_pred=self.outputs_of(decoded),
                sample_weight=sample_weight,
                training=False,
            )
            loss = ops.cast(loss, "float32") + self.strength * error
        gradients = tape.gradient(loss, [v.value for v in self.variables])
        self.optimizer.apply(gradients, self.variables)

    def outputs_of(self, features):
        """Returns the outputs of the model in the mode of the open task."""
        row = self.model._open_row
        with task_scope(row, row), keras.StatelessScope():
            if isinstance(self.layer, BPNDense):
                # Features were seen behind the key of the layer. It consists
                # of signs, and undoes itself.
                features = self.layer.task_keys.multiply(features)
            return self.outputs(features)


def _features(calls):
    """Returns what entered the last layer."""
    return ops.cast(calls[-1].inputs, "float32")


def _dense(name, inputs, units, activation, seed):
    initializer = keras.initializers.GlorotUniform(seed)
    layer = keras.layers.Dense(
        units,
        activation,
        kernel_initializer=initializer,
        name=name,
        dtype="float32",
    )
    layer.build((None, inputs))
    return layer


def _as_tensor(array):
    return array if array is None else ops.convert_to_tensor(array)
