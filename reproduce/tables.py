"""Results as Markdown and as CSV."""

import csv
import io
import math


def markdown(heads, rows) -> str:
    """Returns a table.

    Args:
        heads: List of strings.
        rows: List of lists of strings, the first of each the name of its row.
    """
    marks = ["---", *["---:"] * (len(heads) - 1)]
    lines = [heads, marks, *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def mean_and_spread(summary, digits=3) -> str:
    """Returns a mean over seeds and, behind it, the standard deviation."""
    if math.isnan(summary.mean):
        return ""
    text = f"{summary.mean:.{digits}f}"
    return text if math.isnan(summary.std) else f"{text} ±{summary.std:.3f}"


def seeds(result) -> str:
    """Returns how many runs a result has, and how many failed."""
    count = f"{len(result.histories)}"
    return f"{count}, {result.failed} failed" if result.failed else count


def settings_text(settings) -> str:
    """Returns settings in a line."""
    return ", ".join(f"{name} {value}" for name, value in settings.items())


def comma_separated(heads, rows) -> str:
    """Returns a CSV file."""
    file = io.StringIO()
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(heads)
    writer.writerows(rows)
    return file.getvalue()
