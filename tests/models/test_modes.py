import keras
import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st

import keras_bpn
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks

METHODS = [
    keras_bpn.consolidation.EWC,
    keras_bpn.consolidation.PSP,
    lambda: None,
]


class CountedModel(keras_bpn.BPNModel):
    """Counts how often its steps are traced."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.traces = {"train": 0, "test": 0, "predict": 0}

    def train_step(self, data):
        self.traces["train"] += 1
        return super().train_step(data)

    def test_step(self, data):
        self.traces["test"] += 1
        return super().test_step(data)

    def predict_step(self, data):
        self.traces["predict"] += 1
        return super().predict_step(data)


def counted_model(consolidation):
    model = make_model()
    model = CountedModel(model.inputs, model.outputs)
    return compile_model(model, consolidation=consolidation)


def use(model, task, new=False):
    x, y = make_data()
    if new:
        model.fit(x, y, task=task, batch_size=8, verbose=0)
    model.evaluate(x, y, task=task, batch_size=8, verbose=0)
    model.predict(x, task=task, batch_size=8, verbose=0)


@pytest.mark.parametrize(
    "method",
    [
        *METHODS[:1],
        *(pytest.param(m, marks=pytest.mark.slow) for m in METHODS[1:]),
    ],
)
def test_switching_tasks_traces_nothing_and_a_doubling_once(method):
    model = counted_model(method())
    use(model, "a", new=True)
    first = dict(model.traces)
    for name in "bc":
        use(model, name, new=True)
    for name in "abcacb":
        use(model, name)
        model.task = name
    for name in "defgh":
        use(model, name, new=True)
    assert model.traces == first
    # The tables start with room for eight tasks.
    for name in "ijklmnop":
        use(model, name, new=True)
    assert model.traces == {step: n + 1 for step, n in first.items()}
    use(model, "q", new=True)
    assert model.traces == {step: n + 2 for step, n in first.items()}


def test_the_compiled_fisher_is_traced_once_per_table():
    model = counted_model(keras_bpn.consolidation.EWC(1.0))
    functions = []
    for i in range(10):
        train_tasks(model, [f"task {i}"], epochs=1)
        functions.append(model.consolidation._functions["moments"])
    assert len({id(f) for f in functions}) == 2
    for function in functions:
        ((loop, _),) = function._loops.values()
        assert loop.experimental_get_tracing_count() == 1


@pytest.mark.parametrize("method", METHODS)
def test_rows_of_ended_tasks_are_never_written_again(method):
    model = compile_model(make_model(), consolidation=method())
    rows = {}
    for i in range(10):
        train_tasks(model, [str(i)], epochs=1)
        for bias in model.task_biases:
            table = np.asarray(bias.table)
            assert np.any(table[i + 1]) and not np.any(table[0])
            assert not np.any(table[i + 2 :])
            for j in range(i):
                np.testing.assert_array_equal(table[j + 1], rows[bias.path, j])
            rows[bias.path, i] = table[i + 1].copy()


@pytest.mark.parametrize("method", METHODS)
def test_a_mixed_batch_equals_the_calls_task_by_task(method):
    model = compile_model(make_model(), consolidation=method())
    train_tasks(model, "abc")
    x, y = make_data()
    # A fourth task in training: its bias units are still two factors.
    model.fit(x, y, task="d", verbose=0, consolidate=False)
    names = list("abcd" * 10)
    single = {name: np.asarray(model(x, task=name)) for name in "abcd"}
    expected = np.stack([single[name][i] for i, name in enumerate(names)])
    assert len({s.tobytes() for s in single.values()}) == 4
    np.testing.assert_allclose(
        model(x, task=names), expected, rtol=1e-6, atol=1e-6
    )
    predicted = model.predict(x, task=names, batch_size=7, verbose=0)
    np.testing.assert_allclose(predicted, expected, rtol=1e-6, atol=1e-6)
    for name in "abcd":
        np.testing.assert_allclose(
            model.predict(x, task=name, verbose=0),
            single[name],
            rtol=1e-6,
            atol=1e-6,
        )


@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from("ab"), min_size=1, max_size=12))
def test_any_mix_of_names_picks_the_rows_of_each(names):
    model = _trained()
    x = np.resize(make_data()[0], (len(names), 6))
    rows = [np.asarray(model(x, task=n))[i] for i, n in enumerate(names)]
    np.testing.assert_allclose(
        model(x, task=names), np.stack(rows), rtol=1e-6, atol=1e-6
    )


def _trained(cache={}):
    if "model" not in cache:
        cache["model"] = train_tasks(compile_model(make_model()))
    return cache["model"]


def test_rank_three_inputs_can_be_mixed():
    inputs = keras.Input((4, 6))
    outputs = keras_bpn.layers.BPNDense(2, hidden_dim=3)(inputs)
    model = keras_bpn.BPNModel(inputs, keras.layers.Flatten()(outputs))
    compile_model(model)
    x = np.random.normal(size=(8, 4, 6)).astype("float32")
    for task in "ab":
        model.fit(x, np.arange(8), task=task, verbose=0, epochs=2)
    mixed = np.asarray(model(x, task=list("abababab")))
    np.testing.assert_allclose(mixed[0], model(x, task="a")[0], rtol=1e-6)
    np.testing.assert_allclose(mixed[1], model(x, task="b")[1], rtol=1e-6)
    assert not np.allclose(model(x, task="a")[0], model(x, task="b")[0])


def test_mode_is_set_per_call_or_until_changed():
    model = train_tasks(compile_model(make_model()))
    x, y = make_data()
    a, b = model(x, task="a"), model(x, task="b")
    assert not np.allclose(a, b)
    assert model.task == "b"  # The task of the last `fit`.
    np.testing.assert_array_equal(model(x), b)
    model.evaluate(x, y, task="a", verbose=0)
    model.predict(x, task="a", verbose=0)
    assert model.task == "b"
    model.task = "a"
    assert model.task == "a"
    np.testing.assert_array_equal(model(x), a)
    np.testing.assert_allclose(
        model.predict(x, verbose=0), a, rtol=1e-6, atol=1e-6
    )


def test_without_a_task_the_network_has_only_its_shared_weights():
    model = train_tasks(
        compile_model(make_model(), consolidation=keras_bpn.consolidation.PSP())
    )
    model.task = None
    assert model.task is None
    x, _ = make_data()
    h = x
    for i, layer in enumerate(model.layers[1:]):
        h = h @ np.asarray(layer.kernel) + np.asarray(layer.bias)
        h = np.maximum(h, 0) if i < 2 else h
    np.testing.assert_allclose(model(x), h, rtol=1e-5, atol=1e-5)


def test_tasks_can_be_added_before_they_are_trained():
    model = compile_model(make_model())
    model.add_task("later")
    model.add_task("first")
    assert model.tasks == ("later", "first")
    train_tasks(model, ["first"])
    model.fit(*make_data(), task="later", verbose=0)
    assert model.tasks == ("later", "first")
    for bias in model.task_biases:
        assert np.any(bias.table[1]) and np.any(bias.table[2])


def test_direction_none_leaves_bias_units_out():
    model = train_tasks(compile_model(make_model(), direction=None))
    for bias in model.task_biases:
        assert not np.any(bias.table)
        assert not bias.trainable_variables
    x, _ = make_data()
    np.testing.assert_array_equal(model(x, task="a"), model(x, task="b"))
    names = [v.path for v in model.trainable_variables]
    assert not any("task_bias" in name for name in names)


def test_same_seed_same_weights():
    runs = []
    for _ in range(2):
        keras.utils.set_random_seed(7)
        model = train_tasks(compile_model(make_model()))
        runs.append(model.get_weights())
    assert_equal(*runs)
    keras.utils.set_random_seed(8)
    other = train_tasks(compile_model(make_model())).get_weights()
    assert any((a != b).any() for a, b in zip(runs[0], other))


def test_storage_counts_the_rows_of_each_layer():
    x = inputs = keras.Input((784,))
    for _ in range(5):
        x = keras_bpn.layers.BPNDense(300)(x)
    model = keras_bpn.BPNModel(inputs, keras_bpn.layers.BPNDense(10)(x))
    for method in (keras_bpn.consolidation.EWC, keras_bpn.consolidation.PSP):
        model.compile("adam", "mse", consolidation=method())
        storage = model.storage()
        # Five hidden layers and ten outputs in float32. Importances are not
        # needed after training, and keys are drawn again from a seed.
        assert storage.bytes_per_task == 4 * (5 * 300 + 10)
        assert storage.parameters_per_task == 1510
        # 784*300 + 4*300*300 + 300*10 kernels and 1510 shared biases.
        assert storage.parameters == 599_710
        assert storage.percent_per_task == pytest.approx(0.2518, abs=1e-4)
        assert "6,040 bytes per task" in str(storage)
    paths = list(storage.bytes_by_part)
    assert sum("task_bias" in p for p in paths) == 6
    assert sum("task_keys" in p for p in paths) == 6
    model.compile("adam", "mse", direction=None)
    assert model.storage().bytes_per_task == 0
