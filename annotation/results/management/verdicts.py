"""What commands share that end with a verdict or say who labels which example: exit codes, files,
and waiting for people."""

import json
import sys
import time
from argparse import ArgumentTypeError
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from annotation.results.delivery.gate import votes_missing
from annotation.results.tables.exports import write_text
from judging.core.commands import FairJudgeCommand, decimal_argument
from judging.core.errors import Interrupted
from judging.core.formatting import number_of
from judging.methods.intervals.looks import Ruling
from judging.runs.models import Run

# The exit codes of docs/commands.md. Failures of the command itself have other ones.
EXITS = {Ruling.PASS: 0, Ruling.FAIL: 10, Ruling.INCONCLUSIVE: 11}
LOOK_EVERY = 5.0


def add_outputs(parser: CommandParser) -> None:
    parser.add_argument("--junit", type=Path, metavar="FILE", help="write JUnit XML; - is stdout")
    parser.add_argument(
        "--markdown", type=Path, metavar="FILE", help="write a Markdown summary; - is stdout"
    )


def minutes(text: str) -> float:
    """Parse how long to wait, so that a slip of the pen doesn't wait for ever, or not at all."""
    value = decimal_argument(text)
    if value < 0:
        raise ArgumentTypeError(f"{text!r} is less than nothing")
    return float(value)


def write_outputs(options: dict[str, Any], **texts: str) -> None:
    """Write each of these texts to the file that the option of the same name gives, if any."""
    for name, text in texts.items():
        if options[name] is not None:
            write_text(options[name], text)


def add_who_labels(parser: CommandParser) -> None:
    parser.add_argument(
        "-o", "--output", type=Path, help="write who labels which example, as JSON Lines"
    )
    parser.add_argument(
        "--people",
        type=Path,
        help="write the ids that are left to people, for `open_round --examples`",
    )


def write_who_labels(
    options: dict[str, Any], rows: Iterable[Mapping[str, str | None]], left: str | None
) -> None:
    """Write the rows, and the ids whose `label_from` is `left`, to the files of the options."""
    rows = list(rows)
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    # With a head, as `open_round --examples` reads it.
    ids = ["external_id", *(str(row["external_id"]) for row in rows if row["label_from"] == left)]
    texts = {"output": lines, "people": ids}
    write_outputs(options, **{name: "".join(f"{line}\n" for line in texts[name]) for name in texts})


def end_with(verdict: Ruling) -> None:
    if EXITS[verdict]:
        sys.exit(EXITS[verdict])


def wait_for_votes(command: FairJudgeCommand, run: Run, minutes: float | None) -> None:
    """Return once open rounds of the run ask for no more votes."""
    until = None if minutes is None else time.monotonic() + 60 * minutes
    total = missing = votes_missing(run)
    with command.progress("Votes", total) as bar:
        while missing:
            if until is not None and time.monotonic() >= until:
                raise Interrupted(
                    f"{number_of(missing, 'vote')} did not come in time. The round stays open. "
                    "Run the same command again later."
                )
            time.sleep(min(LOOK_EVERY, max(0.0, (until or float("inf")) - time.monotonic())))
            missing = votes_missing(run)
            # More votes may be asked for meanwhile, and a bar doesn't go back.
            bar.move_to(max(bar.done, total - missing))
