"""faireval FOLDER: the whole job on FairEval's 80 pairs, from import to the figures."""

import time
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandParser

from annotation.results.faireval import deliver, figures, label, page, prepare
from judging.management.base import FairJudgeCommand
from judging.models import Run
from judging.projects import project_for_command

READING = Path(__file__).with_name("faireval_reading.md")


class Command(FairJudgeCommand):
    help = "Import, judge, route, label, merge and export FairEval's pairs, and print the figures."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="holds FairEval's files")
        parser.add_argument("--project", default="faireval", help="default: faireval")
        parser.add_argument("--endpoint", default="local", help="default: local")
        parser.add_argument("--model", help="default: the endpoint's only one")
        parser.add_argument("--labels", type=Path, help="where the labels go")
        parser.add_argument("--write", type=Path, help="write the figures as a page")

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"], create=True)
        job = prepare(options["folder"], project, options["endpoint"], options["model"] or "")
        started = time.monotonic()
        if job.run.state != Run.State.DONE:
            call_command("judge", project.slug, resume=str(job.run.number), stdout=self.stdout)
            job.run.refresh_from_db()
            minutes: float | None = (time.monotonic() - started) / 60
        else:
            minutes = None
        label(job, options["folder"])
        path = options["labels"] or settings.FAIRJUDGE_DATA / f"{project.slug}-labels.csv"
        deliver(job, path)
        lines = figures(job)
        self.stdout.write("")
        for line in lines:
            self.stdout.write(line)
        self.stdout.write(f"\nLabels: {path}")
        if options["write"]:
            options["write"].write_text(
                page(job, lines, minutes, lambda: READING.read_text(encoding="utf-8")),
                encoding="utf-8",
            )
