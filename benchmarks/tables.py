"""Tables of measurements, as Markdown and as JSON."""

import dataclasses
import operator

LIMITS = {
    ">=": operator.ge,
    "<=": operator.le,
    ">": operator.gt,
    "<": operator.lt,
}


@dataclasses.dataclass(frozen=True)
class Row:
    """What was measured of one contender.

    Args:
        name: The contender.
        value: Number, such as the median of its times.
        unit: String, the unit of `value`.
        ratio: Number, what `value` is beside that of another contender: the
            median over rounds. `None` for a contender that others are
            measured by.
        spread: Tuple of the lower and the upper quartile of the ratio.
        limit: What `ratio`, or `value` where there is no ratio, is to be, such
            as `"<= 1.25"`.
    """

    name: str
    value: float
    unit: str = ""
    ratio: float | None = None
    spread: tuple[float, float] | None = None
    limit: str | None = None

    def __post_init__(self):
        if self.spread is not None:
            object.__setattr__(self, "spread", tuple(self.spread))
        if self.limit is not None:
            self._parse_limit()

    @property
    def met(self) -> bool | None:
        """Whether the limit is met, `None` without a limit."""
        if self.limit is None:
            return None
        compare, bound = self._parse_limit()
        measured = self.value if self.ratio is None else self.ratio
        return bool(compare(measured, bound))

    def _parse_limit(self):
        sign, _, bound = self.limit.partition(" ")
        try:
            return LIMITS[sign], float(bound)
        except (KeyError, ValueError):
            raise ValueError(
                f"Expected a limit to be one of {list(LIMITS)}, a space and a "
                f"number. Received: limit={self.limit!r}"
            ) from None


@dataclasses.dataclass(frozen=True)
class Table:
    """Rows with a title.

    Args:
        title: String.
        rows: List of `Row`.
        columns: Tuple of the headings of the name, the value and the ratio.
            Columns without content are left out.
        note: String, a sentence that stands below the table.
    """

    title: str
    rows: list[Row]
    columns: tuple[str, str, str] = ("", "measured", "ratio")
    note: str = ""

    def to_dict(self) -> dict:
        """Returns what JSON can hold; with each row, whether it met its
        limit."""
        record = dataclasses.asdict(self)
        for row, entry in zip(self.rows, record["rows"]):
            entry["met"] = row.met
        return record

    @classmethod
    def from_dict(cls, record: dict) -> "Table":
        rows = [
            Row(**{k: v for k, v in entry.items() if k != "met"})
            for entry in record["rows"]
        ]
        columns = tuple(record["columns"])
        return cls(**{**record, "rows": rows, "columns": columns})

    def to_markdown(self) -> str:
        name, value, ratio = self.columns
        columns = {
            name: [row.name for row in self.rows],
            value: [_quantity(row.value, row.unit) for row in self.rows],
            ratio: [_ratio(row) for row in self.rows],
            "limit": [row.limit or "" for row in self.rows],
            "met": [_MET[row.met] for row in self.rows],
        }
        columns = [(h, cells) for h, cells in columns.items() if any(cells)]
        lines = [[heading for heading, _ in columns]]
        lines += [["---"] * len(columns)]
        lines += zip(*(cells for _, cells in columns))
        table = "\n".join("| " + " | ".join(cells) + " |" for cells in lines)
        parts = [f"**{self.title}**", table, self.note]
        return "\n\n".join(part for part in parts if part)


_MET = {None: "", True: "yes", False: "**no**"}


def _quantity(value, unit):
    return f"{_number(value)} {unit}".strip()


def _ratio(row):
    if row.ratio is None:
        return ""
    if row.spread is None:
        return _number(row.ratio)
    lower, upper = map(_number, row.spread)
    return f"{_number(row.ratio)} ({lower} to {upper})"


def _number(value):
    """Returns a number with three digits, or all that stand before the
    point."""
    if value == 0 or abs(value) >= 100:
        return f"{value:,.0f}"
    for decimals, least in enumerate((10, 1, 0.1, 0.01), 1):
        if abs(value) >= least:
            return f"{value:.{decimals}f}"
    return f"{value:.2g}"
