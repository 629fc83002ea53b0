"""Layers whose weights are shared and whose biases depend on the task."""

from keras_bpn.layers.bpn_conv2d import BPNConv2D
from keras_bpn.layers.bpn_dense import BPNDense
from keras_bpn.layers.class_mask import ClassMask
from keras_bpn.layers.task_bias import TaskBias
from keras_bpn.layers.task_heads import TaskHeads
from keras_bpn.layers.task_keys import TaskKeys

__all__ = [
    "BPNConv2D",
    "BPNDense",
    "ClassMask",
    "TaskBias",
    "TaskHeads",
    "TaskKeys",
]
