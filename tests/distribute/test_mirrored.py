"""One machine with several devices computes what one device does."""

import pytest

from tests.distribute import cases
from tests.distribute import processes

FAST = "BD with many methods"
LIMIT = 1e-6


@pytest.fixture(scope="module")
def results():
    arguments = (FAST, "saved", "named_modes", "refuses_steps", "refusals")
    return processes.run("mirrored", *arguments)[0]


def assert_equal(differences):
    assert differences
    for part, difference in differences.items():
        assert difference <= LIMIT, (part, difference)


@pytest.mark.parametrize("name", [FAST, "saved", "named_modes"])
def test_equals_one_device(results, name):
    assert_equal(results[name])


def test_all_replicas_refuse_a_step(results):
    refused = results["refuses_steps"]
    assert "Expected finite gradients" in refused["error"]
    assert refused["changed"] == 0.0


@pytest.mark.parametrize(
    "name, message",
    [
        ("clipnorm", "clip the gradients of each replica"),
        ("clipvalue", "clip the gradients of each replica"),
        ("global_clipnorm", "clip the gradients of each replica"),
        ("gradient_accumulation_steps", "cannot accumulate"),
        ("reduction", "reduction='sum'"),
        ("ignore_class", "ignore_class=1"),
        ("jit_compile", "XLA compiles for one device"),
        ("steps_per_execution", "steps_per_execution=2"),
        ("optimizer outside", "optimizer to be made inside"),
        ("model outside", "model to be built inside"),
        ("fit inside", "trained outside of `strategy.scope()`"),
    ],
)
def test_refuses(results, name, message):
    assert message in results["refusals"][name]


def test_refusals_change_nothing(results):
    assert results["refusals"]["tasks"] == []


@pytest.mark.slow
def test_documented_example_runs():
    (results,) = processes.run("mirrored", "documented")
    assert results["documented"] == ["0/1", "2/3"]


@pytest.mark.slow
def test_every_method_equals_one_device():
    names = [name for name in cases.CASES if name != FAST]
    names += ["saved, for one device", "learn"]
    (results,) = processes.run("mirrored", *names)
    for name in names:
        assert_equal(results[name])
