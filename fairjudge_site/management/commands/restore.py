"""restore FILE: put a backup in the place of everything there is."""

import sys
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from fairjudge_site.backups import restore
from judging.core.commands import FairJudgeCommand
from judging.core.errors import UserError
from judging.projects.models import Project


class Command(FairJudgeCommand):
    help = "Put a backup in the place of everything there is. Stop the site and its workers first."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path, help="made by `backup`")
        parser.add_argument("--yes", action="store_true", help="replace projects without asking")

    def handle(self, *args: Any, **options: Any) -> None:
        n_projects = Project.objects.count()
        if n_projects and not options["yes"]:
            self._confirm(n_projects)
        restore(options["file"])
        self.stdout.write(f"Restored from {options['file']}: {_projects(Project.objects.count())}.")

    def _confirm(self, n_projects: int) -> None:
        if not sys.stdin.isatty():
            raise UserError(
                f"This replaces {_projects(n_projects)}. Say --yes to do it. Nothing was changed."
            )
        if input(f"This replaces {_projects(n_projects)}. Type yes to go on: ").strip() != "yes":
            raise UserError("Nothing was changed.")


def _projects(number: int) -> str:
    return f"{number} project" + ("" if number == 1 else "s")
