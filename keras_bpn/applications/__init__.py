"""Backbones in the manner of `keras.applications`."""

from keras_bpn.applications import alexnet
from keras_bpn.applications.alexnet import AlexNet

__all__ = ["AlexNet", "alexnet"]
