import re

from hypothesis import given
from hypothesis import strategies as st

from keras_bpn.export.signature_names import signature_names


def test_names_that_are_valid_stay():
    tasks = ["birds", "Letters_2", "a" * 60]
    assert list(signature_names(tasks).values()) == tasks


def test_names_are_made_valid():
    assert signature_names(["0/1", "a b", "_x_", "é", "7", "!"]) == {
        "0/1": "task_0_1",
        "a b": "a_b",
        "_x_": "x",
        "é": "task",
        "7": "task_7",
        "!": "task_2",
    }


def test_names_that_collide_are_numbered():
    names = signature_names(["a b", "a/b", "a_b_2", "A-B"])
    assert names == {
        "a b": "a_b",
        "a/b": "a_b_2",
        "a_b_2": "a_b_2_2",
        "A-B": "A_B_3",
    }


def test_names_that_are_taken_by_tensorflow_are_changed():
    names = signature_names(["serving_default", "variables", "Serve"])
    assert list(names.values()) == [
        "task_serving_default",
        "task_variables",
        "task_Serve",
    ]


@given(st.lists(st.text(min_size=1, max_size=300), unique=True, max_size=30))
def test_any_names_become_valid_and_distinct(tasks):
    names = signature_names(tasks)
    assert list(names) == tasks
    assert all(re.fullmatch("[A-Za-z][A-Za-z0-9_]*", n) for n in names.values())
    assert len({n.lower() for n in names.values()}) == len(tasks)
    assert all(len(n) < 80 for n in names.values())
