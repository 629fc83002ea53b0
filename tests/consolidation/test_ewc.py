import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bpn
from keras_bpn.consolidation import EWC
from keras_bpn.consolidation import block_sums
from keras_bpn.consolidation import pieces
from keras_bpn.consolidation.fisher_labels import fisher_objectives
from keras_bpn.consolidation.per_example import mean_moments
from keras_bpn.models.task_data import TaskData
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values


def logits_loss(**kwargs):
    return keras.losses.SparseCategoricalCrossentropy(
        from_logits=True, **kwargs
    )


def slow_fisher(model, x, loss_of, weights=None):
    """The mean of squared gradients, one example after the other.

    `loss_of(i, outputs)` returns pairs of a probability and the loss of
    example `i`.
    """
    weights = np.ones(len(x)) if weights is None else weights
    sums = [np.zeros(v.shape) for v in model.shared_variables]
    for i in range(len(x)):
        with tf.GradientTape(persistent=True) as tape:
            pairs = loss_of(i, model(x[i : i + 1]))
        for p, loss in pairs:
            gradients = tape.gradient(
                loss,
                [v.value for v in model.shared_variables],
                unconnected_gradients="zero",
            )
            for total, gradient in zip(sums, gradients):
                total += weights[i] * float(p) * np.square(gradient)
    return [total / weights.sum() for total in sums]


def check_fisher(model, expected):
    assert max(e.max() for e in expected) > 0
    for variable, e in zip(model.shared_variables, expected):
        fisher = model.consolidation.importance(variable)
        np.testing.assert_allclose(
            fisher, e, rtol=1e-5, atol=1e-5 * e.max(), err_msg=variable.path
        )


def open_task(model, x, y, **kwargs):
    model.fit(x, y, task="a", epochs=2, verbose=0, consolidate=False, **kwargs)


def test_fisher_with_true_labels_equals_a_loop_over_examples():
    model = compile_model(make_model())
    x, y = make_data()
    open_task(model, x, y)
    expected = slow_fisher(
        model, x, lambda i, out: [(1.0, logits_loss()(y[i : i + 1], out))]
    )
    model.consolidate(x, y, batch_size=7)
    check_fisher(model, expected)


def test_a_squared_batch_gradient_is_not_the_fisher():
    model = compile_model(make_model())
    x, y = make_data()
    open_task(model, x, y)
    with tf.GradientTape() as tape:
        loss = logits_loss()(y, model(x))
    kernel = model.shared_variables[0]
    batch = np.square(tape.gradient(loss, kernel.value))
    model.consolidate(x, y)
    fisher = np.asarray(model.consolidation.importance(kernel))
    assert not np.allclose(fisher, batch, rtol=0.1)


@pytest.mark.parametrize("sparse", [True, False])
def test_exact_fisher_is_the_expectation_over_classes(sparse):
    loss = (
        logits_loss()
        if sparse
        else keras.losses.CategoricalCrossentropy(from_logits=True)
    )
    model = compile_model(
        make_model(outputs=3),
        loss=loss,
        metrics=[],
        consolidation=EWC(10.0, labels="exact"),
    )
    x, y = make_data()
    y = y if sparse else np.eye(3, dtype="float32")[y]
    open_task(model, x, y)

    def loss_of(i, out):
        p = tf.nn.softmax(out[0]).numpy()
        return [(p[c], -tf.nn.log_softmax(out[0])[c]) for c in range(3)]

    expected = slow_fisher(model, x, loss_of)
    model.consolidate(x, y)
    check_fisher(model, expected)


def test_sampled_fisher_comes_close_to_the_exact_one():
    fishers = {}
    for labels in ("sampled", "exact"):
        keras.utils.set_random_seed(0)
        model = make_model(outputs=3)
        compile_model(model, consolidation=EWC(1.0, labels=labels, seed=1))
        x, y = make_data(size=4000)
        model.fit(x[:40], y[:40], task="a", verbose=0, consolidate=False)
        model.consolidate(x, y, batch_size=100)
        fishers[labels] = np.concatenate(
            [
                np.ravel(model.consolidation.importance(v))
                for v in model.shared_variables
            ]
        )
    # 4,000 draws: a few percent of noise on the sum.
    exact, sampled = fishers["exact"], fishers["sampled"]
    assert sampled.sum() == pytest.approx(exact.sum(), rel=0.1)
    assert np.corrcoef(exact, sampled)[0, 1] > 0.98


