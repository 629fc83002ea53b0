"""Methods that protect the shared weights when a task has ended."""

from keras_bpn.consolidation.consolidation import Consolidation
from keras_bpn.consolidation.ewc import EWC
from keras_bpn.consolidation.psp import PSP
from keras_bpn.consolidation.quadratic import QuadraticPenalty

__all__ = ["Consolidation", "EWC", "PSP", "QuadraticPenalty"]
