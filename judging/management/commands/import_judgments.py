"""`manage.py import_judgments`: make a run of recorded judge outputs, without an API."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from judging.core.commands import FairJudgeCommand, add_format, add_labels, add_project
from judging.core.formatting import count, number_of
from judging.dataset.records import codes_of
from judging.projects.access import project_for_command
from judging.runs.models import Verdict
from judging.runs.recorded.formats import FORMATS
from judging.runs.recorded.writing import import_judgments


class Command(FairJudgeCommand):
    reads = ("files",)
    help = "Turn recorded judge outputs into a run of a project that has the examples."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument(
            "files",
            metavar="FILE",
            nargs="+",
            type=Path,
            help="a file of samples; all files become one run; - is stdin",
        )
        add_format(parser, FORMATS)
        add_labels(parser)
        parser.add_argument(
            "--name", metavar="RUN", help="the run's name; default: its model and method"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        with self.progress("Importing") as progress:
            run = import_judgments(
                project, None, options["files"], file_format=options["format"],
                name=options["name"] or "", labels=codes_of(options["labels"] or ""),
                sheet=options["sheet"] or "", advance=progress.advance,
                ranked=progress.note_ranked,
            )  # fmt: skip
        verdicts = Verdict.objects.filter(run=run)
        judged = verdicts.filter(state=Verdict.State.JUDGED).count()
        self.stdout.write(
            f"Run {run.number} ({run.name}): {number_of(run.calls.count(), 'sample')}, "
            f"{count(judged)} of {number_of(verdicts.count(), 'example')} judged."
        )
        self.tell(
            {
                "project": project.slug,
                "run": run.number,
                "name": run.name,
                "samples": run.calls.count(),
                "judged": judged,
                "examples": verdicts.count(),
            }
        )
