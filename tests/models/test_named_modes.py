import functools
import tempfile

import keras
import numpy as np
import pytest

import keras_bpn
from keras_bpn.layers.task_keys import draw_keys
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values
from tests.models.test_modes import counted_model
from tests.models.test_modes import use

EWC, PSP = keras_bpn.consolidation.EWC, keras_bpn.consolidation.PSP
GEM, LwF = keras_bpn.consolidation.GEM, keras_bpn.consolidation.LwF
METHODS = {
    "EWC": lambda: EWC(10.0),
    "PSP": lambda: PSP(seed=5),
    "GEM": lambda: GEM(3, seed=5),
    "LwF": lambda: LwF(),
}
SMALL = {"units": (7,), "hidden_dim": 3}


def made(method):
    # A few steps take less time than it takes to trace them.
    model = make_model(**SMALL)
    return compile_model(
        model, consolidation=METHODS[method](), run_eagerly=True
    )


@functools.cache
def saved(method):
    """Returns the file of a model with the tasks "a" and "b"."""
    model = train_tasks(made(method), "ab", epochs=1)
    path = f"{tempfile.mkdtemp()}/model.keras"
    model.save(path)
    return path


def trained(method="EWC"):
    return keras.models.load_model(saved(method))


def outputs(model):
    """Returns the outputs in each of the modes."""
    x, _ = make_data()
    return {t: np.asarray(model(x, task=t)) for t in (None, *model.tasks)}


def assert_undisturbed(model, before):
    after = outputs(model)
    kept = [task for task in before if task in after]
    assert_equal([after[t] for t in kept], [before[t] for t in kept])


def full_state(model):
    """Everything that decides how a model goes on and what it predicts."""
    state = model.get_weights() + values(model.optimizer.variables)
    return state + list(model.consolidation.get_state().values())


def names_and_rows(model):
    registry = model._registry
    return [
        registry.get_state(),
        registry.get_rows(),
        registry.get_records(),
        dict(registry.classes),
        model.task,
    ]


@pytest.mark.parametrize("method", METHODS)
def test_modes_do_not_disturb_one_another_and_training_goes_on(
    tmp_path, method
):
    model = trained(method)
    before = outputs(model)
    steps = [
        lambda: model.copy_task("a", "copy"),
        lambda: model.rename_task("b", "B"),
        lambda: model.combine_tasks("sum", {"a": 0.5, "copy": 0.25}),
        lambda: model.remove_task("a"),
        lambda: model.copy_task("B", "again"),
    ]
    for step in steps:
        step()
        assert_undisturbed(model, before)
    assert model.tasks == ("B", "copy", "sum", "again")
    after = outputs(model)
    assert_equal([after["copy"]], [before["a"]])
    assert_equal([after["B"], after["again"]], 2 * [before["b"]])
    assert model.task_classes["copy"] == (0, 1)
    # "again" has the row that was that of "a", and no new one.
    assert model._registry.row("again") == 1

    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert names_and_rows(loaded) == names_and_rows(model)
    assert_equal(full_state(loaded), full_state(model))
    train_tasks(model, "c", epochs=1)
    if method in ("PSP", "GEM"):
        train_tasks(loaded, "c", epochs=1)
        assert_equal(full_state(loaded), full_state(model))
    for bias in model.task_biases:
        row = model._registry.row("copy")
        first = trained(method).task_biases[model.task_biases.index(bias)]
        np.testing.assert_array_equal(bias.read_row(row), first.read_row(1))


def test_nothing_is_traced_again():
    model = counted_model(PSP())
    for name in "ab":
        use(model, name, new=True)
    traces = dict(model.traces)
    model.copy_task("a", "copy")
    model.rename_task("copy", "other")
    model.combine_tasks("sum", {"a": 1.0, "other": 1.0})
    model.remove_task("a")
    for name in model.tasks:
        with model.mode(name):
            use(model, None)
    use(model, "c", new=True)
    assert model.traces == traces


