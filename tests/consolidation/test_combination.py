import keras
import numpy as np
import pytest
import tensorflow as tf

from keras_bpn.consolidation.combination import Combination
from keras_bpn.consolidation.consolidation import Consolidation
from keras_bpn.consolidation.ewc import EWC
from keras_bpn.consolidation.local_inhibition import LocalInhibition
from keras_bpn.consolidation.mas import MAS
from keras_bpn.consolidation.psp import PSP
from keras_bpn.layers.task_scope import record_calls
from tests.helpers import assert_equal
from tests.helpers import compile_model
from tests.helpers import make_data
from tests.helpers import make_model
from tests.helpers import train_tasks
from tests.helpers import values


@keras.saving.register_keras_serializable("tests")
class First(Consolidation):
    """Keeps the size of each task, and adds 1 to gradients and loss."""

    growing = ("task/",)
    shift = 1.0

    def __init__(self, fail=False):
        super().__init__()
        self.fail = fail
        self.log = []

    def check(self, model):
        self.log.append("check")

    def build(self, model):
        self.log.append("build")
        if "steps" not in self._variables:
            self.add_variable("steps", 0.0)

    def start_task(self, model, task, data):
        self.log.append(f"start {task} {data.num_examples}")

    def cancel_task(self, model):
        self.log.append("cancel")

    def loss(self, model, x, y, y_pred, calls):
        self.log.append(f"loss of {len(calls)} calls")
        return tf.constant(self.shift)

    def adjust_gradients(self, model, gradients):
        self.received = gradients
        return [g + self.shift for g in gradients]

    def after_update(self, model, task_gradients):
        self.task_gradients = task_gradients
        self._variables["steps"].assign_add(1.0)

    def end_task(self, model, task, data):
        if self.fail:
            raise KeyboardInterrupt
        self.add_variable(f"task/{task}", float(data.num_examples))
        self._variables["steps"].assign_add(100.0)

    def storage(self, model):
        return {"sizes": 4}

    def get_config(self):
        return {"fail": self.fail}


@keras.saving.register_keras_serializable("tests")
class Second(First):
    growing = ()
    shift = 10.0
    needs_data = True

    def adjust_gradients(self, model, gradients):
        self.received = gradients
        return [2 * g for g in gradients]

    def end_task(self, model, task, data):
        if self.fail:
            raise KeyboardInterrupt


@keras.saving.register_keras_serializable("tests")
class Third(Consolidation):
    """Overrides nothing."""


def test_hooks_run_in_turn():
    first, second = First(), Second()
    both = Combination([first, second, Third()])
    model = compile_model(
        make_model(units=()),
        consolidation=both,
        run_eagerly=True,
        direction=None,
        metrics=[],
    )
    x, y = make_data()
    logs = model.fit(
        x, y, task="a", batch_size=40, verbose=0, consolidate=False
    ).history
    for a, b, c, d in zip(
        first.received,
        second.received,
        first.task_gradients,
        second.task_gradients,
    ):
        assert a is c is d
        np.testing.assert_array_equal(np.asarray(a) + 1, b)
    for each in (first, second):
        assert each.log == ["check", "build", "start a 40", "loss of 1 calls"]
    assert both.variables.keys() == {"First/steps", "Second/steps"}
    model.consolidate(x, y)
    assert {name: float(value) for name, value in both.get_state().items()} == {
        "First/steps": 101.0,
        "First/task/a": 40.0,
        "Second/steps": 1.0,
    }
    assert both.storage(model) == {"sizes": 8}
    assert both.needs_data and both.growing == ("First/task/",)
    assert not Combination([First(), Third()]).needs_data
    # 1 + 10 more than the crossentropy of random weights, near ln 6.
    assert 11.0 < logs["loss"][0] < 18.0


def test_adjusted_gradients_are_what_the_optimizer_gets():
    model = compile_model(
        make_model(units=(), hidden_dim=0),
        keras.optimizers.SGD(0.5),
        consolidation=Combination([First(), Second()]),
        direction=None,
    )
    x, y = make_data()
    before = values(model.shared_variables)
    with tf.GradientTape() as tape:
        loss = model.compute_loss(x, y, model(x))
    gradients = tape.gradient(loss, [v.value for v in model.shared_variables])
    model.fit(x, y, task="a", batch_size=40, verbose=0)
    for old, g, new in zip(before, gradients, model.shared_variables):
        np.testing.assert_allclose(new, old - 0.5 * 2 * (g + 1), atol=1e-5)


