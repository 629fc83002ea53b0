import json

import keras
import numpy as np
import pytest
import scipy.optimize
import tensorflow as tf

import keras_bpn
from keras_bpn.consolidation.episodic_memory import choose_examples
from keras_bpn.consolidation.gem import GEM
from keras_bpn.layers.task_heads import TaskHeads
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values


def gem_model(memory_per_class=8, seed=1, optimizer="adam", **kwargs):
    names = ("margin", "memory_batch_size")
    settings = {n: kwargs.pop(n) for n in names if n in kwargs}
    method = GEM(memory_per_class, seed=seed, **settings)
    return compile_model(
        make_model(), optimizer=optimizer, consolidation=method, **kwargs
    )


def remember(model, tasks="ab"):
    """Ends tasks as if they had been trained."""
    generator = np.random.default_rng(0)
    for i, task in enumerate(tasks):
        model.add_task(task)
        model.consolidation.end_task(model, task, [(*make_data(i), None)])
    for bias in model.task_biases:
        bias.table.assign(generator.normal(size=bias.table.shape))
    return model


def full_state(model):
    state = model.consolidation.get_state()
    return (
        model.get_weights()
        + values(model.optimizer.variables)
        + [state[name] for name in sorted(state)]
    )


def memory(model, i):
    state = model.consolidation.get_state()
    return state[f"memory/{i}/inputs/0"], state[f"memory/{i}/labels"]


def flat(arrays):
    return np.concatenate([np.ravel(a) for a in arrays]).astype("float64")


def expected_gradient(model, gradients, margin, tasks="ab"):
    """What the paper says, computed with NumPy and SciPy."""
    rows = []
    for i, task in enumerate(tasks):
        x, y = memory(model, i)
        with tf.GradientTape() as tape:
            loss = keras.losses.sparse_categorical_crossentropy(
                y, model(x, task=task), from_logits=True
            )
            loss = tf.reduce_mean(loss)
        rows.append(
            flat(tape.gradient(loss, [v.value for v in model.shared_variables]))
        )
    g, G = flat(gradients), np.stack(rows)
    if not (G @ g < 0).any():
        return g
    margins, root = np.full(len(G), margin), np.sqrt(1e-3)
    u, _ = scipy.optimize.nnls(
        np.concatenate([G.T, root * np.eye(len(G))]),
        -np.concatenate([g + G.T @ margins, root * margins]),
    )
    return g + G.T @ (u + margins)


def random_gradients(model, seed):
    generator = np.random.default_rng(seed)
    return [
        tf.constant(generator.normal(size=v.shape), "float32")
        for v in model.shared_variables
    ]


# The examples that are kept.


def batches(x, y, size):
    for i in range(0, len(y), size):
        x_batch = keras.tree.map_structure(lambda a: a[i : i + size], x)
        yield x_batch, y[i : i + size], None


def test_examples_are_drawn_per_class_whatever_the_batches():
    y = np.array([0, 3, 3, 0, 3, 0, 3, 3, 0, 3])
    x = np.arange(10, dtype="uint8")
    chosen = [choose_examples(batches(x, y, n), 3, 5) for n in (1, 4, 10)]
    for x_chosen, y_chosen, counts in chosen:
        assert y_chosen.tolist() == [0, 0, 0, 3, 3, 3]
        assert y[x_chosen].tolist() == [0, 0, 0, 3, 3, 3]
        assert len(set(x_chosen)) == 6
        assert counts == {0: 4, 3: 6}
        assert x_chosen.dtype == "uint8" and y_chosen.dtype == y.dtype
        np.testing.assert_array_equal(x_chosen, chosen[0][0])


def test_every_example_is_drawn_equally_often():
    y = np.zeros(10, "int64")
    counts = np.zeros(10)
    for seed in range(600):
        counts[choose_examples(batches(np.arange(10), y, 4), 3, seed)[0]] += 1
    # 180 each, with a standard deviation of sqrt(600 * 0.3 * 0.7) = 11.
    assert abs(counts - 180).max() < 45