def test_tables_do_not_grow_where_tasks_come_and_go():
    model = trained("PSP")
    tables = [table.table for table in model.task_tables]
    for i in range(30):
        model.copy_task("a", f"copy {i}")
        model.add_task(f"new {i}")
        if i >= 2:
            model.remove_task(f"copy {i - 2}")
            model.remove_task(f"new {i - 2}")
    assert len(model.tasks) == 6
    assert all(t.table is old for t, old in zip(model.task_tables, tables))
    serials = [model._registry.serial(task) for task in model.tasks]
    # 2 at first, and 60 since then, of which these are the last four.
    assert serials == [1, 2, 59, 60, 61, 62]


def test_a_removed_row_is_cleared():
    model = trained()
    model.task = "b"
    model.remove_task("b")
    assert model.task is None and model.tasks == ("a",)
    for bias in model.task_biases:
        assert np.any(bias.table[1]) and not np.any(bias.table[2])
    model.remove_task("a")
    assert model.tasks == ()
    with pytest.raises(ValueError, match="no tasks yet"):
        model.task = "a"


def test_no_task_gets_the_key_of_another_and_a_copy_keeps_its_own():
    model = trained("PSP")
    keys = model.layers[1].task_keys
    first, second = (draw_keys(keys.seed, [s], 6)[0] for s in (1, 2))
    model.copy_task("a", "copy")
    model.remove_task("a")
    np.testing.assert_array_equal(keys.table[3], first)
    train_tasks(model, "c", epochs=1)
    assert model._registry.row("c") == 1
    # The third task was the copy.
    fourth = draw_keys(keys.seed, [4], 6)[0]
    np.testing.assert_array_equal(keys.table[1], fourth)
    np.testing.assert_array_equal(keys.table[2], second)
    # In a file of the weights too, in a model that had other tasks.
    other = compile_model(make_model(**SMALL), consolidation=PSP(seed=9))
    for name in "xyz":
        other.add_task(name)
    other.remove_task("x")
    other.add_task("w")
    path = f"{tempfile.mkdtemp()}/model.weights.h5"
    model.save_weights(path)
    other.load_weights(path)
    assert_equal(other.get_weights(), model.get_weights())


def test_factors_and_heads_are_drawn_by_serial_numbers():
    def model_with(*steps):
        keras.utils.set_random_seed(3)
        inputs = keras.Input((6,))
        x = keras_bpn.layers.BPNDense(4, hidden_dim=3)(inputs)
        model = keras_bpn.BPNModel(inputs, keras_bpn.layers.TaskHeads()(x))
        compile_model(model, consolidation=None)
        for step in steps:
            model.add_task(step, 2) if step.isupper() else model.remove_task(
                step.upper()
            )
        for table in model.task_tables:
            table.draw(model._registry.row("C"))
        return values(model.trainable_variables)

    # The third task, in the third row and in the first.
    assert_equal(model_with(*"ABC"), model_with(*"ABaC"))
    first, third = model_with(*"C"), model_with(*"ABC")
    assert not np.array_equal(first[-2], third[-2])


def test_a_failed_fit_takes_a_reused_row_back():
    model = trained("PSP")
    model.remove_task("a")
    before, weights = names_and_rows(model), model.get_weights()
    x, y = make_data()
    with pytest.raises(ValueError, match="refused"):
        model.fit(x * np.nan, y, task="c", verbose=0)
    assert names_and_rows(model) == before
    assert_equal(model.get_weights(), weights)


def test_many_removed_tasks_are_saved(tmp_path):
    model = compile_model(make_model(**SMALL), consolidation=PSP())
    for i in range(70):
        model.add_task(str(i))
    for i in range(1, 69):
        model.remove_task(str(i))
    assert model._capacity == 128
    for tasks in (("0", "69"), ("0",), ("0", "a")):
        if "69" not in tasks and "69" in model.tasks:
            model.remove_task("69")
        if "a" in tasks:
            model.add_task("a")
        model.save(tmp_path / "model.keras")
        loaded = keras.models.load_model(tmp_path / "model.keras")
        assert loaded.tasks == tasks
        assert names_and_rows(loaded)[2:] == names_and_rows(model)[2:]
        loaded.add_task("next")
        assert loaded._registry.row("next") == 2 + ("a" in tasks)
        assert loaded._registry.serial("next") == 71 + ("a" in tasks)


