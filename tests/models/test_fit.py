"""What a Keras user expects of `fit`, with tasks."""

import keras
import numpy as np
import pytest
import tensorflow as tf

import keras_bpn
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values

EWC, PSP = keras_bpn.consolidation.EWC, keras_bpn.consolidation.PSP


def dataset_of(x, y, batch_size=8):
    return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)


class Batches(keras.utils.PyDataset):
    def __init__(self, x, y):
        super().__init__()
        self.x, self.y = x, y

    def __len__(self):
        return len(self.x) // 8

    def __getitem__(self, i):
        return self.x[8 * i : 8 * i + 8], self.y[8 * i : 8 * i + 8]


def trained_with(fit, **kwargs):
    keras.utils.set_random_seed(3)
    model = compile_model(make_model(), **kwargs)
    for task in range(2):
        fit(model, *make_data(task), str(task))
    return model


def test_arrays_datasets_and_pydatasets_give_the_same_weights():
    arguments = {"epochs": 2, "shuffle": False, "verbose": 0}
    runs = [
        trained_with(
            lambda m, x, y, t: m.fit(x, y, batch_size=8, task=t, **arguments)
        ),
        trained_with(
            lambda m, x, y, t: m.fit(dataset_of(x, y), task=t, **arguments)
        ),
        trained_with(
            lambda m, x, y, t: m.fit(Batches(x, y), task=t, **arguments)
        ),
    ]
    first = values(runs[0].weights)
    importances = values(runs[0].consolidation.variables.values())
    for other in runs[1:]:
        for a, b in zip(first, values(other.weights)):
            np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
        for a, b in zip(
            importances, values(other.consolidation.variables.values())
        ):
            # Fisher batches may differ in size, and so in the order of sums.
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6)


def test_fit_in_two_parts_equals_fit_in_one():
    whole = trained_with(
        lambda m, x, y, t: m.fit(x, y, task=t, epochs=4, verbose=0)
    )

    def in_parts(model, x, y, task):
        model.fit(x, y, task=task, epochs=1, verbose=0, consolidate=False)
        model.fit(x, y, task=task, epochs=2, verbose=0, consolidate=False)
        model.fit(x, y, epochs=4, initial_epoch=3, verbose=0, consolidate=False)
        model.consolidate(x, y)

    parts = trained_with(in_parts)
    assert_equal(values(parts.weights), values(whole.weights))
    assert parts.tasks == whole.tasks


def test_history_and_validation():
    model = compile_model(make_model())
    x, y = make_data()
    history = model.fit(
        x,
        y,
        task="a",
        epochs=3,
        verbose=0,
        validation_data=(x[:8], y[:8]),
        validation_freq=1,
    )
    assert set(history.history) == {
        "loss",
        "accuracy",
        "val_loss",
        "val_accuracy",
    }
    assert len(history.history["loss"]) == 3
    # The last validation is an evaluation in the mode of the task.
    loss, accuracy = model.evaluate(x[:8], y[:8], task="a", verbose=0)
    assert history.history["val_loss"][-1] == pytest.approx(loss, rel=1e-5)
    assert history.history["val_accuracy"][-1] == pytest.approx(accuracy)


def test_validation_split_is_held_out():
    x, y = make_data()
    split = compile_model(make_model())
    keras.utils.set_random_seed(0)
    split = compile_model(make_model())
    split.fit(x, y, task="a", validation_split=0.25, epochs=2, verbose=0)
    keras.utils.set_random_seed(0)
    explicit = compile_model(make_model())
    explicit.fit(
        x[:30],
        y[:30],
        task="a",
        validation_data=(x[30:], y[30:]),
        epochs=2,
        verbose=0,
    )
    assert_equal(values(split.weights), values(explicit.weights))
    assert split.history.history == explicit.history.history


