import keras
import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

import keras_bpn
from keras_bpn.layers import BPNConv2D
from keras_bpn.layers.task_scope import record_calls
from keras_bpn.layers.task_scope import task_scope
from tests.layers.test_bpn_dense import whole

FILTERS, HIDDEN, CHANNELS = 3, 4, 2
GEOMETRY = {
    "plain": {},
    "strides": {"strides": 2, "padding": "same"},
    "dilation": {"dilation_rate": (1, 2), "kernel_size": (3, 2)},
}


def made(keys=False, **kwargs):
    """Returns a built layer all of whose weights are small whole numbers."""
    arguments = {"kernel_size": 3, "hidden_dim": HIDDEN, "seed": 1}
    layer = BPNConv2D(FILTERS, **{**arguments, **kwargs})
    layer.build((None, 6, 5, CHANNELS))
    for i, variable in enumerate(layer.variables):
        variable.assign(whole(variable.shape, i))
    if keys:
        layer.task_keys.enable(2)
    return layer


def images(size=4):
    return whole((size, 6, 5, CHANNELS), 9)


def expected(layer, x, row, open_row):
    """The layer's equation, place by place, before the activation."""
    kernel = layer.kernel.numpy()
    if layer.task_keys.seed is not None:
        key = layer.task_keys.table.numpy()[row]
        kernel = kernel * key.reshape(*kernel.shape[:3], 1)
    units = layer.task_bias.table.numpy()[row]
    if row == open_row:
        factors = [v.numpy() for v in layer.task_bias.factors]
        units = (factors[0] @ factors[1])[0]
    units = units + (0 if layer.bias is None else layer.bias.numpy())
    (sh, sw), (dh, dw) = layer.strides, layer.dilation_rate
    kh, kw = layer.kernel_size
    if layer.padding == "same":
        # As TensorFlow pads: what is left over goes to the end.
        pads = []
        for size, stride, span in zip(
            x.shape[1:3], (sh, sw), (dh * (kh - 1) + 1, dw * (kw - 1) + 1)
        ):
            total = max((-(-size // stride) - 1) * stride + span - size, 0)
            pads.append((total // 2, total - total // 2))
        x = np.pad(x, [(0, 0), *pads, (0, 0)])
    height = (x.shape[1] - dh * (kh - 1) - 1) // sh + 1
    width = (x.shape[2] - dw * (kw - 1) - 1) // sw + 1
    outputs = np.zeros((len(x), height, width, FILTERS))
    for i in range(height):
        for j in range(width):
            for a in range(kh):
                for b in range(kw):
                    pixel = x[:, i * sh + a * dh, j * sw + b * dw]
                    outputs[:, i, j] += pixel @ kernel[a, b]
    return outputs + units


CONFIGS = {
    "defaults": {},
    "no bias units": {"hidden_dim": 0},
    "everything": dict(
        strides=(1, 2),
        padding="same",
        activation="gelu",
        use_bias=False,
        hidden_dim=7,
        perturbation_initializer=keras.initializers.Constant(0.25),
        projection_initializer="he_normal",
        seed=11,
        kernel_regularizer=keras.regularizers.L2(0.5),
        name="mine",
        dtype="mixed_bfloat16",
        trainable=False,
    ),
}


@pytest.mark.parametrize("name", CONFIGS)
def test_config_round_trip(name):
    layer = BPNConv2D(3, (2, 3), **CONFIGS[name])
    config = layer.get_config()
    clone = BPNConv2D.from_config(config)
    assert clone.get_config() == config
    assert (clone.task_bias is None) == (name == "no bias units")


@pytest.mark.parametrize("geometry", GEOMETRY)
def test_outside_a_scope_it_is_a_convolution(geometry):
    layer = made(keys=True, activation="tanh", **GEOMETRY[geometry])
    plain = keras.layers.Conv2D(
        FILTERS, **{"kernel_size": 3, **GEOMETRY[geometry]}, activation="tanh"
    )
    plain.build((None, 6, 5, CHANNELS))
    plain.set_weights([layer.kernel.numpy(), layer.bias.numpy()])
    np.testing.assert_array_equal(layer(images()), plain(images()))


@pytest.mark.parametrize("geometry", GEOMETRY)
@pytest.mark.parametrize("keys", [False, True])
@pytest.mark.parametrize("use_bias", [True, False])
def test_rows(keys, use_bias, geometry):
    layer = made(
        keys, use_bias=use_bias, activation="relu", **GEOMETRY[geometry]
    )
    x = images()
    for row, open_row in ((0, -1), (2, -1), (2, 3), (3, 3)):
        with task_scope(row, open_row):
            outputs = layer(x)
        before = expected(layer, x, row, open_row)
        np.testing.assert_array_equal(outputs, np.maximum(before, 0))


@settings(deadline=None, max_examples=20)
@given(
    st.lists(st.integers(0, 8), min_size=1, max_size=5),
    st.integers(-1, 8),
    st.booleans(),
    st.sampled_from(sorted(GEOMETRY)),
)
def test_mixed_batch_equals_single_rows(rows, open_row, keys, geometry):
    layer = made(keys, **GEOMETRY[geometry])
    x = images(len(rows))
    with task_scope(np.array(rows, "int32"), open_row):
        outputs = layer(x).numpy()
    for i, row in enumerate(rows):
        with task_scope(row, open_row):
            np.testing.assert_array_equal(outputs[i], layer(x[i : i + 1])[0])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_mixed_precision(dtype):
    layer = made(keys=True, dtype=f"mixed_{dtype}")
    for variable in (layer.kernel, *layer.task_bias.variables):
        assert variable.dtype == "float32"
    with task_scope(2, 3):
        outputs = layer(images())
    assert outputs.dtype == dtype
    np.testing.assert_allclose(
        tf.cast(outputs, "float32"),
        expected(layer, images(), 2, 3),
        rtol=0.02,
    )


def test_saved_in_a_plain_model(tmp_path):
    layer = made(keys=True, name="mine")
    inputs = keras.Input((6, 5, CHANNELS))
    model = keras.Model(inputs, layer(inputs))
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.get_layer("mine").task_keys.seed == 2
    for row in (2, 3):
        with task_scope(row, 3):
            np.testing.assert_array_equal(loaded(images()), model(images()))


@pytest.mark.parametrize("transform", [keras.ops.square, keras.ops.abs])
@pytest.mark.parametrize("geometry", GEOMETRY)
@pytest.mark.parametrize("values", [1, 10**6])
def test_gradient_moments_equal_a_loop_over_examples(
    transform, geometry, values, monkeypatch
):
    # One example at a time, and all at once.
    monkeypatch.setattr("keras_bpn.layers.bpn_conv2d._VALUES", values)
    layer = made(keys=True, activation="tanh", **GEOMETRY[geometry])
    rng = np.random.default_rng(5)
    for variable in (*layer.trainable_variables, layer.task_bias.table):
        variable.assign(rng.normal(size=variable.shape, scale=0.5))
    x = rng.normal(size=(7, 6, 5, CHANNELS)).astype("float32")
    weights = rng.uniform(size=len(x)).astype("float32")
    shared = [layer.kernel, layer.bias]

    def loss(start, stop):
        return tf.reduce_sum((layer(x[start:stop]) - 0.3) ** 2)

    wanted = [0.0, 0.0]
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


def test_invalid_arguments():
    with pytest.raises(ValueError, match="`hidden_dim`.*Received: .*-1"):
        BPNConv2D(4, 3, hidden_dim=-1)
    with pytest.raises(ValueError, match="groups=2"):
        BPNConv2D(4, 3, groups=2)
    with pytest.raises(ValueError, match="data_format='channels_first'"):
        BPNConv2D(4, 3, data_format="channels_first")
    with pytest.raises(NotImplementedError, match="BPNConv2D.*quantized"):
        made().quantize("int8")


# In a network.


def make_network():
    x = inputs = keras.Input((6, 6, 1))
    x = BPNConv2D(4, 3, activation="relu", hidden_dim=5)(x)
    x = keras.layers.MaxPooling2D()(x)
    x = keras.layers.Flatten()(x)
    x = keras_bpn.layers.BPNDense(4, hidden_dim=5)(x)
    return keras_bpn.BPNModel(inputs, x)


def task_data(task):
    rng = np.random.default_rng(task)
    x = rng.normal(size=(24, 6, 6, 1)).astype("float32")
    y = rng.integers(2, size=24)
    return x + y[:, None, None, None].astype("float32"), y + 2 * task


def train(method):
    model = make_network()
    model.compile(
        "adam",
        keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        **keras_bpn.methods.get(method),
    )
    for task in range(2):
        x, y = task_data(task)
        model.fit(x, y, task=f"t{task}", epochs=2, batch_size=8, verbose=0)
    return model


@pytest.mark.parametrize("method", ["BD+EWC", "BD+PSP"])
def test_networks_learn_are_saved_and_exported(method, tmp_path):
    model = train(method)
    x = task_data(0)[0]
    tasks = [f"t{i % 2}" for i in range(len(x))]
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    model.export(tmp_path / "all", verbose=False)
    every = tf.saved_model.load(str(tmp_path / "all")).signatures
    outputs = {}
    for task in model.tasks:
        outputs[task] = model.predict(x, task=task, verbose=0)
        np.testing.assert_array_equal(
            loaded.predict(x, task=task, verbose=0), outputs[task]
        )
        model.export(tmp_path / task, task=task, verbose=False)
        one = tf.saved_model.load(str(tmp_path / task))
        for served in (
            one.serve(x),
            every[task](inputs=tf.constant(x))["output_0"],
        ):
            np.testing.assert_allclose(served, outputs[task], atol=1e-6)
    assert not np.allclose(outputs["t0"], outputs["t1"])
    mixed = model.predict(x, task=tasks, verbose=0)
    served = every["serving_default"](
        inputs=tf.constant(x), task=tf.constant(tasks)
    )["output_0"]
    for i, task in enumerate(tasks):
        np.testing.assert_allclose(mixed[i], outputs[task][i], atol=1e-5)
        np.testing.assert_allclose(served[i], outputs[task][i], atol=1e-5)


def test_exact_fisher_equals_a_loop_over_examples():
    keras.utils.set_random_seed(0)
    model = make_network()
    fisher = keras_bpn.consolidation.EWC(1.0)
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile("sgd", loss, consolidation=fisher)
    x, y = task_data(0)
    model.fit(x, y, task="t", verbose=0, consolidate=False)
    wanted = [np.zeros(v.shape, "float32") for v in model.shared_variables]
    for i in range(len(x)):
        with tf.GradientTape() as tape:
            single = loss(y[i : i + 1], model(x[i : i + 1], task="t"))
        gradients = tape.gradient(single, model.shared_variables)
        for total, gradient in zip(wanted, gradients):
            total += np.square(gradient) / len(x)
    model.consolidate(x, y)
    found = [fisher.importance(v) for v in model.shared_variables]
    for value, total in zip(found, wanted):
        np.testing.assert_allclose(value, total, rtol=1e-4, atol=1e-7)