def test_sampled_labels_differ_between_tasks_and_repeat_with_the_seed():
    def fisher(seed):
        keras.utils.set_random_seed(0)
        model = compile_model(
            make_model(), consolidation=EWC(0.0, labels="sampled", seed=seed)
        )
        x, y = make_data()
        # Nothing is learned, so only the sampled labels make a difference.
        rates = {"epochs": 1, "verbose": 0}
        model.optimizer.learning_rate = 0.0
        model.epsilon = 0.0
        found = []
        for task in "ab":
            model.fit(x, y, task=task, **rates)
            found.append(
                np.array(values(model.consolidation.variables.values())[0])
            )
        return found[0], found[1] - found[0]

    first, second = fisher(3)
    again, _ = fisher(3)
    other, _ = fisher(4)
    np.testing.assert_array_equal(first, again)
    assert not np.allclose(first, other)
    assert not np.allclose(first, second)


def test_sample_weights_and_class_weights_weight_the_mean():
    x, y = make_data()
    weights = np.where(y == 1, 3.0, 1.0)
    found = []
    for kwargs in (
        {"sample_weight": weights.astype("float32")},
        {"class_weight": {0: 1.0, 1: 3.0}},
    ):
        keras.utils.set_random_seed(0)
        model = compile_model(make_model())
        open_task(model, x, y)
        expected = slow_fisher(
            model,
            x,
            lambda i, out: [(1.0, logits_loss()(y[i : i + 1], out))],
            weights,
        )
        model.consolidate(x, y, **kwargs)
        check_fisher(model, expected)
        found.append(values(model.consolidation.variables.values()))
    for a, b in zip(*found):
        np.testing.assert_array_equal(a, b)


@pytest.mark.parametrize("reduction", ["sum_over_batch_size", "sum"])
def test_fisher_does_not_depend_on_the_reduction_of_the_loss(reduction):
    model = compile_model(make_model(), loss=logits_loss(reduction=reduction))
    x, y = make_data()
    open_task(model, x, y)
    expected = slow_fisher(
        model, x, lambda i, out: [(1.0, logits_loss()(y[i : i + 1], out))]
    )
    model.consolidate(x, y)
    check_fisher(model, expected)


def test_fisher_of_any_layer_and_of_a_layer_used_twice():
    inputs = keras.Input((6,))
    x = keras.layers.Reshape((6, 1))(inputs)
    x = keras.layers.Conv1D(3, 2, activation="tanh")(x)
    x = keras.layers.BatchNormalization()(x)
    x = keras_bpn.layers.BPNDense(4, hidden_dim=2)(x)  # At five positions.
    x = keras.layers.Flatten()(x)
    x = keras.layers.Dropout(0.5)(x)
    twice = keras_bpn.layers.BPNDense(20, activation="tanh", hidden_dim=2)
    x = twice(twice(x))
    outputs = keras.layers.Dense(2)(x)
    model = compile_model(
        keras_bpn.BPNModel(inputs, outputs), optimizer=keras.optimizers.SGD(0.1)
    )
    x, y = make_data()
    open_task(model, x, y)
    expected = slow_fisher(
        model, x, lambda i, out: [(1.0, logits_loss()(y[i : i + 1], out))]
    )
    model.consolidate(x, y, batch_size=16)
    check_fisher(model, expected)


def small_blocks(monkeypatch):
    """Makes blocks as large as the user's batches, in pieces of 16 examples."""
    monkeypatch.setattr(block_sums, "_WRITTEN", 1)
    monkeypatch.setattr(pieces, "_COPIED", 16 * 8)


def fisher_of(model, data, labels="true", seed=0):
    """The Fisher information of a model that was not trained."""
    objectives = fisher_objectives(model, labels, lambda: seed)
    return mean_moments(
        model, data, tf.square, objectives, lambda name, make: make()
    )


