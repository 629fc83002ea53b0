import functools
import json
import os
import pathlib
import random
import tempfile
import warnings

import keras
import numpy as np
import pytest
from hypothesis import example
from hypothesis import given
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from safetensors import numpy as safetensors

import keras_bpn
from keras_bpn.models import task_transfer
from keras_bpn.models.task_pack import _CHECKSUM
from keras_bpn.models.task_pack import TaskPack
from keras_bpn.models.task_pack import _checksum
from keras_bpn.models.weights_fingerprint import WeightsFingerprint
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.models.test_named_modes import SMALL
from tests.models.test_named_modes import full_state
from tests.models.test_named_modes import made
from tests.models.test_named_modes import names_and_rows
from tests.models.test_named_modes import outputs
from tests.models.test_named_modes import trained

EWC, PSP = keras_bpn.consolidation.EWC, keras_bpn.consolidation.PSP
GOLDEN = pathlib.Path(__file__).parent / "task_pack_1.safetensors"


@functools.cache
def packs(method):
    """Returns a folder with the packs of the tasks "a" and "b"."""
    folder = pathlib.Path(tempfile.mkdtemp())
    model = trained(method)
    for task in "ab":
        model.save_task(folder / f"{task}.safetensors", task)
    return folder


def same_network(method):
    """Returns a model with the shared weights of the trained one."""
    model = made(method)
    for own, other in zip(
        model.shared_variables, trained(method).shared_variables
    ):
        own.assign(other)
    return model


# To another model and back.


@pytest.mark.parametrize("method", ["EWC", "PSP", "GEM", "LwF"])
def test_a_task_moves_to_another_model_and_training_goes_on(tmp_path, method):
    expected = outputs(trained(method))
    model = same_network(method)
    model.add_task("first")
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        assert model.load_task(packs(method) / "b.safetensors") == "b"
        model.load_task(packs(method) / "a.safetensors", name="A/1")
    assert model.tasks == ("first", "b", "A/1")
    found = outputs(model)
    assert_equal([found["A/1"], found["b"]], [expected["a"], expected["b"]])
    assert model.task_classes == {"b": (2, 3), "A/1": (0, 1)}
    summary = model.task_summary().tasks
    assert summary["b"].state == "ended"
    assert summary["b"].trained == trained(method)._registry.trained("b")

    model.save_task(tmp_path / "again.safetensors", "b")
    again = (tmp_path / "again.safetensors").read_bytes()
    assert again == (packs(method) / "b.safetensors").read_bytes()
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert names_and_rows(loaded) == names_and_rows(model)
    assert_equal(full_state(loaded), full_state(model))
    train_tasks(model, ["first"], epochs=1)
    with pytest.raises(ValueError, match="has ended"):
        train_tasks(model, ["b"])


def test_no_task_to_come_gets_the_key_of_a_loaded_one():
    model = same_network("PSP")
    keys = model.layers[1].task_keys
    for name in ("one", "two"):
        model.add_task(name)
    model.load_task(packs("PSP") / "b.safetensors")
    assert keys.origin(model._registry.row("b")) == (keys.seed, 2)
    model.add_task("four")
    origins = {
        name: keys.origin(model._registry.row(name)) for name in model.tasks
    }
    assert len(set(origins.values())) == 4
    assert origins["one"] == (keys.seed, 1)
    # Of a model with other keys, all numbers are free.
    other = compile_model(make_model(**SMALL), consolidation=PSP(seed=77))
    other.add_task("one")
    with pytest.warns(UserWarning):
        other.load_task(packs("PSP") / "b.safetensors")
    other.add_task("two")
    assert [other._registry.serial(n) for n in other.tasks] == [1, 2, 3]


def test_a_task_can_be_loaded_where_a_table_is_full():
    model = same_network("PSP")
    for i in range(8):
        model.add_task(str(i))
    model.load_task(packs("PSP") / "a.safetensors")
    assert model._registry.row("a") == 9
    expected = outputs(trained("PSP"))["a"]
    assert_equal([outputs(model)["a"]], [expected])


