"""Methods that protect the shared weights when a task has ended."""

from keras_bpn.consolidation.combination import Combination
from keras_bpn.consolidation.consolidation import Consolidation
from keras_bpn.consolidation.ebll import EBLL
from keras_bpn.consolidation.ewc import EWC
from keras_bpn.consolidation.gem import GEM
from keras_bpn.consolidation.imm import IMM
from keras_bpn.consolidation.local_inhibition import LocalInhibition
from keras_bpn.consolidation.lwf import LwF
from keras_bpn.consolidation.mas import MAS
from keras_bpn.consolidation.psp import PSP
from keras_bpn.consolidation.quadratic import QuadraticPenalty
from keras_bpn.consolidation.si import SI
from keras_bpn.consolidation.slnid import SLNID

__all__ = [
    "Combination",
    "Consolidation",
    "EBLL",
    "EWC",
    "GEM",
    "IMM",
    "LocalInhibition",
    "LwF",
    "MAS",
    "PSP",
    "QuadraticPenalty",
    "SI",
    "SLNID",
]
