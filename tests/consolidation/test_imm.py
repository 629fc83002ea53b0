import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.consolidation.imm import IMM
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values

TASKS = "abc"


def imm_model(merge="mean", optimizer="adam", labels="true", **kwargs):
    options = {"direction": None, **kwargs}
    return compile_model(
        make_model(activation="tanh"),
        optimizer,
        consolidation=IMM(merge, strength=0.01, labels=labels, seed=1),
        **options,
    )


def logits_loss():
    return keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def fisher_by_hand(model, x, y, labels):
    """The mean of squared gradients, one example after the other."""
    sums = [np.zeros(v.shape) for v in model.shared_variables]
    for i in range(len(x)):
        with tf.GradientTape(persistent=True) as tape:
            log_p = tf.nn.log_softmax(model(x[i : i + 1])[0])
            log_p = tf.unstack(log_p)
        classes = [y[i]] if labels == "true" else range(len(log_p))
        for c in classes:
            p = 1.0 if labels == "true" else np.exp(log_p[c])
            gradients = tape.gradient(
                log_p[c], [v.value for v in model.shared_variables]
            )
            for total, gradient in zip(sums, gradients):
                total += p * np.square(gradient)
    return [total / len(x) for total in sums]


def open_task(model, task, **kwargs):
    """Trains a task without ending it, and returns its data."""
    x, y = make_data(TASKS.index(task))
    options = {"epochs": 2, "batch_size": 8, "verbose": 0, **kwargs}
    model.fit(x, y, task=task, consolidate=False, **options)
    return x, y


def check_weights(model, expected, rtol=1e-5):
    for v, e in zip(model.shared_variables, expected):
        np.testing.assert_allclose(v, e, rtol=rtol, atol=1e-6)


def test_mean_of_the_weights_of_all_tasks():
    model = imm_model()
    ended = []
    for task in TASKS:
        open_task(model, task)
        ended.append(values(model.shared_variables))
        model.consolidate()
        check_weights(model, [np.mean(w, axis=0) for w in zip(*ended)])
    # The tasks did end in different places.
    assert abs(ended[0][0] - ended[2][0]).max() > 0.01


@pytest.mark.parametrize("labels", ["true", "exact"])
def test_mode_weights_each_task_by_its_fisher_information(labels):
    model = imm_model("mode", labels=labels, optimizer="sgd")
    model.optimizer.learning_rate = 0.5
    ended, fishers = [], []
    for task in TASKS:
        x, y = open_task(model, task)
        ended.append(values(model.shared_variables))
        fishers.append([f + 1e-8 for f in fisher_by_hand(model, x, y, labels)])
        model.consolidate(x, y)
        expected = [
            np.sum([f * w for f, w in zip(fs, ws)], axis=0) / np.sum(fs, axis=0)
            for fs, ws in zip(zip(*fishers), zip(*ended))
        ]
        check_weights(model, expected, rtol=1e-4)
    mean = np.mean([w[0] for w in ended], axis=0)
    assert abs(expected[0] - mean).max() > 0.01


def test_the_first_merge_is_the_first_task_to_the_bit():
    for merge in ("mean", "mode"):
        model = imm_model(merge)
        data = open_task(model, "a")
        before = values(model.shared_variables)
        model.consolidate(*data)
        assert_equal(values(model.shared_variables), before)


def test_weights_without_information_are_averaged():
    model = imm_model("mode")
    # Nothing depends on the first kernel where all inputs are zero.
    x, y = make_data()
    kernel = model.shared_variables[0]
    for task, value in (("a", 1.0), ("b", 4.0)):
        model.fit(np.zeros_like(x), y, task=task, verbose=0, consolidate=False)
        kernel.assign(np.full(kernel.shape, value))
        model.consolidate(np.zeros_like(x), y)
    np.testing.assert_allclose(kernel, np.full(kernel.shape, 2.5), rtol=1e-5)


def transfer_by_hand(weights, previous, x, y, rate, strength):
    """Gradient descent on the loss and the L2-transfer, by one tape."""
    model = make_model(activation="tanh", hidden_dim=0)
    shared = model.trainable_variables
    for variable, value in zip(shared, weights):
        variable.assign(value)
    for i in range(0, len(x), 8):
        with tf.GradientTape() as tape:
            loss = logits_loss()(y[i : i + 8], model(x[i : i + 8]))
            if previous is not None:
                loss += strength * sum(
                    tf.reduce_sum((v.value - p) ** 2)
                    for v, p in zip(shared, previous)
                )
        gradients = tape.gradient(loss, [v.value for v in shared])
        for variable, gradient in zip(shared, gradients):
            h = 2 * strength if previous is not None else 0.0
            # The penalty is taken at the end of the step; see
            # `QuadraticPenalty`.
            variable.assign_sub(rate * gradient / (1 + rate * h))
    return values(shared)


