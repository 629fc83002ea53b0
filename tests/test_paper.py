"""The paper's effect, on the real MNIST."""

import keras
import numpy as np
import pytest

import keras_bpn

pytestmark = [pytest.mark.data, pytest.mark.slow]

EWC = keras_bpn.consolidation.EWC


def make_model(hidden_layers, hidden_dim=100):
    x = inputs = keras.Input((784,))
    for units in hidden_layers:
        x = keras_bpn.layers.BPNDense(
            units, activation="relu", hidden_dim=hidden_dim
        )(x)
    outputs = keras_bpn.layers.BPNDense(10, hidden_dim=hidden_dim)(x)
    return keras_bpn.BPNModel(inputs, outputs)


def compile_model(model, optimizer, **kwargs):
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        steps_per_execution=32,
        jit_compile=True,
        **kwargs,
    )


def learn(model, tasks, test_tasks, epochs):
    """Returns the accuracy of each task after all of them."""
    for name, (x, y) in tasks:
        model.fit(x, y, task=name, batch_size=128, epochs=epochs, verbose=0)
    return [
        model.evaluate(x, y, task=name, batch_size=1000, verbose=0)[1]
        for name, (x, y) in test_tasks
    ]


def incremental(data):
    """Five tasks of two classes each, as train and test tasks."""

    def tasks(x, y):
        for t in range(5):
            chosen = y // 2 == t
            yield f"{2 * t}/{2 * t + 1}", (x[chosen], y[chosen])

    return [list(tasks(*split)) for split in data]


def permuted(data, num_tasks):
    """Each task has its own order of pixels. Made one after the other."""
    orders = [
        np.random.default_rng(t).permutation(784) for t in range(num_tasks)
    ]

    def tasks(x, y):
        for t, order in enumerate(orders):
            yield str(t), (x[:, order], y)

    return [tasks(*split) for split in data]


def run_incremental(mnist, seed, optimizer, **kwargs):
    keras.utils.set_random_seed(seed)
    model = make_model([300] * 5)
    compile_model(model, optimizer, **kwargs)
    accuracies = learn(model, *incremental(mnist), epochs=5)
    print(f"seed {seed} {kwargs}: {np.round(accuracies, 4)}")
    return accuracies


def test_incremental_mnist(mnist):
    first = {"BD+EWC": [], "GD+EWC": [], "EWC": [], "fine-tuning": []}
    for seed in range(3):
        for method, direction, consolidation in (
            ("BD+EWC", "beneficial", EWC(2e3)),
            ("GD+EWC", "gradient", EWC(2e3)),
            ("EWC", None, EWC(2e3)),
            ("fine-tuning", None, None),
        ):
            accuracies = run_incremental(
                mnist,
                seed,
                keras.optimizers.Adam(1e-3),
                direction=direction,
                epsilon=0.01,
                consolidation=consolidation,
            )
            first[method].append(accuracies[0])
            if method == "BD+EWC":
                assert accuracies[0] >= 0.96 and np.mean(accuracies) >= 0.98
            elif method == "GD+EWC":
                assert accuracies[0] < first["BD+EWC"][-1]
            else:
                assert accuracies[0] <= 0.02
    assert np.mean(first["GD+EWC"]) <= 0.5


def test_permuted_mnist(mnist):
    means = {}
    for method, direction in (("BD+EWC", "beneficial"), ("EWC", None)):
        keras.utils.set_random_seed(0)
        model = make_model([128] * 4)
        compile_model(
            model,
            keras.optimizers.Adam(1e-3),
            direction=direction,
            epsilon=0.01,
            consolidation=EWC(100.0),
        )
        accuracies = learn(model, *permuted(mnist, 20), epochs=1)
        print(f"{method}: {np.round(accuracies, 3)}")
        means[method] = np.mean(accuracies)
    print(means, means["BD+EWC"] / means["EWC"])
    assert means["BD+EWC"] >= 1.35 * means["EWC"]


def test_plain_sgd_at_the_strength_of_the_paper(mnist):
    accuracies = run_incremental(
        mnist,
        0,
        keras.optimizers.SGD(0.01),
        direction="beneficial",
        epsilon=0.01,
        consolidation=EWC(2e3),
    )
    assert np.all(np.isfinite(accuracies))
    assert accuracies[0] >= 0.95
