"""Write what `python -m benchmarks.simulate` printed into docs/validation.md.

python -m benchmarks.simulations.page FILE [FILE ...]

Each file holds one or more printed tables.  Their worst and their best rows become a row of the
page, between its marks; what else is on the page stays.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

PAGE = Path("docs/validation.md")
START, END = "<!-- simulated figures: written by a command -->", "<!-- end of simulated figures -->"
# A setting in which an interval is rarer tells nothing of its coverage.
FEWEST = 20
TITLE = re.compile(r"### (?P<name>.+), (?P<repeats>[\d,]+) repeats each")


def lines_of(printed: str) -> Iterator[str]:
    """Yield a row for each figure of each table: how many settings, and the lowest coverage."""
    title = None
    found: dict[str, list[tuple[float, float, str]]] = {}
    for line in [*printed.splitlines(), "### "]:
        if line.startswith("### "):
            if title is not None:
                yield from rows_of(title["repeats"], found)
            title, found = TITLE.match(line), {}
            name = "" if title is None else title["name"]
        elif title is not None and (cells := numbers(line)):
            figure, _, setting = cells[0].rpartition(": ")
            given = float(cells[1].rstrip("%"))
            if given / 100 * int(title["repeats"].replace(",", "")) < FEWEST:
                continue
            value = (float(cells[2].rstrip("%")), given, setting)
            found.setdefault(figure or name, []).append(value)


def numbers(line: str) -> list[str]:
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    covered = len(cells) == 5 and cells[1].endswith("%") and cells[2].endswith("%")
    return cells if covered else []


def rows_of(repeats: str, found: dict[str, list[tuple[float, float, str]]]) -> Iterator[str]:
    for figure, rows in found.items():
        low, _, place = min(rows)
        mean = sum(row[0] for row in rows) / len(rows)
        name = figure[0].upper() + figure[1:]
        cells = [name, str(len(rows)), repeats, f"{low:.1f} %", place, f"{mean:.1f} %"]
        yield f"| {' | '.join(cells)} |"


def main() -> None:
    printed = "\n".join(Path(name).read_text(encoding="utf-8") for name in sys.argv[1:])
    page = PAGE.read_text(encoding="utf-8")
    before, rest = page.split(START, 1)
    there, after = rest.split(END, 1)
    # Figures that these files don't hold keep their rows.
    rows = {line.split("|")[1]: line for line in there.splitlines() if line.startswith("| ")}
    rows |= {line.split("|")[1]: line for line in lines_of(printed)}
    head = rows.pop(
        " Figure ", "| Figure | Settings | Repeats each | Lowest coverage | at | Mean |"
    )
    table = [head, "|---|---|---|---|---|---|", *rows.values()]
    PAGE.write_text(before + "\n".join([START, "", *table, "", END]) + after, encoding="utf-8")


if __name__ == "__main__":
    main()
