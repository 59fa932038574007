"""`manage.py import_judgments`: recorded judge outputs become a run, no API needed."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from judging.figures import count, number_of
from judging.management.base import FairJudgeCommand
from judging.models import Verdict
from judging.projects import project_for_command
from judging.runs.recorded.formats import FORMATS
from judging.runs.recorded.writing import import_judgments


class Command(FairJudgeCommand):
    help = "Turn recorded judge outputs into a run of a project whose examples are imported."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("project", metavar="PROJECT")
        parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
        parser.add_argument("--format", choices=FORMATS, default="auto")
        parser.add_argument("--name", metavar="RUN", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        with self.progress("Importing") as progress:
            run = import_judgments(
                project,
                None,
                options["files"],
                file_format=options["format"],
                name=options["name"],
                advance=progress.advance,
            )
        verdicts = Verdict.objects.filter(run=run)
        judged = verdicts.filter(state=Verdict.State.JUDGED).count()
        self.stdout.write(
            f"Run {run.number} ({run.name}): {number_of(run.calls.count(), 'sample')}, "
            f"{count(judged)} of {number_of(verdicts.count(), 'example')} judged."
        )
