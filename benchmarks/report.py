"""Puts the tables of the results into `BENCHMARKS.md`, between its marks.

A benchmark's place begins with the line `<!-- begin NAME -->` and ends with
`<!-- end NAME -->`. What stands anywhere else is left as it is.
"""

import pathlib
import re

from benchmarks import records
from reproduce.records import write_text

DOCUMENT = pathlib.Path(__file__).parent.parent / "BENCHMARKS.md"


def fill_in(text, results):
    """Returns the text with the tables of all results.

    Args:
        text: String, Markdown with a place for each result.
        results: Dictionary of records by the name of their benchmark.
    """
    for name, record in results.items():
        begin, end = f"<!-- begin {name} -->", f"<!-- end {name} -->"
        place = re.compile(f"{begin}\n.*?{end}", re.DOTALL)
        if len(place.findall(text)) != 1:
            raise ValueError(
                f"Expected one place for the tables of {name!r}, the lines "
                f"{begin!r} and {end!r}. "
                f"Received: {len(place.findall(text))} of them"
            )
        table = records.to_markdown(record)
        filled = f"{begin}\n\n{table}\n\n{end}"
        text = place.sub(lambda _: filled, text)
    return text


def report(document=DOCUMENT, output=records.RESULTS):
    """Rewrites the tables of a document from the results in a folder."""
    text = fill_in(document.read_text(), records.read(output))
    write_text(document, text)
