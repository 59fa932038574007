"""verify FILE.zip: is a delivered report whole, and do its figures follow from its data?"""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from annotation.results.verification import verify
from judging.errors import UserError
from judging.figures import number_of
from judging.management.base import FairJudgeCommand


class Command(FairJudgeCommand):
    help = "Check a report's files and certificate, and compute every number anew from the ZIP."
    prepares_database = False

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="made by `report -o FILE.zip`")

    def handle(self, *args: Any, **options: Any) -> None:
        problems = verify(options["file"])
        for problem in problems:
            self.stderr.write(problem)
        if problems:
            raise UserError(
                f"{options['file']} does not hold: {number_of(len(problems), 'problem')}."
            )
        self.stdout.write(
            f"{options['file']} holds: its files are those delivered, and every number of the "
            "report follows from its data."
        )