def test_each_task_is_trained_from_the_last_one_with_the_transfer_term():
    rate, strength = 0.3, 0.5
    model = compile_model(
        make_model(activation="tanh", hidden_dim=0),
        keras.optimizers.SGD(rate),
        direction=None,
        consolidation=IMM("mean", strength),
    )
    weights, previous = values(model.shared_variables), None
    ended = []
    for task in TASKS:
        x, y = open_task(model, task, epochs=1, shuffle=False)
        weights = transfer_by_hand(weights, previous, x, y, rate, strength)
        check_weights(model, weights, rtol=1e-4)
        ended.append(weights)
        previous = weights
        model.consolidate()
        check_weights(
            model, [np.mean(w, axis=0) for w in zip(*ended)], rtol=1e-4
        )


def test_penalty_has_the_gradient_of_its_definition():
    model = imm_model()
    nothing = [None] * len(model.shared_variables)
    for gradient in model.consolidation.adjust_gradients(model, nothing):
        assert not np.any(gradient)
    for task in "ab":
        open_task(model, task)
        ended = values(model.shared_variables)
        model.consolidate()
    open_task(model, "c")
    gradients = model.consolidation.adjust_gradients(model, nothing)
    for v, end, gradient in zip(model.shared_variables, ended, gradients):
        expected = 2 * 0.01 * (np.asarray(v) - end)
        assert abs(expected).max() > 1e-5
        np.testing.assert_allclose(gradient, expected, rtol=1e-4, atol=1e-8)


def test_bias_units_are_not_merged():
    model = imm_model(direction="beneficial")
    tables = [bias.table for bias in model.task_biases]
    rows = []
    for i, task in enumerate("ab"):
        open_task(model, task)
        rows.append(
            [
                np.asarray(b.perturbation) @ np.asarray(b.projection)
                for b in model.task_biases
            ]
        )
        model.consolidate()
    for i, products in enumerate(rows):
        for table, product in zip(tables, products):
            np.testing.assert_allclose(
                np.asarray(table)[i + 1], product[0], rtol=1e-5, atol=1e-6
            )
    # In the mode of a task: merged weights and the bias units of the task.
    x, _ = make_data()
    h = x
    for layer in model.layers[1:]:
        bias = np.asarray(layer.bias) + np.asarray(layer.task_bias.table)[1]
        h = h @ np.asarray(layer.kernel) + bias
        h = np.tanh(h) if layer is not model.layers[-1] else h
    np.testing.assert_allclose(model(x, task="a"), h, rtol=1e-4, atol=1e-5)


def test_sampled_labels_repeat_with_the_seed():
    def merged(seed):
        keras.utils.set_random_seed(0)
        model = compile_model(
            make_model(), direction=None, consolidation=IMM("mode", seed=seed)
        )
        model._shuffle_seed = 1
        train_tasks(model)
        return values(model.shared_variables)

    first, again, other = merged(3), merged(3), merged(4)
    assert_equal(first, again)
    assert abs(first[0] - other[0]).max() > 0


class Failing(keras.callbacks.Callback):
    def on_train_begin(self, logs=None):
        raise RuntimeError("no")


@pytest.mark.parametrize("merge", ["mean", "mode"])
@pytest.mark.parametrize("num_tasks", [0, 2])
def test_a_task_that_cannot_be_started_changes_nothing(merge, num_tasks):
    model = imm_model(merge)
    train_tasks(model, TASKS[:num_tasks])
    before = model.get_weights(), model.consolidation.get_state()
    with pytest.raises(RuntimeError):
        model.fit(*make_data(), task="c", verbose=0, callbacks=[Failing()])
    assert_equal(model.get_weights(), before[0])
    after = model.consolidation.get_state()
    assert_equal(list(after.values()), list(before[1].values()))


def test_start_and_cancel_put_back_the_last_and_the_merged_weights():
    model = imm_model()
    train_tasks(model, "a")
    open_task(model, "b")
    last = values(model.shared_variables)
    model.consolidate()
    merged = values(model.shared_variables)
    model.consolidation.start_task(model, "c", None)
    assert_equal(values(model.shared_variables), last)
    for _ in range(2):
        model.consolidation.cancel_task(model)
        assert_equal(values(model.shared_variables), merged)