@pytest.mark.parametrize("kind", ["column", "one-hot", "float"])
def test_labels_of_every_kind_choose_the_same(kind):
    y = np.array([0, 2, 2, 0, 1, 2, 0, 1])
    x = {"a": np.arange(8), "b": (np.ones((8, 2)), np.arange(8.0))}
    given = {
        "column": y[:, None],
        "one-hot": np.eye(3, dtype="float32")[y],
        "float": y.astype("float32"),
    }[kind]
    expected, _, _ = choose_examples(batches(x, y, 3), 2, 0)
    chosen, labels, _ = choose_examples(batches(x, given, 3), 2, 0)
    keras.tree.map_structure(np.testing.assert_array_equal, chosen, expected)
    assert labels.shape == (6, *given.shape[1:])
    np.testing.assert_array_equal(labels, given[chosen["a"]])
    np.testing.assert_array_equal(chosen["b"][1], chosen["a"])


@pytest.mark.parametrize(
    "y, message",
    [
        (np.array([0.5, 1.0]), "labels of shape \\(2,\\) and type float64"),
        (np.array([[0.5, 0.5], [1.0, 0.0]]), "labels of shape \\(2, 2\\)"),
        (np.zeros((2, 3, 1), "int32"), "labels of shape \\(2, 3, 1\\)"),
        ({"a": np.zeros(2)}, "labels of type dict"),
        (None, "labels of type NoneType"),
    ],
)
def test_other_labels_are_refused(y, message):
    with pytest.raises(ValueError, match=f"Received: {message}"):
        choose_examples([(np.zeros((2, 1)), y, None)], 1, 0)


def test_data_without_a_batch_is_refused():
    with pytest.raises(ValueError, match="Received: no batch"):
        choose_examples([], 1, 0)


def test_memories_hold_examples_of_their_tasks():
    model = train_tasks(gem_model(), "ab")
    for i in range(2):
        x, y = make_data(i)
        x_kept, y_kept = memory(model, i)
        assert np.bincount(y_kept - 2 * i).tolist() == [8, 8]
        assert y_kept.dtype == "int32" and x_kept.dtype == "float32"
        rows = {tuple(row): label for row, label in zip(x, y)}
        assert [rows[tuple(row)] for row in x_kept] == y_kept.tolist()


def test_draws_depend_on_the_seed_and_the_task():
    model = gem_model()

    def draw(seed):
        method = GEM(8, seed=seed)
        for task in "ab":
            method.end_task(model, task, [(*make_data(), None)])
        return [values(method.variables.values())[i] for i in (0, 3)]

    first, second = draw(3)
    again, _ = draw(3)
    other, _ = draw(4)
    np.testing.assert_array_equal(first, again)
    assert not np.array_equal(first, other)
    assert not np.array_equal(first, second)


def test_a_class_with_few_examples_is_kept_whole_and_said_so():
    model = gem_model(30)
    x, y = make_data()
    counts = {c: int((y == c).sum()) for c in (0, 1)}
    with pytest.warns(UserWarning, match=f"30 examples.*'a'.*{counts}"):
        model.fit(x, y, task="a", verbose=0)
    assert np.bincount(memory(model, 0)[1]).tolist() == list(counts.values())


def test_storage_counts_the_bytes_of_the_examples():
    model = gem_model()
    assert sum(model.consolidation.storage(model).values()) == 0
    remember(model)
    # 16 examples per task, of six numbers and a label of four bytes each.
    assert model.consolidation.storage(model) == {
        "memory of inputs": 16 * 6 * 4,
        "memory of labels": 16 * 4,
    }
    assert model.storage().bytes_by_part["memory of inputs"] == 384


# The gradients.


@pytest.mark.parametrize("direction", ["beneficial", None])
@pytest.mark.parametrize("margin", [0.0, 0.5])
def test_gradients_are_projected_as_the_paper_says(direction, margin):
    model = remember(gem_model(direction=direction, margin=margin))
    turned = 0
    for seed in range(6):
        gradients = random_gradients(model, seed)
        adjusted = model.consolidation.adjust_gradients(model, gradients)
        expected = expected_gradient(model, gradients, margin)
        np.testing.assert_allclose(
            flat(adjusted), expected, rtol=1e-4, atol=1e-5
        )
        if np.array_equal(flat(gradients), expected):
            assert_equal(adjusted, gradients)
        else:
            turned += 1
    assert 0 < turned < 6


