import keras
import numpy as np
import pytest

from keras_bpn.layers import BPNDense
from keras_bpn.models.optimizer_state import check_accumulation
from keras_bpn.models.optimizer_state import inner_optimizers
from keras_bpn.models.optimizer_state import loss_scale
from keras_bpn.models.optimizer_state import reset_slots
from keras_bpn.models.optimizer_state import restart

# Each optimizer with the number of slots that it keeps per variable.
OPTIMIZERS = {
    "sgd": (lambda: keras.optimizers.SGD(0.1, momentum=0.9), 1),
    "adam": (lambda: keras.optimizers.Adam(0.1), 2),
    "amsgrad": (lambda: keras.optimizers.Adam(0.1, amsgrad=True), 3),
    "adamw": (lambda: keras.optimizers.AdamW(0.1), 2),
    "rmsprop": (
        lambda: keras.optimizers.RMSprop(0.1, momentum=0.9, centered=True),
        3,
    ),
    "adagrad": (
        lambda: keras.optimizers.Adagrad(0.1, initial_accumulator_value=0.3),
        1,
    ),
    "adadelta": (lambda: keras.optimizers.Adadelta(0.1), 2),
    "nadam": (lambda: keras.optimizers.Nadam(0.1), 2),
    "lion": (lambda: keras.optimizers.Lion(0.1), 1),
    "ftrl": (lambda: keras.optimizers.Ftrl(0.1), 2),
    "moving average": (lambda: keras.optimizers.SGD(0.1, use_ema=True), 1),
}


def two_layers():
    layers = [BPNDense(3, hidden_dim=2), BPNDense(2, hidden_dim=2)]
    for layer in layers:
        layer.build((None, 3))
        layer.task_bias.draw(1)
    return layers


def variables_of(layers):
    return [v for layer in layers for v in layer.trainable_variables]


def factors_of(layers):
    return [v for layer in layers for v in layer.task_bias.factors]


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


def check_reset(optimizer, initial, variables, num_slots):
    """Resets the slots of some variables and compares with before.

    Args:
        optimizer: Trained optimizer.
        initial: State of the optimizer before it was trained.
        variables: Model variables whose slots to reset.
        num_slots: Number of slots that these variables have.
    """
    prefixes = tuple(v.path.replace("/", "_") + "_" for v in variables)
    before = state_of(optimizer)
    reset_slots(optimizer, variables)
    num_reset = 0
    for (name, old), (_, first), (_, new) in zip(
        before, initial, state_of(optimizer), strict=True
    ):
        if name.startswith(prefixes):
            np.testing.assert_array_equal(new, first)
            assert not np.array_equal(old, first)
            num_reset += 1
        else:
            np.testing.assert_array_equal(new, old)
    assert num_reset == num_slots
    assert int(optimizer.iterations) == 3


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_slots_of_given_variables_are_reset(name):
    make, per_variable = OPTIMIZERS[name]
    layers, optimizer = two_layers(), make()
    optimizer.build(variables_of(layers))
    initial = state_of(optimizer)
    train(optimizer, variables_of(layers))
    check_reset(optimizer, initial, factors_of(layers), 4 * per_variable)
    assert float(optimizer.learning_rate) == np.float32(0.1)


def test_slots_of_one_layer_are_reset():
    layers, optimizer = two_layers(), keras.optimizers.Adam()
    optimizer.build(variables_of(layers))
    initial = state_of(optimizer)
    train(optimizer, variables_of(layers))
    check_reset(optimizer, initial, factors_of(layers[:1]), 4)


def test_changed_learning_rate_stays():
    layers = two_layers()
    optimizer = keras.optimizers.Adam(0.1)
    train(optimizer, variables_of(layers))
    optimizer.learning_rate = 0.01
    reset_slots(optimizer, factors_of(layers))
    assert float(optimizer.learning_rate) == np.float32(0.01)


def test_learning_rate_schedule_goes_on():
    layers = two_layers()
    schedule = keras.optimizers.schedules.ExponentialDecay(0.5, 1, 0.5)
    optimizer = keras.optimizers.Adam(schedule)
    train(optimizer, variables_of(layers))
    reset_slots(optimizer, factors_of(layers))
    # 0.5 halved after each of three steps.
    assert float(optimizer.learning_rate) == 0.0625


def test_inside_loss_scaling():
    layers, adam = two_layers(), keras.optimizers.Adam()
    scaled = keras.optimizers.LossScaleOptimizer(adam, initial_scale=8.0)
    assert inner_optimizers(scaled) == [adam]
    scaled.build(variables_of(layers))
    initial = state_of(scaled)
    train(scaled, variables_of(layers))
    check_reset(scaled, initial, factors_of(layers), 8)
    assert float(scaled.dynamic_scale) == 8.0
    assert int(adam.iterations) == 3


@pytest.mark.parametrize("scaled", [False, True])
def test_inside_multi_optimizer(scaled):
    layers = two_layers()
    sgd = keras.optimizers.SGD(0.1, momentum=0.9)
    adam = keras.optimizers.Adam(0.1)
    optimizer = keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(adam, {".*task_bias/projection": sgd})
    )
    if scaled:
        optimizer = keras.optimizers.LossScaleOptimizer(optimizer)
    assert inner_optimizers(optimizer) == [sgd, adam]
    optimizer.build(variables_of(layers))
    initial = state_of(optimizer)
    train(optimizer, variables_of(layers))
    # One slot of SGD per projection, two of Adam per perturbation.
    check_reset(optimizer, initial, factors_of(layers), 2 + 4)


def test_optimizer_that_is_not_built_stays_so():
    optimizer = keras.optimizers.Adam()
    reset_slots(optimizer, factors_of(two_layers()))
    restart(optimizer, factors_of(two_layers()))
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
    reset_slots(optimizer, layers[0].task_bias.factors)
    for layer, is_reset in zip(layers, (True, False)):
        for factor in layer.task_bias.factors:
            slot = optimizer.momentums[optimizer._get_variable_index(factor)]
            assert np.any(slot.numpy()) != is_reset


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_restarted_optimizer_takes_the_steps_of_a_new_one(name):
    layers, optimizer = two_layers(), OPTIMIZERS[name][0]()
    variables = variables_of(layers)
    initial = [v.numpy() for v in variables]
    optimizer.build(variables)
    runs = []
    for _ in range(2):
        for variable, value in zip(variables, initial):
            variable.assign(value)
        restart(optimizer, variables)
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
    restart(scaled, variables_of(layers))
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
    restart(optimizer, variables_of(layers))
    for (_, first), (name, now) in zip(initial, state_of(optimizer)):
        np.testing.assert_array_equal(now, first, err_msg=name)


def test_accumulation_is_refused():
    check_accumulation(keras.optimizers.SGD())
    sgd = keras.optimizers.SGD(gradient_accumulation_steps=4)
    multi = keras.optimizers.MultiOptimizer(
        keras.optimizers.OptimizerMap(keras.optimizers.Adam(), {"a": sgd})
    )
    scaled = keras.optimizers.LossScaleOptimizer(sgd)
    for optimizer in (sgd, multi, scaled):
        message = "sign step.*gradient_accumulation_steps=4"
        with pytest.raises(ValueError, match=message):
            check_accumulation(optimizer)


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
