import json
import shutil
import time

import keras
import numpy as np
import pytest

from keras_bpn.learning import learn
from keras_bpn.scenarios import SplitClasses
from tests.helpers import assert_equal
from tests.learning import kill_and_resume
from tests.learning.helpers import build
from tests.learning.helpers import full_state
from tests.learning.helpers import make_arrays
from tests.learning.helpers import make_scenario

ARGUMENTS = {"epochs": 2, "patience": 3, "evaluate_unit": "epochs"}


class PowerCut(Exception):
    pass


class CutAfter(keras.callbacks.Callback):
    """Breaks a run off after some steps."""

    def __init__(self, steps):
        super().__init__()
        self.steps = steps

    def on_train_batch_end(self, batch, logs=None):
        self.steps -= 1
        if self.steps < 0:
            raise PowerCut


def calm_run(name, **kwargs):
    keras.utils.set_random_seed(0)
    model = build(name, **kwargs)
    history = learn(model, make_scenario(), **ARGUMENTS, verbose=0)
    return model, history


def assert_same_run(model, history, calm_model, calm_history):
    np.testing.assert_array_equal(
        history.matrix.values, calm_history.matrix.values
    )
    assert history.epochs == calm_history.epochs
    assert_equal(full_state(model), full_state(calm_model))


def slow(*values):
    return pytest.param(*values, marks=pytest.mark.slow)


BY_STEPS = {"save_every": 2, "save_unit": "steps"}


