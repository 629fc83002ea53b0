import os
import subprocess
import sys
import zipfile

import keras
import numpy as np
import pytest

import keras_bpn
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values

EWC, PSP = keras_bpn.consolidation.EWC, keras_bpn.consolidation.PSP


def full_state(model):
    """Everything that decides how training goes on."""
    state = model.get_weights() + values(model.optimizer.variables)
    if model.consolidation is not None:
        state += list(model.consolidation.get_state().values())
    return state


def dropout_model():
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(12, activation="relu", hidden_dim=5)(inputs)
    x = keras.layers.Dropout(0.3)(x)
    return keras_bpn.BPNModel(
        inputs, keras_bpn.layers.BPNDense(8, hidden_dim=5)(x)
    )


@pytest.mark.parametrize(
    "method",
    [
        lambda: EWC(10.0, labels="sampled", terms="separate"),
        lambda: PSP(),
        lambda: None,
    ],
)
@pytest.mark.parametrize("direction", ["beneficial", "gradient", None])
def test_a_loaded_model_goes_on_as_if_never_stopped(
    tmp_path, method, direction
):
    model = compile_model(
        dropout_model(), consolidation=method(), direction=direction
    )
    train_tasks(model, "ab")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert type(loaded) is keras_bpn.BPNModel
    assert loaded.tasks == ("a", "b") and loaded.task == "b"
    assert loaded.direction == direction and loaded.epsilon == 0.01
    assert repr(loaded.consolidation) == repr(model.consolidation)
    assert_equal(full_state(loaded), full_state(model))
    for each in (model, loaded):
        train_tasks(each, "c")
    assert_equal(full_state(loaded), full_state(model))


@pytest.mark.parametrize("method", [lambda: EWC(10.0), lambda: PSP()])
def test_a_task_that_is_open_goes_on_too(tmp_path, method):
    model = compile_model(make_model(), consolidation=method())
    train_tasks(model, "a")
    x, y = make_data(1)
    model.fit(x, y, task="b", epochs=2, verbose=0, consolidate=False)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    for each in (model, loaded):
        each.fit(x, y, initial_epoch=2, epochs=4, verbose=0)
    assert_equal(full_state(loaded), full_state(model))
    assert loaded.tasks == ("a", "b")


def test_hundreds_of_tasks_come_back(tmp_path):
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(12, activation="relu", hidden_dim=5)(inputs)
    outputs = keras_bpn.layers.TaskHeads()(x)
    model = keras_bpn.BPNModel(inputs, outputs)
    compile_model(model, consolidation=PSP())
    names = [f"task {i}" for i in range(300)]
    for i, name in enumerate(names):
        model.add_task(name, classes=1 + i % 7)
    generator = np.random.default_rng(0)
    for table in (model.layers[1].task_bias.table, model.layers[2].table):
        table.assign(generator.normal(size=table.shape))
    model.task = "task 271"
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert loaded.tasks == tuple(names) and loaded.task == "task 271"
    assert loaded.task_classes == model.task_classes
    assert loaded.task_classes["task 299"] == tuple(range(1 + 299 % 7))
    assert_equal(full_state(loaded), full_state(model))
    x = generator.normal(size=(300, 6)).astype("float32")
    mixed = np.asarray(loaded(x, task=names))
    assert_equal([mixed], [np.asarray(model(x, task=names))])
    for i in (0, 8, 299):
        alone = np.asarray(loaded(x[i : i + 1], task=names[i]))[0]
        np.testing.assert_allclose(mixed[i], alone, rtol=1e-4, atol=1e-5)


_TRAIN_IN_NEW_PROCESS = """
import sys
import keras
import numpy as np
import keras_bpn
from tests.helpers import train_tasks

model = keras.models.load_model(sys.argv[1])
train_tasks(model, "c")
model.save(sys.argv[2])
"""


