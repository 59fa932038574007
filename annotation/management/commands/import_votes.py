"""import_votes PROJECT FILE: import votes that people gave elsewhere."""

from dataclasses import asdict
from pathlib import Path
from typing import Any

from django.core.management.base import CommandParser

from annotation.votes.files import FORMATS
from annotation.votes.imports import import_votes
from judging.core.commands import FairJudgeCommand, add_format, add_labels, add_project
from judging.core.formatting import count, number_of
from judging.dataset.records import codes_of
from judging.projects.access import project_for_command


class Command(FairJudgeCommand):
    help = "Import votes that people gave elsewhere. Importing the same votes again adds nothing."

    reads = ("file",)

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("file", type=Path, help="the votes, one per row; - is stdin")
        add_format(parser, FORMATS)
        add_labels(parser)
        parser.add_argument("--annotator", help="whose votes they are, if no column says it")
        parser.add_argument("--protocol", help="what was asked; default: the project's current one")
        parser.add_argument(
            "--map",
            action="append",
            default=[],
            metavar="FOUND=MODEL",
            help="the model that a winner's name means; may be repeated",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        project = project_for_command(options["project"])
        done = import_votes(
            project, None, options["file"], file_format=options["format"],
            annotator=options["annotator"] or "", protocol=options["protocol"],
            maps=options["map"], labels=codes_of(options["labels"] or ""),
            sheet=options["sheet"] or "",
        )  # fmt: skip
        self.stdout.write(
            f"{number_of(done.added, 'vote')} added by {', '.join(done.annotators)} under "
            f"{done.protocol}; already in the project: {count(done.known)}."
        )
        if done.filled:
            self.stdout.write(f"{count(done.filled)} of them fill places in open rounds.")
        self.tell({"project": project.slug} | asdict(done))
        for conflict in done.conflicts:
            self.stderr.write(f"conflict, {conflict}")
