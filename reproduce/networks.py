"""The networks that the experiments train."""

import dataclasses
import math

import keras

import keras_bpn
from keras_bpn.layers.task_bias import HIDDEN_GAIN
from keras_bpn.layers.task_bias import OUTPUT_GAIN
from keras_bpn.layers.task_bias import projection_normal

_BIAS_UNITS = ("all", "hidden", "output")
_PROJECTIONS = ("trained", "random", "identity")


@dataclasses.dataclass(frozen=True)
class BiasUnits:
    """The settings of bias units that a `BPNDense` is made with.

    Args:
        hidden_dim: The inner dimension `H`, or `None` for that of the protocol.
        hidden_gain: How far a sign step of 1 moves a bias unit of a hidden
            layer, about; `None` for the package's default.
        output_gain: The same for the outputs.
        perturbation_stddev: Standard deviation of a normal distribution that
            `M_t` starts from; 0 to start from zero.
        where: Which layers have bias units: `"all"`, `"hidden"` or `"output"`.
        projection: `"trained"`; `"random"` for `W_t` as it is drawn; or
            `"identity"` times the gain, without training too, so that `M_t` is
            the bias itself.
    """

    hidden_dim: int | None = None
    hidden_gain: float | None = None
    output_gain: float | None = None
    perturbation_stddev: float = 0.0
    where: str = "all"
    projection: str = "trained"

    def __post_init__(self):
        if self.where not in _BIAS_UNITS:
            raise ValueError(
                f"Expected `where` to be one of {_BIAS_UNITS}. "
                f"Received: where={self.where!r}"
            )
        if self.projection not in _PROJECTIONS:
            raise ValueError(
                f"Expected `projection` to be one of {_PROJECTIONS}. "
                f"Received: projection={self.projection!r}"
            )

    def arguments(self, units, protocol, is_output):
        """Returns the arguments of a layer."""
        if self.where == ("hidden" if is_output else "output"):
            return {"hidden_dim": 0}
        gain = self.output_gain if is_output else self.hidden_gain
        if gain is None:
            gain = OUTPUT_GAIN if is_output else HIDDEN_GAIN
        hidden_dim = self.hidden_dim or protocol.hidden_dim
        initializer = projection_normal(gain)
        if self.projection == "identity":
            hidden_dim = units
            initializer = keras.initializers.Identity(gain)
        return {
            "hidden_dim": hidden_dim,
            "perturbation_initializer": keras.initializers.RandomNormal(
                stddev=self.perturbation_stddev
            ),
            "projection_initializer": initializer,
        }

    def freeze(self, model):
        """Leaves out of training what is not to be trained."""
        if self.projection != "trained":
            for bias in model.task_biases:
                bias.projection.trainable = False


def make_model(contender, protocol, settings, example_shape):
    """Returns a compiled model, or the `SingleTaskModels` of STL.

    Args:
        contender: `Contender`.
        protocol: `Protocol`.
        settings: Dictionary with `learning_rate`, that of Adam; the fields of
            `BiasUnits`; and the settings of the method.
        example_shape: Tuple, the shape of an example.
    """
    settings = dict(settings)
    optimizer = keras.optimizers.Adam(settings.pop("learning_rate"))
    names = [field.name for field in dataclasses.fields(BiasUnits)]
    bias_units = BiasUnits(
        **{name: settings.pop(name) for name in names if name in settings}
    )
    if "mas_strength" in settings:
        strength = settings.pop("mas_strength")
        settings["consolidation"] = keras_bpn.consolidation.MAS(strength)

    def make_network():
        return make_perceptron(
            math.prod(example_shape), protocol, bias_units, contender.own_heads
        )

    model = keras_bpn.methods.build(contender.method, make_network)
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        **keras_bpn.methods.get(contender.method, **settings),
    )
    if contender.method != "STL":
        bias_units.freeze(model)
    return model


def make_perceptron(inputs, protocol, bias_units=BiasUnits(), own_heads=False):
    """Returns a network of fully connected layers.

    Args:
        inputs: Integer, how many numbers an example has.
        protocol: `Protocol`.
        bias_units: `BiasUnits`.
        own_heads: Whether every task has outputs of its own.
    """
    inputs = x = keras.Input((inputs,))
    for _ in range(protocol.layers):
        x = keras_bpn.layers.BPNDense(
            protocol.units,
            activation="relu",
            **bias_units.arguments(protocol.units, protocol, is_output=False),
        )(x)
    if own_heads:
        outputs = keras_bpn.layers.TaskHeads()(x)
    else:
        arguments = bias_units.arguments(
            protocol.outputs, protocol, is_output=True
        )
        outputs = keras_bpn.layers.BPNDense(protocol.outputs, **arguments)(x)
    return keras_bpn.BPNModel(inputs, outputs)
