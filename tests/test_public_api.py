"""The public names. A change here is a change for users."""

import importlib

import pytest

PUBLIC = {
    "keras_bpn": ["BPNModel", "consolidation", "layers", "models"],
    "keras_bpn.consolidation": [
        "Consolidation",
        "EWC",
        "PSP",
        "QuadraticPenalty",
    ],
    "keras_bpn.layers": ["BPNDense", "TaskBias", "TaskKeys"],
    "keras_bpn.models": ["BPNModel", "Storage"],
}


@pytest.mark.parametrize("module", PUBLIC)
def test_public_names(module):
    module = importlib.import_module(module)
    assert sorted(module.__all__) == PUBLIC[module.__name__]
    for name in module.__all__:
        assert getattr(module, name).__doc__


def test_registered_names_are_ours():
    import keras

    import keras_bpn

    for cls in (
        keras_bpn.BPNModel,
        keras_bpn.layers.BPNDense,
        keras_bpn.layers.TaskBias,
        keras_bpn.layers.TaskKeys,
        keras_bpn.consolidation.EWC,
        keras_bpn.consolidation.PSP,
    ):
        name = keras.saving.get_registered_name(cls)
        assert name == f"keras_bpn>{cls.__name__}"
