"""Numbers that others have published, on the real MNIST.

Split MNIST is that of Hsu et al. (2018): five tasks of two classes, a network
of two hidden layers of 400 units, Adam with 1e-3, batches of 128, four epochs.
"""

import keras
import numpy as np
import pytest

import keras_bpn

pytestmark = [pytest.mark.data, pytest.mark.slow]

SEEDS = range(3)


def network(units, outputs):
    x = inputs = keras.Input((784,))
    for n in units:
        x = keras_bpn.layers.BPNDense(n, activation="relu", hidden_dim=0)(x)
    return keras_bpn.BPNModel(inputs, outputs(x))


def single_head(x):
    return keras_bpn.layers.BPNDense(10, hidden_dim=0)(x)


def single_head_of_seen_classes(x):
    return keras_bpn.layers.ClassMask("seen")(single_head(x))


def learn(model, name, tasks, optimizer, batch_size, epochs, **settings):
    """Returns the accuracy of every task after the last."""
    model.compile(
        optimizer=optimizer,
        loss=keras.losses.SparseCategoricalCrossentropy(from_logits=True),
        metrics=["accuracy"],
        jit_compile=True,
        steps_per_execution=16,
        **keras_bpn.methods.get(name, **settings),
    )
    for task, ((x, y), _) in tasks.items():
        model.fit(
            x,
            y,
            task=task,
            batch_size=batch_size,
            epochs=epochs,
            verbose=0,
        )
    return [
        model.evaluate(x, y, task=task, batch_size=1000, verbose=0)[1]
        for task, (_, (x, y)) in tasks.items()
    ]


def split(mnist, own_labels):
    tasks = {}
    for t in range(5):
        parts = []
        for x, y in mnist:
            chosen = y // 2 == t
            parts.append(
                (x[chosen], y[chosen] % 2 if own_labels else y[chosen])
            )
        tasks[str(t)] = parts
    return tasks


def permuted(mnist, num_tasks):
    """Makes the tasks one by one, and again for their test data."""

    class Tasks:
        def items(self):
            for t in range(num_tasks):
                order = np.random.default_rng(t).permutation(784)
                yield (
                    str(t),
                    [(x[:, order], y) for x, y in mnist],
                )

    return Tasks()


# Published mean accuracies, and the settings that stand in for theirs.
TASK_INCREMENTAL = {
    "EWC": (0.9770, {"strength": 100.0, "terms": "separate"}),
    "online EWC": (0.9804, {"strength": 100.0}),
    "SI": (0.9856, {"strength": 1.0, "damping": 1e-3}),
    "MAS": (0.9922, {"strength": 1.0}),
    "LwF": (0.9960, {}),
    "GEM": (0.9842, {"memory_per_class": 440, "memory_batch_size": 128}),
}


@pytest.mark.parametrize("name", TASK_INCREMENTAL)
def test_split_mnist_with_a_head_for_each_task(mnist, name):
    published, settings = TASK_INCREMENTAL[name]
    means = []
    for seed in SEEDS:
        keras.utils.set_random_seed(seed)
        model = network((400, 400), keras_bpn.layers.TaskHeads())
        accuracies = learn(
            model,
            name.split()[-1],
            split(mnist, own_labels=True),
            keras.optimizers.Adam(1e-3),
            128,
            4,
            **settings,
        )
        means.append(np.mean(accuracies))
    print(f"\ntask-incremental {name} {settings}: {np.round(means, 4)}")
    assert np.mean(means) >= published - 0.015


CLASS_INCREMENTAL = {
    "EWC": (0.18, 0.24, {"strength": 100.0}),
    "SI": (0.18, 0.24, {"strength": 1.0, "damping": 1e-3}),
    "MAS": (0.18, 0.24, {"strength": 1.0}),
    "GEM": (
        0.85,
        1.0,
        {"memory_per_class": 440, "memory_batch_size": 128},
    ),
}


@pytest.mark.parametrize("name", CLASS_INCREMENTAL)
def test_split_mnist_with_one_head(mnist, name):
    least, most, settings = CLASS_INCREMENTAL[name]
    means = []
    for seed in SEEDS:
        keras.utils.set_random_seed(seed)
        model = network((400, 400), single_head_of_seen_classes)
        accuracies = learn(
            model,
            name,
            split(mnist, own_labels=False),
            keras.optimizers.Adam(1e-3),
            128,
            4,
            **settings,
        )
        means.append(np.mean(accuracies))
    print(f"\nclass-incremental {name} {settings}: {np.round(means, 4)}")
    assert least <= np.mean(means) <= most


@pytest.mark.parametrize("seed", SEEDS)
def test_si_on_ten_permutations(mnist, seed):
    """Zenke et al. (2017) have 0.9694 with these settings."""
    keras.utils.set_random_seed(seed)
    accuracies = learn(
        network((2000, 2000), single_head),
        "SI",
        permuted(mnist, 10),
        keras.optimizers.Adam(1e-3),
        256,
        20,
        strength=0.1,
        damping=0.1,
    )
    mean = np.mean(accuracies)
    print(f"\nSI, ten permutations, seed {seed}: {mean:.4f}")
    assert mean >= 0.9694 - 0.015


@pytest.mark.parametrize(
    "units, least, most, steps",
    [
        pytest.param(
            *(128, 0.4, 0.6, 1000),
            marks=pytest.mark.xfail(
                reason="The mean is 0.67; the first task alone falls to 0.45",
                strict=True,
            ),
        ),
        (2048, 0.85, 1.0, 200),
    ],
)
def test_psp_on_fifty_permutations(mnist, units, least, most, steps):
    """Cheung et al. (2019): about 0.5 with 128 units and 0.9 with 2048.

    The settings are those of their code: three hidden layers without biases,
    pixels of mean 0 and variance 1, an RMSprop that forgets slowly, and 1000
    steps for each task. It logs the first task while it trains and the mean in
    the end; which of them their figure shows is not known here.
    """
    keras.utils.set_random_seed(0)
    x = inputs = keras.Input((784,))
    for n, activation in [(units, "relu")] * 3 + [(10, None)]:
        x = keras_bpn.layers.BPNDense(
            n,
            activation,
            use_bias=False,
            hidden_dim=0,
            kernel_initializer="glorot_normal",
        )(x)
    model = keras_bpn.BPNModel(inputs, x)
    train, test = [((x - 0.1307) / 0.3081, y) for x, y in mnist]
    chosen = np.resize(np.arange(len(train[0])), 128 * steps)
    tasks = permuted([tuple(a[chosen] for a in train), test], 50)
    optimizer = keras.optimizers.RMSprop(1e-4, rho=0.99, epsilon=1e-8)
    accuracies = learn(model, "PSP", tasks, optimizer, 128, 1)
    print(
        f"\nPSP, {units} units, {steps} steps a task: first task "
        f"{accuracies[0]:.4f}, last {accuracies[-1]:.4f}, "
        f"mean {np.mean(accuracies):.4f}"
    )
    assert least <= np.mean(accuracies) <= most