def test_sample_weight_and_class_weight():
    x, y = make_data()
    weights = np.where(y == 0, 1.0, 5.0).astype("float32")
    by_sample = trained_with(
        lambda m, x, y, t: m.fit(
            x,
            y,
            task=t,
            sample_weight=np.where(y % 2 == 0, 1.0, 5.0).astype("float32"),
            verbose=0,
        ),
        consolidation=EWC(10.0),
    )
    by_class = trained_with(
        lambda m, x, y, t: m.fit(
            x, y, task=t, class_weight={0: 1, 1: 5, 2: 1, 3: 5}, verbose=0
        ),
        consolidation=EWC(10.0),
    )
    unweighted = trained_with(lambda m, x, y, t: m.fit(x, y, task=t, verbose=0))
    for a, b, c in zip(
        values(by_sample.weights),
        values(by_class.weights),
        values(unweighted.weights),
    ):
        np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)
    assert any(
        not np.allclose(a, c)
        for a, c in zip(values(by_sample.weights), values(unweighted.weights))
    )
    assert weights.sum() > len(y)


def test_callbacks_keep_their_meaning(tmp_path):
    model = compile_model(make_model(), keras.optimizers.Adam(0.01))
    x, y = make_data()
    steps, rates = [], []
    history = model.fit(
        x,
        y,
        task="a",
        batch_size=8,
        epochs=30,
        verbose=0,
        validation_data=(x, y),
        callbacks=[
            keras.callbacks.EarlyStopping(
                "val_loss",
                min_delta=10.0,
                patience=2,
                restore_best_weights=True,
            ),
            keras.callbacks.LearningRateScheduler(lambda e: 0.01 * 0.5**e),
            keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras"),
            keras.callbacks.CSVLogger(tmp_path / "log.csv"),
            keras.callbacks.TerminateOnNaN(),
            keras.callbacks.LambdaCallback(
                on_train_batch_end=lambda batch, logs: steps.append(batch),
                on_epoch_end=lambda epoch, logs: rates.append(
                    float(model.optimizer.learning_rate)
                ),
            ),
        ],
    )
    # The first epoch stays the best, and two more are waited for.
    assert len(history.epoch) == 3
    assert steps == [0, 1, 2, 3, 4] * 3
    np.testing.assert_allclose(rates, [0.01, 0.005, 0.0025])
    # The task ended with the weights of the first epoch.
    best = keras.models.load_model(tmp_path / "1.keras")
    assert best.tasks == ("a",)
    assert_equal(values(model.shared_variables), values(best.shared_variables))
    for bias, saved in zip(model.task_biases, best.task_biases):
        product = np.asarray(saved.perturbation) @ np.asarray(saved.projection)
        np.testing.assert_allclose(bias.table[1], product[0], rtol=1e-5)


def test_a_checkpoint_of_an_epoch_goes_on_as_the_training_did(tmp_path):
    x, y = make_data()
    model = compile_model(make_model())
    checkpoint = keras.callbacks.ModelCheckpoint(tmp_path / "{epoch}.keras")
    model.fit(x, y, task="a", epochs=4, verbose=0, callbacks=checkpoint)
    resumed = keras.models.load_model(tmp_path / "2.keras")
    resumed.fit(x, y, initial_epoch=2, epochs=4, verbose=0)
    assert_equal(values(resumed.weights), values(model.weights))


@pytest.mark.parametrize(
    "loss, outputs",
    [
        ("mse", 6),
        ("binary_crossentropy", 6),
        ("categorical_crossentropy", 6),
        (keras.losses.Huber(), 6),
        (lambda y, y_pred: keras.ops.mean((y - y_pred) ** 2, axis=-1), 6),
    ],
)
def test_other_losses(loss, outputs):
    model = make_model(outputs=outputs)
    x, y = make_data()
    y = np.eye(6, dtype="float32")[y]
    outputs = keras.layers.Softmax()(model.output)
    model = keras_bpn.BPNModel(model.input, outputs)
    model.compile("adam", loss, metrics=["mae"], consolidation=EWC(10.0))
    for task in "ab":
        history = model.fit(x, y, task=task, epochs=5, verbose=0)
        assert history.history["loss"][-1] < history.history["loss"][0]


