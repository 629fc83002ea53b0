"""The ImageNet weights of AlexNet, converted from torchvision's."""

import hashlib
import os

import keras
import numpy as np

from keras_bpn.applications.torch_file import read_tensors

_URL = "https://download.pytorch.org/models/alexnet-owt-7be5be79.pth"
# The file's name ends with the first digits of its SHA-256.
_SHA256_PREFIX = "7be5be79"
# By the name of a layer: what torchvision calls it.
_TORCH_NAMES = {
    "conv1": "features.0",
    "conv2": "features.3",
    "conv3": "features.6",
    "conv4": "features.8",
    "conv5": "features.10",
    "fc6": "classifier.1",
    "fc7": "classifier.4",
    "predictions": "classifier.6",
}


def download_weights():
    """Returns the path of torchvision's file, downloaded at the first time."""
    name = _URL.rpartition("/")[2]
    path = keras.utils.get_file(name, _URL, cache_subdir="models")
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    if not digest.hexdigest().startswith(_SHA256_PREFIX):
        os.remove(path)
        raise ValueError(
            f"Expected a file whose SHA-256 begins with {_SHA256_PREFIX}, "
            f"from {_URL}. Received: {digest.hexdigest()}. The file was "
            "removed; try again"
        )
    return path


def load_torch_weights(model, path):
    """Loads a file of torchvision into an `AlexNet`.

    Nothing of the model is changed unless all weights fit.

    Args:
        model: What `AlexNet` returned, with or without the top.
        path: Path of a `.pth` file.
    """
    tensors = read_tensors(path)
    names = {layer.name for layer in model.layers}
    values = {
        name: _convert(name, tensors, path)
        for name in _TORCH_NAMES
        if name in names
    }
    for name, weights in values.items():
        expected = [tuple(v.shape) for v in model.get_layer(name).weights]
        received = [v.shape for v in weights]
        if expected != received:
            raise ValueError(
                f"Expected weights of shapes {expected} for the layer "
                f"'{name}'. Received: {received} from {path}"
            )
    for name, weights in values.items():
        model.get_layer(name).set_weights(weights)


def _convert(name, tensors, path):
    """Returns kernel and bias of a layer as Keras lays them out."""
    torch_name = _TORCH_NAMES[name]
    try:
        kernel = tensors[f"{torch_name}.weight"]
        bias = tensors[f"{torch_name}.bias"]
    except KeyError as error:
        raise ValueError(
            f"Expected the weights of torchvision's AlexNet, {error} among "
            f"them. Received: {path} with {sorted(tensors)[:5]} ..."
        ) from None
    if name.startswith("conv") and kernel.ndim == 4:
        # Outputs, inputs, height, width.
        return [np.transpose(kernel, (2, 3, 1, 0)), bias]
    if name == "fc6" and kernel.shape[1] == 256 * 6 * 6:
        # Its inputs are channel by channel, those of Keras pixel by pixel.
        kernel = kernel.reshape(-1, 256, 6, 6).transpose(0, 2, 3, 1)
        kernel = kernel.reshape(len(kernel), -1)
    return [np.ascontiguousarray(kernel.T), bias]