def test_heads_move_with_their_own_outputs_only(tmp_path):
    def build(*sizes, use_bias=True):
        inputs = keras.Input((6,))
        heads = keras_bpn.layers.TaskHeads(use_bias=use_bias)
        model = keras_bpn.BPNModel(inputs, heads(inputs))
        compile_model(model, consolidation=None, direction=None)
        for i, size in enumerate(sizes):
            model.add_task(f"{size}", classes=size)
            model._registry.end(f"{size}")
            generator = np.random.default_rng(i)
            row = generator.normal(size=(6 + use_bias, size))
            heads.write_row(i + 1, row.astype("float32"))
        return model

    first = build(2, 5)
    first.save_task(tmp_path / "2", "2")
    first.save_task(tmp_path / "5", "5")
    # Three numbers more for each of the seven lines.
    grown = os.path.getsize(tmp_path / "5") - os.path.getsize(tmp_path / "2")
    assert 4 * 3 * 7 <= grown < 4 * 3 * 7 + 20
    second = build(3)
    for name in "52":
        second.load_task(tmp_path / name)
    assert second.task_classes["5"] == (0, 1, 2, 3, 4)
    found, expected = outputs(second), outputs(first)
    for name in "25":
        assert_equal([found[name]], [expected[name]])
    x, _ = make_data()
    assert second.predict(x, task="2", verbose=0).shape == (40, 2)
    with pytest.raises(ValueError, match=r"\(6, 2\) for 'task_heads'.*\(7, 2"):
        build(3, use_bias=False).load_task(tmp_path / "2")
    x, y = make_data()
    narrow = build(2)
    narrow.fit(x, y, task="open", verbose=0, consolidate=False)
    before = names_and_rows(narrow)
    with pytest.raises(ValueError, match="only while no task is open"):
        narrow.load_task(tmp_path / "5")
    assert names_and_rows(narrow) == before


def test_the_size_of_a_pack_for_the_papers_network(tmp_path):
    x = inputs = keras.Input((784,))
    for _ in range(5):
        x = keras_bpn.layers.BPNDense(300, hidden_dim=2)(x)
    model = keras_bpn.BPNModel(inputs, keras_bpn.layers.BPNDense(10)(x))
    compile_model(model, consolidation=PSP())
    model.add_task("0/1", classes=2)
    model._registry.end("0/1", "2026-11-19T22:41:21+00:00")
    model.save_task(tmp_path / "pack", "0/1")
    # Rows of 6,040 bytes.
    assert 6_040 < os.path.getsize(tmp_path / "pack") < 8_000


def test_half_precision_rows_move_to_the_bit(tmp_path):
    keras.config.set_dtype_policy("bfloat16")
    model, other = [
        compile_model(make_model(**SMALL), consolidation=None) for _ in "ab"
    ]
    model.add_task("a")
    model._registry.end("a")
    for bias in model.task_biases:
        row = np.random.default_rng(0).normal(size=bias.units)
        bias.write_row(1, keras.ops.cast(row, "bfloat16"))
    model.save_task(tmp_path / "pack", "a")
    with pytest.warns(UserWarning, match="differ by about"):
        other.load_task(tmp_path / "pack")
    for bias, same in zip(model.task_biases, other.task_biases):
        assert_equal([same.read_row(1)], [bias.read_row(1)])
    keras.config.set_dtype_policy("float32")
    single = compile_model(make_model(**SMALL), consolidation=None)
    with pytest.warns(UserWarning):
        single.load_task(tmp_path / "pack")


NAMES = ["0/1", " ", "a\nb", '"},{', "\\", "é🐦", "../../x", 300 * "🐦", "\0"]


def test_any_name_moves(tmp_path):
    model, other = trained(), same_network("EWC")
    for i, name in enumerate([*NAMES, "\ud800"]):
        model.rename_task(model.tasks[0], name)
        model.save_task(tmp_path / str(i), name)
        assert other.load_task(tmp_path / str(i)) == name
        row = other._registry.row(name)
        assert_equal(
            [b.read_row(row) for b in other.task_biases],
            [b.read_row(1) for b in model.task_biases],
        )
    assert other.tasks == (*NAMES, "\ud800")


PATHS = st.text(min_size=1, max_size=20).filter(lambda p: p[0] != "/")
ROWS = hnp.arrays(
    st.sampled_from(["<f4", "<f8", "<f2"]),
    hnp.array_shapes(max_dims=2, max_side=5),
    elements=st.floats(width=16),
)


