"""Sequences of tasks, and the data of each."""

from keras_bpn.scenarios import builders
from keras_bpn.scenarios.clusters import GaussianClusters
from keras_bpn.scenarios.dataset_sequence import DatasetSequence
from keras_bpn.scenarios.digits import Digits
from keras_bpn.scenarios.examples import Examples
from keras_bpn.scenarios.object_recognition import ObjectRecognition
from keras_bpn.scenarios.permuted_pixels import PermutedPixels
from keras_bpn.scenarios.scenario import Scenario
from keras_bpn.scenarios.split_classes import SplitClasses
from keras_bpn.scenarios.task import Task

__all__ = [
    "DatasetSequence",
    "Digits",
    "Examples",
    "GaussianClusters",
    "ObjectRecognition",
    "PermutedPixels",
    "Scenario",
    "SplitClasses",
    "Task",
    "builders",
]
