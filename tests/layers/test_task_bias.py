import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bpn.layers import TaskBias
from keras_bpn.layers.task_scope import task_scope


def made(units=3, hidden_dim=4, seed=7, **kwargs):
    bias = TaskBias(units, hidden_dim, seed=seed, **kwargs)
    bias.build()
    return bias


def factors(bias):
    return [v.numpy() for v in bias.factors]


def set_factors(bias, seed=0):
    """Gives small whole numbers to the factors: their product is exact."""
    rng = np.random.default_rng(seed)
    for variable in bias.factors:
        variable.assign(rng.integers(-8, 9, variable.shape))
    return factors(bias)


def fill_table(bias, seed=0):
    values = np.random.default_rng(seed).normal(size=bias.table.shape)
    bias.table.assign(values)
    return bias.table.numpy()


@settings(deadline=None, max_examples=15)
@given(st.integers(0, 10**9), st.lists(st.integers(1, 50), min_size=1))
def test_draw_depends_on_seed_and_row_alone(seed, rows):
    first, second = made(seed=seed), made(seed=seed)
    keras.utils.set_random_seed(1)
    for row in rows:
        first.draw(row)
    keras.utils.set_random_seed(2)
    second.draw(rows[-1])
    for a, b in zip(factors(first), factors(second)):
        np.testing.assert_array_equal(a, b)


def test_rows_and_seeds_draw_different_factors():
    drawn = []
    for seed in (1, 2):
        bias = made(seed=seed, perturbation_initializer="random_normal")
        for row in (1, 2, 3):
            bias.draw(row)
            drawn.append(np.concatenate([f.ravel() for f in factors(bias)]))
    for i, a in enumerate(drawn):
        for b in drawn[:i]:
            assert not np.any(a == b)


def test_two_factors_of_one_row_are_drawn_apart():
    bias = made(
        units=1,
        perturbation_initializer="random_normal",
        projection_initializer="random_normal",
    )
    bias.draw(1)
    m, w = factors(bias)
    assert not np.any(m.ravel() == w.ravel())


@pytest.mark.parametrize("hidden_dim", [1, 25, 400])
def test_default_factors(hidden_dim):
    bias = made(units=200, hidden_dim=hidden_dim)
    bias.draw(1)
    m, w = factors(bias)
    np.testing.assert_array_equal(m, np.zeros((1, hidden_dim)))
    # 200 * hidden_dim draws: a few percent of noise.
    assert np.std(w) == pytest.approx(10 / np.sqrt(hidden_dim), rel=0.15)
    assert abs(np.mean(w)) < 0.25 * np.std(w)


def test_first_sign_step_moves_units_by_what_the_docstring_says():
    bias = made(units=2000, hidden_dim=90)
    bias.draw(1)
    signs = np.random.default_rng(0).choice([-1.0, 1.0], size=(1, 90))
    moves = 0.01 * signs @ bias.projection.numpy()
    # Signs that have nothing to do with a unit move it by gain * epsilon.
    assert np.std(moves) == pytest.approx(10 * 0.01, rel=0.1)


def test_seed_is_drawn_from_pythons_generator():
    keras.utils.set_random_seed(5)
    first = TaskBias(3).seed
    keras.utils.set_random_seed(5)
    assert TaskBias(3).seed == first
    assert TaskBias(3).seed != first


def test_clone_draws_the_same_factors():
    bias = made(seed=None)
    clone = TaskBias.from_config(bias.get_config())
    clone.build()
    for one in (bias, clone):
        one.draw(4)
    np.testing.assert_array_equal(bias.projection, clone.projection)


def test_own_initializers():
    bias = made(
        perturbation_initializer=keras.initializers.Constant(0.5),
        projection_initializer=keras.initializers.RandomUniform(5, 6, seed=1),
    )
    bias.draw(1)
    m, w = factors(bias)
    np.testing.assert_array_equal(m, np.full((1, 4), 0.5))
    assert w.min() >= 5
    assert w.max() <= 6
    bias.draw(2)
    assert not np.any(bias.projection.numpy() == w)


def test_own_initializer_can_be_a_function():
    def twos(shape, dtype=None):
        return 2 * tf.ones(shape, dtype)

    bias = made(perturbation_initializer=twos)
    bias.draw(1)
    np.testing.assert_array_equal(bias.perturbation, np.full((1, 4), 2.0))


@settings(deadline=None, max_examples=15)
@given(st.lists(st.integers(1, 8), min_size=1, max_size=6))
def test_fold_stores_the_product_and_nothing_else(rows):
    bias = made()
    expected = fill_table(bias)
    for i, row in enumerate(rows):
        m, w = set_factors(bias, seed=i)
        expected[row] = (m @ w)[0]
        bias.fold(row)
        np.testing.assert_array_equal(bias.table, expected)
        np.testing.assert_array_equal(bias.perturbation, np.zeros((1, 4)))
        np.testing.assert_array_equal(bias.projection, np.zeros((4, 3)))