@settings(max_examples=50, deadline=None)
@given(
    st.text(min_size=1, max_size=300),
    st.none() | st.sets(st.integers(0, 2000), min_size=1, max_size=9),
    st.dictionaries(PATHS, ROWS, max_size=4),
    st.dictionaries(
        PATHS,
        st.tuples(st.integers(0, 2**64 - 1), st.integers(1, 2**32 - 1)),
        max_size=3,
    ),
)
@example(300 * "\U0001f426", {0}, {"__metadata__ ": np.float32([np.nan])}, {})
def test_packs_round_trip_to_the_bit(task, classes, rows, keys):
    classes = None if classes is None else tuple(sorted(classes))
    pack = TaskPack(task, classes, None, rows, keys, WeightsFingerprint.of({}))
    data = pack.to_bytes()
    assert data == pack.to_bytes()
    found = TaskPack.from_bytes(data)
    assert (found.task, found.classes, found.keys) == (task, classes, keys)
    assert found.rows.keys() == rows.keys()
    for path, row in rows.items():
        assert found.rows[path].dtype == row.dtype
        assert found.rows[path].shape == row.shape
        assert found.rows[path].tobytes() == row.tobytes()


def test_a_pack_of_format_1_is_read():
    pack = TaskPack.from_bytes(GOLDEN.read_bytes())
    assert (pack.task, pack.classes) == ("a", (0, 1))
    assert pack.trained == "2026-11-19T22:41:21+00:00"
    assert pack.keys == {"bpn_dense/task_keys": (5, 1)}
    np.testing.assert_array_equal(pack.rows["bpn_dense/task_bias"], [1, -2, 3])
    fingerprint = WeightsFingerprint.of(
        {"bpn_dense/kernel": lambda: np.ones((2, 3), "float32")}
    )
    assert pack.fingerprint.shapes == fingerprint.shapes
    np.testing.assert_array_equal(pack.fingerprint.hashes, fingerprint.hashes)
    np.testing.assert_array_equal(
        pack.fingerprint.sketches, fingerprint.sketches
    )


# Other shared weights.


def test_a_warning_says_how_far_the_shared_weights_are_apart():
    model = same_network("EWC")
    before = [np.asarray(v.value) for v in model.shared_variables]
    generator = np.random.default_rng(0)
    for variable in model.shared_variables:
        noise = generator.normal(size=variable.shape)
        variable.assign_add(0.1 * noise)
    after = [np.asarray(v.value) for v in model.shared_variables]
    # By the definition, of the whole weights.
    distance = np.sqrt(sum(((a - b) ** 2).sum() for a, b in zip(after, before)))
    distance /= np.sqrt(sum((b**2).sum() for b in before))
    with pytest.warns(UserWarning, match="in 4 of 4 variables") as caught:
        model.load_task(packs("EWC") / "a.safetensors")
    (warning,) = [w for w in caught if w.category is UserWarning]
    assert warning.filename == __file__
    text = str(warning.message)
    percent = float(text.split("by about ")[1].split("%")[0])
    assert percent / 100 == pytest.approx(distance, rel=0.5)
    assert model.tasks == ("a",)
    # The task itself is all there.
    for bias, source in zip(model.task_biases, trained().task_biases):
        assert_equal([bias.read_row(1)], [source.read_row(1)])


# What does not fit.


def refuses(model, path, message, **kwargs):
    before, state = names_and_rows(model), full_state(model)
    with pytest.raises(ValueError, match=message):
        model.load_task(path, **kwargs)
    assert names_and_rows(model) == before
    assert_equal(full_state(model), state)


def test_other_networks_are_refused():
    path = packs("EWC") / "a.safetensors"
    for changed, message in (
        ({"units": (8,)}, r"same shape.*\(6, 8\) for 'bpn_dense/kernel'.*6, 7"),
        ({"outputs": 5}, r"\(7, 5\) for 'bpn_dense_1/kernel'.*\(7, 6\)"),
        ({"inputs": 3}, r"\(3, 7\) for 'bpn_dense/kernel'.*\(6, 7\)"),
        ({"units": (7, 7)}, "missing.*bpn_dense_2/task_bias.*unknown"),
        ({"units": ()}, "missing.*unknown.*bpn_dense_1/task_bias"),
    ):
        model = compile_model(make_model(**{**SMALL, **changed}))
        refuses(model, path, message)


