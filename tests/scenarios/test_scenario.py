import collections.abc
import json

import pytest

from keras_bpn.scenarios import Digits
from keras_bpn.scenarios import Scenario
from keras_bpn.scenarios import Task


class Counting(Scenario):
    """Tasks that count how often they are made."""

    num_classes = 3

    def __init__(self, **kwargs):
        super().__init__("counting", **kwargs)
        self.made = []

    def __len__(self):
        return 4

    def make_task(self, index):
        self.made.append(index)
        return Task(f"task {index}", (index,), self.load)

    def load(self, split):
        raise AssertionError("Making a task must read nothing.")


def test_is_a_sequence_of_tasks_that_are_made_once():
    scenario = Counting()
    assert isinstance(scenario, collections.abc.Sequence)
    assert len(scenario) == 4 and scenario.made == []
    assert scenario[2].name == "task 2" and scenario.made == [2]
    assert scenario[-1] is scenario[3] is scenario[3]
    assert [task.name for task in scenario[1:3]] == ["task 1", "task 2"]
    assert scenario[::-1][0] is scenario[3]
    assert [task.classes for task in scenario] == [(0,), (1,), (2,), (3,)]
    assert sorted(scenario.made) == [0, 1, 2, 3]
    assert scenario[1] in scenario and scenario.index(scenario[2]) == 2


@pytest.mark.parametrize("index", [4, -5, 100])
def test_an_index_outside(index):
    with pytest.raises(IndexError, match=f"4 tasks.*Received: {index}"):
        Counting()[index]


@pytest.mark.parametrize(
    "arguments, message",
    [
        ({"seed": -1}, "seed"),
        ({"seed": "a"}, "seed"),
        ({"batch_size": 0}, "Received: batch_size=0"),
        ({"batch_size": 3.5}, "batch_size"),
    ],
)
def test_arguments_outside_their_range(arguments, message):
    with pytest.raises(ValueError, match=message):
        Counting(**arguments)


def test_tasks_have_seeds_of_their_own():
    scenario = Counting(seed=1)
    seeds = [scenario.task_seed(i) for i in range(4)]
    assert len(set(seeds)) == 4
    assert seeds == [Counting(seed=1).task_seed(i) for i in range(4)]
    assert seeds != [Counting(seed=2).task_seed(i) for i in range(4)]


def test_config_is_for_json():
    assert json.loads(json.dumps(Counting(seed=3).get_config())) == {
        "class_name": "Counting",
        "name": "counting",
        "seed": 3,
        "batch_size": 32,
        "multi_head": False,
    }
    assert repr(Digits()) == "<Digits 'digits', 5 tasks>"
