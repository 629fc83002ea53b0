import keras
import numpy as np
import pytest

from keras_bpn.layers import BPNDense
from keras_bpn.models.optimizer_state import check_sign_steps
from keras_bpn.models.optimizer_state import loss_scale
from keras_bpn.models.optimizer_state import restart

OPTIMIZERS = {
    "sgd": lambda: keras.optimizers.SGD(0.1, momentum=0.9),
    "adam": lambda: keras.optimizers.Adam(0.1),
    "amsgrad": lambda: keras.optimizers.Adam(0.1, amsgrad=True),
    "adamw": lambda: keras.optimizers.AdamW(0.1),
    "rmsprop": lambda: keras.optimizers.RMSprop(
        0.1, momentum=0.9, centered=True
    ),
    "adagrad": lambda: keras.optimizers.Adagrad(
        0.1, initial_accumulator_value=0.3
    ),
    "adadelta": lambda: keras.optimizers.Adadelta(0.1),
    "nadam": lambda: keras.optimizers.Nadam(0.1),
    "lion": lambda: keras.optimizers.Lion(0.1),
    "ftrl": lambda: keras.optimizers.Ftrl(0.1),
    "moving average": lambda: keras.optimizers.SGD(0.1, use_ema=True),
}


def two_layers():
    layers = [BPNDense(3, hidden_dim=2), BPNDense(2, hidden_dim=2)]
    for layer in layers:
        layer.build((None, 3))
        layer.task_bias.draw(1)
    return layers


def variables_of(layers):
    return [v for layer in layers for v in layer.trainable_variables]


def train(optimizer, variables, steps=3):
    rng = np.random.default_rng(0)
    for _ in range(steps):
        gradients = [rng.uniform(1, 2, v.shape) for v in variables]
        optimizer.apply(
            [keras.ops.convert_to_tensor(g, "float32") for g in gradients],
            variables,
        )


def state_of(optimizer):
    return [(v.name, v.numpy()) for v in optimizer.variables]


def test_optimizer_that_is_not_built_stays_so():
    optimizer = keras.optimizers.Adam()
    restart(optimizer)
    assert not optimizer.built
    assert len(optimizer.variables) == 2


def test_layers_of_one_name_are_kept_apart():
    # Layers of nested functional models can share a name, and with it the
    # paths of their variables.
    layers = [BPNDense(n, hidden_dim=2, name="same") for n in (2, 3)]
    for layer in layers:
        layer.build((None, 2))
    optimizer = keras.optimizers.SGD(0.1, momentum=0.9)
    train(optimizer, variables_of(layers))
    restart(optimizer)
    assert not any(np.any(slot.numpy()) for slot in optimizer.momentums)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_restarted_optimizer_takes_the_steps_of_a_new_one(name):
    layers, optimizer = two_layers(), OPTIMIZERS[name]()
    variables = variables_of(layers)
    initial = [v.numpy() for v in variables]
    optimizer.build(variables)
    runs = []
    for _ in range(2):
        for variable, value in zip(variables, initial):
            variable.assign(value)
        restart(optimizer)
        train(optimizer, variables)
        state = [value for _, value in state_of(optimizer)]
        runs.append([v.numpy() for v in variables] + state)
    for first, second in zip(*runs, strict=True):
        np.testing.assert_array_equal(first, second)
    assert int(optimizer.iterations) == 3


def test_restart_keeps_learning_rate_and_loss_scale():
    layers, adam = two_layers(), keras.optimizers.Adam(0.1)
    scaled = keras.optimizers.LossScaleOptimizer(adam, initial_scale=8.0)
    scaled.build(variables_of(layers))
    train(scaled, variables_of(layers))
    adam.learning_rate = 0.01
    scaled.dynamic_scale.assign(4.0)
    restart(scaled)
    assert float(adam.learning_rate) == np.float32(0.01)
    assert float(scaled.dynamic_scale) == 4.0
    assert int(scaled.iterations) == 0
    assert not any(np.any(slot) for slot in adam._momentums)


def test_restart_inside_multi_optimizer():
    layers = two_layers()
    sgd = keras.optimizers.SGD(0.1, momentum=0.9)
    adam = keras.optimizers.Adam(0.1)
    optimizer = keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(adam, {".*task_bias/projection": sgd})
    )
    optimizer.build(variables_of(layers))
    initial = state_of(optimizer)
    train(optimizer, variables_of(layers))
    restart(optimizer)
    for (_, first), (name, now) in zip(initial, state_of(optimizer)):
        np.testing.assert_array_equal(now, first, err_msg=name)


def test_accumulation_is_refused():
    check_sign_steps(keras.optimizers.SGD())
    sgd = keras.optimizers.SGD(gradient_accumulation_steps=4)
    multi = keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(keras.optimizers.Adam(), {"a": sgd})
    )
    scaled = keras.optimizers.LossScaleOptimizer(sgd)
    for optimizer in (sgd, multi, scaled):
        message = "sign step.*gradient_accumulation_steps=4"
        with pytest.raises(ValueError, match=message):
            check_sign_steps(optimizer)


def test_moving_averages_are_refused():
    with pytest.raises(ValueError, match="moving average.*use_ema=True"):
        check_sign_steps(keras.optimizers.SGD(use_ema=True))


def test_loss_scale():
    assert loss_scale(keras.optimizers.SGD()) is None
    constant = keras.optimizers.SGD(loss_scale_factor=4.0)
    assert float(loss_scale(constant)) == 4.0
    scaled = keras.optimizers.LossScaleOptimizer(
        keras.optimizers.SGD(), initial_scale=16.0
    )
    scaled.build(variables_of(two_layers()))
    assert float(loss_scale(scaled)) == 16.0
    scaled.dynamic_scale.assign(2.0)
    assert float(loss_scale(scaled)) == 2.0