# A mode for a block.


def test_mode_of_a_block():
    model = trained()
    x, _ = make_data()
    model.task = "a"
    with model.mode("b") as same:
        assert same is model and model.task == "b"
        np.testing.assert_array_equal(model(x), model(x, task="b"))
        with model.mode(None):
            assert model.task is None
            with model.mode("a"):
                assert model.task == "a"
            assert model.task is None
        assert model.task == "b"
    assert model.task == "a"
    with pytest.raises(KeyError), model.mode("b"):
        raise KeyError("anything")
    assert model.task == "a"
    with pytest.raises(ValueError, match="Received: task='c'"):
        with model.mode("c"):
            raise AssertionError("is not reached")
    with model.mode("b"):
        model.rename_task("a", "A")
    assert model.task == "A"
    with model.mode("b"):
        model.remove_task("A")
        model.add_task("in the same row")
    assert model.task is None


# Combinations.


def test_a_combination_is_a_weighted_sum():
    model = trained()
    model.combine_tasks("sum", {"a": 0.5, "b": -2})
    model.combine_tasks("same", {"a": 1.0})
    for bias in model.task_biases:
        a, b, total, same = (np.asarray(bias.table)[i] for i in (1, 2, 3, 4))
        np.testing.assert_allclose(total, 0.5 * a - 2 * b, rtol=1e-5, atol=1e-7)
        np.testing.assert_array_equal(same, a)
    assert model.task_classes["sum"] == (0, 1, 2, 3)
    record = model.task_summary().tasks["sum"]
    assert record.state == "ended" and record.trained is None
    del model._registry.classes["b"]
    model.combine_tasks("unknown", {"a": 0.5, "b": 0.5})
    assert "unknown" not in model.task_classes


def test_heads_are_combined_where_they_have_the_same_size():
    inputs = keras.Input((6,))
    heads = keras_bpn.layers.TaskHeads()
    model = keras_bpn.BPNModel(inputs, heads(inputs))
    compile_model(model, consolidation=None, direction=None)
    for name, size in zip("abc", (2, 2, 3)):
        model.add_task(name, classes=size)
        model._registry.end(name)
        row = np.full((7, size), float(size + len(model.tasks)))
        heads.write_row(model._registry.row(name), row)
    x, _ = make_data()
    before = outputs(model)
    model.combine_tasks("mean", {"a": 0.5, "b": 0.5})
    model.copy_task("c", "copy")
    # Heads of 3 and 4 everywhere.
    np.testing.assert_array_equal(heads.read_row(4), np.full((7, 2), 3.5))
    assert_equal([outputs(model)["copy"]], [before["c"]])
    assert_undisturbed(model, before)
    with pytest.raises(ValueError, match="same number.*'a': 2, 'c': 3"):
        model.combine_tasks("sum", {"a": 0.5, "c": 0.5})
    assert len(model.tasks) == 5


def test_keys_are_not_combined_unless_they_are_the_same():
    model = trained("PSP")
    model.copy_task("a", "copy")
    before = names_and_rows(model)
    with pytest.raises(ValueError, match="same keys.*'a', 'b'.*task_keys"):
        model.combine_tasks("sum", {"a": 0.5, "b": 0.5})
    assert names_and_rows(model) == before
    model.combine_tasks("sum", {"a": 0.5, "copy": 0.5})
    after = outputs(model)
    np.testing.assert_allclose(after["sum"], after["a"], rtol=1e-5, atol=1e-6)


