import sys
import time


class ProgressLine:
    """A line that says what is running and how much is left.

    On a terminal the line is rewritten in place; in a log file there is a line
    for every message given with `keep=True`.

    Args:
        total: Number of units of work.
    """

    def __init__(self, total: int):
        self.total = total
        self.done = 0
        self._start = time.monotonic()
        self._on_terminal = sys.stderr.isatty()
        self._width = 0

    def advance(self, message: str, keep: bool = False) -> None:
        """Counts a unit of work as done and shows the message."""
        self.done += 1
        elapsed = time.monotonic() - self._start
        left = elapsed / self.done * (self.total - self.done)
        line = f"[{self.done}/{self.total}, {left:.0f} s left] {message}"
        if self._on_terminal:
            print(f"\r{line:<{self._width}}", end="", file=sys.stderr)
            self._width = len(line)
        elif keep:
            print(line, file=sys.stderr, flush=True)

    def close(self) -> None:
        if self._on_terminal:
            print(f"\r{'':<{self._width}}\r", end="", file=sys.stderr)