def network_with_class_mask():
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=2)(inputs)
    x = keras_bpn.layers.BPNDense(6, hidden_dim=2)(x)
    outputs = keras_bpn.layers.ClassMask("task")(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    model.add_task("a", classes=[0, 1])
    model.task = "a"
    return model


def network_with_heads():
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=2)(inputs)
    outputs = keras_bpn.layers.TaskHeads()(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    model.add_task("a", classes=2)
    model.add_task("b", classes=3)
    model.task = "a"
    return model


def network_of_other_layers():
    inputs = keras.Input((6,))
    x = keras.layers.Reshape((6, 1))(inputs)
    x = keras.layers.Conv1D(3, 2, activation="tanh")(x)
    x = keras_bpn.layers.BPNDense(4, hidden_dim=2)(x)
    x = keras.layers.Flatten()(x)
    twice = keras_bpn.layers.BPNDense(20, activation="tanh", hidden_dim=2)
    return keras_bpn.BPNModel(inputs, keras.layers.Dense(2)(twice(twice(x))))


@pytest.mark.parametrize(
    "network",
    [network_with_class_mask, network_with_heads, network_of_other_layers],
)
def test_fisher_over_several_blocks(network, monkeypatch):
    small_blocks(monkeypatch)
    model = compile_model(network())
    x, y = make_data(size=39)
    weights = np.linspace(0.5, 2.0, len(x)).astype("float32")
    # Blocks of 5 examples, in pieces of 16, and a last one of 2.
    found = fisher_of(model, TaskData(x, y, weights, batch_size=5))
    expected = slow_fisher(
        model,
        x,
        lambda i, out: [(1.0, logits_loss()(y[i : i + 1], out))],
        weights,
    )
    for f, e in zip(found, expected):
        np.testing.assert_allclose(f, e, rtol=1e-5, atol=1e-5 * e.max())


def test_sampled_labels_do_not_depend_on_how_data_is_cut(monkeypatch):
    model = compile_model(make_model(outputs=3))
    x, y = make_data(size=1100)
    whole = fisher_of(model, TaskData(x, y), "sampled")
    other = fisher_of(model, TaskData(x, y), "sampled", seed=1)
    small_blocks(monkeypatch)
    batches = tf.data.Dataset.from_tensor_slices((x, y)).batch(73)
    for data in (TaskData(x, y, batch_size=100), TaskData(batches)):
        for a, b in zip(fisher_of(model, data, "sampled"), whole):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-7)
    assert not np.allclose(whole[0], other[0], rtol=1e-2)


def test_fisher_with_several_outputs_and_other_losses():
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=2)(inputs)
    first = keras_bpn.layers.BPNDense(2, hidden_dim=2, name="first")(x)
    second = keras_bpn.layers.BPNDense(1, hidden_dim=2, name="second")(x)
    model = keras_bpn.BPNModel(inputs, [first, second])
    model.compile(
        optimizer="adam",
        loss=[logits_loss(), "mse"],
        loss_weights=[1.0, 0.5],
        consolidation=EWC(1.0),
    )
    x, y = make_data()
    y = [y, x[:, :1]]
    open_task(model, x, y)

    def loss_of(i, out):
        crossentropy = logits_loss()(y[0][i : i + 1], out[0])
        return [
            (1.0, crossentropy + 0.5 * tf.reduce_mean((y[1][i] - out[1]) ** 2))
        ]

    expected = slow_fisher(model, x, loss_of)
    model.consolidate(x, y)
    check_fisher(model, expected)


@pytest.mark.parametrize("terms", ["online", "separate"])
def test_penalty_of_two_tasks_has_the_gradient_of_its_definition(terms):
    model = compile_model(
        make_model(),
        keras.optimizers.Adam(0.01),
        consolidation=EWC(10.0, terms=terms),
    )
    snapshots = []
    for name in "ab":
        before = values(
            map(model.consolidation.importance, model.shared_variables)
        )
        train_tasks(model, [name])
        after = values(
            map(model.consolidation.importance, model.shared_variables)
        )
        fisher = [a - b for a, b in zip(after, before)]
        snapshots.append((fisher, values(model.shared_variables)))
    for variable in model.shared_variables:
        variable.assign_add(0.1 * np.random.normal(size=variable.shape))
    gradients = model.consolidation.adjust_gradients(
        model, [None] * len(model.shared_variables)
    )
    (F1, w1), (F2, w2) = snapshots
    for i, w in enumerate(values(model.shared_variables)):
        if terms == "online":
            expected = 2 * 10.0 * (F1[i] + F2[i]) * (w - w2[i])
        else:
            expected = 2 * 10.0 * (F1[i] * (w - w1[i]) + F2[i] * (w - w2[i]))
        np.testing.assert_allclose(
            gradients[i], expected, rtol=1e-4, atol=1e-5 * abs(expected).max()
        )


def test_labels_from_the_model_need_a_crossentropy():
    model = make_model(outputs=2)
    model.compile("adam", "mse", consolidation=EWC(labels="exact"))
    x, _ = make_data()
    with pytest.raises(ValueError, match="labels='true'.*Received: loss='mse'"):
        model.fit(x, x[:, :2], task="a", verbose=0)
