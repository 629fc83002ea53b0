import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduce import search
from reproduce.contenders import Contender
from reproduce.contenders import parse
from reproduce.protocols import Protocol
from reproduce.search import SEED
from reproduce.search import Budget
from reproduce.search import choose_settings
from reproduce.search import score
from reproduce.search import trials_of
from reproduce.search_spaces import Choice
from reproduce.search_spaces import LogUniform
from reproduce.search_spaces import space_of

PROTOCOL = Protocol("clusters", 3)


@given(fraction=st.floats(0, 1, exclude_max=True))
def test_points_lie_in_their_space(fraction):
    assert 1e-3 <= LogUniform(1e-3, 10.0, 1.0).at(fraction) <= 10.0
    assert Choice((1, 2, 3)).at(fraction) in (1, 2, 3)


def test_points_by_hand():
    space = LogUniform(1e-4, 1e-2, default=1e-3)
    assert [space.at(f) for f in (0, 0.25, 0.5)] == [1e-4, 3.16e-4, 1e-3]
    choice = Choice(("mean", "mode"))
    assert [choice.at(f) for f in (0, 0.49, 0.5)] == ["mean", "mean", "mode"]
    assert choice.default == "mean"


@pytest.mark.parametrize("method", ["STL", "BD+EWC", "GD+EWC", "SLNID", "IMM"])
def test_trials_begin_with_the_defaults_and_are_the_same_again(method):
    trials = trials_of(method, 12)
    assert len(trials) == 12 and trials == trials_of(method, 12)
    space = space_of(method)
    assert trials[0] == {n: d.default for n, d in space.items()}
    assert all(list(trial) == list(space) for trial in trials)
    # Evenly: no third of the learning rates is left out.
    rates = sorted(trial["learning_rate"] for trial in trials[1:])
    assert rates[0] < 1.5e-4 and rates[-1] > 6e-4


def test_what_is_searched_for_a_method():
    assert set(space_of("BD+EWC")) == {
        "learning_rate",
        "strength",
        "epsilon",
        "hidden_gain",
    }
    assert set(space_of("GD+EWC")) == {
        "learning_rate",
        "strength",
        "hidden_gain",
    }
    assert set(space_of("PSP")) == {"learning_rate"}
    with pytest.raises(KeyError, match="XYZ"):
        space_of("XYZ")


def test_scores_by_hand():
    assert score({"accuracy": [[1.0], [0.5, 1.0]]}) == 0.75
    # The last row alone counts.
    assert score({"accuracy": [1.0, [0.25, 0.25]]}) == 0.25
    assert score({"failed": "Expected finite gradients"}) == 0.0


@pytest.fixture
def executed(monkeypatch):
    """Runs whose accuracy is highest at a strength of 100, if they learn two
    tasks, and at the lowest learning rate, if they learn all."""
    runs = []

    def execute_all(wanted, file, jobs=None):
        results = []
        for run in wanted:
            runs.append(run)
            rate = run.settings["learning_rate"]
            strength = run.settings.get("strength", 1.0)
            value = 1 / (1 + abs(strength - 100))
            if run.num_tasks is None:
                value = 1 - 100 * rate
            result = {"accuracy": [[1.0], [value, value]]}
            file.add(run, result, 1.0)
            results.append(result)
        return results

    monkeypatch.setattr(search, "execute_all", execute_all)
    return runs


def test_the_best_on_held_out_data_is_chosen(executed, tmp_path):
    contenders = [Contender("EWC", "EWC"), parse("GEM(10)")]
    chosen = choose_settings(
        contenders, PROTOCOL, Budget(((6, None, 1),)), tmp_path
    )
    assert len(executed) == 12
    assert all(run.held_out and run.seed == SEED for run in executed)
    trials = trials_of("EWC", 6)
    best = min(trials, key=lambda trial: trial["learning_rate"])
    assert chosen["EWC"] == best
    record = json.loads((tmp_path / "search.json").read_text())
    assert record["chosen"] == chosen
    assert record["protocol"] == dataclasses.asdict(PROTOCOL)
    accuracy = 1 - 100 * best["learning_rate"]
    assert record["held_out_accuracy"]["EWC"] == accuracy


def test_only_the_better_trials_learn_more(executed, tmp_path):
    budget = Budget(((6, 2, 1), (3, None, 1)))
    chosen = choose_settings(
        [Contender("EWC", "EWC")], PROTOCOL, budget, tmp_path
    )
    assert [run.num_tasks for run in executed] == [2] * 6 + [None] * 3
    trials = trials_of("EWC", 6)
    better = sorted(trials, key=lambda t: abs(t["strength"] - 100))[:3]
    assert [run.settings for run in executed[6:]] == better
    best = min(better, key=lambda trial: trial["learning_rate"])
    assert chosen["EWC"] == best


def test_the_mean_of_seeds_decides(executed, tmp_path, monkeypatch):
    # The first trial is best with one seed, and the second on average.
    values = {
        (0, SEED): 0.9,
        (1, SEED): 0.8,
        (0, SEED + 1): 0.2,
        (1, SEED + 1): 0.7,
    }
    trials = trials_of("EWC", 3)

    def execute_all(runs, file, jobs=None):
        results = []
        for run in runs:
            key = trials.index(run.settings), run.seed
            results.append({"accuracy": [[values.get(key, 0.0)]]})
            executed.append(key)
        return results

    monkeypatch.setattr(search, "execute_all", execute_all)
    budget = Budget(((3, None, 1), (2, None, 2)))
    chosen = choose_settings([parse("EWC")], PROTOCOL, budget, tmp_path)
    assert chosen["EWC"] == trials[1]
    assert executed[3:] == [
        (0, SEED),
        (0, SEED + 1),
        (1, SEED),
        (1, SEED + 1),
    ]
    record = json.loads((tmp_path / "search.json").read_text())
    assert record["held_out_accuracy"]["EWC"] == 0.75


def test_methods_that_were_searched_for_before_stay_in_the_file(
    executed, tmp_path
):
    budget = Budget(((2, None, 1),))
    choose_settings([parse("EWC")], PROTOCOL, budget, tmp_path)
    choose_settings([parse("SI")], PROTOCOL, budget, tmp_path)
    record = json.loads((tmp_path / "search.json").read_text())
    assert list(record["chosen"]) == ["EWC", "SI"]
    # With another protocol, they count no more.
    other = dataclasses.replace(PROTOCOL, epochs=7)
    choose_settings([parse("SI")], other, budget, tmp_path)
    record = json.loads((tmp_path / "search.json").read_text())
    assert list(record["chosen"]) == ["SI"]


def test_names_of_contenders():
    assert parse("BD+EWC") == Contender("BD+EWC", "BD+EWC")
    gem = parse("GEM(10)", memory_batch_size=32)
    assert gem.method == "GEM" and gem.own_heads
    assert gem.fixed == {"memory_per_class": 10, "memory_batch_size": 32}
    assert not parse("GEM(256), one head").own_heads
