import itertools

import pytest

from benchmarks import harness
from benchmarks.harness import alternate
from benchmarks.harness import compare
from benchmarks.harness import paired_ratio


def test_contenders_run_in_turn_and_the_warmup_does_not_count():
    calls, numbers = [], itertools.count()

    def contender(name):
        def work():
            calls.append(name)
            return next(numbers)

        return work

    seconds = alternate({"a": contender("a"), "b": contender("b")}, rounds=2)
    assert calls == ["a", "b"] * 3
    assert seconds == {"a": [2.0, 4.0], "b": [3.0, 5.0]}


def test_contenders_that_return_nothing_are_timed_from_outside(monkeypatch):
    # The clock is read at the start and the end of each unit of work.
    clock = iter([0.0, 1.0, 10.0, 13.0])
    monkeypatch.setattr(harness.time, "perf_counter", lambda: next(clock))
    seconds = alternate({"a": lambda: None}, rounds=2, warmup=0)
    assert seconds == {"a": [1.0, 3.0]}


def test_ratios_are_of_the_same_round():
    # By round 2/1, 6/2, 16/4, 50/10 and 60/10: 2, 3, 4, 5 and 6. The ratio of
    # the medians, 16/4, would be the same, that of the means 134/27.
    ratio, spread = paired_ratio([2, 6, 16, 50, 60], [1, 2, 4, 10, 10])
    assert ratio == 4.0 and spread == (3.0, 5.0)
    # A slow round falls on both and leaves no trace.
    assert paired_ratio([2.0, 20.0], [1.0, 10.0]) == (2.0, (2.0, 2.0))


@pytest.mark.parametrize("pair", [([], []), ([1.0], [1.0, 2.0])])
def test_ratios_need_the_same_rounds(pair):
    with pytest.raises(ValueError, match="Received: .* numbers"):
        paired_ratio(*pair)


def test_comparison_with_a_baseline():
    seconds = {"plain": [1.0, 2.0, 3.0], "ours": [2.0, 2.0, 9.0]}
    plain, ours = compare(seconds, "plain", {"ours": "<= 1.25"})
    assert plain.value == 2000.0 and plain.unit == "ms"
    assert plain.ratio is plain.spread is plain.limit is plain.met is None
    # Ratios 2, 1 and 3.
    assert ours.value == 2000.0 and ours.ratio == 2.0
    assert ours.spread == (1.5, 2.5)
    assert ours.limit == "<= 1.25" and ours.met is False
