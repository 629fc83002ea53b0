import json

import pytest

from benchmarks.tables import Row
from benchmarks.tables import Table

TABLE = Table(
    "Steps",
    [
        Row("plain", 2.0, "ms"),
        Row("ours", 2.4, "ms", 1.2, (1.125, 1.5), "<= 1.25"),
        Row("theirs", 123456.7, "ms", 61728.0, None, "<= 1.25"),
    ],
    ("model", "per step", "to plain"),
    "A note.",
)


@pytest.mark.parametrize(
    ("value", "ratio", "limit", "met"),
    [
        (1.0, None, None, None),
        (1.0, None, "<= 1", True),
        (1.0, None, "< 1", False),
        # With a ratio, that is what is limited.
        (1.0, 3.0, ">= 3", True),
        (1.0, 3.0, "> 3", False),
        (9.0, 2.999, ">= 3", False),
    ],
)
def test_limits(value, ratio, limit, met):
    assert Row("a", value, "", ratio, None, limit).met is met


@pytest.mark.parametrize("limit", ["3", ">=3", "== 3", ">= three"])
def test_limits_that_say_nothing_are_refused(limit):
    with pytest.raises(ValueError, match="Received: limit="):
        Row("a", 1.0, limit=limit)


def test_markdown():
    assert TABLE.to_markdown().splitlines() == [
        "**Steps**",
        "",
        "| model | per step | to plain | limit | met |",
        "| --- | --- | --- | --- | --- |",
        "| plain | 2.00 ms |  |  |  |",
        "| ours | 2.40 ms | 1.20 (1.12 to 1.50) | <= 1.25 | yes |",
        "| theirs | 123,457 ms | 61,728 | <= 1.25 | **no** |",
        "",
        "A note.",
    ]


def test_columns_without_content_are_left_out():
    lines = Table("T", [Row("a", 0.01234)]).to_markdown().splitlines()
    assert lines[2:] == ["|  | measured |", "| --- | --- |", "| a | 0.0123 |"]


def test_json_and_back():
    record = json.loads(json.dumps(TABLE.to_dict()))
    assert [row["met"] for row in record["rows"]] == [None, True, False]
    assert Table.from_dict(record) == TABLE
