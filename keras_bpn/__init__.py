"""Networks that switch modes: beneficial perturbation networks for Keras 3."""

import os as _os

# The training step is written for TensorFlow, whatever Keras is set to.
_os.environ.setdefault("KERAS_BACKEND", "tensorflow")

import keras as _keras  # noqa: E402

if _keras.backend.backend() != "tensorflow":
    raise ImportError(
        "Expected Keras to run on TensorFlow. Set KERAS_BACKEND=tensorflow "
        "before Keras is imported. Received: KERAS_BACKEND="
        f"{_keras.backend.backend()}"
    )

from keras_bpn import applications  # noqa: E402
from keras_bpn import consolidation  # noqa: E402
from keras_bpn import evaluation  # noqa: E402
from keras_bpn import layers  # noqa: E402
from keras_bpn import methods  # noqa: E402
from keras_bpn import models  # noqa: E402
from keras_bpn import plots  # noqa: E402
from keras_bpn import scenarios  # noqa: E402
from keras_bpn.learning import learn  # noqa: E402
from keras_bpn.models import BPNModel  # noqa: E402

__version__ = "0.1.0"

__all__ = [
    "BPNModel",
    "applications",
    "consolidation",
    "evaluation",
    "layers",
    "learn",
    "methods",
    "models",
    "plots",
    "scenarios",
]
