import json
import math

import pytest

from keras_bpn.evaluation import summarize
from reproduce import incremental
from reproduce import report
from reproduce import storage
from reproduce import tables
from reproduce.claims import Claim
from reproduce.claims import of_incremental
from reproduce.comparison import last_accuracies
from reproduce.experiments import EXPERIMENTS
from reproduce.run_file import RunFile
from reproduce.search import SEED
from tests.reproduce.test_comparison import result_of

COMPARISONS = {
    name: module.COMPARISON
    for name, module in EXPERIMENTS.items()
    if hasattr(module, "COMPARISON")
}
with_results = pytest.mark.parametrize(
    "comparison",
    [c for c in COMPARISONS.values() if c.complete],
    ids=lambda comparison: comparison.name,
)


def test_the_page_is_what_the_files_say():
    assert report.PAGE.read_text() == report.page()


def test_the_readme_is_what_the_files_say():
    assert report.README.read_text() == report.readme()


@with_results
def test_tables_are_what_the_runs_say(comparison):
    results = comparison.results()
    table = comparison.table(comparison.name, results) + "\n"
    assert (comparison.folder / "table.md").read_text() == table
    values = last_accuracies(results)
    assert (comparison.folder / "results.csv").read_text() == values


@with_results
def test_all_seeds_have_the_settings_that_were_chosen(comparison):
    lines = RunFile(comparison.folder / "runs.json").lines
    names = [line["run"]["contender"]["name"] for line in lines]
    seeds = [line["run"]["seed"] for line in lines]
    assert set(names) == set(comparison.methods)
    assert len(set(zip(names, seeds))) == len(lines)
    assert all(names.count(name) == comparison.seeds for name in set(names))
    source = getattr(comparison, "base", comparison)
    chosen = json.loads((source.folder / "search.json").read_text())["chosen"]
    for line, name in zip(lines, names):
        expected = chosen.get(comparison.settings_of.get(name, name))
        if hasattr(comparison, "variants"):
            expected = comparison.variants[name].settings(chosen)
        assert line["run"]["settings"] == expected
        assert not line["run"]["held_out"]
        assert line["run"]["seed"] < SEED


@with_results
def test_every_method_had_the_same_number_of_trials(comparison):
    if hasattr(comparison, "variants"):
        pytest.skip("It has searched for nothing.")
    lines = RunFile(comparison.folder / "search_runs.json").lines
    runs = [line["run"] for line in lines]
    assert all(run["held_out"] for run in runs)
    trials = {}
    for run in runs:
        key = run["num_tasks"], run["seed"]
        counts = trials.setdefault(key, {})
        name = run["contender"]["name"]
        counts[name] = counts.get(name, 0) + 1
    searched = set(comparison.methods) - set(comparison.settings_of)
    for counts in trials.values():
        assert set(counts) == searched
        assert len(set(counts.values())) == 1


def test_the_table_of_storage_is_what_the_runs_say():
    lines = RunFile(report.RESULTS / "storage" / "runs.json").lines
    text = (report.RESULTS / "storage" / "table.md").read_text()
    assert text == storage.table(lines) + "\n"


def test_claims_in_words():
    ours = summarize([0.80, 0.82])
    claim = Claim("Table 1", "BD+EWC, task 1", 0.9, ours)
    # Its interval is 0.81 ± 12.7 * 0.01.
    assert claim.sentence() == (
        "Ours is 0.090 lower, within the 95% interval of the seeds."
    )
    ours = summarize([0.951, 0.953])
    assert Claim("", "", 0.9, ours).sentence() == "Ours is 0.052 higher."
    assert Claim("", "", 0.952, ours).sentence() == "Agrees."


def test_claims_of_an_incremental_experiment():
    rows = [[1.0], [0.5, 1.0], [0.98, 0.5, 0.75]]
    results = {"BD+EWC": result_of(rows, rows), "STL": result_of(rows)}
    found = of_incremental("incremental-mnist", results)
    assert [claim.what for claim in found] == [
        "BD+EWC, task 1 after all tasks",
        "STL, task 1",
    ]
    assert found[0].paper == 0.98 == found[0].ours.mean
    assert "Agrees." in report.claim_table(found)


def test_tables_by_hand():
    assert tables.markdown(["a", "b"], [["x", "1"]]) == (
        "| a | b |\n| --- | ---: |\n| x | 1 |"
    )
    assert tables.mean_and_spread(summarize([0.5, 0.7])) == "0.600 ±0.141"
    assert tables.mean_and_spread(summarize([0.5])) == "0.500"
    assert tables.mean_and_spread(summarize([])) == ""
    assert tables.comma_separated(["a"], [["x,y"]]) == 'a\n"x,y"\n'


def test_rows_of_table_1_stand_beside_the_paper():
    rows = [[1.0], [0.5, 1.0], [0.98, 0.5, 0.75]]
    text = incremental.table("incremental-mnist", {"BD+EWC": result_of(rows)})
    assert "| BD+EWC | 0.980 | 0.980 |" in text
    assert "| 8 | 4,808 | 1 | 2 |" in text


@pytest.mark.parametrize("name", COMPARISONS)
def test_every_experiment_can_be_made_small(name):
    quick = COMPARISONS[name].quick_version()
    assert quick.seeds <= 2
    assert all(count <= 2 for count, _, _ in quick.budget.rounds)
    assert quick.protocol.epochs <= COMPARISONS[name].protocol.epochs
    assert math.isfinite(quick.protocol.num_tasks)
