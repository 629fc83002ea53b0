"""Every benchmark runs, on the smallest sizes. Nothing is timed here."""

import importlib
import json
import os
import sys

import pytest

from benchmarks import command
from benchmarks.__main__ import BENCHMARKS
from benchmarks.__main__ import main
from benchmarks.peers.jobs import PEER_PYTHON
from benchmarks.tables import Table

# They start processes of their own.
APART = ("devices", "peers")
SLOW = ("epochs", "pipelines", "scale", "serving", "hundred_tasks")


def check(name, folder, capsys):
    """Runs a benchmark; its file and what it prints have the same tables."""
    module = importlib.import_module(f"benchmarks.{name}")
    assert command.run(name, quick=True, output=folder) == 0
    record = json.loads((folder / f"{name}.json").read_text())
    assert record["command"] == f"python -m benchmarks {name}"
    assert record["settings"] == {**module.SETTINGS, **module.QUICK}
    tables = [Table.from_dict(table) for table in record["tables"]]
    printed = capsys.readouterr().out
    for table in tables:
        assert table.rows and table.to_markdown() in printed


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else [])
        for name in BENCHMARKS
        if name not in APART
    ],
)
def test_benchmarks_run(name, tmp_path, capsys):
    check(name, tmp_path, capsys)


@pytest.mark.slow
def test_devices_run(tmp_path, capsys):
    check("devices", tmp_path, capsys)


@pytest.mark.slow
@pytest.mark.skipif(
    PEER_PYTHON not in os.environ,
    reason=f"{PEER_PYTHON} does not name a Python with Avalanche",
)
def test_peers_run(tmp_path, capsys):
    check("peers", tmp_path, capsys)


def test_unknown_benchmarks_are_named(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["benchmarks", "training", "speed"])
    with pytest.raises(SystemExit):
        main()
    assert "received: ['speed']" in capsys.readouterr().err
