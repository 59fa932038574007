"""`manage.py import_scores`: import single responses with people's scores."""

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
    help = (
        "Import single responses with people's scores. Importing the same file again adds nothing."
    )

    reads = ("file",)

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser, "; a new project is created")
        parser.add_argument(
            "file",
            metavar="FILE",
            nargs="?",
            type=Path,
            help="- is stdin; columns: input, output, criterion, rater, score; optional: model, "
            "external_id",
        )
        add_format(parser, FORMATS)
        parser.add_argument("--rater", help="the rater, if the file has no column for it")
        parser.add_argument("--dry-run", action="store_true", help="check, and write nothing")
        parser.add_argument("--owner", metavar="USER", help="the owner of a new project")
        parser.add_argument("--undo", metavar="NUMBER", type=int, help="undo an import")

    def handle(self, *args: Any, **options: Any) -> None:
        slug = options["project"]
        if options["undo"] is not None:
            self.undo(slug, options["undo"])
            return
        if options["file"] is None:
            raise UserError("No file was named. Nothing was imported.")
        # Checked first, so that a wrong file makes no project.
        checked = check_scores(
            options["file"],
            options["format"],
            (options["rater"] or "").strip(),
            options["sheet"] or "",
        )
        if options["dry_run"]:
            existing = Project.objects.filter(slug=slug).first()
            self.describe(slug, write_scores(existing, None, checked, dry_run=True))
            self.stdout.write("Nothing was written.")
            return
        project = project_for_command(slug, options["owner"], create=True)
        counts = write_scores(project, None, checked)
        self.describe(slug, counts)
        self.stdout.write(f"Written to {project.slug} as import {counts.number}.")

    def describe(self, slug: str, counts: ScoresImported) -> None:
        self.tell(
            {
                "project": slug,
                "import": counts.number,
                "items": counts.items,
                "scores": counts.scores,
                "known": counts.known,
                "conflicts": counts.conflicts,
            }
        )
        self.stdout.write(
            f"{number_of(counts.items, 'new item')}, {number_of(counts.scores, 'new score')}; "
            f"already in the project: {number_of(counts.known, 'score')}."
        )
        for sentence in counts.conflicts:
            self.stdout.write(f"Conflict: {sentence}")

    def undo(self, slug: str, number: int) -> None:
        project = project_for_command(slug)
        imported = project.imports.filter(number=number, kind=Import.Kind.POINTS).first()
        if imported is None:
            raise UserError(f"Project {slug} has no import of scores with the number {number}.")
        undone = undo_scores(imported, None)
        self.tell({"project": slug, "import": number, "undone": True})
        self.stdout.write(f"Import {number} {'is undone' if undone else 'was undone before'}.")