def test_other_compile_arguments_are_refused():
    def compiled(**kwargs):
        return compile_model(make_model(**SMALL), **kwargs)

    plain, keyed = (packs(m) / "a.safetensors" for m in ("EWC", "PSP"))
    refuses(compiled(), keyed, "keys for no layer.*task_keys.*`PSP` have keys")
    refuses(compiled(consolidation=PSP()), plain, "keys for.*those of no layer")
    model = compiled(direction=None)
    refuses(model, plain, "rows for no layer.*`direction=None` have no bias")
    bare = compiled(direction=None)
    bare.add_task("a", classes=2)
    bare._registry.end("a")
    path = pathlib.Path(tempfile.mkdtemp()) / "bare"
    bare.save_task(path, "a")
    refuses(compiled(), path, "rows for.*those of no layer")
    # The model that it came from takes it.
    bare.load_task(path, name="again")


def test_classes_have_to_be_known_where_outputs_depend_on_them(tmp_path):
    def build(mask):
        inputs = keras.Input((6,))
        x = keras_bpn.layers.BPNDense(6, hidden_dim=3)(inputs)
        if mask:
            x = keras_bpn.layers.ClassMask("task")(x)
        return compile_model(keras_bpn.BPNModel(inputs, x))

    model = build(False)
    model.add_task("a")
    model._registry.end("a")
    model.save_task(tmp_path / "a", "a")
    refuses(build(True), tmp_path / "a", "classes of its task.*without classes")


def test_names_that_are_taken_are_refused():
    model, path = trained(), packs("EWC") / "a.safetensors"
    refuses(model, path, r"not to be taken.*name=\.\.\.\).*'a'")
    refuses(model, path, "does not exist yet", name="b")
    refuses(model, path, "non-empty string", name="")
    model.load_task(path, name="c")
    assert_equal([outputs(model)["c"]], [outputs(model)["a"]])


# Files.


