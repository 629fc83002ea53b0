import keras
import numpy as np
import pytest

import keras_bpn
from keras_bpn.consolidation import PSP
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks


def keys_of(model):
    return [np.asarray(layer.task_keys.table) for layer in model.layers[1:]]


def test_every_layer_has_a_key_for_each_task_the_output_layer_included():
    model = compile_model(make_model(), consolidation=PSP())
    train_tasks(model)
    for keys, size in zip(keys_of(model), (6, 12, 9)):
        assert keys.shape[1] == size
        assert set(np.unique(keys)) == {-1, 1}
        assert (keys[0] == 1).all()
        assert (keys[1] != keys[2]).any()


def test_layers_and_seeds_have_keys_of_their_own():
    first = compile_model(make_model(units=(6, 6)), consolidation=PSP(seed=1))
    again = compile_model(make_model(units=(6, 6)), consolidation=PSP(seed=1))
    other = compile_model(make_model(units=(6, 6)), consolidation=PSP(seed=2))
    assert_equal(keys_of(first), keys_of(again))
    for a, b in zip(keys_of(first), keys_of(other)):
        assert (a[1:] != b[1:]).any()
    a, b, c = keys_of(first)
    assert (a != b).any() and (b != c).any()


def test_keys_are_not_trained():
    model = compile_model(make_model(), consolidation=PSP())
    before = keys_of(model)
    train_tasks(model)
    assert_equal(keys_of(model), before)


def test_a_key_folded_into_the_kernel_gives_the_same_outputs():
    model = compile_model(make_model(units=()), consolidation=PSP())
    train_tasks(model)
    x, _ = make_data()
    layer = model.layers[1]
    kernel = np.asarray(layer.kernel) * keys_of(model)[0][1][:, None]
    bias = np.asarray(layer.bias) + np.asarray(layer.task_bias.table)[1]
    np.testing.assert_allclose(
        model(x, task="a"), x @ kernel + bias, rtol=1e-5, atol=1e-6
    )


def test_needs_no_data_to_end_a_task():
    model = compile_model(make_model(), consolidation=PSP())
    x, y = make_data()

    def batches():
        for i in range(0, 40, 8):
            yield x[i : i + 8], y[i : i + 8]

    model.fit(batches(), task="a", verbose=0, shuffle=False)
    model.fit(x, y, task="b", verbose=0, consolidate=False)
    model.consolidate()
    assert model.tasks == ("a", "b")


def test_layers_without_keys_are_refused():
    inputs = keras.Input((6,))
    x = keras.layers.Dense(5, name="plain")(inputs)
    outputs = keras_bpn.layers.BPNDense(2)(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    with pytest.raises(ValueError, match="`PSP` needs keys.*plain/kernel"):
        compile_model(model, consolidation=PSP())
    assert not model.compiled
    assert model.layers[2].task_keys.seed is None

    model.layers[1].trainable = False
    compile_model(model, consolidation=PSP())
    assert model.layers[2].task_keys.seed is not None


def test_a_model_without_any_keys_is_refused():
    inputs = keras.Input((6,))
    model = keras_bpn.BPNModel(inputs, keras.layers.Dense(2)(inputs))
    with pytest.raises(ValueError, match="`PSP` needs keys"):
        compile_model(model, direction=None, consolidation=PSP())


def test_config_round_trip():
    psp = PSP()
    assert psp.seed is not None
    assert PSP.from_config(psp.get_config()).seed == psp.seed
