import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

from keras_bpn.layers import BPNDense
from keras_bpn.layers.task_scope import record_calls
from keras_bpn.layers.task_scope import task_scope

WIDTH, UNITS, HIDDEN = 5, 3, 4


def whole(shape, seed):
    """Small whole numbers, whose sums and products are exact in float32."""
    values = np.random.default_rng(seed).integers(-4, 5, shape)
    return values.astype("float32")


def made(keys=False, **kwargs):
    """Returns a built layer all of whose weights are small whole numbers."""
    layer = BPNDense(UNITS, **{"hidden_dim": HIDDEN, "seed": 1, **kwargs})
    layer.build((None, WIDTH))
    for i, variable in enumerate(layer.variables):
        variable.assign(whole(variable.shape, i))
    if keys:
        layer.task_keys.enable(2)
    return layer


def expected(layer, x, row, open_row):
    """The layer's equation in NumPy, before the activation."""
    weights = {v.name: v.numpy() for v in layer.weights}
    units = layer.task_bias.table.numpy()[row]
    if row == open_row:
        units = (weights["perturbation"] @ weights["projection"])[0]
    if layer.task_keys.seed is not None:
        x = x * layer.task_keys.table.numpy()[row]
    return x @ weights["kernel"] + (weights.get("bias", 0) + units)


