"""validation FOLDER: published judgments through import and analysis, as a page of the docs."""

from itertools import count
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser
from django.db import transaction

from annotation.results.validation import validated
from annotation.results.validation_routing import DRAWS
from judging.management.base import FairJudgeCommand
from judging.models import Project

# What follows this line in the page is written by others and kept.
MARK = "<!-- what follows is kept -->"


class Command(FairJudgeCommand):
    help = "Analyse LLMBar's and PandaLM's recorded judgments. Leaves no project behind."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("folder", type=Path, help="holds llmbar/ and pandalm/")
        parser.add_argument(
            "--write", type=Path, default=Path("docs/validation.md"), help="the page to write"
        )
        parser.add_argument(
            "--draws", type=int, default=DRAWS, help="of learning samples, for learned routing"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        names = (f"validation-{n}" for n in count(1))
        with transaction.atomic():
            made = validated(options["folder"], lambda: new_project(next(names)), options["draws"])
            lines = list(made)
            transaction.set_rollback(True)
        path: Path = options["write"]
        before = path.read_text(encoding="utf-8") if path.is_file() else ""
        kept = "\n" + before[before.index(MARK) :] if MARK in before else ""
        path.write_text("\n".join(lines) + "\n" + kept, encoding="utf-8")
        for line in lines:
            self.stdout.write(line)


def new_project(slug: str) -> Project:
    """Rolled back at the end, so that the name is free for the next time."""
    return Project.objects.create(slug=slug, name=slug)
