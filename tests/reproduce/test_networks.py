import keras
import numpy as np
import pytest

from reproduce.contenders import Contender
from reproduce.contenders import parse
from reproduce.networks import BiasUnits
from reproduce.networks import make_model
from reproduce.protocols import Protocol

PROTOCOL = Protocol("clusters", 2, outputs=3, layers=1, units=4, hidden_dim=6)


def make(method, **settings):
    keras.utils.set_random_seed(0)
    settings = {"learning_rate": 1e-3, **settings}
    return make_model(parse(method), PROTOCOL, settings, (2,))


def rows_after_a_task(model, steps=3):
    """Trains a task for some steps and returns its bias units by layer."""
    x = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    y = np.arange(8) % 2
    model.fit(x, y, task="a", batch_size=8, epochs=steps, verbose=0)
    return [np.asarray(bias.table)[1] for bias in model.task_biases]


def test_bias_units_of_the_defaults():
    model = make("BD+EWC", strength=7.0, epsilon=0.5)
    hidden, output = model.task_biases
    assert hidden.hidden_dim == output.hidden_dim == 6
    assert model.epsilon == 0.5 and model.consolidation.strength == 7.0
    # As `BPNDense` would have drawn them.
    assert hidden.projection_initializer.scale == 100.0
    assert output.projection_initializer.scale == pytest.approx(1 / 9)


def test_gains_and_dimensions_can_be_set():
    model = make("BD+EWC", hidden_dim=3, hidden_gain=2.0, output_gain=0.5)
    hidden, output = model.task_biases
    assert hidden.hidden_dim == output.hidden_dim == 3
    assert hidden.projection_initializer.scale == 4.0
    assert output.projection_initializer.scale == 0.25


@pytest.mark.parametrize("where, units", [("hidden", 4), ("output", 3)])
def test_bias_units_in_some_layers(where, units):
    (bias,) = make("BD+EWC", where=where).task_biases
    assert bias.units == units


def test_signs_on_the_bias_itself():
    # Each step moves each unit by epsilon times the gain, or not at all where
    # a ReLU is off for all examples.
    model = make("BD+EWC", projection="identity", epsilon=0.5, hidden_gain=2.0)
    hidden, output = rows_after_a_task(model, steps=3)
    np.testing.assert_allclose(hidden % 1.0, 0.0, atol=1e-6)
    assert np.all(np.abs(hidden) <= 3.0) and np.any(hidden)
    np.testing.assert_allclose(np.abs(output * 3 / 0.5) % 2, 1.0, atol=1e-5)


def test_random_biases_are_never_trained():
    settings = {
        "epsilon": 0.0,
        "projection": "identity",
        "hidden_gain": 1.0,
        "perturbation_stddev": 3.0,
        "where": "hidden",
    }
    model = make("BD+EWC", **settings)
    (bias,) = model.task_biases
    (rows,) = rows_after_a_task(model)
    (again,) = rows_after_a_task(make("BD+EWC", **settings), steps=1)
    np.testing.assert_array_equal(rows, again)
    assert np.std(rows) > 0.3


def test_a_projection_that_stays_as_it_is_drawn():
    model = make("BD+EWC", projection="random")
    x = np.random.default_rng(0).normal(size=(8, 2)).astype("float32")
    model.fit(
        x, np.arange(8) % 2, task="a", verbose=0, epochs=1, consolidate=False
    )
    before = np.asarray(model.task_biases[0].projection)
    model.fit(
        x, np.arange(8) % 2, task="a", verbose=0, epochs=2, consolidate=False
    )
    after = np.asarray(model.task_biases[0].projection)
    np.testing.assert_array_equal(before, after)
    assert np.any(np.asarray(model.task_biases[0].perturbation))


def test_methods_with_settings_of_their_own():
    model = make("SLNID", strength=0.5, mas_strength=3.0)
    assert model.consolidation.strength == 0.5
    assert model.consolidation.consolidation.strength == 3.0
    model = make_model(
        Contender("GEM(10)", "GEM", own_heads=True),
        PROTOCOL,
        {"learning_rate": 0.01, "margin": 0.0},
        (2,),
    )
    assert model.layers[-1].__class__.__name__ == "TaskHeads"
    assert float(model.optimizer.learning_rate) == pytest.approx(0.01)


@pytest.mark.parametrize("name", ["where", "projection"])
def test_unknown_variants(name):
    with pytest.raises(ValueError, match=f"Received: {name}='all of it'"):
        BiasUnits(**{name: "all of it"})
