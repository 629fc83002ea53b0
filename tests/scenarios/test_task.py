import json

import keras
import numpy as np
import pytest

import keras_bpn
from keras_bpn.scenarios import Digits
from keras_bpn.scenarios import SplitClasses
from tests.helpers import compile_model
from tests.helpers import make_model
from tests.scenarios.helpers import collect
from tests.scenarios.helpers import make_images
from tests.scenarios.helpers import rows


def test_training_data_has_the_order_of_one_epoch_after_the_other():
    scenario = Digits(seed=5, batch_size=50)
    task = scenario[1]
    orders = [collect(task.train) for _ in range(3)]
    for epoch, (x, y) in enumerate(orders):
        expected = collect(
            task.examples("train").batches(
                50, seed=scenario.task_seed(1), epoch=epoch
            )
        )
        np.testing.assert_array_equal(x, expected[0])
        np.testing.assert_array_equal(y, expected[1])
    assert not np.array_equal(orders[0][0], orders[1][0])
    assert not np.array_equal(orders[1][0], orders[2][0])
    assert rows(*orders[0]) == rows(*orders[1])
    assert task.train.cardinality() == len(list(task.train))


@pytest.mark.parametrize("split", ["validation", "test"])
def test_other_data_has_one_order(split):
    task = Digits()[0]
    first, second = (collect(getattr(task, split)) for _ in range(2))
    np.testing.assert_array_equal(first[0], second[0])
    for array, expected in zip(first, task.examples(split).arrays()):
        np.testing.assert_array_equal(array, expected)


def test_there_may_be_no_validation_data():
    task = Digits(validation_split=0)[0]
    assert task.validation is None and task.examples("validation") is None
    assert task.metadata["examples"]["validation"] == 0


def test_metadata_is_for_json():
    x, y = make_images((10, 20, 30))
    task = SplitClasses((x, y), [1, 2], multi_head=True)[1]
    assert task.classes == (0, 1)
    assert json.loads(json.dumps(task.metadata)) == {
        "dataset": "arrays",
        "version": None,
        "classes": [1, 2],
        "class_names": None,
        # A fifth of 20 and of 30 for test, and a tenth for validation.
        "examples": {"train": 35, "validation": 5, "test": 10},
    }


def test_examples_are_made_once():
    task = Digits()[0]
    assert task.examples("train") is task.examples("train")
    with pytest.raises(ValueError, match="train, validation, test.*'extra'"):
        task.examples("extra")
    assert repr(task) == "<Task '0/1', classes=(0, 1)>"


def test_flat_and_convolutional_networks_learn_the_same_task():
    task = Digits(classes_per_task=[3, 7], batch_size=16)[0]
    model = compile_model(make_model((40,), inputs=64, outputs=10))
    flat = {s: task.examples(s).reshape((64,)) for s in ("train", "test")}
    model.fit(
        flat["train"].batches(16, seed=0),
        task=task.name,
        epochs=15,
        verbose=0,
    )
    _, accuracy = model.evaluate(
        flat["test"].batches(64), task=task.name, verbose=0
    )
    assert accuracy > 0.9
    inputs = keras.Input((8, 8, 1))
    x = keras.layers.Conv2D(8, 3, activation="relu")(inputs)
    x = keras_bpn.layers.BPNDense(10)(keras.layers.Flatten()(x))
    model = compile_model(
        keras_bpn.BPNModel(inputs, x), keras.optimizers.Adam(0.01)
    )
    model.fit(
        task.train,
        validation_data=task.validation,
        task=task.name,
        epochs=5,
        verbose=0,
    )
    _, accuracy = model.evaluate(task.test, task=task.name, verbose=0)
    assert accuracy > 0.9
