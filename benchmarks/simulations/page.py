"""Write what `python -m benchmarks.simulate` printed into docs/validation.md.

python -m benchmarks.simulations.page FILE [FILE ...]

Each file holds one or more printed tables.  The rows of a figure become a row of the page, between
its marks; what else is on the page stays.  If a setting was drawn twice, the later file counts.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from scipy.stats import binom

PAGE = Path("docs/validation.md")
START, END = "<!-- simulated figures: written by a command -->", "<!-- end of simulated figures -->"
HEAD = (
    "| Figure | Settings | Repeats each | Lowest coverage | at | Mean | p, if all cover 95 % |",
    "|---|---|---|---|---|---|---|",
)
# A setting in which an interval is rarer tells nothing of its coverage.
FEWEST = 20
TITLE = re.compile(r"### (.+), ([\d,]+) repeats each")


@dataclass(frozen=True, slots=True)
class Row:
    """covered, given: in percent."""

    repeats: int
    given: float
    covered: float

    @property
    def n(self) -> int:
        return round(self.given / 100 * self.repeats)

    @property
    def p(self) -> float:
        """Of so low a coverage by chance, if the interval covers 95 %."""
        return float(binom.cdf(round(self.covered / 100 * self.n), self.n, 0.95))


def lines_of(printed: str) -> Iterator[str]:
    """Yield a row for each figure: how many settings, and the one that chance explains least."""
    name, repeats = "", 0
    found: dict[str, dict[str, Row]] = {}
    for line in printed.splitlines():
        if line.startswith("### "):
            title = TITLE.match(line)
            name, repeats = (title[1], int(title[2].replace(",", ""))) if title else ("", 0)
        elif repeats and (cells := numbers(line)):
            figure, _, setting = cells[0].rpartition(": ")
            given, covered = (float(cell.rstrip("%")) for cell in cells[1:3])
            # What was drawn later counts, so that single settings can be drawn more often.
            found.setdefault(figure or name, {})[setting] = Row(repeats, given, covered)
    for figure, rows in found.items():
        if telling := {setting: row for setting, row in rows.items() if row.n >= FEWEST}:
            yield row_of(figure, telling)


def numbers(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    covered = len(cells) == 5 and cells[1].endswith("%") and cells[2].endswith("%")
    return cells if covered else []


def row_of(figure: str, rows: dict[str, Row]) -> str:
    place, low = min(rows.items(), key=lambda one: (one[1].p, one[1].covered))
    mean = sum(row.covered for row in rows.values()) / len(rows)
    least, most = (of(row.repeats for row in rows.values()) for of in (min, max))
    repeats = f"{least:,}" if least == most else f"{least:,} to {most:,}"
    at = place if least == most else f"{place} ({low.repeats:,} repeats)"
    name = figure[0].upper() + figure[1:]
    p = 1 - (1 - low.p) ** len(rows)
    cells = [name, str(len(rows)), repeats, f"{low.covered:.1f} %", at, f"{mean:.1f} %"]
    return f"| {' | '.join(cells)} | {p:.2f} |"


def main() -> None:
    printed = "\n".join(Path(name).read_text(encoding="utf-8") for name in sys.argv[1:])
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(START, 1)
    there, after = rest.split(END, 1)
    # Figures that these files don't hold keep their rows.
    rows = {line.split("|")[1]: line for line in there.splitlines() if line.startswith("| ")}
    rows |= {line.split("|")[1]: line for line in lines_of(printed)}
    rows.pop(" Figure ", None)
    table = [*HEAD, *rows.values()]
    PAGE.write_text(before + "\n".join([START, "", *table, "", END]) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
