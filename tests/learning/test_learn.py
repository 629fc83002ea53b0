import keras
import numpy as np
import pytest

import keras_bpn
from keras_bpn.learning import learn
from tests.helpers import assert_equal
from tests.learning.helpers import build
from tests.learning.helpers import full_state
from tests.learning.helpers import make_arrays
from tests.learning.helpers import make_scenario


def evaluate(model, scenario):
    """Returns the test accuracy of each task, by hand."""
    result = []
    for task in scenario:
        x, y = task.examples("test").reshape((64,)).arrays()
        outputs = np.asarray(model(x, task=task.name))
        result.append(np.mean(outputs.argmax(-1) == y))
    return result


@pytest.mark.parametrize("name", ["BD+EWC", "STL", "GEM", "BD+PSP", "LwF"])
def test_every_method_learns_a_scenario(name):
    scenario = make_scenario()
    model = build(name)
    history = learn(model, scenario, epochs=2, verbose=0)
    names = tuple(task.name for task in scenario)
    assert model.tasks == history.tasks == names
    assert model.open_task is None
    matrix = history.matrix.values
    assert np.isnan(matrix[np.triu_indices(3, 1)]).all()
    assert not np.isnan(matrix[np.tril_indices(3)]).any()
    np.testing.assert_allclose(matrix[-1], evaluate(model, scenario), rtol=1e-6)
    assert [e["epoch"] for e in history.epochs] == [0, 1] * 3
    assert {"loss", "accuracy", "val_loss"} <= set(history.epochs[0]["logs"])
    storage = model.storage()
    for cost, task in zip(history.costs, names, strict=True):
        assert cost["task"] == task
        assert cost["seconds"] > 0 and cost["peak_memory"] > 1e7
        assert cost["stored_bytes"] == storage.bytes_per_task
        assert cost["added_parameters"] == storage.parameters_per_task


def test_it_does_what_fit_does():
    scenario = make_scenario(validation_split=0.0)
    keras.utils.set_random_seed(0)
    learned = build()
    learn(learned, scenario, epochs=2, verbose=0)
    keras.utils.set_random_seed(0)
    fitted = build()
    for i, task in enumerate(scenario):
        examples = task.examples("train").reshape((64,))
        for epoch in range(2):
            fitted.fit(
                examples.batches(8, scenario.task_seed(i), epoch),
                task=task.name,
                verbose=0,
                consolidate=False,
            )
        fitted.consolidate(examples.batches(8))
    assert_equal(full_state(learned), full_state(fitted))


def test_the_same_seed_gives_the_same_result():
    results = []
    for _ in range(2):
        keras.utils.set_random_seed(3)
        model = build(dropout=0.2)
        history = learn(model, make_scenario(), epochs=2, verbose=0)
        results.append([history.matrix.values, *full_state(model)])
    assert_equal(*results)


def test_test_data_decides_about_nothing():
    states = []
    for seed in (1, 2):
        arrays = (make_arrays(0), make_arrays(seed, 60))
        scenario = keras_bpn.scenarios.SplitClasses(arrays, 2, batch_size=8)
        keras.utils.set_random_seed(0)
        model = build()
        learn(
            model,
            scenario,
            epochs=3,
            patience=1,
            evaluate_unit="epochs",
            verbose=0,
        )
        states.append(full_state(model))
    assert_equal(*states)


def test_images_of_any_shape_fit_a_network():
    x, y = make_arrays()
    images = x.reshape(-1, 8, 8, 1)
    results = []
    for data in (x, images):
        keras.utils.set_random_seed(0)
        model = build()
        scenario = keras_bpn.scenarios.SplitClasses(
            ((data, y), (data, y)), 2, batch_size=8
        )
        learn(model, scenario, verbose=0)
        results.append(full_state(model))
    assert_equal(*results)


def test_a_network_with_a_head_for_each_task():
    scenario = make_scenario(multi_head=True)
    model = build(heads=True)
    history = learn(model, scenario, epochs=2, verbose=0)
    assert model.task_classes == {task.name: (0, 1) for task in scenario}
    assert history.matrix.average_accuracy() > 0.6


