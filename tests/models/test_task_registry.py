import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bpn.models.task_registry import TaskRegistry


def made(*names):
    registry = TaskRegistry()
    for name in names:
        registry.add(name)
    return registry


def test_rows_and_names_in_order():
    registry = made("b", "a", "c")
    assert registry.names == ("b", "a", "c")
    assert len(registry) == 3
    assert [registry.row(n) for n in ("b", "a", "c")] == [1, 2, 3]
    assert [registry.name(row) for row in range(4)] == [None, "b", "a", "c"]
    assert registry.row(None) == 0
    assert "a" in registry
    assert "d" not in registry


@pytest.mark.parametrize("method", ["add", "row", "start", "check_trainable"])
def test_names_are_non_empty_strings(method):
    registry = made("a")
    for name in ("", 3, b"a", ["a"], ("a",), 1.5):
        with pytest.raises(ValueError) as error:
            getattr(registry, method)(name)
        assert "non-empty string" in str(error.value)
        assert str(error.value).endswith(f"Received: task={name!r}")
    assert registry.get_state() == [["a", "new"]]


def test_adding_none_is_refused():
    with pytest.raises(ValueError, match="non-empty string.*task=None"):
        made("a").add(None)


def test_adding_twice_is_refused():
    registry = made("a", "b")
    with pytest.raises(ValueError) as error:
        registry.add("a")
    assert "does not exist yet" in str(error.value)
    assert "name='a'; tasks are ['a', 'b']" in str(error.value)
    assert registry.names == ("a", "b")


def test_unknown_name_suggests_the_nearest():
    registry = made("birds", "flowers", "actions")
    with pytest.raises(ValueError) as error:
        registry.row("flower")
    message = str(error.value)
    assert "one of ['birds', 'flowers', 'actions']" in message
    assert message.endswith("Received: task='flower'. Did you mean 'flowers'?")


def test_unknown_name_suggests_nothing_far_away():
    with pytest.raises(ValueError) as error:
        made("birds").row("qwxyz")
    assert str(error.value).endswith("Received: task='qwxyz'.")


def test_unknown_name_without_tasks():
    with pytest.raises(ValueError, match="no tasks yet.*task='birds'"):
        TaskRegistry().row("birds")


def test_life_of_a_task():
    registry = made("a", "b")
    assert registry.get_state() == [["a", "new"], ["b", "new"]]
    assert not registry.any_started()
    registry.start("a")
    assert registry.any_started()
    assert registry.open_task == "a"
    assert registry.get_state() == [["a", "open"], ["b", "new"]]
    registry.start("a")
    assert registry.open_task == "a"
    registry.end_open_task()
    assert registry.open_task is None
    assert registry.any_started()
    assert registry.get_state() == [["a", "ended"], ["b", "new"]]


def test_ended_task_is_not_trained_again():
    registry = made("a")
    registry.start("a")
    registry.end_open_task()
    for method in (registry.check_trainable, registry.start):
        with pytest.raises(ValueError, match="has ended.*task='a'"):
            method("a")
    assert registry.open_task is None


def test_one_task_is_open_at_a_time():
    registry = made("a", "b")
    registry.start("a")
    for method in (registry.check_trainable, registry.start):
        with pytest.raises(ValueError) as error:
            method("b")
        assert "Only one task can be open" in str(error.value)
        assert "task='b'; the open task is 'a'" in str(error.value)
    assert registry.get_state() == [["a", "open"], ["b", "new"]]


def test_new_unknown_and_open_tasks_are_trainable():
    registry = made("a", "b")
    registry.check_trainable("b")
    registry.check_trainable("unknown")
    registry.start("a")
    registry.check_trainable("a")
    assert registry.names == ("a", "b")


NAMES = st.sampled_from(["a", "b", "c", "d", "ä/1", " "])
STEPS = st.tuples(st.sampled_from(["add", "start", "end"]), NAMES)


@given(st.lists(STEPS, max_size=40))
def test_random_histories(steps):
    registry, states = TaskRegistry(), {}
    for step, name in steps:
        is_open = [n for n, state in states.items() if state == "open"]
        if step == "add":
            if name in states:
                with pytest.raises(ValueError, match="does not exist yet"):
                    registry.add(name)
            else:
                registry.add(name)
                states[name] = "new"
        elif step == "start" and name in states:
            if states[name] == "ended" or is_open not in ([], [name]):
                with pytest.raises(ValueError, match="ended|Only one"):
                    registry.start(name)
            else:
                registry.start(name)
                states[name] = "open"
        elif step == "end" and is_open:
            registry.end_open_task()
            states[is_open[0]] = "ended"
        # Rows stay 1 to n, in the order of adding, whatever happens.
        assert registry.names == tuple(states)
        rows = [registry.row(n) for n in states]
        assert rows == list(range(1, len(states) + 1))
        assert registry.get_state() == [[n, s] for n, s in states.items()]
    state = json.loads(json.dumps(registry.get_state()))
    other = TaskRegistry()
    other.set_state(state)
    assert other.get_state() == registry.get_state()
    assert other.names == registry.names
    assert other.open_task == registry.open_task
    assert [other.row(n) for n in states] == [registry.row(n) for n in states]


@given(st.lists(st.sampled_from("abcdef"), unique=True), st.data())
def test_what_was_added_is_undone(names, data):
    registry = made(*names)
    for name in names[: data.draw(st.integers(0, len(names)))]:
        registry.start(name)
        registry.end_open_task()
    registry.classes = {name: (0, 1) for name in names[::2]}
    state, classes = registry.get_state(), dict(registry.classes)
    added = data.draw(st.lists(st.sampled_from("xyz"), unique=True))
    for name in added:
        registry.add(name)
        registry.classes[name] = (2,)
    new = [n for n in registry.names if registry.is_new(n)]
    if new:
        registry.start(data.draw(st.sampled_from(new)))
    registry.cancel_start()
    registry.truncate(len(names))
    assert registry.get_state() == state
    assert registry.classes == classes
    assert registry.open_task is None
    assert registry.names == tuple(names)
    assert not any(name in registry for name in added)
    # Rows are given out anew.
    registry.add("z")
    assert registry.row("z") == len(names) + 1


@pytest.mark.parametrize(
    "state",
    [
        [["a", "new"], ["a", "ended"]],
        [["a", "trained"]],
        [["a", None]],
        [["a", "open"], ["b", "open"]],
        [["", "new"]],
        [[3, "new"]],
        [[None, "new"]],
        [["a"]],
        [["a", "new", "b"]],
    ],
)
def test_bad_states_are_refused_and_change_nothing(state):
    registry = made("kept")
    registry.start("kept")
    with pytest.raises(ValueError):
        registry.set_state(state)
    assert registry.get_state() == [["kept", "open"]]
    assert registry.open_task == "kept"
    assert registry.row("kept") == 1


def test_state_replaces_everything():
    registry = made("old", "older")
    registry.start("old")
    registry.set_state([["x", "ended"], ["y", "open"], ["z", "new"]])
    assert registry.names == ("x", "y", "z")
    assert registry.open_task == "y"
    assert "old" not in registry
    with pytest.raises(ValueError, match="has ended"):
        registry.start("x")
    assert ["z", "new"] in registry.get_state()
    registry.set_state([])
    assert len(registry) == 0
    assert registry.open_task is None
