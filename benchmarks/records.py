"""The files that measurements are kept in."""

import json
import pathlib

from benchmarks.tables import Table
from reproduce.records import write_json

RESULTS = pathlib.Path(__file__).parent / "results"


def write(name, tables, settings, output=RESULTS):
    """Writes what a benchmark has measured to `output/name.json`."""
    record = {
        "settings": settings,
        "tables": [table.to_dict() for table in tables],
    }
    command = f"python -m benchmarks {name}"
    write_json(pathlib.Path(output) / f"{name}.json", record, command)


def read(output=RESULTS):
    """Returns the records in a folder by the name of their benchmark."""
    return {
        path.stem: json.loads(path.read_text())
        for path in sorted(pathlib.Path(output).glob("*.json"))
    }


def to_markdown(record):
    """Returns the tables of a record, and where and when they were measured."""
    tables = [Table.from_dict(t).to_markdown() for t in record["tables"]]
    machine, versions = record["machine"], record["versions"]
    source = (
        f"`{record['command']}`, {record['date']}: {machine['cpu']}, "
        f"{machine['cores']} cores, {machine['memory_gb']} GB; "
        + ", ".join(f"{name} {version}" for name, version in versions.items())
        + "."
    )
    return "\n\n".join([*tables, source])
