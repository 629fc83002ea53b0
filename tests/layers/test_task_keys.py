import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bpn.layers import TaskKeys
from keras_bpn.layers.task_keys import draw_keys
from keras_bpn.layers.task_scope import task_scope

SEEDS = st.integers(0, 2**64 - 1)
ROWS = st.integers(1, 2**32)


def enabled(width=6, seed=3):
    keys = TaskKeys(width)
    keys.build()
    keys.enable(seed)
    return keys


def draw_key(seed, row, width):
    return draw_keys(seed, [row], width)[0]


def test_keys_are_the_same_in_every_version():
    assert draw_key(1, 1, 16).tolist() == [
        *(-1, -1, 1, -1, -1, 1, -1, 1),
        *(1, -1, -1, 1, 1, 1, 1, -1),
    ]
    # The last bits come from the second 64-bit word of the generator.
    assert draw_key(123456789, 7, 70)[-6:].tolist() == [-1, 1, -1, 1, 1, 1]


@given(SEEDS, ROWS, st.integers(1, 300))
def test_key_is_a_function_of_seed_and_row(seed, row, width):
    key = draw_key(seed, row, width)
    assert key.shape == (width,)
    assert key.dtype == np.int8
    assert set(key.tolist()) <= {-1, 1}
    np.testing.assert_array_equal(key, draw_key(seed, row, width))
    # A wider layer starts with the same signs.
    np.testing.assert_array_equal(key, draw_key(seed, row, width + 70)[:width])


