import keras
import numpy as np
import pytest

from keras_bpn.consolidation import EWC
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values


def stiff_model(optimizer, step="auto"):
    """A model whose weights are held by springs far too stiff for its steps."""
    model = compile_model(
        make_model(), optimizer, consolidation=EWC(1.0, step=step)
    )
    train_tasks(model, ["a"])
    for variable in model.shared_variables:
        model.consolidation.importance(variable).assign(
            np.full(variable.shape, 1e6)
        )
    return model


@pytest.mark.parametrize("momentum", [0.0, 0.9])
@pytest.mark.parametrize("nesterov", [False, True])
def test_implicit_step_is_stable_where_the_explicit_one_diverges(
    momentum, nesterov
):
    final = {}
    for step in ("auto", "explicit"):
        optimizer = keras.optimizers.SGD(0.1, momentum, nesterov)
        model = stiff_model(optimizer, step)
        anchors = values(
            map(model.consolidation.anchor, model.shared_variables)
        )
        if step == "explicit":
            # It diverges until the first step that is not finite, which is
            # refused.
            with pytest.raises(ValueError, match="finite gradients"):
                train_tasks(model, ["b"], epochs=40, consolidate=False)
        else:
            train_tasks(model, ["b"], epochs=40, consolidate=False)
        final[step] = [
            abs(w - a).max()
            for w, a in zip(values(model.shared_variables), anchors)
        ]
    # A spring of curvature 2e6 leaves room for gradient / 2e6.
    assert max(final["auto"]) < 1e-4
    assert max(final["explicit"]) > 1e10


def test_implicit_step_solves_its_equation():
    rate = 0.05
    model = compile_model(
        make_model(), keras.optimizers.SGD(rate), consolidation=EWC(30.0)
    )
    train_tasks(model, ["a"])
    model.fit(*make_data(1), task="b", verbose=0, consolidate=False)
    ewc = model.consolidation
    before = values(model.shared_variables)
    gradients = []
    ewc.after_update = lambda model, g: gradients.extend(g)
    model.run_eagerly = True
    model.make_train_function(force=True)
    model.train_on_batch(*make_data(1))
    for v, old, g in zip(model.shared_variables, before, values(gradients)):
        new, anchor = values([v, ewc.anchor(v)])
        h = 2 * 30.0 * np.asarray(ewc.importance(v))
        # theta' = theta - lr * (g + h * (theta' - anchor))
        expected = old - rate * (g + h * (new - anchor))
        np.testing.assert_allclose(new, expected, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("learning_rate", ["schedule", "multi", "scaled"])
def test_implicit_step_finds_the_learning_rate(learning_rate):
    sgd = keras.optimizers.SGD(0.1)
    if learning_rate == "schedule":
        schedule = keras.optimizers.schedules.ExponentialDecay(0.1, 10, 0.9)
        optimizer = keras.optimizers.SGD(schedule)
    elif learning_rate == "multi":
        optimizer = keras.optimizers.MultiOptimizer(
            keras.optimizers.OptimizerMap(
                sgd, {".*task_bias/projection": keras.optimizers.SGD(1.0)}
            )
        )
    else:
        optimizer = keras.optimizers.LossScaleOptimizer(sgd)
    model = stiff_model(optimizer)
    anchors = values(map(model.consolidation.anchor, model.shared_variables))
    train_tasks(model, ["b"], consolidate=False)
    for w, a in zip(values(model.shared_variables), anchors):
        np.testing.assert_allclose(w, a, atol=1e-4)


def test_penalty_moves_the_optimum_to_where_both_gradients_cancel():
    """Each spring pulls as hard as the loss pushes, once training is done."""
    model = compile_model(
        make_model(units=()),
        keras.optimizers.SGD(0.2),
        direction=None,
        consolidation=EWC(5.0),
    )
    train_tasks(model, ["a"])
    x, y = make_data(1)
    # Steps over the whole of the data, many to an epoch.
    model.fit(
        np.tile(x, (200, 1)),
        np.tile(y, 200),
        task="b",
        epochs=30,
        batch_size=len(x),
        shuffle=False,
        verbose=0,
        consolidate=False,
    )
    kernel = model.layers[1].kernel
    ewc = model.consolidation
    logits = np.asarray(model(x))
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    push = x.T @ (p - np.eye(6)[y]) / len(y)
    pull = 2 * 5.0 * np.asarray(ewc.importance(kernel))
    pull = pull * (np.asarray(kernel) - np.asarray(ewc.anchor(kernel)))
    held = np.asarray(ewc.importance(kernel)) > 1e-3
    assert held.sum() > 5
    np.testing.assert_allclose(pull[held], -push[held], atol=1e-3)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"strength": -1.0}, "strength.*at least 0.*Received: strength=-1.0"),
        ({"strength": float("nan")}, "strength"),
        ({"strength": True}, "strength"),
        ({"terms": "both"}, "terms.*Received: terms='both'"),
        ({"step": "long"}, "step.*Received: step='long'"),
        ({"labels": "wrong"}, "labels.*Received: labels='wrong'"),
    ],
)
def test_settings_outside_their_range(kwargs, message):
    with pytest.raises(ValueError, match=message):
        EWC(**kwargs)


def test_config_round_trip():
    ewc = EWC(5, labels="exact", terms="separate", step="explicit", seed=3)
    assert EWC.from_config(ewc.get_config()).get_config() == ewc.get_config()
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(ewc)
    )
    assert again.get_config() == ewc.get_config()
