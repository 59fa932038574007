"""`manage.py import_scores`: what people scored single responses."""

from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from judging.core.commands import FairJudgeCommand, add_format, add_project
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.dataset.models import Import
from judging.dataset.scores import FORMATS, ScoresImported, check_scores, undo_scores, write_scores
from judging.projects.access import project_for_command
from judging.projects.models import Project


class Command(FairJudgeCommand):
    help = "Import single responses with people's scores. The same file again adds nothing."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser, "; created when new")
        parser.add_argument(
            "file",
            metavar="FILE",
            nargs="?",
            type=Path,
            help="columns input, output, criterion, rater, score; model and external_id if known",
        )
        add_format(parser, FORMATS)
        parser.add_argument("--rater", help="who scored, if no column says it")
        parser.add_argument("--dry-run", action="store_true", help="check, and write nothing")
        parser.add_argument("--owner", metavar="USER", help="who owns a new project")
        parser.add_argument("--undo", metavar="NUMBER", type=int, help="take an import back")

    def handle(self, *args: Any, **options: Any) -> None:
        slug = options["project"]
        if options["undo"] is not None:
            self.undo(slug, options["undo"])
            return
        if options["file"] is None:
            raise UserError("No file was named. Nothing was imported.")
        # Checked first, so that a wrong file makes no project.
        checked = check_scores(options["file"], options["format"], (options["rater"] or "").strip())
        if options["dry_run"]:
            existing = Project.objects.filter(slug=slug).first()
            self.describe(write_scores(existing, None, checked, dry_run=True))
            self.stdout.write("Nothing was written.")
            return
        project = project_for_command(slug, options["owner"], create=True)
        found = write_scores(project, None, checked)
        self.describe(found)
        self.stdout.write(f"Written to {project.slug} as import {found.number}.")

    def describe(self, found: ScoresImported) -> None:
        self.stdout.write(
            f"{number_of(found.items, 'new item')}, {number_of(found.scores, 'new score')}; "
            f"there already: {number_of(found.known, 'score')}."
        )
        for sentence in found.conflicts:
            self.stdout.write(f"Conflict: {sentence}")

    def undo(self, slug: str, number: int) -> None:
        project = project_for_command(slug)
        imported = project.imports.filter(number=number, kind=Import.Kind.POINTS).first()
        if imported is None:
            raise UserError(f"Project {slug} has no import of scores with the number {number}.")
        done = undo_scores(imported, None)
        said = "is undone" if done else "was undone before"
        self.stdout.write(f"Import {number} {said}.")