@given(SEEDS, st.lists(ROWS, max_size=9), st.integers(1, 300))
def test_keys_drawn_together_are_those_drawn_alone(seed, rows, width):
    keys = draw_keys(seed, rows, width)
    assert keys.shape == (len(rows), width)
    for row, key in zip(rows, keys):
        # By the definition: a generator for each row.
        generator = np.random.Philox(key=np.array([seed, row], "uint64"))
        words = generator.random_raw(-(-width // 64)).astype("<u8")
        bits = np.unpackbits(words.view("uint8"))[:width]
        np.testing.assert_array_equal(key, np.where(bits, 1, -1))


@given(SEEDS, SEEDS, ROWS, ROWS)
def test_other_seeds_and_rows_give_other_keys(seed, other, row, other_row):
    if (seed, row) == (other, other_row):
        return
    # Signs of independent keys agree in 512 ± 16 of 1024 places; 5 standard
    # deviations are 80.
    agree = draw_key(seed, row, 1024) == draw_key(other, other_row, 1024)
    assert abs(int(agree.sum()) - 512) < 100


@given(SEEDS, ROWS)
def test_signs_are_balanced(seed, row):
    # The sum of 4096 signs has a standard deviation of 64.
    assert abs(int(draw_key(seed, row, 4096).sum(dtype="int64"))) < 6 * 64


def test_row_zero_is_all_ones_and_others_are_drawn():
    table = enabled(width=50, seed=9).table.numpy()
    assert table.dtype == np.int8
    assert table.shape == (9, 50)
    np.testing.assert_array_equal(table[0], np.ones(50))
    for row in range(1, 9):
        np.testing.assert_array_equal(table[row], draw_key(9, row, 50))


def test_disabled_returns_the_same_object():
    keys = TaskKeys(4)
    keys.build()
    x = np.ones((2, 4), "float32")
    with task_scope(1, -1):
        assert keys.multiply(x) is x
    assert keys.variables == []


def test_outside_a_scope_returns_the_same_object():
    x = np.ones((2, 6), "float32")
    assert enabled().multiply(x) is x


@pytest.mark.parametrize("shape", [(3, 6), (3, 2, 6), (3, 2, 2, 6)])
def test_multiplies_by_the_key_of_the_row(shape):
    keys = enabled()
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    for row in (0, 1, 5):
        key = draw_key(3, row, 6) if row else np.ones(6)
        with task_scope(row, -1):
            np.testing.assert_array_equal(keys.multiply(x), x * key)


@pytest.mark.parametrize("shape", [(3, 6), (3, 2, 6)])
def test_mixed_batch_uses_the_key_of_each_example(shape):
    keys = enabled()
    x = np.arange(np.prod(shape), dtype="float32").reshape(shape)
    with task_scope(np.array([2, 0, 1]), -1):
        outputs = keys.multiply(x)
    np.testing.assert_array_equal(outputs[0], x[0] * draw_key(3, 2, 6))
    np.testing.assert_array_equal(outputs[1], x[1])
    np.testing.assert_array_equal(outputs[2], x[2] * draw_key(3, 1, 6))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_keeps_the_dtype_of_the_inputs(dtype):
    with task_scope(1, -1):
        outputs = enabled().multiply(tf.ones((2, 6), dtype))
    assert outputs.dtype == dtype
    np.testing.assert_array_equal(
        tf.cast(outputs, "float32"), np.tile(draw_key(3, 1, 6), (2, 1))
    )


def test_reserve_keeps_old_keys_and_draws_new_ones():
    keys = enabled()
    old = keys.table.numpy()
    assert not keys.reserve(8)
    assert keys.reserve(20)
    table = keys.table.numpy()
    assert table.shape == (21, 6)
    np.testing.assert_array_equal(table[:9], old)
    for row in range(9, 21):
        np.testing.assert_array_equal(table[row], draw_key(3, row, 6))
    assert keys.variables == [keys.table]
    assert keys.trainable_variables == []


def test_reserve_before_enabling():
    keys = TaskKeys(6)
    keys.build()
    assert not keys.reserve(20)
    keys.enable(3)
    np.testing.assert_array_equal(keys.table.numpy()[20], draw_key(3, 20, 6))


def test_enabling_again_keeps_or_replaces_the_keys():
    keys = enabled()
    table = keys.table
    keys.enable(3)
    assert keys.table is table
    keys.enable(4)
    np.testing.assert_array_equal(keys.table.numpy()[1], draw_key(4, 1, 6))
    assert keys.variables == [keys.table]


@settings(deadline=None, max_examples=20)
@given(SEEDS)
def test_only_the_seed_is_stored(seed):
    keys, store = enabled(seed=seed), {}
    keys.save_own_variables(store)
    assert list(store) == ["seed"]
    loaded = TaskKeys.from_config(keys.get_config())
    loaded.build()
    loaded.load_own_variables(store)
    assert loaded.seed == seed
    np.testing.assert_array_equal(loaded.table, keys.table)


def test_disabled_stores_nothing_and_loads_disabled():
    keys, store = TaskKeys(6), {}
    keys.build()
    keys.save_own_variables(store)
    assert store == {}
    keys.load_own_variables(store)
    assert keys.seed is None
    assert keys.table is None


def test_a_row_that_is_given_away_has_the_key_of_the_serial_number():
    keys = enabled()
    keys.give_row(2, 40)
    np.testing.assert_array_equal(keys.table[2], draw_key(3, 40, 6))
    assert keys.origin(2) == (3, 40) and not keys.has_other_origins
    keys.reserve(20)
    keys.enable(4)
    np.testing.assert_array_equal(keys.table[2], draw_key(4, 40, 6))
    np.testing.assert_array_equal(keys.table[20], draw_key(4, 20, 6))
    keys.clear(2)
    np.testing.assert_array_equal(keys.table[2], draw_key(4, 2, 6))


def test_keys_of_other_origins_are_stored():
    keys, store = enabled(), {}
    keys.set_origin(1, (2**64 - 1, 9))
    keys.set_origin(4, (3, 8))
    keys.set_origin(5, (3, 5))
    keys.give_row(6, 30)
    assert [keys.origin(row) for row in (1, 4, 5)] == [
        (2**64 - 1, 9),
        (3, 8),
        (3, 5),
    ]
    np.testing.assert_array_equal(keys.table[1], draw_key(2**64 - 1, 9, 6))
    keys.save_own_variables(store)
    # That of the fifth row is its own.
    assert store["origins"].tolist() == [[1, 2**64 - 1, 9], [4, 3, 8]]
    loaded = enabled(seed=7)
    loaded.set_origin(2, (1, 1))
    # The model says first whose rows they are.
    loaded.set_serials({6: 30})
    loaded.load_own_variables(store)
    np.testing.assert_array_equal(loaded.table, keys.table)
    assert loaded.origin(1) == (2**64 - 1, 9)
    keys.clear(1)
    keys.set_serials({})
    np.testing.assert_array_equal(keys.table, enabled().table)
    assert not keys.has_other_origins


def test_origins_beyond_the_table_are_refused():
    for row in (0, 9, 2**63):
        with pytest.raises(
            ValueError, match=f"from 1 to 8. Received: row={row}"
        ):
            enabled().load_own_variables(
                {"seed": 3, "origins": np.array([[row, 1, 1]], "uint64")}
            )


def test_whose_rows_they_are_can_be_said_before_enabling():
    keys = TaskKeys(6)
    keys.build()
    keys.set_serials({2: 9})
    keys.give_row(3, 8)
    keys.clear(4)
    keys.enable(3)
    for row, serial in ((1, 1), (2, 9), (3, 8), (4, 4)):
        np.testing.assert_array_equal(keys.table[row], draw_key(3, serial, 6))