def test_heads_whatever_the_order_of_the_data():
    # The first examples are those of the last task, whose labels a head of the
    # first has no place for.
    arrays = tuple(
        tuple(array[::-1] for array in make_arrays(seed, size))
        for seed, size in ((0, 120), (1, 60))
    )
    scenario = make_scenario(dataset=arrays, multi_head=True)
    model = build(heads=True)
    learn(model, scenario, verbose=0)
    assert model.tasks == tuple(task.name for task in scenario)


def test_batch_size_is_that_of_the_scenario_or_the_call():
    steps = []

    class Count(keras.callbacks.Callback):
        def on_epoch_end(self, epoch, logs=None):
            steps.append(self.params["steps"])

    # Of 40 examples, 4 are for validation.
    for batch_size in (None, 5):
        learn(
            build(),
            make_scenario(),
            batch_size=batch_size,
            callbacks=[Count()],
            verbose=0,
        )
    assert steps == [5] * 3 + [8] * 3


# When it evaluates.


def test_evaluation_after_every_second_task():
    history = learn(build(), make_scenario(), evaluate_every=2, verbose=0)
    measured = ~np.isnan(history.matrix.values)
    np.testing.assert_array_equal(
        measured, [[True, False, False], [True, True, False], [True] * 3]
    )
    history = learn(build(), make_scenario(), evaluate_every=3, verbose=0)
    measured = ~np.isnan(history.matrix.values)
    np.testing.assert_array_equal(
        measured, [[True, False, False], [False, True, False], [True] * 3]
    )
    assert not np.isnan(history.matrix.backward_transfer())
    assert all(epoch["accuracy"] == {} for epoch in history.epochs)


def test_evaluation_after_epochs():
    history = learn(
        build(),
        make_scenario(),
        epochs=4,
        evaluate_every=2,
        evaluate_unit="epochs",
        verbose=0,
    )
    names = history.tasks
    found = [tuple(epoch["accuracy"]) for epoch in history.epochs]
    assert found == [
        *[(), names[:1]] * 2,
        *[(), names[:2]] * 2,
        *[(), names[:3]] * 2,
    ]
    # The end of a task changes nothing for it but rounding.
    last = history.epochs[3]["accuracy"][names[0]]
    assert history.matrix.values[0, 0] == pytest.approx(last, abs=0.06)
    assert not np.isnan(np.tril(history.matrix.values)).any()


def test_forward_transfer():
    keras.utils.set_random_seed(0)
    scenario = make_scenario()
    before = []

    def callbacks(task):
        # As it is just before a task is trained.
        before.append(evaluate(model, scenario[: len(before) + 1])[-1])
        return []

    model = build("EWC")
    untrained = []
    for task in scenario:
        x, y = task.examples("test").arrays()
        untrained.append(np.mean(np.asarray(model(x)).argmax(-1) == y))
    history = learn(
        model, scenario, forward_transfer=True, callbacks=callbacks, verbose=0
    )
    np.testing.assert_allclose(history.matrix.untrained, untrained, rtol=1e-6)
    ahead = np.diag(history.matrix.values, 1)
    np.testing.assert_allclose(ahead, before[1:], rtol=1e-6)
    expected = np.mean(np.array(ahead) - untrained[1:])
    assert history.matrix.forward_transfer() == pytest.approx(expected)


# When it stops.


def test_a_task_stops_when_it_no_longer_gets_better():
    model = build("EWC", optimizer=keras.optimizers.SGD(0.0))
    history = learn(model, make_scenario(), epochs=9, patience=2, verbose=0)
    # The first epoch is the best of all; two more are waited for.
    assert [e["epoch"] for e in history.epochs] == [0, 1, 2] * 3


