"""The public names. A change here is a change for users."""

import importlib

import pytest

PUBLIC = {
    "keras_bpn": [
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
    ],
    "keras_bpn.applications": ["AlexNet", "alexnet"],
    "keras_bpn.consolidation": [
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
    ],
    "keras_bpn.evaluation": [
        "AccuracyMatrix",
        "Comparison",
        "LearningHistory",
        "Summary",
        "compare",
        "summarize",
        "summarize_histories",
    ],
    "keras_bpn.layers": [
        "BPNConv2D",
        "BPNDense",
        "ClassMask",
        "TaskBias",
        "TaskHeads",
        "TaskKeys",
    ],
    "keras_bpn.methods": ["build", "get", "names"],
    "keras_bpn.models": [
        "BPNModel",
        "SingleTaskModels",
        "Storage",
        "TaskSummary",
    ],
    "keras_bpn.plots": [
        "accuracy_by_group",
        "accuracy_matrix",
        "accuracy_over_epochs",
        "average_accuracy",
        "decision_regions",
        "storage_against_accuracy",
        "task_accuracy",
    ],
    "keras_bpn.scenarios": [
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
    ],
    "keras_bpn.scenarios.builders": [
        "Chars74k",
        "FgvcAircraft",
        "MitIndoorScenes",
        "StanfordCars",
        "Voc2012Actions",
    ],
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

    layers, methods = keras_bpn.layers, keras_bpn.consolidation
    classes = [getattr(layers, name) for name in layers.__all__]
    classes += [getattr(methods, name) for name in methods.__all__]
    bases = (methods.Consolidation, methods.QuadraticPenalty)
    for cls in [keras_bpn.BPNModel, *classes]:
        if cls in bases:
            continue
        name = keras.saving.get_registered_name(cls)
        assert name == f"keras_bpn>{cls.__name__}"
