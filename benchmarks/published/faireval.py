"""The whole job on FairEval's own data: import, judge, route, people's labels, merge, export.

python -m benchmarks.published.faireval FOLDER [--endpoint default]
"""

import os
import platform
import sys
import time
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management import call_command
from django.core.management.base import CommandParser

from annotation.results.report.text import report_lines
from annotation.results.sections.analysis import Analysis
from annotation.results.tables.exports import ExportRequest, export
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from judging.core.commands import FairJudgeCommand
from judging.core.errors import UserError
from judging.dataset.models import Import
from judging.dataset.writing import import_files
from judging.projects.access import project_for_command
from judging.projects.models import Project
from judging.runs.models import Run
from judging.runs.planning.start import start_run

QUESTIONS = "question.jsonl"
ANSWERS = ("answer_gpt35.jsonl", "answer_vicuna-13b.jsonl")
HUMAN = "review_gpt35_vicuna-13b_human.txt"
MODELS = ("CHATGPT=gpt35", "VICUNA13B=vicuna-13b")
BETA = Decimal(20)
RUN_NAME = "mec-bpc"


@dataclass(frozen=True)
class Job:
    project: Project
    run: Run


def prepare(folder: Path, project: Project, endpoint: str, model: str) -> Job:
    """Import the pairs and make the run. Whatever an earlier call left is used again."""
    files = [folder / name for name in (QUESTIONS, *ANSWERS, HUMAN)]
    missing = [path.name for path in files if not path.is_file()]
    if missing:
        raise UserError(
            f"{folder} lacks {', '.join(missing)}. They are in the FairEval repository."
        )
    if not project.imports.filter(kind=Import.Kind.EXAMPLES, state=Import.State.DONE).exists():
        import_files(project, None, files[:3], file_format="faireval")
    run = project.runs.filter(name=RUN_NAME).first()
    if run is None:
        choices = {"endpoint": endpoint, "model": model}
        run = start_run(project, None, name=RUN_NAME, k=3, seed=1, background=False, **choices)
    return Job(project, run)


def label(job: Job, folder: Path) -> None:
    """Import people's labels. All are known labels, and those of the top 20 % fill the round."""
    import_votes(job.project, None, folder / HUMAN, annotator="authors' majority", maps=MODELS)
    if not job.run.rounds.exists():
        settings = RoundSettings(beta=BETA, votes=1, seed=1)
        open_round(job.project, None, job.run, settings)


def page(job: Job, lines: list[str], minutes: float | None, reading: str) -> str:
    """Return docs/faireval.md: the command, the machine, the printed figures, what they show."""
    run = job.run
    took = f"; judging took {minutes:.0f} minutes" if minutes else ""
    return "\n".join(
        [
            "# The whole job on FairEval's 80 pairs",
            "",
            "`make faireval DATA=folder` imports the 80 Vicuna questions with the responses of",
            "gpt35 and vicuna-13b, has a judge score every pair three times in both orders, takes",
            "the file's human labels for the top 20 % by BPDE, merges, exports, and prints the",
            "lines below. Run the command to get them again. The judge samples at temperature 1,",
            "so that figures vary from run to run.",
            "",
            f"Judge: `{run.model}` with the template `{run.template_name}`, k = {run.k} in each",
            f"order, temperature {run.temperature.normalize()}.",
            f"Machine: {platform.machine()}, {_cores()} cores, "
            f"Python {platform.python_version()}{took}.",
            "",
            "```",
            *lines,
            "```",
            "",
            reading,
        ]
    )


def _cores() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


READING = Path(__file__).with_name("faireval_reading.md")


class Command(FairJudgeCommand):
    help = "Import, judge, route, label, merge and export FairEval's pairs, and print the figures."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="holds FairEval's files")
        parser.add_argument("--project", default="faireval", help="default: faireval")
        parser.add_argument("--endpoint", default="local", help="default: local")
        parser.add_argument("--model", help="default: the endpoint's only model")
        parser.add_argument("--labels", type=Path, help="file for the labels")
        parser.add_argument("--write", type=Path, help="write the figures as a page")

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"], create=True)
        job = prepare(options["folder"], project, options["endpoint"], options["model"] or "")
        started = time.monotonic()
        minutes: float | None = None
        if job.run.state != Run.State.DONE:
            call_command("judge", project.slug, resume=str(job.run.number), stdout=self.stdout)
            job.run.refresh_from_db()
            minutes = (time.monotonic() - started) / 60
        label(job, options["folder"])
        path = options["labels"] or settings.FAIRJUDGE_DATA / f"{project.slug}-labels.csv"
        path.write_bytes(b"".join(export(project, job.run, None, ExportRequest())))
        lines = list(report_lines(Analysis(project, job.run)))
        self.stdout.write("")
        for line in lines:
            self.stdout.write(line)
        self.stdout.write(f"\nLabels: {path}")
        if options["write"]:
            options["write"].write_text(
                page(job, lines, minutes, READING.read_text(encoding="utf-8")),
                encoding="utf-8",
            )


if __name__ == "__main__":
    Command().run_from_argv(["python", "-m benchmarks.published.faireval", *sys.argv[1:]])