def test_loss_is_none_where_no_member_has_one():
    both = Combination([PSP(), Third()])
    assert both.loss(None, None, None, None, []) is None


def test_a_task_that_cannot_start_is_cancelled_by_all():
    first, second = First(), Second()
    model = compile_model(
        make_model(), consolidation=Combination([first, second])
    )

    class Stop(keras.callbacks.Callback):
        def on_train_begin(self, logs=None):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        model.fit(*make_data(), task="a", verbose=0, callbacks=[Stop()])
    assert first.log[-2:] == second.log[-2:] == ["start a 40", "cancel"]


def test_a_task_whose_end_fails_counts_once():
    second = Second(fail=True)
    both = Combination([EWC(10.0), second])
    model = compile_model(make_model(), consolidation=both)
    x, y = make_data()
    with pytest.raises(KeyboardInterrupt):
        model.fit(x, y, task="a", verbose=0)
    assert all(
        np.all(v == 0) for k, v in both.get_state().items() if "EWC" in k
    )
    second.fail = False
    model.consolidate(x, y)
    assert int(both.get_state()["EWC/num_tasks"]) == 1
    assert max(np.max(v) for v in both.get_state().values()) > 0


@pytest.mark.parametrize("consolidations", [[], [EWC()], 3, [EWC, PSP]])
def test_fewer_than_two_methods_are_refused(consolidations):
    with pytest.raises(ValueError, match="at least two .*Received: consol"):
        Combination(consolidations)


def test_what_cannot_go_together_is_refused():
    with pytest.raises(ValueError, match=r"different classes.*PSP\(seed=1\)"):
        Combination([PSP(1), EWC(), PSP(2)])
    with pytest.raises(ValueError, match="at most one quadratic.*1 \\+ lr"):
        Combination([EWC(), MAS()])
    nested = Combination([PSP(), EWC()])
    with pytest.raises(ValueError, match="at most one quadratic"):
        Combination([nested, MAS()])


def test_why_two_implicit_steps_are_refused():
    """Two springs in turn settle away from the minimum of both."""
    rate, h1, h2, a1, a2 = 0.1, 100.0, 50.0, 0.0, 1.0
    w = 0.3
    for _ in range(1000):
        g = h1 * (w - a1) / (1 + rate * h1)
        g = (g + h2 * (w - a2)) / (1 + rate * h2)
        w -= rate * g
    assert abs(w - h2 / (h1 + h2)) > 0.1


def test_a_combination_in_a_combination_is_flattened():
    psp, ewc, inhibition = PSP(), EWC(), LocalInhibition()
    both = Combination([Combination((psp, ewc)), inhibition])
    assert both.consolidations == [psp, ewc, inhibition]


def test_config_round_trip():
    both = Combination([EWC(5.0, seed=1), PSP(seed=2)])
    again = keras.saving.deserialize_keras_object(
        keras.saving.serialize_keras_object(both)
    )
    assert again.get_config() == both.get_config()
    assert [type(c) for c in again.consolidations] == [EWC, PSP]
    assert again.consolidations[0].strength == 5.0
    assert repr(again) == repr(both)
    assert repr(both).startswith("Combination([EWC(strength=5.0, ")


def test_a_state_of_other_members_is_refused(tmp_path):
    model = compile_model(
        make_model(), consolidation=Combination([EWC(), LocalInhibition()])
    )
    train_tasks(model, "a").save_weights(tmp_path / "model.weights.h5")
    other = compile_model(
        make_model(), consolidation=Combination([EWC(), PSP()])
    )
    with pytest.raises(ValueError, match=r"'EWC/', 'PSP/'.*'LocalInhibition/"):
        other.load_weights(tmp_path / "model.weights.h5")
    other = compile_model(
        make_model(), consolidation=Combination([MAS(), LocalInhibition()])
    )
    with pytest.raises(ValueError, match="'EWC/"):
        other.load_weights(tmp_path / "model.weights.h5")


