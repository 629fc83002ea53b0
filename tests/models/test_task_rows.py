import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from keras_bpn.models.task_registry import TaskRegistry
from keras_bpn.models.task_rows import TaskRows

NAMES = st.sampled_from("abcdefgh")
STEPS = st.sampled_from(["add", "add", "remove", "rename", "take back", "save"])


@given(st.lists(st.tuples(STEPS, NAMES, NAMES), max_size=60))
def test_rows_are_used_again_and_serial_numbers_are_not(steps):
    registry, serials, given_away = TaskRegistry(), {}, set()
    for step, name, other in steps:
        there = name in serials
        if step == "add" and not there:
            free = set(range(1, len(serials) + 2))
            free -= {registry.row(n) for n in serials}
            registry.add(name)
            # The first that is free: there are no more rows than needed.
            assert registry.row(name) == min(free)
            serials[name] = registry.serial(name)
            assert serials[name] not in given_away
            given_away.add(serials[name])
        elif step == "remove" and there:
            registry.remove(name)
            del serials[name]
        elif step == "rename" and there and other not in serials:
            registry.rename(name, other)
            serials = {other if n == name else n: s for n, s in serials.items()}
        elif step == "take back" and not there:
            before = registry.get_state(), registry.get_rows()
            registry.add(name)
            registry.truncate(len(serials))
            assert (registry.get_state(), registry.get_rows()) == before
        elif step == "save":
            state, rows = registry.get_state(), registry.get_rows()
            registry = TaskRegistry()
            registry.set_state(state, json.loads(json.dumps(rows)))
            assert registry.get_rows() == rows
        assert registry.names == tuple(serials)
        assert {n: registry.serial(n) for n in serials} == serials
        rows = [registry.row(n) for n in serials]
        assert [registry.name(row) for row in rows] == list(serials)
        assert len(set(rows)) == len(rows)


def test_what_just_counts_is_not_saved():
    rows = TaskRows()
    for name in "abc":
        rows.add(name)
    assert rows.get_state("abc") == {}
    rows.remove("b")
    assert rows.get_state("ac") == {"rows": [0, None, 1]}
    rows.add("d")
    assert rows.get_state("acd") == {
        "rows": [0, 2, 1],
        "serials": [1, 3, 4],
        "next_serial": 5,
    }
    rows.remove("c")
    assert rows.get_state("ad") == {"serials": [1, 4], "next_serial": 5}


def test_the_numbers_of_foreign_keys_are_left_out():
    rows = TaskRows()
    rows.add("a")
    rows.skip_serial(7)
    rows.skip_serial(3)
    rows.add("b")
    assert rows.serial("b") == 8
    rows.renew_serial("a")
    assert rows.serial("a") == 9 and rows.row("a") == 1


@pytest.mark.parametrize(
    "state",
    [
        {"rows": [0]},
        {"rows": [0, 0]},
        {"rows": [0, 1, 2]},
        {"rows": [0, "1"]},
        {"rows": [0, True]},
        {"serials": [1]},
        {"serials": [1, 1], "next_serial": 3},
        {"serials": [0, 1], "next_serial": 3},
        {"serials": [1, 3], "next_serial": 3},
        {"serials": [1, 2.0], "next_serial": 3},
        {"next_serial": 2},
        {"next_serial": "3"},
    ],
)
def test_bad_states_are_refused_and_change_nothing(state):
    registry = TaskRegistry()
    registry.add("kept")
    with pytest.raises(ValueError, match="a row for each of 2 tasks"):
        registry.set_state([["a", "new"], ["b", "new"]], state)
    assert registry.names == ("kept",)