def test_a_weight_that_was_frozen_at_first_is_merged_from_then_on():
    model = make_model(hidden_dim=0)
    frozen = model.layers[1]
    frozen.trainable = False
    method = IMM("mean")
    compile_model(model, direction=None, consolidation=method)
    before = np.asarray(frozen.kernel)
    train_tasks(model, "a")
    frozen.trainable = True
    compile_model(model, direction=None, consolidation=method)
    model.optimizer.learning_rate = 0.0
    open_task(model, "b")
    np.testing.assert_array_equal(frozen.kernel, before)
    frozen.kernel.assign(before + 1)
    model.consolidate()
    np.testing.assert_array_equal(frozen.kernel, before + 1)
    open_task(model, "c")
    frozen.kernel.assign(before + 2)
    model.consolidate()
    np.testing.assert_allclose(frozen.kernel, before + 1.5, rtol=1e-5)


def full_state(model):
    return (
        model.get_weights()
        + values(model.optimizer.variables)
        + list(model.consolidation.get_state().values())
    )


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["mean", "mode"])
@pytest.mark.parametrize("direction", ["beneficial", None])
@pytest.mark.parametrize("is_open", [False, True])
def test_a_loaded_model_goes_on_as_if_never_stopped(
    tmp_path, merge, direction, is_open
):
    model = imm_model(merge, labels="sampled", direction=direction)
    train_tasks(model, "a")
    train_tasks(model, "b", consolidate=not is_open)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert repr(loaded.consolidation) == repr(model.consolidation)
    assert_equal(full_state(loaded), full_state(model))
    for each in (model, loaded):
        if is_open:
            each.fit(*make_data(1), initial_epoch=2, epochs=4, verbose=0)
        train_tasks(each, "c")
    assert_equal(full_state(loaded), full_state(model))


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["mean", "mode"])
def test_same_weights_under_every_way_to_run(merge):
    found = []
    for options, as_dataset in (
        ({"run_eagerly": True}, False),
        ({}, False),
        ({"jit_compile": True, "steps_per_execution": 4}, False),
        ({"jit_compile": True}, True),
    ):
        keras.utils.set_random_seed(0)
        sgd = keras.optimizers.SGD(0.3)
        model = imm_model(merge, sgd, labels="sampled", **options)
        for i, task in enumerate(TASKS):
            x, y = make_data(i)
            data = {"x": x, "y": y, "batch_size": 8, "shuffle": False}
            if as_dataset:
                data = tf.data.Dataset.from_tensor_slices((x, y)).batch(8)
                data = {"x": data}
            model.fit(**data, task=task, verbose=0)
        found.append(values(model.shared_variables))
    for other in found[1:]:
        for a, b in zip(found[0], other):
            np.testing.assert_allclose(a, b, rtol=1e-3, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("merge", ["mean", "mode"])
def test_mixed_precision(merge):
    keras.config.set_dtype_policy("mixed_float16")
    model = imm_model(merge, direction="beneficial", jit_compile=True)
    train_tasks(model, TASKS)
    for name, variable in model.consolidation.variables.items():
        assert np.all(np.isfinite(variable)), name
    for v in model.shared_variables:
        assert np.all(np.isfinite(v))
        np.testing.assert_array_equal(v, model.consolidation.merged(v))


def test_only_the_mode_reads_the_data_again():
    assert not IMM("mean").needs_data
    assert IMM("mode").needs_data
    model = imm_model("mode")
    open_task(model, "a")
    with pytest.raises(ValueError, match="IMM reads the data again"):
        model.consolidate()


def test_labels_from_the_model_need_a_crossentropy():
    model = make_model(outputs=2)
    model.compile("adam", "mse", consolidation=IMM("mode"))
    x, _ = make_data()
    model.fit(x, x[:, :2], task="a", verbose=0, consolidate=False)
    before = full_state(model)
    with pytest.raises(ValueError, match="labels='true'.*Received: loss='mse'"):
        model.consolidate(x, x[:, :2])
    assert_equal(full_state(model), before)


@pytest.mark.parametrize(
    "kwargs, message",
    [
        ({"merge": "median"}, "merge.*Received: merge='median'"),
        ({"merge": 1}, "merge.*Received: merge=1"),
        ({"strength": -1.0}, "strength.*at least 0.*Received: strength=-1.0"),
        ({"labels": "wrong"}, "labels.*Received: labels='wrong'"),
    ],
)
def test_settings_outside_their_range(kwargs, message):
    with pytest.raises(ValueError, match=message):
        IMM(**kwargs)


def test_config_round_trip():
    imm = IMM("mode", strength=1, labels="exact", seed=3)
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(imm)
    )
    assert type(again) is IMM and again.needs_data
    assert again.get_config() == imm.get_config()
    assert again.get_config() == {
        "merge": "mode",
        "strength": 1.0,
        "labels": "exact",
        "seed": 3,
    }
    assert IMM().seed is not None
