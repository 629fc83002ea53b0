import keras
import numpy as np
import pytest

import keras_bpn
from keras_bpn.consolidation import EWC
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values

OPTIONS = [
    {},
    {"jit_compile": True},
    {"run_eagerly": True},
    {"steps_per_execution": 2},
]


def spoiled_data(batch):
    """Data whose batch of the given number holds a NaN."""
    x, y = make_data(1)
    x[8 * batch, 2] = np.nan
    return x, y


@pytest.mark.parametrize("options", OPTIONS)
def test_a_step_with_nan_is_refused_and_so_are_those_after_it(options):
    final = []
    for spoiled in (False, True):
        keras.utils.set_random_seed(0)
        model = compile_model(make_model(), **options)
        train_tasks(model, "a")
        fit = {"task": "b", "batch_size": 8, "shuffle": False, "verbose": 0}
        if spoiled:
            with pytest.raises(ValueError, match="refused.*'bpn_dense.*NaN"):
                model.fit(*spoiled_data(2), consolidate=False, **fit)
        else:
            x, y = spoiled_data(4)
            model.fit(x[:16], y[:16], consolidate=False, **fit)
        final.append(
            values(model.trainable_variables)
            + values(model.optimizer.variables)
            + values(model.consolidation.variables.values())
        )
    # Two steps were taken, and the third was not.
    assert_equal(*final)


@pytest.mark.parametrize("options", OPTIONS)
def test_the_first_bad_variable_is_named(options):
    class Root(keras.layers.Layer):
        def build(self, shape):
            self.scale = self.add_weight(
                name="scale", shape=(1, 1), initializer="zeros"
            )

        def call(self, inputs):
            # The slope of a square root at zero is infinite.
            return inputs + keras.ops.sqrt(self.scale)

    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=4)(inputs)
    x = Root(name="root")(x)
    x = keras_bpn.layers.BPNDense(6, hidden_dim=4)(x)
    model = compile_model(keras_bpn.BPNModel(inputs, x), **options)
    weights = values(model.trainable_variables)
    with pytest.raises(ValueError, match="gradient of 'root/scale'"):
        train_tasks(model, "a")
    assert model.tasks == ()
    assert_equal(
        values(model.shared_variables),
        [
            w
            for w, v in zip(weights, model.trainable_variables)
            if any(v is s for s in model.shared_variables)
        ],
    )


def test_training_can_go_on():
    model = train_tasks(compile_model(make_model()), "a")
    fit = {"task": "b", "batch_size": 8, "shuffle": False, "verbose": 0}
    with pytest.raises(ValueError, match="finite"):
        model.fit(*spoiled_data(1), **fit)
    assert model.tasks == ("a", "b")
    model.fit(*make_data(1), **fit)
    assert np.isfinite(values(model.weights)[0]).all()


def test_a_first_step_with_nan_leaves_no_task():
    model = train_tasks(compile_model(make_model()), "a")
    weights = values(model.shared_variables)
    with pytest.raises(ValueError, match="finite"):
        model.fit(*spoiled_data(0), task="b", shuffle=False, verbose=0)
    assert model.tasks == ("a",)
    assert_equal(values(model.shared_variables), weights)


def test_train_on_batch_says_so_at_once():
    model = compile_model(make_model())
    x, y = make_data()
    model.fit(x, y, task="a", verbose=0, consolidate=False)
    weights = model.get_weights()
    x[0] = np.inf
    with pytest.raises(ValueError, match="finite"):
        model.train_on_batch(x, y)
    assert_equal(model.get_weights(), weights)


def test_half_precision_skips_such_steps_by_itself():
    keras.config.set_dtype_policy("mixed_float16")
    model = compile_model(make_model(), consolidation=EWC(1.0))
    x, y = make_data()
    model.fit(x, y, task="a", verbose=0, consolidate=False)
    before = float(model.optimizer.dynamic_scale)
    x[0] = np.nan
    model.train_on_batch(x, y)
    assert float(model.optimizer.dynamic_scale) == before / 2
    assert all(np.isfinite(v).all() for v in values(model.weights))
