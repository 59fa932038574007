"""A line on standard error that says how far something is: on a terminal and in a notebook."""

import sys
from types import TracebackType

_WIDTH = 79
_BAR = 20


class Progress:
    """Shows one line, which each call of `show` writes again.

    Args:
        is_wanted: None: on a terminal and in a notebook, not in a file or a pipe.
    """

    def __init__(self, is_wanted: bool | None) -> None:
        self._stream = sys.stderr
        # A notebook's stream is no terminal, and shows such a line as one does.
        in_notebook = type(self._stream).__module__.startswith("ipykernel")
        self._is_shown = in_notebook or self._stream.isatty() if is_wanted is None else is_wanted
        self._last = ""

    def __enter__(self) -> "Progress":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._last:
            self._stream.write("\n")
            self._stream.flush()

    def show(self, name: str, done: int | None, total: int | None, *more: str) -> None:
        """Write the line if it differs from the last one.

        Args:
            done, total: How many of how many; None if that isn't known yet.
            more: What else there is to say. What is empty is left out.
        """
        if not self._is_shown:
            return
        parts = [f"{name} {bar(done, total)}", *filter(None, more)]
        line = " · ".join(parts)[:_WIDTH]
        if line != self._last:
            self._stream.write(f"\r{line.ljust(len(self._last))}")
            self._stream.flush()
            self._last = line


def bar(done: int | None, total: int | None) -> str:
    if done is None or total is None:
        return f"[{' ' * _BAR}]"
    share = min(1.0, done / total) if total else 1.0
    filled = int(share * _BAR)
    return f"[{'#' * filled}{' ' * (_BAR - filled)}] {int(100 * share)} % · {done} of {total}"


def in_words(seconds: float | None) -> str:
    """Return how long something still takes, such as `about 3 min left`."""
    if seconds is None:
        return ""
    minutes = seconds / 60
    if minutes < 1:
        return "less than 1 min left"
    return f"about {minutes:.0f} min left" if minutes < 90 else f"about {minutes / 60:.0f} h left"
