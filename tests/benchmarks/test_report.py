import json
import re

import pytest

from benchmarks import records
from benchmarks.report import DOCUMENT
from benchmarks.report import report
from benchmarks.tables import Row
from benchmarks.tables import Table
from reproduce.pages import fill_in

PROSE = "# Speed\n\n<!-- begin steps -->\n{}<!-- end steps -->\n\nThe end.\n"


def test_tables_are_rewritten_and_the_prose_is_not(tmp_path):
    document = tmp_path / "SPEED.md"
    document.write_text(PROSE.format("| old |\n"))
    for value in (1.0, 2.0):
        tables = [Table("Steps", [Row("a", value, "ms", limit="<= 1")])]
        records.write("steps", tables, {"rounds": 3}, tmp_path)
        report(document, tmp_path)
    text = document.read_text()
    before, after = PROSE.split("{}")
    assert text.startswith(before) and text.endswith(after)
    assert "| a | 2.00 ms | <= 1 | **no** |" in text
    assert "old" not in text and "1.00 ms" not in text
    assert "`python -m benchmarks steps`" in text
    report(document, tmp_path)
    assert document.read_text() == text


def test_records_say_where_they_come_from(tmp_path):
    records.write("steps", [Table("Steps", [])], {"rounds": 3}, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["steps.json"]
    record = json.loads((tmp_path / "steps.json").read_text())
    assert record["settings"] == {"rounds": 3}
    assert record["date"].count("-") == 2
    needed = {"python", "keras", "tensorflow", "numpy", "keras_bpn"}
    assert needed <= set(record["versions"])
    machine = record["machine"]
    assert machine["cpu"] and machine["cores"] > 0
    assert machine["memory_gb"] > 0


@pytest.mark.parametrize("text", ["", PROSE + PROSE, "<!-- begin steps -->"])
def test_a_result_needs_one_place(text):
    with pytest.raises(ValueError, match="Expected one place .*'steps'"):
        fill_in(text, "steps", "| a |")


def test_the_page_shows_the_results():
    results, text = records.read(), DOCUMENT.read_text()
    for name, record in results.items():
        assert fill_in(text, name, records.to_markdown(record)) == text
    # Places of what was not measured yet are empty.
    places = re.findall("<!-- begin (.*) -->\n<!-- end", text)
    assert not set(places) & set(results)
    assert text.count("<!-- begin ") == len(places) + len(results)
    for record in results.values():
        for table in record["tables"]:
            again = Table.from_dict(table).to_dict()
            assert json.loads(json.dumps(again)) == table
