import keras
import numpy as np

import keras_bpn
from keras_bpn.models.layer_paths import layer_paths
from keras_bpn.models.layer_paths import shared_weights
from tests.helpers import make_model


def paths_of(model):
    tables = {id(table) for table in model.task_tables}
    return [path for i, path in layer_paths(model).items() if i in tables]


def test_numbers_that_keras_gave_are_counted_within_the_model():
    first, second = make_model(), make_model()
    assert first.layers[1].name != second.layers[1].name
    expected = [
        f"bpn_dense{i}/{part}"
        for i in ("", "_1", "_2")
        for part in ("task_keys", "task_bias")
    ]
    assert sorted(paths_of(first)) == sorted(expected)
    assert paths_of(second) == paths_of(first)
    assert list(shared_weights(second)) == list(shared_weights(first))
    assert list(shared_weights(first))[:2] == [
        "bpn_dense/kernel",
        "bpn_dense/bias",
    ]


def test_numbers_are_ordered_as_numbers():
    for _ in range(9):
        keras_bpn.layers.BPNDense(1)
    model = make_model()
    names = [layer.name for layer in model.layers[1:]]
    assert names == ["bpn_dense_9", "bpn_dense_10", "bpn_dense_11"]
    paths = layer_paths(model)
    assert [paths[id(layer)] for layer in model.layers[1:]] == [
        "bpn_dense",
        "bpn_dense_1",
        "bpn_dense_2",
    ]


def test_names_that_were_given_are_kept():
    def build(*names):
        inputs = keras.Input((3,))
        x = keras_bpn.layers.BPNDense(4, name=names[0])(inputs)
        x = keras.layers.Dense(4, name=names[1])(x)
        x = keras_bpn.layers.BPNDense(2)(x)
        return keras_bpn.BPNModel(inputs, x)

    assert [
        path
        for path in layer_paths(build("block_7", "block_3")).values()
        if "/" not in path and "input" not in path
    ] == ["block_7", "block_3", "bpn_dense"]
    # Two layers whose names would be the same.
    clash = layer_paths(build("bpn_dense_5", "bpn_dense")).values()
    assert "bpn_dense" in clash and "bpn_dense'" in clash
    assert len(set(clash)) == len(clash)


def test_networks_within_networks_and_layers_without_weights():
    def build(dropout):
        inner = keras.Input((5,))
        block = keras.Model(inner, keras_bpn.layers.BPNDense(5)(inner))
        x = inputs = keras.Input((5,))
        for _ in range(2):
            x = block(x)
        if dropout:
            x = keras.layers.Dropout(0.5)(x)
        x = keras.layers.BatchNormalization()(x)
        outputs = keras_bpn.layers.BPNDense(2)(x)
        return keras_bpn.BPNModel(inputs, outputs)

    first, second = build(False), build(True)
    assert sorted(paths_of(first)) == sorted(paths_of(second))
    assert {p for p in paths_of(first) if p.startswith("functional")} == {
        "functional/bpn_dense/task_keys",
        "functional/bpn_dense/task_bias",
    }
    weights = shared_weights(second)
    assert list(weights) == list(shared_weights(first))
    assert "batch_normalization/moving_mean" in weights
    assert "functional/bpn_dense/kernel" in weights
    assert sum(np.prod(v.shape) for v in weights.values()) == 30 + 20 + 12