def test_a_task_goes_back_to_its_best_epoch():
    rates = [0.01, 0.01, 5.0]
    kept = {}

    class Keep(keras.callbacks.Callback):
        def on_epoch_begin(self, epoch, logs=None):
            self.model.optimizer.learning_rate = rates[min(epoch, 2)]

        def on_epoch_end(self, epoch, logs=None):
            kept[epoch] = [v.numpy() for v in self.model.shared_variables]

    scenario = keras_bpn.scenarios.SplitClasses(
        (make_arrays(0), make_arrays(1, 60)), 2, classes=[0, 1], batch_size=8
    )
    model = build("EWC", optimizer=keras.optimizers.SGD(0.01))
    history = learn(
        model, scenario, epochs=9, patience=2, callbacks=[Keep()], verbose=0
    )
    losses = [e["logs"]["val_loss"] for e in history.epochs]
    best = int(np.argmin(losses))
    assert best < len(losses) - 1 == best + 2 < 8
    assert_equal([v.numpy() for v in model.shared_variables], kept[best])


def test_callbacks_may_depend_on_the_task():
    seen = []

    def callbacks(task):
        seen.append(task.name)
        return [keras.callbacks.LambdaCallback()]

    scenario = make_scenario()
    learn(build(), scenario, callbacks=callbacks, verbose=0)
    assert seen == [task.name for task in scenario]


# What it shows.


def test_progress(capsys):
    learn(build(), make_scenario(), verbose=0)
    assert capsys.readouterr().out == ""
    learn(build(), make_scenario(), verbose=2)
    out = capsys.readouterr().out
    assert "Task '0/1' - Epoch 1/1" in out
    assert "2/3" in out and "average_accuracy" in out and "/task" in out


# Bad input.


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"epochs": 0}, "`epochs` to be a positive integer"),
        ({"epochs": 1.5}, "`epochs` to be a positive integer"),
        ({"batch_size": 0}, "`batch_size` to be a positive integer"),
        ({"evaluate_every": 0}, "`evaluate_every`"),
        ({"evaluate_unit": "steps"}, r"one of \['tasks', 'epochs'\]"),
        ({"save_every": 0}, "`save_every`"),
        ({"save_unit": "tasks"}, r"one of \['epochs', 'steps'\]"),
        ({"patience": 0}, "`patience`"),
        ({"callbacks": ["early"]}, "list of Keras callbacks"),
        ({"metric": "auc"}, r"metrics=\['auc'\]"),
    ],
)
def test_bad_arguments_change_nothing(tmp_path, arguments, message):
    model = build()
    before = full_state(model)
    with pytest.raises(ValueError, match=message):
        learn(model, make_scenario(), directory=tmp_path / "run", **arguments)
    assert_equal(full_state(model), before)
    assert model.tasks == ()
    assert not (tmp_path / "run").exists()


def test_labels_that_do_not_fit_the_network():
    with pytest.raises(ValueError, match="`multi_head=True`"):
        learn(build(heads=True), make_scenario())
    x, y = make_arrays()
    arrays = ((x, y + 5), (x, y + 5))
    scenario = keras_bpn.scenarios.SplitClasses(arrays, 2)
    with pytest.raises(ValueError, match="labels from 0 to 9"):
        learn(build(), scenario)


def test_what_early_stopping_and_forward_transfer_need():
    with pytest.raises(ValueError, match="validation data where `patience`"):
        learn(build(), make_scenario(validation_split=0.0), patience=1)
    with pytest.raises(ValueError, match="`forward_transfer=False`"):
        learn(
            build(heads=True),
            make_scenario(multi_head=True),
            forward_transfer=True,
        )


def test_a_task_that_has_ended():
    model, scenario = build(), make_scenario()
    learn(model, scenario, verbose=0)
    before = full_state(model)
    with pytest.raises(ValueError, match="has ended cannot be trained again"):
        learn(model, scenario, verbose=0)
    assert_equal(full_state(model), before)


def test_a_model_that_is_not_compiled():
    inputs = keras.Input((64,))
    outputs = keras_bpn.layers.BPNDense(10)(inputs)
    model = keras_bpn.BPNModel(inputs, outputs)
    with pytest.raises(ValueError, match="compile"):
        learn(model, make_scenario())
