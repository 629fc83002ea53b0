import keras

from keras_bpn.consolidation.combination import Combination
from keras_bpn.consolidation.consolidation import Consolidation
from keras_bpn.consolidation.local_inhibition import LocalInhibition
from keras_bpn.consolidation.mas import MAS


@keras.saving.register_keras_serializable("keras_bpn")
class SLNID(Combination):
    """Sparse coding through local neural inhibition and discounting.

    The objective of a task is

    `loss + strength * sum over hidden layers, i != j of
    e_ij * g_ij * mean over examples of h_i * h_j + penalty`

    The term on the activations `h` of hidden layers with ReLU makes them
    sparse, which leaves neurons for later tasks; its factors `e` and `g` are
    those of `keras_bpn.consolidation.LocalInhibition`. The penalty is that of
    another method, which keeps the weights that earlier tasks need. `strength`
    is the factor of the first alone; the other method has its own.

    Args:
        strength: Number of at least 0, the factor of the inhibition. On
            permuted MNIST the authors use 1e-3 with `MAS(0.1)` and 2e-3 with
            `EWC(10.0)`.
        consolidation: The method that protects the weights. Defaults to
            `MAS(0.1)`.

    Example:

    >>> model.compile(
    ...     optimizer="adam",
    ...     loss="sparse_categorical_crossentropy",
    ...     direction="beneficial",
    ...     consolidation=keras_bpn.consolidation.SLNID(
    ...         2e-3, keras_bpn.consolidation.EWC(10.0)
    ...     ),
    ... )

    Reference:

    - [Aljundi et al., 2019](https://arxiv.org/abs/1806.05421)
    """

    def __init__(self, strength=1e-3, consolidation=None):
        if consolidation is None:
            consolidation = MAS(0.1)
        if not isinstance(consolidation, Consolidation):
            raise ValueError(
                "Expected `consolidation` to be a `keras_bpn.consolidation` "
                f"object, or `None`. Received: consolidation={consolidation!r}"
            )
        inhibition = LocalInhibition(strength)
        super().__init__([inhibition, consolidation])
        self.strength = inhibition.strength
        self.consolidation = consolidation

    def get_config(self):
        return {
            "strength": self.strength,
            "consolidation": keras.saving.serialize_keras_object(
                self.consolidation
            ),
        }

    @classmethod
    def from_config(cls, config):
        consolidation = keras.saving.deserialize_keras_object(
            config["consolidation"]
        )
        return cls(config["strength"], consolidation)

    def __repr__(self):
        return (
            f"{type(self).__name__}(strength={self.strength}, "
            f"consolidation={self.consolidation!r})"
        )