CONFIGS = {
    "defaults": {},
    "no bias units": {"hidden_dim": 0},
    "everything": dict(
        activation="gelu",
        use_bias=False,
        hidden_dim=7,
        perturbation_initializer=keras.initializers.Constant(0.25),
        projection_initializer="he_normal",
        seed=11,
        kernel_initializer=keras.initializers.RandomNormal(seed=3),
        bias_initializer="ones",
        kernel_regularizer=keras.regularizers.L2(0.5),
        bias_regularizer="l1",
        activity_regularizer="l2",
        kernel_constraint=keras.constraints.MaxNorm(2),
        bias_constraint="non_neg",
        name="mine",
        dtype="mixed_bfloat16",
        trainable=False,
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_config_round_trip(name):
    layer = BPNDense(3, **CONFIGS[name])
    config = layer.get_config()
    clone = BPNDense.from_config(config)
    assert clone.get_config() == config
    assert (clone.task_bias is None) == (name == "no bias units")


def test_config_holds_the_arguments():
    serialized = keras.saving.serialize_keras_object(
        BPNDense(3, **CONFIGS["everything"])
    )
    clone = keras.saving.deserialize_keras_object(serialized)
    assert type(clone) is BPNDense
    assert (clone.units, clone.use_bias, clone.hidden_dim) == (3, False, 7)
    assert clone.activation is keras.activations.gelu
    assert clone.name == "mine"
    assert clone.dtype_policy.name == "mixed_bfloat16"
    assert clone.task_bias.dtype_policy.name == "mixed_bfloat16"
    assert not clone.trainable
    assert clone.kernel_initializer.seed == 3
    assert clone.kernel_regularizer.l2 == 0.5
    assert clone.kernel_constraint.max_value == 2
    assert clone.task_bias.seed == 11
    assert clone.task_bias.perturbation_initializer.value == 0.25
    he_normal = clone.task_bias.projection_initializer
    assert isinstance(he_normal, keras.initializers.HeNormal)


@pytest.mark.parametrize(
    "shape, activation, use_bias",
    [
        ((6, 40), None, True),
        ((6, 40), "softmax", False),
        ((6, 3, 40), "tanh", True),
    ],
)
def test_outside_a_scope_it_is_dense(shape, activation, use_bias):
    dense = keras.layers.Dense(30, activation=activation, use_bias=use_bias)
    layer = BPNDense(30, activation=activation, use_bias=use_bias)
    rng = np.random.default_rng(0)
    x = rng.normal(size=shape).astype("float32")
    dense.build(shape)
    layer.build(shape)
    layer.task_keys.enable(2)
    for variable in (*dense.variables, *layer.task_bias.variables):
        variable.assign(rng.normal(size=variable.shape))
    layer.kernel.assign(dense.kernel)
    if use_bias:
        layer.bias.assign(dense.bias)
    np.testing.assert_array_equal(layer(x), dense(x))


def test_without_bias_units_only_the_key_depends_on_the_task():
    layer = made(hidden_dim=0)
    x = whole((2, WIDTH), 9)
    outside = layer(x).numpy()
    with task_scope(3, 3):
        np.testing.assert_array_equal(layer(x), outside)
    layer.task_keys.enable(2)
    key = layer.task_keys.table.numpy()[3]
    with task_scope(3, 3):
        np.testing.assert_array_equal(
            layer(x), (x * key) @ layer.kernel.numpy() + layer.bias.numpy()
        )


@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("use_bias", [True, False])
@pytest.mark.parametrize("shape", [(6, 5), (6, 2, 5), (6, 2, 3, 5)])
def test_rows(keys, use_bias, shape):
    layer = made(keys, use_bias=use_bias, activation="relu")
    x = whole(shape, 9)
    for row, open_row in ((0, -1), (2, -1), (2, 3), (3, 3)):
        with task_scope(row, open_row):
            outputs = layer(x)
        before = expected(layer, x, row, open_row)
        np.testing.assert_array_equal(outputs, np.maximum(before, 0))


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=7),
    st.integers(-1, 8),
    st.booleans(),
    st.sampled_from([(), (2,), (2, 3)]),
)
def test_mixed_batch_equals_single_rows(rows, open_row, keys, inner):
    layer = made(keys)
    x = whole((len(rows), *inner, WIDTH), 9)
    with task_scope(np.array(rows, "int32"), open_row):
        outputs = layer(x).numpy()
    for i, row in enumerate(rows):
        with task_scope(row, open_row):
            np.testing.assert_array_equal(outputs[i], layer(x[i : i + 1])[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision(dtype):
    layer = made(keys=True, dtype=f"mixed_{dtype}")
    # 1.2 and 0.3 have no exact half-precision value: the order of rounding
    # and adding shows.
    layer.bias.assign(np.full(UNITS, 1.2))
    layer.task_bias.table.assign(np.full((9, UNITS), 0.3))
    for variable in (layer.kernel, *layer.task_bias.variables):
        assert variable.dtype == "float32"
    x = whole((2, WIDTH), 9)
    with task_scope(2, 3):
        outputs = layer(x)
    assert outputs.dtype == dtype
    product = (x * layer.task_keys.table.numpy()[2]) @ layer.kernel.numpy()
    units = tf.constant(1.2, dtype) + tf.constant(0.3, dtype)
    np.testing.assert_array_equal(
        tf.cast(outputs, "float32"),
        tf.cast(tf.constant(product, dtype) + units, "float32"),
    )
    layer.task_bias.perturbation.assign(np.full((1, HIDDEN), 0.1))
    layer.task_bias.fold(3)
    assert layer.task_bias.table.dtype == "float32"


@pytest.mark.parametrize(
    "kind, active, keys",
    [
        ("sequential", True, True),
        ("functional", False, True),
        ("functional", True, False),
    ],
)
def test_saved_in_a_plain_model(kind, active, keys, tmp_path):
    layer = made(keys, name="mine")
    layer.task_bias.active = active
    inputs = keras.Input((WIDTH,))
    if kind == "sequential":
        model = keras.Sequential([inputs, layer])
    else:
        model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    other = loaded.get_layer("mine")
    assert other.task_keys.seed == (2 if keys else None)
    assert other.task_bias.active is active
    values = {v.path.split("mine/")[-1]: v.numpy() for v in layer.variables}
    others = {v.path.split("mine/")[-1]: v.numpy() for v in other.variables}
    assert others.keys() == values.keys()
    for path, value in values.items():
        np.testing.assert_array_equal(others[path], value)
    x = whole((2, WIDTH), 9)
    for row in (2, 3):
        with task_scope(row, 3):
            np.testing.assert_array_equal(loaded(x), model(x))


@pytest.mark.parametrize("transform", [keras.ops.square, keras.ops.abs])
@pytest.mark.parametrize(
    "shape, use_bias",
    [((7, 5), True), ((7, 4, 5), True), ((7, 2, 2, 5), False)],
)
def test_gradient_moments_equal_a_loop_over_examples(
    transform, shape, use_bias
):
    layer = made(keys=True, use_bias=use_bias, activation="tanh")
    rng = np.random.default_rng(5)
    for variable in (*layer.trainable_variables, layer.task_bias.table):
        variable.assign(rng.normal(size=variable.shape, scale=0.5))
    x = rng.normal(size=shape).astype("float32")
    target = rng.normal(size=(*shape[:-1], UNITS)).astype("float32")
    weights = rng.uniform(size=len(x)).astype("float32")
    shared = [layer.kernel, layer.bias] if use_bias else [layer.kernel]

    def loss(start, stop):
        errors = layer(x[start:stop]) - target[start:stop]
        return tf.reduce_sum(errors**2)

    wanted = [0.0] * len(shared)
    with task_scope(2, 2):
        with record_calls() as calls, tf.GradientTape() as tape:
            total = loss(0, len(x))
        deltas = tape.gradient(total, calls[0].outputs)
        for i in range(len(x)):
            with tf.GradientTape() as tape:
                single = loss(i, i + 1)
            for j, gradient in enumerate(tape.gradient(single, shared)):
                wanted[j] += weights[i] * transform(gradient)
    moments = layer.gradient_moments(calls[0], deltas, weights, transform)
    assert [id(v) for v, _ in moments] == [id(v) for v in shared]
    for (_, moment), value in zip(moments, wanted):
        np.testing.assert_allclose(moment, value, rtol=1e-5, atol=1e-6)


def test_invalid_arguments_are_named():
    for value in (0, -3, 2.5, "4", None):
        with pytest.raises(ValueError, match=f"`units`.*units={value}"):
            BPNDense(value)
    for value in (-1, 2.5, "4", None):
        message = f"Expected `hidden_dim`.*hidden_dim={value}"
        with pytest.raises(ValueError, match=message):
            BPNDense(3, hidden_dim=value)


def test_quantization_is_refused():
    with pytest.raises(NotImplementedError, match="mode=int8"):
        made().quantize("int8")


def test_quantized_dtype_policy_is_refused():
    with pytest.raises(NotImplementedError, match="quantized"):
        BPNDense(3, dtype="int8_from_float32").build((None, WIDTH))


def test_lora_rank_builds():
    layer = BPNDense(UNITS, lora_rank=2)
    layer.build((None, WIDTH))
    x = whole((2, WIDTH), 9)
    # The second factor of the low-rank part starts at zero.
    np.testing.assert_allclose(layer(x), x @ layer._kernel.numpy(), rtol=1e-5)


def test_variable_paths_are_distinct_and_named():
    inputs = keras.Input((WIDTH,))
    first, second = BPNDense(4, name="first"), BPNDense(3, name="second")
    model = keras.Model(inputs, second(first(inputs)))
    paths = [v.path for v in model.variables]
    assert len(set(paths)) == len(paths) == 10
    for layer in (first, second):
        m, w = layer.task_bias.factors
        assert f"{layer.name}/task_bias/perturbation" in m.path
        assert f"{layer.name}/task_bias/projection" in w.path


@pytest.mark.parametrize(
    "activation, gain",
    [("relu", 10), ("tanh", 10), (None, 1 / 3), ("softmax", 1 / 3)],
)
def test_outputs_draw_a_smaller_second_factor(activation, gain):
    layer = BPNDense(200, activation=activation, hidden_dim=25)
    layer.build((None, 3))
    layer.task_bias.draw(1)
    w = layer.task_bias.projection.numpy()
    assert np.std(w) == pytest.approx(gain / 5, rel=0.1)
