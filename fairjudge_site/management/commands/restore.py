"""`manage.py restore`: replace the database and the uploads by a backup."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fairjudge_site.backups import restore
from judging.core.commands import FairJudgeCommand
from judging.core.errors import UserError
from judging.core.formatting import number_of
from judging.projects.models import Project


class Command(FairJudgeCommand):
    help = "Replace the database and the uploads by a backup. Stop the site and its workers first."

    reads = ("file",)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="a file made by `backup`; - is stdin")
        parser.add_argument("--yes", action="store_true", help="replace projects without asking")

    def handle(self, *args: Any, **options: Any) -> None:
        n_projects = Project.objects.count()
        if n_projects and not options["yes"]:
            self._confirm(number_of(n_projects, "project"))
        rows = restore(options["file"])
        restored = number_of(Project.objects.count(), "project")
        self.tell({"restored": True, "projects": Project.objects.count(), "rows": rows})
        self.stdout.write(f"Restored from {options['file']}: {restored}.")
        if rows is not None:
            self.stdout.write(f"{number_of(rows, 'row')}: each table reads as in the backup.")

    def _confirm(self, projects: str) -> None:
        if not sys.stdin.isatty():
            raise UserError(f"This replaces {projects}. Nothing was changed. To do it, add --yes.")
        if input(f"This replaces {projects}. Type yes to go on: ").strip() != "yes":
            raise UserError("Nothing was changed.")
