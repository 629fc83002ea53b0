import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.consolidation import EWC
from keras_bpn.models import SingleTaskModels
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks


def made():
    models = SingleTaskModels(make_model)
    return compile_model(models, consolidation=None)


def test_every_task_has_a_network_that_later_tasks_leave_alone():
    models = train_tasks(made(), "a")
    before = models.network("a").get_weights()
    train_tasks(models, "bc")
    assert models.tasks == ("a", "b", "c") and models.task == "c"
    assert_equal(models.network("a").get_weights(), before)
    assert models.network("a") is not models.network("b")
    first, second = (models.network(t).layers[1].kernel for t in "ab")
    assert not np.allclose(first, second)


def test_a_network_learns_as_it_would_alone():
    keras.utils.set_random_seed(0)
    models = train_tasks(made(), "a")
    keras.utils.set_random_seed(0)
    alone = compile_model(make_model(), direction=None, consolidation=None)
    train_tasks(alone, "a")
    assert_equal(models.network("a").get_weights(), alone.get_weights())


def test_evaluation_prediction_and_mixed_batches():
    models = train_tasks(made(), "ab")
    x, y = make_data(0)
    logs = models.evaluate(x, y, task="a", verbose=0)
    assert logs == models.network("a").evaluate(x, y, task="a", verbose=0)
    names = ["a", "b", "b", "a"] * 10
    mixed = np.asarray(models(x, task=names))
    predicted = models.predict(x, task=names, verbose=0)
    for task in "ab":
        chosen = np.array(names) == task
        alone = np.asarray(models.network(task)(x, task=task))[chosen]
        np.testing.assert_allclose(mixed[chosen], alone, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(
            predicted[chosen], alone, rtol=1e-5, atol=1e-6
        )
    models.task = "a"
    np.testing.assert_array_equal(models(x), models(x, task="a"))


def test_an_open_task_goes_on_and_ends():
    models = made()
    x, y = make_data(0)
    models.fit(x, y, task="a", verbose=0, consolidate=False)
    models.fit(x, y, verbose=0, consolidate=False)
    with pytest.raises(ValueError, match="one task can be open.*'a'"):
        models.fit(x, y, task="b", verbose=0)
    models.consolidate()
    with pytest.raises(ValueError, match="has ended"):
        models.fit(x, y, task="a", verbose=0)
    with pytest.raises(ValueError, match="Only an open task"):
        models.consolidate()
    assert models.tasks == ("a",)


def test_storage_is_a_network_per_task():
    models = train_tasks(made(), "a")
    parameters = 6 * 12 + 12 + 12 * 9 + 9 + 9 * 6 + 6
    storage = models.storage()
    assert storage.parameters == parameters
    assert storage.bytes_per_task == 4 * parameters
    assert storage.percent_per_task == 100


def test_a_loaded_folder_goes_on_to_the_bit(tmp_path):
    models = train_tasks(made(), "ab")
    models.save(tmp_path / "stl")
    loaded = SingleTaskModels.load(tmp_path / "stl", make_model)
    assert loaded.tasks == ("a", "b") and loaded.task == "b"
    for each in (models, loaded):
        train_tasks(each, "c")
    for task in "abc":
        assert_equal(
            loaded.network(task).get_weights(),
            models.network(task).get_weights(),
        )
    with pytest.raises(FileExistsError):
        models.save(tmp_path / "stl", overwrite=False)
    with pytest.raises(ValueError, match="Received: filepath"):
        SingleTaskModels.load(tmp_path, make_model)


def test_mistakes_change_nothing():
    models = train_tasks(made(), "a")
    x, y = make_data(0)
    for bad in (
        lambda: models.evaluate(x, y, task="b"),
        lambda: models.add_task("a"),
        lambda: models.fit(x, y + 100, task="b", verbose=0),
        lambda: models.fit(x[:, :3], y, task="b", verbose=0),
        lambda: models.predict(x, task=["a"], verbose=0),
        lambda: compile_model(models, consolidation=EWC()),
    ):
        with pytest.raises(ValueError, match="Received"):
            bad()
        assert models.tasks == ("a",) and models.task == "a"
    train_tasks(models, "b")
    assert models.tasks == ("a", "b")
    with pytest.raises(ValueError, match="compile"):
        SingleTaskModels(make_model).fit(x, y, task="a")
    with pytest.raises(ValueError, match="task=None"):
        made().evaluate(x, y)


def test_tasks_by_name():
    models = train_tasks(made(), "ab", epochs=1)
    network = models.network("a")
    with models.mode("a") as same:
        assert same is models and models.task == "a"
        models.rename_task("b", "B")
    assert models.task == "B"
    models.rename_task("a", "A")
    assert models.network("A") is network and network.tasks == ("A",)
    models.remove_task("B")
    assert models.tasks == ("A",) and models.task is None
    x, y = make_data(0)
    for bad in (
        lambda: models.rename_task("a", "b"),
        lambda: models.rename_task("A", "A"),
        lambda: models.remove_task("B"),
        lambda: models.remove_task(None),
    ):
        with pytest.raises(ValueError, match="Received"):
            bad()
    models.fit(x, y, task="c", verbose=0, consolidate=False)
    with pytest.raises(ValueError, match="'c', which is open"):
        models.remove_task("c")
    assert models.tasks == ("A", "c")


def test_classes_are_known():
    models = train_tasks(made(), "a")
    models.add_task("z", classes=[3, 5])
    assert models.task_classes == {"a": (0, 1), "z": (3, 5)}


def test_weights_go_back_into_networks_that_are_there(tmp_path):
    models = train_tasks(made(), "ab")
    models.save_weights(tmp_path / "weights")
    other = made()
    train_tasks(other, "x")
    other.load_weights(tmp_path / "weights")
    assert other.tasks == ("a", "b") and other.task == "b"
    for task in "ab":
        assert_equal(
            other.network(task).get_weights(),
            models.network(task).get_weights(),
        )
    for each in (models, other):
        train_tasks(each, "c")
    assert_equal(
        other.network("c").get_weights(), models.network("c").get_weights()
    )
    with pytest.raises(ValueError, match="`SingleTaskModels` wrote"):
        other.load_weights(tmp_path)
    assert other.tasks == ("a", "b", "c")


def test_the_network_of_a_task_is_exported(tmp_path):
    models = train_tasks(made(), "ab")
    models.export(tmp_path / "a", task="a", verbose=False)
    x = make_data(0)[0]
    served = tf.saved_model.load(str(tmp_path / "a"))
    np.testing.assert_array_equal(
        served.serve(x), models.predict(x, task="a", verbose=0)
    )
