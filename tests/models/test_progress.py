import keras
import numpy as np
import pytest

from keras_bpn.models.progress import EpochCounter
from keras_bpn.models.progress import TaskProgbarLogger
from keras_bpn.models.progress import with_first
from keras_bpn.models.progress import with_progress

X, Y = np.ones((8, 2), "float32"), np.ones((8, 1), "float32")


def made():
    model = keras.Sequential([keras.Input((2,)), keras.layers.Dense(1)])
    model.compile("sgd", "mse")
    model._epochs = 0
    return model


def run(method, verbose, **kwargs):
    """Calls a method of a plain model with the bar of a task."""
    model = made()
    callbacks, verbose = with_progress("Task 'birds'", verbose, None)
    data = (X,) if method == "predict" else (X, Y)
    getattr(model, method)(
        *data, verbose=verbose, callbacks=callbacks, batch_size=4, **kwargs
    )


@pytest.mark.parametrize("verbose", ["auto", 1, True])
def test_fit_shows_task_epoch_and_one_bar(capsys, verbose):
    run("fit", verbose, epochs=3)
    out = capsys.readouterr().out
    lines = [line for line in out.splitlines() if "Epoch" in line]
    assert lines == [f"Task 'birds' - Epoch {i}/3" for i in (1, 2, 3)]
    assert "2/2" in out
    assert "loss: " in out


def test_single_epoch_is_numbered_too(capsys):
    run("fit", 1)
    assert "Task 'birds' - Epoch 1/1\n" in capsys.readouterr().out


def test_one_line_per_epoch(capsys):
    run("fit", 2, epochs=2)
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines[0] == "Task 'birds' - Epoch 1/2"
    assert lines[1].startswith("2/2 - ")
    assert "loss: " in lines[1]
    assert lines[2] == "Task 'birds' - Epoch 2/2"


@pytest.mark.parametrize("method", ["evaluate", "predict"])
def test_evaluate_and_predict_show_the_task_once(capsys, method):
    run(method, 1)
    out = capsys.readouterr().out
    assert out.startswith("Task 'birds'\n")
    assert out.count("birds") == 1
    assert "2/2" in out


@pytest.mark.parametrize("method", ["fit", "evaluate", "predict"])
def test_silence(capsys, method):
    run(method, 0)
    assert capsys.readouterr().out == ""


def test_validation_shows_no_second_bar(capsys):
    run("fit", 2, validation_data=(X, Y))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 2
    assert "val_loss: " in lines[1]


def test_callbacks_in_every_form():
    one, two = keras.callbacks.Callback(), keras.callbacks.Callback()
    for given, first in (
        (None, []),
        ([], []),
        (one, [one]),
        ([one, two], [one, two]),
        ((one, two), [one, two]),
    ):
        callbacks, verbose = with_progress("t", 2, given)
        assert callbacks[:-1] == first
        bar = callbacks[-1]
        assert isinstance(bar, TaskProgbarLogger)
        assert bar.task == "t"
        assert verbose == 0


def test_given_list_is_not_changed():
    given = []
    with_progress("t", 1, given)
    assert given == []


def test_no_bar_where_none_is_wanted():
    one = keras.callbacks.Callback()
    assert with_progress("t", 0, [one]) == ([one], 0)
    # Inside `fit`, Keras calls `evaluate` with callbacks it manages.
    managed = keras.callbacks.CallbackList([one])
    assert with_progress("t", 1, managed) == (managed, 1)


def test_epochs_are_counted():
    model = made()
    for epochs in (3, 2):
        model.fit(
            X,
            Y,
            epochs=epochs,
            verbose=0,
            callbacks=with_first([], model, EpochCounter()),
        )
    assert model._epochs == 5


@pytest.mark.parametrize("form", ["single", "list", "tuple", "managed"])
def test_counter_comes_before_the_callbacks(form):
    seen = []
    model = made()
    look = keras.callbacks.LambdaCallback(
        on_epoch_end=lambda epoch, logs: seen.append(model._epochs)
    )
    callbacks = {
        "single": look,
        "list": [look],
        "tuple": (look,),
        "managed": keras.callbacks.CallbackList([look], model=model),
    }[form]
    callbacks = with_first(callbacks, model, EpochCounter())
    if form == "managed":
        callbacks.on_epoch_end(0)
        callbacks.on_epoch_end(1)
    else:
        model.fit(X, Y, epochs=2, verbose=0, callbacks=callbacks)
    assert seen == [1, 2]


def test_counter_without_callbacks():
    counter = EpochCounter()
    assert with_first(None, made(), counter) == [counter]