def test_folded_row_has_the_bits_that_training_used():
    bias = made(units=30, hidden_dim=100)
    rng = np.random.default_rng(0)
    for variable in bias.factors:
        variable.assign(rng.normal(size=variable.shape))
    with task_scope(2, 2):
        before = bias.add_to(None, 2, "float32").numpy()
    bias.fold(2)
    with task_scope(2, -1):
        after = bias.add_to(None, 2, "float32").numpy()
    np.testing.assert_array_equal(before, after)
    assert np.all(before != 0)


def test_add_to_chooses_row_or_product():
    bias = made()
    table = fill_table(bias)
    m, w = set_factors(bias)
    shared = np.array([1.0, 2.0, 3.0], "float32")
    with task_scope(2, 3):
        np.testing.assert_array_equal(
            bias.add_to(shared, 2, "float32"), shared + table[2]
        )
    with task_scope(3, 3):
        np.testing.assert_array_equal(
            bias.add_to(shared, 2, "float32"), shared + (m @ w)[0]
        )
    with task_scope(np.array([1, 3, 0]), 3):
        outputs = bias.add_to(shared, 4, "float32")
    assert outputs.shape == (3, 1, 1, 3)
    expected = shared + np.stack([table[1], (m @ w)[0], table[0]])
    np.testing.assert_array_equal(outputs[:, 0, 0], expected)


def test_without_a_scope_bias_comes_back_as_it_is():
    shared = tf.ones(3)
    assert made().add_to(shared, 2, "float32") is shared
    assert made().add_to(None, 2, "float32") is None


def test_inactive():
    bias = made()
    table = fill_table(bias)
    set_factors(bias)
    bias.active = False
    assert bias.trainable_variables == []
    shared = tf.ones(3)
    with task_scope(1, 1):
        assert bias.add_to(shared, 2, "float32") is shared
    bias.fold(1)
    np.testing.assert_array_equal(bias.table, table)
    np.testing.assert_array_equal(bias.perturbation, np.zeros((1, 4)))
    bias.active = True
    assert bias.trainable_variables == bias.factors


@pytest.mark.parametrize("capacity", [9, 16, 100])
def test_reserve_keeps_old_rows_and_adds_zeros(capacity):
    bias = made()
    old = fill_table(bias)
    kept = set_factors(bias)
    assert bias.reserve(capacity)
    expected = np.concatenate([old, np.zeros((capacity - 8, 3))])
    np.testing.assert_array_equal(bias.table, expected)
    assert bias.variables == [*bias.factors, bias.table]
    assert bias.trainable_variables == bias.factors
    for a, b in zip(factors(bias), kept):
        np.testing.assert_array_equal(a, b)
    assert not bias.reserve(capacity)
    assert not bias.reserve(3)
    assert bias.table.shape == (capacity + 1, 3)


def test_reserve_before_building():
    bias = TaskBias(3)
    assert not bias.reserve(20)
    bias.build()
    np.testing.assert_array_equal(bias.table, np.zeros((21, 3)))


def test_load_names_what_does_not_fit():
    store = {}
    made(units=4).save_own_variables(store)
    with pytest.raises(ValueError, match="`projection`.*shape"):
        made(units=3).load_own_variables(store)


def test_enlarged_table_is_loaded():
    bias, store = made(), {}
    bias.reserve(16)
    table = fill_table(bias)
    bias.save_own_variables(store)
    loaded = made()
    loaded.load_own_variables(store)
    np.testing.assert_array_equal(loaded.table, table)
    assert loaded.capacity == 16


@pytest.mark.parametrize("active", [True, False])
def test_loaded_active_flag_also_decides_what_is_trained(active):
    bias, store = made(), {}
    bias.active = active
    bias.save_own_variables(store)
    loaded = made()
    loaded.load_own_variables(store)
    assert loaded.active is active
    assert bool(loaded.trainable_variables) is active


@pytest.mark.parametrize("name", ["units", "hidden_dim"])
def test_invalid_sizes(name):
    for value in (0, -1, 2.0, "3", None):
        message = f"Expected `{name}`.*{name}={value}"
        with pytest.raises(ValueError, match=message):
            TaskBias(**{"units": 3, "hidden_dim": 4, name: value})


def test_rows_can_be_read_written_and_cleared():
    bias = made()
    fill_table(bias)
    row = bias.read_row(2)
    bias.write_row(5, row)
    np.testing.assert_array_equal(bias.table.numpy()[5], row)
    before = bias.table.numpy()
    bias.clear(2)
    before[2] = 0
    np.testing.assert_array_equal(bias.table, before)
    bias.active = False
    assert bias.read_row(5) is None


def test_factors_are_those_of_the_serial_number():
    first, second = made(), made()
    first.give_row(1, 6)
    first.draw(1)
    second.draw(6)
    for a, b in zip(factors(first), factors(second)):
        np.testing.assert_array_equal(a, b)
    assert first.serial(1) == 6 and first.serial(2) == 2
    first.clear(1)
    first.draw(1)
    second.draw(1)
    for a, b in zip(factors(first), factors(second)):
        np.testing.assert_array_equal(a, b)