def test_files_are_replaced_only_when_asked_to(tmp_path, monkeypatch):
    model, path = trained(), tmp_path / "pack"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True.*path="):
        model.save_task(path, "a")
    assert path.read_text() == "mine"
    model.save_task(str(path), "a", overwrite=True)
    good = path.read_bytes()
    monkeypatch.setattr(os, "fsync", lambda file: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        model.save_task(path, "b", overwrite=True)
    assert path.read_bytes() == good and os.listdir(tmp_path) == ["pack"]
    with pytest.raises(IsADirectoryError, match="path="):
        model.save_task(tmp_path, "a", overwrite=True)
    with pytest.raises(FileNotFoundError):
        model.load_task(tmp_path / "none")


def corrupted(data, generator):
    """Returns the content of a file with one thing wrong."""
    place, other = sorted(generator.sample(range(len(data)), 2))
    kind = generator.choice(["flip", "cut", "insert", "delete", "swap", "zero"])
    if kind == "flip":
        bit = 1 << generator.randrange(8)
        changed = bytes([data[place] ^ bit])
        return data[:place] + changed + data[place + 1 :]
    if kind == "cut":
        return data[:place]
    if kind == "insert":
        return data[:place] + generator.randbytes(4) + data[place:]
    if kind == "delete":
        return data[:place] + data[other:]
    if kind == "swap":
        return data[other:] + data[place:other] + data[:place]
    return data[:place] + bytes(other - place) + data[other:]


def test_corrupted_files_are_refused_and_change_nothing(tmp_path):
    data = (packs("PSP") / "a.safetensors").read_bytes()
    model, path = trained("PSP"), tmp_path / "pack"
    before, state = names_and_rows(model), full_state(model)
    generator = random.Random(0)
    for _ in range(500):
        changed = corrupted(data, generator)
        if changed == data:
            continue
        path.write_bytes(changed)
        with pytest.raises(ValueError, match="Expected a task pack.*Received"):
            model.load_task(path, name="c")
        assert names_and_rows(model) == before
    assert_equal(full_state(model), state)
    path.write_bytes(data)
    model.load_task(path, name="c")


FOREIGN = [
    b"",
    b"\0" * 7,
    b"not a pack, but as long as you like",
    b"\xff" * 64,
    b"\x02" + 7 * b"\0" + b"{}",
    safetensors.save({"x": np.zeros(3)}),
    safetensors.save({"x": np.zeros(3)}, {"keras_bpn.task_pack": "{}"}),
]


def test_foreign_files_are_refused(tmp_path):
    model = trained()
    for data in FOREIGN:
        (tmp_path / "file").write_bytes(data)
        refuses(model, tmp_path / "file", "`save_task` wrote.*do not begin")


def resealed(data, change):
    """Changes a pack and gives it the checksum that fits."""
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    content = json.loads(header["__metadata__"]["keras_bpn.task_pack"])
    change(content, header)
    text = json.dumps(content, separators=(",", ":"))
    header["__metadata__"]["keras_bpn.task_pack"] = text
    text = json.dumps(header, separators=(",", ":")).encode()
    data = len(text).to_bytes(8, "little") + text + data[8 + size :]
    start, stop = _CHECKSUM.search(data).span(1)
    return data[:start] + _checksum(data, start, stop) + data[stop:]


def put(*path):
    *path, key, value = path

    def change(content, header):
        place = content
        for part in path:
            place = header if part is None else place[part]
        place[key] = value

    return change


KEY, BIAS = "bpn_dense/task_keys", "bpn_dense/task_bias"


FORGED = [
    (put("format", 2), "of format 1.*format=2.*newer version"),
    (put("format", None), "of format 1.*format=None"),
    (put("task", ""), "name of the task is ''"),
    (put("task", ["a"]), "name of the task is"),
    (put("classes", [0, 0]), "distinct labels"),
    (put("classes", [-1]), "labels of at least 0"),
    (put("classes", [99]), "labels from 0 to 5"),
    (put("classes", 10**15), "can be read"),
    (put("classes", [[0], [1, 2]]), "can be read"),
    (put("trained", "yesterday"), "can be read"),
    (put("trained", 3), "can be read"),
    (put("keys", {}), "missing.*task_keys"),
    (put("keys", []), "can be read"),
    (put("keys", KEY, [1]), "can be read"),
    (put("keys", KEY, [1, 0]), "serial number of a key is 0"),
    (put("keys", KEY, [1, 2**40]), "serial number of a key is"),
    (put("keys", KEY, [2**64, 1]), "not integers below"),
    (put("keys", KEY, [1.0, 1]), "not integers below"),
    (put("weights", {}), "can be read.*fingerprint has shapes"),
    (put("weights", "bpn_dense", {}), "fingerprint has shapes"),
    (put("weights", "bpn_dense", "kernel", [2**62, 7]), "'bpn_dense/kerne"),
    (put("weights", "bpn_dense", "kernel", [-1]), "not integers below"),
    (put("weights", "bpn_dense", "kernel", "x"), "not integers below"),
    (put(None, BIAS, "dtype", "F64"), "can be read"),
    (put(None, BIAS, "dtype", "I32"), "type float32 for.*int32"),
    (put(None, BIAS, "dtype", "F8_E4M3"), "can be read"),
    (put(None, BIAS, "shape", [2**60]), "can be read"),
    (put(None, BIAS, "shape", [7, 1]), r"\(7,\) for.*\(7, 1\)"),
    (put(None, BIAS, "data_offsets", [0, 2**62]), "can be read"),
    (put(None, "__metadata__", "other", 3), "can be read"),
]


def test_forged_packs_are_refused(tmp_path):
    data = (packs("PSP") / "a.safetensors").read_bytes()
    model = trained("PSP")
    for change, message in FORGED:
        (tmp_path / "pack").write_bytes(resealed(data, change))
        refuses(model, tmp_path / "pack", message, name="c")


def test_files_that_are_too_large_are_not_read(tmp_path):
    with open(tmp_path / "pack", "wb") as file:
        file.truncate(10**12)
    refuses(trained(), tmp_path / "pack", "at most.*1,000,000,000,000 bytes")


def test_the_pack_says_what_is_in_it():
    model = trained("PSP")
    pack = task_transfer.make_pack(model, "b")
    assert pack.task == "b" and pack.classes == (2, 3)
    assert list(pack.rows) == ["bpn_dense/task_bias", "bpn_dense_1/task_bias"]
    assert list(pack.keys) == ["bpn_dense/task_keys", "bpn_dense_1/task_keys"]
    assert [origin[1] for origin in pack.keys.values()] == [2, 2]
    assert pack.fingerprint.shapes == {
        "bpn_dense/kernel": (6, 7),
        "bpn_dense/bias": (7,),
        "bpn_dense_1/kernel": (7, 6),
        "bpn_dense_1/bias": (6,),
    }
