"""Every benchmark runs, on the smallest sizes. Nothing is timed here."""

import importlib
import json

import pytest

from benchmarks import command
from benchmarks.__main__ import BENCHMARKS
from benchmarks.tables import Table


@pytest.mark.parametrize("name", BENCHMARKS)
def test_benchmarks_run(name, tmp_path, capsys):
    module = importlib.import_module(f"benchmarks.{name}")
    assert command.run(name, quick=True, output=tmp_path) == 0
    record = json.loads((tmp_path / f"{name}.json").read_text())
    assert record["command"] == f"python -m benchmarks {name}"
    assert record["settings"] == {**module.SETTINGS, **module.QUICK}
    tables = [Table.from_dict(table) for table in record["tables"]]
    printed = capsys.readouterr().out
    for table in tables:
        assert table.rows and table.to_markdown() in printed