BAD_WEIGHTS = [
    *({}, None, "a", ["a"], [("a", 1.0)]),
    *({"a": v} for v in (np.nan, np.inf, "1", None, True, 1j, 10**400)),
]


def test_weights_are_finite_numbers():
    model = trained()
    for weights in BAD_WEIGHTS:
        with pytest.raises(ValueError, match="Expected.*weights.*Received"):
            model.combine_tasks("sum", weights)
        assert model.tasks == ("a", "b")


# What is refused.


REFUSED = [
    (lambda m: m.copy_task("c", "d"), "Received: task='c'"),
    (lambda m: m.copy_task(None, "d"), "task=None"),
    (lambda m: m.copy_task("a", "b"), "does not exist yet.*name='b'"),
    (lambda m: m.copy_task("a", ""), "non-empty string"),
    (lambda m: m.copy_task("new", "d"), "fit.*'new', which is new"),
    (lambda m: m.copy_task("open", "d"), "consolidate.*which is open"),
    (lambda m: m.rename_task("c", "d"), "Received: task='c'"),
    (lambda m: m.rename_task(None, "d"), "task=None"),
    (lambda m: m.rename_task("a", "b"), "does not exist yet"),
    (lambda m: m.rename_task("a", "a"), "does not exist yet"),
    (lambda m: m.rename_task("a", 3), "non-empty string"),
    (lambda m: m.remove_task("c"), "Received: task='c'"),
    (lambda m: m.remove_task(None), "task=None"),
    (lambda m: m.remove_task("open"), "consolidate.*which is open"),
    (lambda m: m.combine_tasks("a", {"b": 1.0}), "does not exist yet"),
    (lambda m: m.combine_tasks("d", {"b": 1, "c": 1}), "task='c'"),
    (lambda m: m.combine_tasks("d", {"b": 1, "new": 1}), "which is new"),
    (lambda m: m.combine_tasks("d", {"open": 1}), "which is open"),
    (lambda m: m.combine_tasks("d", {"b": 1e300}), "stays finite"),
    (lambda m: m.save_task("nowhere", "c"), "Received: task='c'"),
    (lambda m: m.save_task("nowhere", "new"), "which is new"),
    (lambda m: m.save_task("nowhere", "open"), "which is open"),
]


def test_refusals_change_nothing():
    model = trained()
    model.add_task("new")
    x, y = make_data()
    model.fit(x, y, task="open", verbose=0, consolidate=False)
    before, state = names_and_rows(model), full_state(model)
    for refused, message in REFUSED:
        with pytest.raises(ValueError, match=message):
            refused(model)
        assert names_and_rows(model) == before
        assert_equal(full_state(model), state)


def test_names_are_suggested():
    with pytest.raises(ValueError, match="Did you mean 'birds'"):
        model = compile_model(make_model())
        model.add_task("birds")
        model.remove_task("bird")


def test_an_open_task_can_be_renamed():
    model = trained()
    x, y = make_data()
    model.fit(x, y, task="c", verbose=0, consolidate=False)
    model.rename_task("c", "C")
    assert model.open_task == model.task == "C"
    model.remove_task("a")
    model.fit(x, y, verbose=0)
    assert model.tasks == ("b", "C") and model.open_task is None


# The summary.


def test_summary_and_records(tmp_path):
    model = trained()
    model.add_task("new")
    x, y = make_data()
    _, accuracy = model.evaluate(x, y, task="a", verbose=0)
    model.task = "b"
    tasks = model.task_summary().tasks
    # A row of 7 and one of 6 in float32.
    assert tasks["a"][1:3] == (13, 52)
    assert [t.state for t in tasks.values()] == ["ended", "ended", "new"]
    assert [t.active for t in tasks.values()] == [False, True, False]
    assert [t.accuracy for t in tasks.values()] == [
        pytest.approx(accuracy),
        None,
        None,
    ]
    assert tasks["a"].trained.endswith("+00:00")
    assert tasks["new"].trained is None
    lines = str(model.task_summary()).splitlines()
    assert lines[0].split() == [
        *("task", "state", "parameters"),
        *("bytes", "trained", "accuracy"),
    ]
    assert lines[1].split()[-1] == f"{accuracy:.4f}"
    assert lines[2].split()[:3] == ["b", "*", "ended"]
    model.copy_task("a", "copy")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    tasks = model.task_summary().tasks
    assert loaded.task_summary().tasks == tasks
    assert tasks["copy"] == tasks["a"]


