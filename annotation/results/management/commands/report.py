"""report PROJECT: the figures of a run, as lines, JSON, one HTML file, or a ZIP."""

import json
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from annotation.results.data.figures import Json, to_json
from annotation.results.delivery.package import deliver
from annotation.results.report.page import in_short
from annotation.results.report.report import people_alone, report, report_json
from annotation.results.report.text import people_lines, report_lines
from annotation.results.sections.analysis import Analysis
from annotation.results.tables.exports import write_text
from judging.core.commands import (
    STANDARD_OUTPUT,
    FairJudgeCommand,
    add_project,
    add_subset,
    as_document,
    names_subset,
)
from judging.core.errors import Misuse, UserError
from judging.dataset.models import Frame
from judging.dataset.subsets import ALL, freeze, subset_from
from judging.projects.access import project_for_command
from judging.projects.models import Project
from judging.runs.forms.point_shots import whole_report
from judging.runs.models import Form, Run, find_run
from judging.runs.planning.start import check_subset

# What people call a format, and the ending of its files.
_NAMES = {"latex": "tex"}
WRITTEN = (".html", ".pdf", ".zip", ".json", ".tex")


class Command(FairJudgeCommand):
    reads, writes = ("examples",), ("output",)
    help = (
        "Print a run's results: coverage, agreement, position bias, cost. Without a finished run, "
        "print what people say alone."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("--run", help="number, name or `latest`; default: the primary run")
        add_subset(parser, seed=True)
        parser.add_argument(
            "-o", "--output", type=Path, help="write a file: .html, .pdf, .tex, .zip or .json"
        )
        parser.add_argument(
            "--format",
            choices=[*(ending.removeprefix(".") for ending in WRITTEN), *_NAMES],
            help="default: as the file's name says; standard output (-o -): json",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        options["output"] = _named(options["output"], options["format"])
        project = project_for_command(options["project"])
        run = find_run(project, options["run"]) if options["run"] else project.primary_run
        subset = subset_from(options) if names_subset(options) else ALL
        if run is not None:
            check_subset(subset, run.form)
        frame = freeze(project, subset, within=run.frame if run else None)
        if run is None:
            self.people_alone(project, options["output"], frame)
            return
        if run.form == Form.POINTWISE:
            self.pointwise(run, options["output"])
            return
        path: Path | None = options["output"]
        if path is not None and path.suffix not in WRITTEN:
            as_one = f"{', '.join(WRITTEN[:-1])} or {WRITTEN[-1]}"
            raise UserError(f"A report is written as {as_one}, not as {path.name}.")
        # These are written in a snapshot of the data, and not from the analysis below.
        if path is not None and path.suffix != ".json":
            deliver(project, run, None, path, frame)
            self.stdout.write(
                f"report of {project.slug}, {run.name}, written to {self.shown(path)}"
            )
            self.tell({"project": project.slug, "run": run.number, "file": path})
            return
        analysis = Analysis(project, run, frame)
        if not self.as_json and path is None:
            for sentence in in_short(report(analysis)):
                self.stdout.write(f"* {sentence.text}")
            self.stdout.write("")
            for line in report_lines(analysis):
                self.stdout.write(line)
            return
        self.print_or_write(report_json(analysis), path)

    def people_alone(self, project: Project, path: Path | None, frame: Frame | None) -> None:
        """Tell what people say, which needs no judge."""
        alone = people_alone(project, frame)
        if alone is None:
            raise UserError(
                f"{project.slug} has no finished run and no votes that count. Let a judge or "
                f"people label first: manage.py judge {project.slug}, or manage.py import_votes "
                f"{project.slug}"
            )
        if path is not None and path.suffix != ".json":
            raise UserError("Without a finished run, the report is written as .json.")
        if self.as_json or path is not None:
            self.print_or_write(to_json(alone), path)
            return
        for line in people_lines(alone):
            self.stdout.write(line)

    def pointwise(self, run: Run, path: Path | None) -> None:
        """Tell the report of a run over single responses, which have scores and no verdicts."""
        if path is not None and path.suffix != ".json":
            raise UserError("The report of a run over single responses is written as .json.")
        self.print_or_write(to_json(whole_report(run)), path)

    def print_or_write(self, figures: Json, path: Path | None) -> None:
        """Print the figures, also without `--json`, or write them to a file and say so."""
        if path is None and not self.as_json:
            self.stdout.write(as_document(figures))
        elif path is None:
            self.tell(figures)
        else:
            write_text(path, json.dumps(figures, indent=2, ensure_ascii=False) + "\n")
            # Both are the report, so that a script finds it where it looks for it.
            self.tell(figures)


def _named(path: Path | None, file_format: str | None) -> Path | None:
    """Return the path with the ending of its format. Raises Misuse if the two contradict."""
    file_format = _NAMES.get(file_format or "", file_format)
    if path is None:
        if file_format is not None:
            raise Misuse("--format says how a file is written, so it needs -o FILE.")
        return None
    if path.name == STANDARD_OUTPUT:
        return path.with_suffix(f".{file_format or 'json'}")
    if file_format is not None and path.suffix != f".{file_format}":
        raise Misuse(f"--format {file_format} contradicts the name of {path}. Leave one out.")
    return path