@pytest.mark.parametrize(
    "name, kwargs, save",
    [
        ("BD+EWC", {"dropout": 0.3}, BY_STEPS),
        slow("BD+EWC", {"dropout": 0.3}, {}),
        slow("BD+EWC", {"dropout": 0.3}, {"save_every": 1}),
        slow("BD+PSP", {}, BY_STEPS),
        slow("SI", {}, BY_STEPS),
        slow("GEM", {}, BY_STEPS),
        slow("BD+LwF", {}, BY_STEPS),
        slow("STL", {"dropout": 0.3}, BY_STEPS),
        slow("MAS", {"jit_compile": True, "steps_per_execution": 2}, BY_STEPS),
    ],
)
def test_a_run_goes_on_to_the_bit(tmp_path, name, kwargs, save):
    calm = calm_run(name, **kwargs)
    # Each time in another place, and in a network that has other weights and
    # seeds before it is loaded. A task takes ten steps.
    per_call = kwargs.get("steps_per_execution", 1)
    for i, steps in enumerate((3, 13, 4, None)):
        keras.utils.set_random_seed(i)
        model = build(name, **kwargs)
        cut = [] if steps is None else [CutAfter(steps // per_call)]
        run = {**ARGUMENTS, **save, "directory": tmp_path / "run"}
        try:
            history = learn(
                model, make_scenario(), callbacks=cut, verbose=0, **run
            )
        except PowerCut:
            assert steps is not None
            continue
        assert steps is None
    assert_same_run(model, history, *calm)


def test_a_run_may_go_on_in_the_same_process(tmp_path):
    calm = calm_run("BD+EWC")
    keras.utils.set_random_seed(0)
    model = build("BD+EWC")
    run = {**ARGUMENTS, "directory": tmp_path / "run", "save_every": 1}
    with pytest.raises(PowerCut):
        learn(model, make_scenario(), callbacks=[CutAfter(17)], **run)
    history = learn(model, make_scenario(), verbose=0, **run)
    assert_same_run(model, history, *calm)


def test_a_run_that_has_ended_is_returned(tmp_path):
    run = {**ARGUMENTS, "directory": tmp_path / "run", "verbose": 0}
    model = build()
    history = learn(model, make_scenario(), **run)
    other = build()
    start = time.monotonic()
    again = learn(other, make_scenario(), **run)
    assert time.monotonic() - start < history.summary()["seconds"]
    assert again.to_dict() == history.to_dict()
    assert_equal(full_state(other), full_state(model))
    saved = json.loads((tmp_path / "run" / "history.json").read_text())
    assert saved["schema_version"]


@pytest.mark.slow
def test_early_stopping_goes_on(tmp_path):
    """The best weights and the wait are part of what is kept."""
    arguments = {"epochs": 9, "patience": 2}

    def made():
        return build("EWC", optimizer=keras.optimizers.SGD(0.3))

    keras.utils.set_random_seed(0)
    calm = made()
    calm_history = learn(calm, make_scenario(), verbose=0, **arguments)
    run = {**arguments, "directory": tmp_path / "run", "save_every": 1}
    for steps in (11, 12, 13, None):
        keras.utils.set_random_seed(0 if steps == 11 else 5)
        model = made()
        cut = [] if steps is None else [CutAfter(steps)]
        try:
            history = learn(
                model, make_scenario(), callbacks=cut, verbose=0, **run
            )
        except PowerCut:
            pass
    assert_same_run(model, history, calm, calm_history)
    assert len(history.epochs) < 27


@pytest.mark.parametrize(
    "change, line",
    [
        ({"epochs": 3}, "learn.epochs: 2 in the run, 3 now"),
        ({"batch_size": 4}, "learn.batch_size: 8 in the run, 4 now"),
    ],
)
def test_other_arguments_are_named(tmp_path, change, line):
    run = {**ARGUMENTS, "directory": tmp_path / "run", "verbose": 0}
    learn(build(), make_scenario(), **run)
    with pytest.raises(ValueError) as info:
        learn(build(), make_scenario(), **{**run, **change})
    assert line in str(info.value)


def test_another_scenario_or_method_is_named(tmp_path):
    run = {**ARGUMENTS, "directory": tmp_path / "run", "verbose": 0}
    learn(build("BD+EWC"), make_scenario(), **run)
    model = build("BD+EWC")
    before = full_state(model)
    with pytest.raises(ValueError, match="scenario.*seed.*0 in the run, 1 now"):
        learn(model, make_scenario(seed=1), **run)
    assert_equal(full_state(model), before)
    with pytest.raises(ValueError, match="compile.consolidation"):
        learn(build("BD+PSP"), make_scenario(), **run)
    with pytest.raises(ValueError, match="compile.optimizer"):
        learn(build("BD+EWC", optimizer="sgd"), make_scenario(), **run)
    with pytest.raises(ValueError, match="network"):
        learn(build("BD+EWC", dropout=0.5), make_scenario(), **run)


def test_a_damaged_checkpoint_costs_one_task(tmp_path):
    calm = calm_run("BD+EWC")
    run = {**ARGUMENTS, "directory": tmp_path / "run", "save_every": 1}
    keras.utils.set_random_seed(0)
    with pytest.raises(PowerCut):
        learn(
            build(), make_scenario(), callbacks=[CutAfter(26)], verbose=0, **run
        )
    (newest,) = (tmp_path / "run").glob("*-step")
    weights = newest / "model.weights.h5"
    content = bytearray(weights.read_bytes())
    content[len(content) // 2] ^= 1
    weights.write_bytes(content)
    model = build()
    with pytest.warns(UserWarning, match="damaged"):
        history = learn(model, make_scenario(), verbose=0, **run)
    assert_same_run(model, history, *calm)


def test_a_full_disk(tmp_path, monkeypatch):
    calm = calm_run("BD+EWC")
    keras.utils.set_random_seed(0)
    model = build()
    run = {**ARGUMENTS, "directory": tmp_path / "run", "verbose": 0}
    save_weights, room = model.save_weights, iter([True, True, False])

    def save(path):
        save_weights(path)
        if not next(room):
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(model, "save_weights", save)
    with pytest.raises(OSError, match="No space left"):
        learn(model, make_scenario(), **run)
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert names == {".lock", "run.json", "history.json", "000001-task"}
    model = build()
    history = learn(model, make_scenario(), **run)
    assert_same_run(model, history, *calm)


@pytest.mark.slow
def test_a_run_can_be_moved(tmp_path):
    calm = calm_run("BD+EWC")
    run = {**ARGUMENTS, "verbose": 0, "save_every": 1}
    keras.utils.set_random_seed(0)
    with pytest.raises(PowerCut):
        learn(
            build(),
            make_scenario(),
            callbacks=[CutAfter(13)],
            directory=tmp_path / "run",
            **run,
        )
    shutil.move(tmp_path / "run", tmp_path / "elsewhere")
    model = build()
    history = learn(
        model, make_scenario(), directory=tmp_path / "elsewhere", **run
    )
    assert_same_run(model, history, *calm)


@pytest.mark.slow
def test_processes_that_are_killed():
    lines = []
    kill_and_resume.compare("digits", kills=3, seed=0, report=lines.append)
    assert sum(line.startswith("kill") for line in lines) == 3


def long_scenario():
    """Tasks of some 100 examples, in epochs that are compiled."""
    arrays = (make_arrays(0, 360), make_arrays(1, 60))
    return SplitClasses(arrays, 2, classes=range(4), batch_size=2)


def test_a_run_of_compiled_epochs_goes_on_to_the_bit(tmp_path):
    arguments = {"epochs": 2, "verbose": 0}
    keras.utils.set_random_seed(0)
    calm = build("BD+EWC", dropout=0.3)
    calm_history = learn(calm, long_scenario(), **arguments)
    assert calm._train_loop is not None
    # In the middle of a first epoch, and of the last one of the second task.
    for i, steps in enumerate((33, 170, None)):
        keras.utils.set_random_seed(i)
        model = build("BD+EWC", dropout=0.3)
        cut = [] if steps is None else [CutAfter(steps)]
        run = {**arguments, **BY_STEPS, "directory": tmp_path / "run"}
        try:
            history = learn(model, long_scenario(), callbacks=cut, **run)
        except PowerCut:
            continue
        assert steps is None
    assert_same_run(model, history, calm, calm_history)