@pytest.mark.parametrize("method", [lambda: EWC(10.0), lambda: PSP()])
def test_a_new_process_goes_on_to_the_bit(tmp_path, method):
    model = compile_model(dropout_model(), consolidation=method())
    train_tasks(model, "ab")
    model.save(tmp_path / "two.keras")
    train_tasks(model, "c")
    subprocess.run(
        [
            sys.executable,
            "-c",
            _TRAIN_IN_NEW_PROCESS,
            tmp_path / "two.keras",
            tmp_path / "three.keras",
        ],
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    resumed = keras.models.load_model(tmp_path / "three.keras")
    assert_equal(full_state(resumed), full_state(model))


def test_mixed_precision_and_its_loss_scale_come_back(tmp_path):
    keras.config.set_dtype_policy("mixed_float16")
    model = train_tasks(compile_model(make_model()))
    model.save(tmp_path / "model.keras")
    # The process that loads need not have the policy set.
    keras.config.set_dtype_policy("float32")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert isinstance(loaded.optimizer, keras.optimizers.LossScaleOptimizer)
    for each in (model, loaded):
        train_tasks(each, "c")
    assert_equal(full_state(loaded), full_state(model))


def test_tables_larger_than_at_first_come_back(tmp_path):
    model = compile_model(make_model(), consolidation=PSP())
    train_tasks(model, [str(i) for i in range(11)], epochs=1)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    x, _ = make_data()
    for task in ("0", "10"):
        np.testing.assert_array_equal(loaded(x, task=task), model(x, task=task))
    assert_equal(full_state(loaded), full_state(model))


@pytest.mark.parametrize("method", [lambda: EWC(10.0), lambda: PSP()])
@pytest.mark.parametrize("direction", ["beneficial", None])
def test_loading_without_compiling_keeps_the_modes(tmp_path, method, direction):
    model = compile_model(
        make_model(), consolidation=method(), direction=direction
    )
    train_tasks(model)
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras", compile=False)
    x, _ = make_data()
    for task in "ab":
        np.testing.assert_array_equal(loaded(x, task=task), model(x, task=task))
    with pytest.raises(ValueError, match="`compile=True`"):
        compile_model(loaded, consolidation=EWC(3.0), direction=direction)


def test_weights_of_a_task_in_training_can_be_restored(tmp_path):
    model = compile_model(make_model())
    train_tasks(model, "a")
    model.fit(*make_data(1), task="b", verbose=0, consolidate=False)
    model.save_weights(tmp_path / "model.weights.h5")
    expected = full_state(model)[: len(model.weights)]
    other = compile_model(make_model())
    other.load_weights(tmp_path / "model.weights.h5")
    assert other.tasks == ("a", "b")
    assert_equal(other.get_weights(), expected)
    other.consolidate(*make_data(1))


@pytest.mark.parametrize("method", ["EWC", "GEM", "LwF", "BD+SI"])
def test_weights_of_an_earlier_task_take_later_ones_back(tmp_path, method):
    inputs = keras.Input((6,))
    x = keras_bpn.layers.BPNDense(8, activation="relu", hidden_dim=4)(inputs)
    x = keras_bpn.layers.BPNDense(6, hidden_dim=4)(x)
    x = keras_bpn.layers.ClassMask("seen")(x)
    model = keras_bpn.BPNModel(inputs, x)
    settings = {"memory_per_class": 3} if method == "GEM" else {}
    compile_model(model, **keras_bpn.methods.get(method, **settings))
    train_tasks(model, "a")
    model.save_weights(tmp_path / "model.weights.h5")
    expected = full_state(model)
    train_tasks(model, "b")
    later = full_state(model)
    model.load_weights(tmp_path / "model.weights.h5")
    assert model.tasks == ("a",) and model.task == "a"
    assert_equal(full_state(model), expected)
    train_tasks(model, "b")
    assert_equal(full_state(model), later)


def test_a_folder_is_written_and_replaced_too(tmp_path):
    model = train_tasks(compile_model(make_model()), "a")
    for _ in range(2):
        model.save(tmp_path / "model", zipped=False)
    loaded = keras.models.load_model(tmp_path / "model")
    assert_equal(full_state(loaded), full_state(model))
    assert os.listdir(tmp_path) == ["model"]


def test_a_failed_save_leaves_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "model.keras"
    model = train_tasks(compile_model(make_model()), "a")
    model.save(path)
    old = path.read_bytes()
    train_tasks(model, "b")

    def fail(store):
        raise OSError("the disk is full")

    monkeypatch.setattr(model.layers[-1], "save_own_variables", fail)
    with pytest.raises(OSError, match="the disk is full"):
        model.save(path)
    assert path.read_bytes() == old
    assert os.listdir(tmp_path) == ["model.keras"]
    assert keras.models.load_model(path).tasks == ("a",)


def test_an_existing_file_is_kept_when_asked_to(tmp_path):
    path = tmp_path / "model.keras"
    path.write_text("mine")
    with pytest.raises(FileExistsError, match="overwrite=True.*model.keras"):
        make_model().save(path, overwrite=False)
    assert path.read_text() == "mine"


def test_formats_that_would_lose_the_tasks_are_refused(tmp_path):
    with pytest.raises(ValueError, match="ends in '.keras'.*model.h5"):
        make_model().save(tmp_path / "model.h5")
    assert os.listdir(tmp_path) == []


def rewrite_weights(path, change):
    """Changes the HDF5 file inside a `.keras` archive."""
    h5py = pytest.importorskip("h5py")
    with zipfile.ZipFile(path) as archive:
        entries = {name: archive.read(name) for name in archive.namelist()}
    weights = path.with_name("weights.h5")
    weights.write_bytes(entries["model.weights.h5"])
    with h5py.File(weights, "r+") as file:
        change(file)
    entries["model.weights.h5"] = weights.read_bytes()
    with zipfile.ZipFile(path, "w") as archive:
        for name, content in entries.items():
            archive.writestr(name, content)


def replace_state(old, new):
    def change(file):
        text = bytes(np.asarray(file["vars/state"]))
        assert old in text
        del file["vars/state"]
        file["vars/state"] = np.frombuffer(text.replace(old, new), "uint8")

    return change


def drop_state(file):
    del file["vars/state"]


@pytest.mark.parametrize(
    "change, message",
    [
        (replace_state(b'"format": 1', b'"format": 9'), "format=9"),
        (replace_state(b'{"format"', b'"format"'), "to be readable"),
        (replace_state(b'["b", "ended"]', b'["a", "ended"]'), "distinct names"),
        (replace_state(b'"ended"', b'"open"'), "the only open one"),
        (replace_state(b'"capacity": 8', b'"capacity": 900000000'), "capacity"),
        (drop_state, "written by a `keras_bpn.BPNModel`"),
    ],
)
def test_broken_files_are_refused(tmp_path, change, message):
    path = tmp_path / "model.keras"
    train_tasks(compile_model(make_model())).save(path)
    rewrite_weights(path, change)
    with pytest.raises(ValueError, match=message):
        keras.models.load_model(path)


def test_a_truncated_file_is_refused(tmp_path):
    path = tmp_path / "model.keras"
    train_tasks(compile_model(make_model())).save(path)
    path.write_bytes(path.read_bytes()[:2000])
    with pytest.raises((ValueError, zipfile.BadZipFile)):
        keras.models.load_model(path)


def test_weights_of_another_method_are_refused(tmp_path):
    model = train_tasks(compile_model(make_model()))
    model.save_weights(tmp_path / "model.weights.h5")
    other = compile_model(make_model(), consolidation=PSP())
    with pytest.raises(
        ValueError, match="consolidation=PSP.*consolidation=EWC"
    ):
        other.load_weights(tmp_path / "model.weights.h5")
    assert other.tasks == ()