def test_accuracy_from_before_the_end_of_a_task_is_forgotten():
    model = compile_model(make_model(**SMALL))
    x, y = make_data()
    model.add_task("a")
    model.evaluate(x, y, task="a", verbose=0)
    assert model.task_summary().tasks["a"].accuracy is not None
    train_tasks(model, "a", epochs=1)
    assert model.task_summary().tasks["a"].accuracy is None


def test_files_without_records_are_read():
    state = [["a", "ended"], ["b", "new"]]
    registry = trained()._registry
    registry.set_state(state)
    assert registry.get_records() == {"trained": {}, "accuracy": {}}
    assert registry.get_rows() == {}
    assert [registry.serial(name) for name in "ab"] == [1, 2]


def test_long_names_do_not_fill_the_table():
    model = make_model(**SMALL)
    model.add_task(300 * "x")
    model.add_task("two\nlines")
    lines = str(model.task_summary()).splitlines()
    assert len(lines) == 3 and max(map(len, lines)) < 90


# What consolidations keep of each task.


def test_gem_renames_and_drops_memories():
    model = trained("GEM")
    gem = model.consolidation
    memories = [
        [v for n, v in gem.get_state().items() if n.startswith(f"memory/{i}/i")]
        for i in (0, 1)
    ]
    model.rename_task("b", "B")
    model.copy_task("a", "copy")
    assert [r["task"] for r in gem._records] == ["a", "B"]
    model.remove_task("copy")
    model.remove_task("a")
    assert [r["task"] for r in gem._records] == ["B"]
    assert sorted(gem.variables) == [
        "memory/0/inputs/0",
        "memory/0/labels",
        "memory/0/record",
    ]
    np.testing.assert_array_equal(
        gem.get_state()["memory/0/inputs/0"], memories[1][0]
    )
    model.remove_task("B")
    assert gem._records == [] and not gem.variables


def test_terms_of_removed_tasks_are_dropped():
    consolidation = keras_bpn.consolidation.EBLL(encoder_epochs=1)
    gem = GEM(3)
    combined = keras_bpn.consolidation.Combination([gem, consolidation])
    model = compile_model(make_model(**SMALL), consolidation=combined)
    train_tasks(model, "ab", epochs=1)
    model.copy_task("a", "copy")
    x, y = make_data(2)
    model.fit(x, y, task="c", verbose=0, consolidate=False)
    model.remove_task("a")
    assert [task.row for task in consolidation._old_tasks()] == [2]
    assert [record["task"] for record in gem._records] == ["b"]
    growing = [n for n in consolidation.variables if consolidation._grows(n)]
    assert all(name.split("/")[1] == "0" for name in growing)
    model.fit(x, y, verbose=0)
    assert [task.row for task in consolidation._old_tasks()] == [2, 4]
    assert [record["task"] for record in gem._records] == ["b", "c"]


def test_the_class_mask_follows_the_tasks_that_are_there():
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(6, hidden_dim=3)(inputs)
    model = keras_bpn.BPNModel(inputs, keras_bpn.layers.ClassMask("seen")(x))
    compile_model(model)
    for name, classes in (("a", [0, 1]), ("b", [1, 2])):
        model.add_task(name, classes=classes)
    x, _ = make_data()
    assert [np.any(c > -1e4) for c in np.asarray(model(x)).T] == (
        3 * [True] + 3 * [False]
    )
    model.remove_task("a")
    assert [np.any(c > -1e4) for c in np.asarray(model(x)).T] == (
        [False, True, True] + 3 * [False]
    )