def ewc_and_psp(**kwargs):
    keras.utils.set_random_seed(0)
    ewc, psp = EWC(10.0, seed=1), PSP(seed=2)
    model = compile_model(
        make_model(), consolidation=Combination([ewc, psp]), **kwargs
    )
    return model, ewc, psp


def check_keys(model, x):
    """Checks that what enters the first layer is multiplied by its key."""
    key = np.asarray(model.layers[1].task_keys.table)[1]
    assert set(key) == {-1, 1}
    with record_calls() as calls:
        model(x, task="a")
    np.testing.assert_array_equal(calls[0].inputs, x * key)


@pytest.mark.parametrize("options", [{}, {"jit_compile": True}])
def test_ewc_and_psp_act_as_both(options):
    model, ewc, _ = ewc_and_psp(**options)
    x, y = make_data()
    model.fit(x, y, task="a", verbose=0, consolidate=False)
    # The Fisher information of the network with its keys, by a loop.
    kernel = model.layers[1].kernel
    total = np.zeros(kernel.shape)
    for i in range(len(x)):
        with tf.GradientTape() as tape:
            p = tf.nn.log_softmax(model(x[i : i + 1]))[0, y[i]]
        total += np.square(tape.gradient(p, kernel.value))
    check_keys(model, x)
    model.consolidate(x, y)
    np.testing.assert_allclose(
        ewc.importance(kernel), total / len(x), rtol=1e-4, atol=1e-6
    )
    anchors = values(map(ewc.anchor, model.shared_variables))
    assert_equal(anchors, values(model.shared_variables))
    train_tasks(model, "b")
    assert not np.allclose(anchors[0], values(model.shared_variables)[0])


def test_a_member_without_strength_changes_nothing():
    found = []
    for method in (PSP(seed=2), Combination([EWC(0.0, seed=1), PSP(seed=2)])):
        keras.utils.set_random_seed(0)
        model = compile_model(make_model(), consolidation=method)
        train_tasks(model, "ab")
        found.append(values(model.shared_variables))
    assert_equal(*found)
    # With strength it does.
    model, _, _ = ewc_and_psp()
    train_tasks(model, "ab")
    assert not np.allclose(values(model.shared_variables)[0], found[0][0])


@pytest.mark.parametrize(
    "method",
    [
        lambda: Combination([EWC(10.0, labels="sampled"), PSP()]),
        lambda: Combination([First(), MAS()]),
    ],
)
def test_a_loaded_model_goes_on_as_if_never_stopped(tmp_path, method):
    model = compile_model(make_model(), consolidation=method())
    train_tasks(model, "a")
    model.save(tmp_path / "model.keras")
    loaded = keras.models.load_model(tmp_path / "model.keras")
    assert repr(loaded.consolidation) == repr(model.consolidation)
    for each in (model, loaded):
        train_tasks(each, "b")
    assert_equal(loaded.get_weights(), model.get_weights())
    states = [each.consolidation.get_state() for each in (model, loaded)]
    assert states[0].keys() == states[1].keys()
    assert_equal(*[[s[k] for k in sorted(s)] for s in states])


def test_compiling_again_keeps_the_state():
    model, ewc, psp = ewc_and_psp()
    train_tasks(model, "a")
    before = model.consolidation.get_state()
    importances = [ewc.importance(v) for v in model.shared_variables]
    # The same settings are enough.
    compile_model(
        model,
        keras.optimizers.SGD(0.01),
        consolidation=Combination([EWC(10.0, seed=1), PSP(seed=2)]),
    )
    assert model.consolidation.consolidations == [ewc, psp]
    after = model.consolidation.get_state()
    assert_equal(list(before.values()), list(after.values()))
    # And they still belong to the same weights.
    for variable, importance in zip(model.shared_variables, importances):
        assert ewc.importance(variable) is importance
    train_tasks(model, "b")
    with pytest.raises(ValueError, match="cannot be changed.*Combination"):
        compile_model(model, consolidation=EWC(10.0, seed=1))
