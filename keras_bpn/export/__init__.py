"""Modes of a model for other programs; see `BPNModel.export`."""

from keras_bpn.export.export import export

__all__ = ["export"]
