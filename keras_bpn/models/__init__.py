"""Models that switch modes."""

from keras_bpn.models.bpn_model import BPNModel
from keras_bpn.models.storage import Storage

__all__ = ["BPNModel", "Storage"]
