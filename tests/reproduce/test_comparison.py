import argparse
import dataclasses
import json
import os

import numpy as np
import pytest

from reproduce import clusters
from reproduce import incremental_cifar10
from reproduce import permuted_mnist
from reproduce.comparison import MISSING
from reproduce.comparison import last_accuracies
from reproduce.contenders import parse
from reproduce.packed_histories import pack
from reproduce.protocols import Protocol
from reproduce.result import Result
from reproduce.run_file import RunFile
from reproduce.runs import Run
from tests.reproduce.test_digits import run
from tests.reproduce.test_packed_histories import make_history

TINY = Protocol(
    "clusters", 2, outputs=3, layers=1, units=8, hidden_dim=4, epochs=1
)


def result_of(*rows_by_seed, **more):
    lines = []
    for seed, rows in enumerate(rows_by_seed):
        record = {**pack(make_history()), "masked": None, "bias_norms": []}
        record.update(accuracy=rows, epochs=[], **more)
        lines.append({"run": {"seed": seed, "settings": {}}, "result": record})
    for line in lines:
        line["seconds"] = 2.0
    return Result(lines)


def test_results_by_hand():
    result = result_of(
        [[1.0], [0.5, 1.0], [0.25, 0.5, 0.75]],
        [[0.5], [0.5, 1.0], [0.75, 1.0, 1.0]],
        masked=[1.0, 0.5, 0.0],
    )
    assert result.first_task().mean == 0.5
    assert result.average().mean == (0.5 + 2.75 / 3) / 2
    assert result.learned().mean == (2.75 / 3 + 2.5 / 3) / 2
    assert result.with_mask().mean == 0.5
    assert result.seconds == 4.0 and result.seeds == [0, 1]
    assert last_accuracies({"EWC": result}).splitlines()[:2] == [
        "method,seed,task,accuracy",
        "EWC,0,a,0.25",
    ]


def test_failed_runs_are_counted_and_not_averaged():
    good = result_of([[1.0], [0.5, 1.0], [0.25, 0.5, 0.75]])
    lines = [
        {"run": {"seed": 0, "settings": {}}, "seconds": 1.0}
        | {"result": {"failed": "Expected finite gradients"}},
        {"run": {"seed": 1, "settings": {}}, "seconds": 1.0}
        | {"result": {**pack(good.histories[0]), "masked": None}},
    ]
    lines[1]["result"]["bias_norms"] = []
    result = Result(lines)
    assert result.failed == 1 and result.seeds == [1]
    assert result.first_task().mean == 0.25


def test_ratios_are_those_of_pairs_of_seeds():
    rows = [[1.0], [1.0, 1.0]]
    better = result_of([*rows, [0.5, 0.5, 0.5]], [*rows, [0.9, 0.9, 0.9]])
    worse = result_of([*rows, [0.25, 0.25, 0.25]], [*rows, [0.6, 0.6, 0.6]])
    ratios = permuted_mnist.ratios({"BD+PSP": better, "PSP": worse})
    ((pair, ratio),) = ratios.items()
    assert pair == ("BD+PSP", "PSP")
    assert ratio.mean == pytest.approx((2.0 + 1.5) / 2)


def test_a_run_is_the_same_again():
    first = Run(parse("BD+EWC"), TINY, {"learning_rate": 0.01}, 3)
    other = Run(parse("PSP"), TINY, {"learning_rate": 0.01}, 3)
    results = [each.execute() for each in (first, other, first)]
    assert results[0] == results[2] != results[1]
    assert results[0]["tasks"] == ["black/red", "black/light blue"]
    assert len(results[0]["accuracy"][1]) == len(results[0]["masked"]) == 2
    # A hidden layer and the outputs.
    assert len(results[0]["bias_norms"]) == 2
    assert results[1]["bias_norms"] == []
    # Of what is masked out, nothing is predicted.
    masked, accuracy = results[0]["masked"], results[0]["accuracy"][1]
    assert all(m >= a for m, a in zip(masked, accuracy))


def test_runs_that_leave_the_range_of_numbers_say_so():
    result = Run(
        parse("EWC"), TINY, {"learning_rate": 1e38, "strength": 1e30}, 0
    ).execute()
    assert set(result) == {"failed"}
    assert "Expected finite gradients" in result["failed"]


@pytest.mark.slow
def test_a_comparison_from_search_to_figure(tmp_path, capsys):
    parser = argparse.ArgumentParser()
    clusters.COMPARISON.add_arguments(parser)
    arguments = ["--quick", "--output", str(tmp_path)]
    every = [*arguments, "--methods", "BD+EWC", "fine-tuning"]
    assert clusters.COMPARISON.run(parser.parse_args(every)) == 0
    assert "left] BD+EWC, seed 1" in capsys.readouterr().err
    assert (tmp_path / "regions.png").read_bytes().startswith(b"\x89PNG")
    table = (tmp_path / "table.md").read_text()
    assert "| BD+EWC | " in table and "| 2 |" in table
    assert len((tmp_path / "results.csv").read_text().splitlines()) == 9
    record = json.loads((tmp_path / "search.json").read_text())
    assert set(record["chosen"]) == {"BD+EWC", "fine-tuning"}
    lines = RunFile(tmp_path / "runs.json").lines
    assert [line["run"]["seed"] for line in lines] == [0, 0, 1, 1]
    settings = {json.dumps(line["run"]["settings"]) for line in lines}
    assert settings == {json.dumps(s) for s in record["chosen"].values()}
    # Once more, there is nothing to execute.
    assert clusters.COMPARISON.run(parser.parse_args(every)) == 0
    assert "left]" not in capsys.readouterr().err
    # And what is stored is what comes out again.
    repeat = parser.parse_args([*arguments, "--repeat", "BD+EWC"])
    assert clusters.COMPARISON.run(repeat) == 0
    assert "the same to the last digit" in capsys.readouterr().out


def test_settings_of_another_method_are_not_searched_for(monkeypatch, tmp_path):
    comparison = incremental_cifar10.COMPARISON
    searched = []

    def choose_settings(contenders, *arguments):
        searched.extend(contender.name for contender in contenders)
        return {name: {"margin": 0.5} for name in searched}

    monkeypatch.setattr("reproduce.comparison.choose_settings", choose_settings)
    chosen = comparison.choose(["GEM(150)", "GEM(256)"], tmp_path)
    assert searched == ["GEM(256)"]
    assert chosen == {m: {"margin": 0.5} for m in ("GEM(150)", "GEM(256)")}
    fixed = comparison.contender("GEM(150)").fixed
    assert fixed == {"memory_per_class": 150, "memory_batch_size": 32}


def test_without_the_data_set_a_message_says_what_is_needed(tmp_path):
    done = run("incremental-mnist", "--output", str(tmp_path))
    assert done.returncode == MISSING
    assert "incremental-mnist was not run." in done.stderr
    assert "Traceback" not in done.stderr
    assert not os.listdir(tmp_path)


def test_held_out_data_is_no_test_data():
    protocol = Protocol("mnist", 5)
    assert protocol.splits(held_out=True) == {
        "train": "train[:90%]",
        "test": "train[90%:100%]",
    }
    assert protocol.splits(held_out=False) == {
        "train": "train[:100%]",
        "test": "test[:100%]",
    }
    small = dataclasses.replace(protocol, train_percent=5)
    assert small.splits(held_out=True)["train"] == "train[:5%]"


def test_clusters_of_the_search_are_others():
    protocol = clusters.COMPARISON.protocol
    first, second = (protocol.scenario(True, seed) for seed in (0, 1))
    assert not np.allclose(first.centers, second.centers)