def test_without_memories_gradients_are_returned_as_they_are():
    model = gem_model()
    model.fit(*make_data(), task="a", verbose=0, consolidate=False)
    gradients = random_gradients(model, 0)
    assert model.consolidation.adjust_gradients(model, gradients) is gradients


class Unused(keras.layers.Layer):
    """A layer with a variable that it makes no use of."""

    def build(self, input_shape):
        self.unused = self.add_weight(name="unused", shape=(2,))

    def call(self, inputs):
        return inputs


@pytest.mark.filterwarnings("ignore:Gradients do not exist")
def test_gradients_that_are_missing_or_sparse():
    inputs = keras.Input((3,), dtype="int32")
    x = keras.layers.Embedding(6, 4)(inputs)
    x = Unused()(keras.layers.Flatten()(x))
    outputs = keras_bpn.layers.BPNDense(4, hidden_dim=0)(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    compile_model(model, consolidation=GEM(8, seed=1), direction=None)
    x = np.random.default_rng(0).integers(6, size=(40, 3)).astype("int32")
    y = (np.arange(40) % 2).astype("int32")
    for i, task in enumerate("ab"):
        model.fit(x, y + i, task=task, verbose=0)
    embedding, unused, *others = model.shared_variables
    assert unused.name == "unused"

    variables = [v.value for v in model.shared_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(model(x)[:, :2] ** 2)
    gradients = tape.gradient(loss, variables)
    assert isinstance(gradients[0], tf.IndexedSlices)
    dense = [g if g is None else tf.convert_to_tensor(g) for g in gradients]
    adjusted = model.consolidation.adjust_gradients(model, gradients)
    expected = model.consolidation.adjust_gradients(model, dense)
    for result in (adjusted, expected):
        assert result.pop(1) is None
    assert_equal(adjusted, expected)

    # Where the loss does not reach, a memory may: the gradient is zero there.
    missing = [None] * len(variables)
    adjusted = model.consolidation.adjust_gradients(model, missing)
    assert adjusted.pop(1) is None
    assert_equal(adjusted, [np.zeros(v.shape) for v in [embedding, *others]])


@pytest.mark.parametrize("jit_compile", [False, True])
def test_the_training_step_uses_all_memories(jit_compile):
    # Steps of plain gradient descent show the gradient that was used. The
    # first task's steps are traced before there is any memory.
    model = gem_model(
        optimizer=keras.optimizers.SGD(0.1),
        direction=None,
        jit_compile=jit_compile,
    )
    x, y = make_data(2)
    kwargs = {"batch_size": 40, "verbose": 0}
    model.fit(x, y, task="a", **kwargs)
    remember(model, "b")
    model.fit(x, y, task="c", consolidate=False, **kwargs)
    # Labels that are not what the memories want.
    y = (y + 1) % 6
    variables = [v.value for v in model.shared_variables]
    with tf.GradientTape() as tape:
        loss = tf.reduce_mean(
            keras.losses.sparse_categorical_crossentropy(
                y, model(x), from_logits=True
            )
        )
    gradients = tape.gradient(loss, variables)
    expected = expected_gradient(model, gradients, 0.5)
    assert not np.array_equal(expected, flat(gradients))
    before = flat(values(model.shared_variables))
    model.fit(x, y, consolidate=False, **kwargs)
    used = (before - flat(values(model.shared_variables))) / 0.1
    np.testing.assert_allclose(used, expected, rtol=1e-3, atol=2e-5)


def test_a_part_of_the_memory_is_drawn_anew_in_each_step():
    model = remember(gem_model(memory_batch_size=5))
    method = model.consolidation
    kept = [memory(model, i) for i in range(2)]
    draws = []
    for step in range(3):
        model.optimizer.iterations.assign(step)
        for i in range(2):
            x, y = (np.asarray(a) for a in method._examples(model, i))
            rows = {tuple(row): label for row, label in zip(*kept[i])}
            assert [rows[tuple(row)] for row in x] == y.tolist()
            assert len({tuple(row) for row in x}) == 5
            draws.append(x.tolist())
    assert all(draws.count(draw) == 1 for draw in draws)
    model.optimizer.iterations.assign(0)
    again = np.asarray(method._examples(model, 0)[0])
    np.testing.assert_array_equal(again, draws[0])


@pytest.mark.parametrize("memory_batch_size", [16, 17, None])
def test_a_part_as_large_as_the_memory_is_all_of_it(memory_batch_size):
    model = remember(gem_model(memory_batch_size=memory_batch_size))
    for i in range(2):
        found = model.consolidation._examples(model, i)
        assert_equal(found, memory(model, i))


def test_memories_keep_the_first_task():
    losses = {}
    for method in (GEM(8, seed=1), None):
        keras.utils.set_random_seed(0)
        model = compile_model(
            make_model(),
            keras.optimizers.Adam(0.02),
            direction=None,
            consolidation=method,
        )
        train_tasks(model, "a", epochs=10)
        x, y = make_data(0)
        learned = model.evaluate(x, y, task="a", verbose=0)[0]
        train_tasks(model, "b", epochs=10)
        losses[method] = model.evaluate(x, y, task="a", verbose=0)[0]
    kept, forgotten = losses.values()
    assert learned < 0.1
    assert kept < 0.2
    assert forgotten > 1.0


def test_heads_of_their_own_are_used_for_their_memories():
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=0)(inputs)
    model = keras_bpn.BPNModel(inputs, TaskHeads()(x))
    compile_model(model, consolidation=GEM(8, seed=1), direction=None)
    for i, name in enumerate("ab"):
        x, y = make_data(i)
        model.fit(x, y % 2, task=name, verbose=0, epochs=2)
    assert len(model.shared_variables) == 2
    for seed in range(3):
        gradients = random_gradients(model, seed)
        np.testing.assert_allclose(
            flat(model.consolidation.adjust_gradients(model, gradients)),
            expected_gradient(model, gradients, 0.5),
            rtol=1e-4,
            atol=1e-5,
        )


# Ways to run.


def test_graph_and_eager_steps_agree():
    found = []
    for options in (
        {},
        {"run_eagerly": True},
        {"steps_per_execution": 3},
    ):
        keras.utils.set_random_seed(0)
        model = gem_model(memory_batch_size=5, **options)
        train_tasks(model, "ab")
        found.append(flat(values(model.shared_variables)))
    np.testing.assert_allclose(found[1], found[0], rtol=1e-3, atol=1e-4)
    np.testing.assert_allclose(found[2], found[0], rtol=1e-3, atol=1e-4)


def test_datasets_and_nested_inputs_of_other_types(tmp_path):
    a, b = keras.Input((3,), name="a"), keras.Input((3,), name="b")
    # Not in the order of their names.
    x = keras.layers.Concatenate()([b, a])
    outputs = keras_bpn.layers.BPNDense(4, hidden_dim=2)(x)
    model = keras_bpn.BPNModel({"b": b, "a": a}, outputs)
    method = GEM(8, seed=1, memory_batch_size=6)
    compile_model(model, consolidation=method, jit_compile=True)
    for i, name in enumerate("ab"):
        x, y = make_data(i)
        inputs = {
            "a": (10 * x[:, :3]).astype("uint8"),
            "b": x[:, 3:].astype("float16"),
        }
        dataset = tf.data.Dataset.from_tensor_slices((inputs, y)).batch(8)
        model.fit(dataset, task=name, verbose=0)
    kept = method.variables
    assert kept["memory/1/inputs/0"].dtype == "uint8"
    assert kept["memory/1/inputs/1"].dtype == "float16"
    x, _ = method._examples(model, 1)
    assert x["a"].dtype == "uint8" and x["b"].shape == (6, 3)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    again, _ = loaded.consolidation._examples(loaded, 1)
    keras.tree.map_structure(np.testing.assert_array_equal, again, x)
    loaded.fit(dataset, task="c", verbose=0)


def test_half_precision_skips_steps_and_goes_on():
    keras.config.set_dtype_policy("mixed_float16")
    model = remember(gem_model(), "a")
    x, y = make_data(1)
    model.fit(x, y, task="b", verbose=0, consolidate=False)
    scale = model.optimizer.dynamic_scale
    before = values(model.shared_variables)
    scale.assign(2.0**30)  # Too large: gradients overflow.
    model.train_on_batch(x, y)
    assert_equal(values(model.shared_variables), before)
    assert float(scale) == 2.0**29
    scale.assign(2.0**10)
    model.fit(x, y, verbose=0)
    assert np.isfinite(flat(values(model.shared_variables))).all()
    assert not np.array_equal(
        flat(values(model.shared_variables)), flat(before)
    )


def test_half_precision_projects_as_single_precision_does():
    keras.config.set_dtype_policy("mixed_float16")
    model = remember(gem_model(direction=None))
    for seed in range(4):
        gradients = random_gradients(model, seed)
        adjusted = flat(model.consolidation.adjust_gradients(model, gradients))
        expected = expected_gradient(model, gradients, 0.5)
        np.testing.assert_allclose(adjusted, expected, rtol=0.05, atol=0.05)


def test_a_step_that_cannot_be_protected_is_not_taken():
    model = remember(gem_model(direction=None), "a")
    x, y = make_data(1)
    model.fit(x, y, task="b", verbose=0, consolidate=False)
    kept = model.consolidation.variables["memory/0/inputs/0"]
    kept.assign(np.full(kept.shape, np.nan))
    before = values(model.shared_variables)
    with pytest.raises(ValueError, match="Expected finite gradients"):
        model.train_on_batch(x, y)
    assert_equal(values(model.shared_variables), before)


# Saving, and settings.


@pytest.mark.parametrize("memory_batch_size", [None, 5])
def test_a_loaded_model_goes_on_as_if_never_stopped(
    tmp_path, memory_batch_size
):
    model = gem_model(memory_batch_size=memory_batch_size)
    train_tasks(model, "a")
    # In the midst of a task, which has taken some steps.
    x, y = make_data(1)
    model.fit(x, y, task="b", verbose=0, consolidate=False)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert repr(loaded.consolidation) == repr(model.consolidation)
    assert_equal(full_state(loaded), full_state(model))
    for each in (model, loaded):
        each.fit(x, y, verbose=0)
        train_tasks(each, "c")
    assert_equal(full_state(loaded), full_state(model))


def test_an_earlier_state_drops_later_memories():
    model = remember(gem_model(), ["a", "späte Aufgabe"])
    method = model.consolidation
    state = method.get_state()
    record = json.loads(bytes(state["memory/1/record"]))
    assert record == {"task": "späte Aufgabe", "inputs": 0}
    earlier = {n: v for n, v in state.items() if n.startswith("memory/0/")}
    method.set_state(earlier)
    assert set(method.variables) == set(earlier)
    gradients = random_gradients(model, 0)
    adjusted = flat(method.adjust_gradients(model, gradients))
    expected = expected_gradient(model, gradients, 0.5, "a")
    np.testing.assert_allclose(adjusted, expected, rtol=1e-4, atol=1e-5)


def test_config_round_trip():
    method = GEM(10, margin=0, memory_batch_size=3, seed=5)
    config = keras.saving.serialize_keras_object(method)
    again = keras.saving.deserialize_keras_object(config)
    assert type(again) is GEM and repr(again) == repr(method)
    assert again.get_config() == {
        "memory_per_class": 10,
        "margin": 0.0,
        "memory_batch_size": 3,
        "seed": 5,
    }
    assert GEM().seed != GEM().seed


@pytest.mark.parametrize(
    "kwargs",
    [
        {"memory_per_class": 0},
        {"memory_per_class": 2.5},
        {"memory_per_class": True},
        {"margin": -0.1},
        {"margin": float("nan")},
        {"margin": float("inf")},
        {"margin": "0.5"},
        {"memory_batch_size": 0},
    ],
)
def test_bad_settings(kwargs):
    (name,) = kwargs
    with pytest.raises(ValueError, match=f"`{name}`.*Received: {name}="):
        GEM(**kwargs)


def test_models_with_several_outputs_are_refused():
    inputs = keras.Input((6,))
    outputs = [keras_bpn.layers.BPNDense(2)(inputs) for _ in range(2)]
    model = keras_bpn.BPNModel(inputs, outputs)
    with pytest.raises(ValueError, match="Received: a model with 2"):
        compile_model(model, consolidation=GEM(), metrics=None)


def test_labels_that_are_not_classes_leave_the_task_open():
    model = compile_model(
        make_model(), loss="mse", metrics=None, consolidation=GEM(seed=1)
    )
    x, _ = make_data()
    with pytest.raises(ValueError, match="chosen by class.*shape"):
        model.fit(x, x, task="a", verbose=0)
    assert model.consolidation.variables == {}
    model.consolidate(x, np.arange(40) % 2)
