"""verify FILE.zip: is a delivered report whole, and do its figures follow from its data?"""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from annotation.results.delivery.verify import SECONDS, verify_within
from judging.core.commands import FairJudgeCommand
from judging.core.errors import UserError
from judging.core.formatting import number_of


class Command(FairJudgeCommand):
    help = "Check a report's files and certificate, and recompute every number from the ZIP."
    prepares_database = False
    reads = ("file",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="made by `report -o FILE.zip`; - is stdin")

        parser.add_argument(
            "--time-limit",
            type=int,
            default=SECONDS,
            metavar="SECONDS",
            help=f"stop after this many seconds (default {SECONDS})",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["time_limit"] < 1:
            raise UserError("--time-limit must be at least 1 second. Nothing was verified.")
        problems = verify_within(options["file"], options["time_limit"])
        # Before the error below, so that a program reads the outcome of a file that doesn't hold.
        self.tell({"holds": not problems, "problems": problems})
        for problem in problems:
            # Where the error below is written, too.
            self.stderr.write(problem)
        if problems:
            raise UserError(
                f"{options['file']} does not hold: {number_of(len(problems), 'problem')}."
            )
        self.stdout.write(
            f"{options['file']} holds: its files are those delivered, and every number of the "
            "report follows from its data."
        )