@pytest.mark.parametrize(
    "optimizer",
    [
        "sgd",
        "rmsprop",
        "adamw",
        "adagrad",
        "nadam",
        "lion",
        "ftrl",
        "adamax",
    ],
)
def test_other_optimizers(optimizer):
    model = compile_model(make_model(), optimizer)
    train_tasks(model, "abc")
    assert all(np.isfinite(v).all() for v in values(model.weights))


def test_the_second_factor_can_have_a_learning_rate_of_its_own():
    def projections(rate):
        keras.utils.set_random_seed(0)
        optimizer = keras.optimizers.MultiOptimizer(
            keras.optimizers.OptimizerMap(
                keras.optimizers.Adam(1e-3),
                {".*task_bias/projection": keras.optimizers.Adam(rate)},
            )
        )
        model = compile_model(make_model(), optimizer)
        model.fit(*make_data(), task="a", verbose=0, consolidate=False)
        start = values(b.projection for b in model.task_biases)
        kernels = values(v for v in model.shared_variables)
        return start, kernels

    slow, fast = projections(0.0), projections(0.01)
    assert any(not np.allclose(a, b) for a, b in zip(slow[0], fast[0]))
    model = make_model()
    for bias in model.task_biases:
        assert bias.projection.path.endswith("task_bias/projection")


def test_regularizers_and_constraints_of_the_layers_act():
    inputs = keras.Input((6,))
    outputs = keras_bpn.layers.BPNDense(
        6,
        kernel_regularizer=keras.regularizers.L2(0.1),
        kernel_constraint=keras.constraints.MaxNorm(0.5),
    )(inputs)
    model = compile_model(keras_bpn.BPNModel(inputs, outputs))
    train_tasks(model)
    norms = np.linalg.norm(np.asarray(model.layers[1].kernel), axis=0)
    assert norms.max() <= 0.5 + 1e-5
    assert len(model.losses) == 1


def test_several_inputs_and_outputs():
    first, second = keras.Input((6,), name="a"), keras.Input((6,), name="b")
    x = keras.layers.Concatenate()([first, second])
    x = keras_bpn.layers.BPNDense(8, activation="relu")(x)
    one = keras_bpn.layers.BPNDense(6, name="one")(x)
    two = keras_bpn.layers.BPNDense(1, name="two")(x)
    model = keras_bpn.BPNModel({"a": first, "b": second}, [one, two])
    model.compile(
        "adam",
        loss=[
            keras.losses.SparseCategoricalCrossentropy(from_logits=True),
            "mse",
        ],
        consolidation=EWC(10.0),
    )
    x, y = make_data()
    inputs, targets = {"a": x, "b": x}, [y, x[:, :1]]
    for task in "ab":
        model.fit(inputs, targets, task=task, verbose=0)
    mixed = model.predict(inputs, task=["a", "b"] * 20, verbose=0)
    single = model.predict(inputs, task="a", verbose=0)
    assert [m.shape for m in mixed] == [(40, 6), (40, 1)]
    for m, s in zip(mixed, single):
        np.testing.assert_allclose(m[::2], s[::2], rtol=1e-5, atol=1e-6)


def test_progress_bar_shows_the_task(capfd):
    model = compile_model(make_model())
    x, y = make_data()
    model.fit(x, y, task="birds", epochs=2)
    model.evaluate(x, y, task="birds")
    model.predict(x, task="birds")
    output = capfd.readouterr().out
    assert "Task 'birds' - Epoch 1/2" in output
    assert "Task 'birds' - Epoch 2/2" in output
    assert output.count("Task 'birds'") == 4
    assert "accuracy" in output


def test_nested_models_and_layers_of_one_name():
    def block(inputs, units):
        x = first = keras.Input((inputs,))
        x = keras_bpn.layers.BPNDense(units, activation="relu", name="d")(x)
        return keras.Model(first, x)

    inputs = keras.Input((6,))
    x = block(9, 6)(block(6, 9)(inputs))
    model = compile_model(keras_bpn.BPNModel(inputs, x))
    train_tasks(model)
    assert len(model.task_biases) == 2
    for bias in model.task_biases:
        assert np.any(bias.table[1]) and np.any(bias.table[2])
