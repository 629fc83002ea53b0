"""Puts the tables of the results into their places in `BENCHMARKS.md`."""

import pathlib

from benchmarks import records
from reproduce.pages import fill_in
from reproduce.records import write_text

DOCUMENT = pathlib.Path(__file__).parent.parent / "BENCHMARKS.md"


def report(document=DOCUMENT, output=records.RESULTS):
    """Rewrites the tables of a document from the results in a folder."""
    text = document.read_text()
    for name, record in records.read(output).items():
        text = fill_in(text, name, records.to_markdown(record))
    write_text(document, text)
