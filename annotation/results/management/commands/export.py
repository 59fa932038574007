"""export PROJECT: labels, votes, samples, preferences, people, criteria, other tools' tables."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

from django.core.management.base import CommandParser

from annotation.results.tables.exports import (
    FORMATS,
    KINDS,
    PACKINGS,
    ExportRequest,
    export,
    whole_file,
)
from annotation.results.tables.other_tools import OTHER_TOOLS
from judging.core.commands import (
    STANDARD,
    FairJudgeCommand,
    add_project,
    add_subset,
    names_subset,
)
from judging.core.errors import Misuse, UserError
from judging.dataset.subsets import freeze, subset_from
from judging.projects.access import project_for_command
from judging.projects.models import Project
from judging.runs.models import find_run


class Command(FairJudgeCommand):
    reads = ("examples",)
    help = "Write labels, votes, samples or another table to a file, or to standard output."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("--run", help="number, name or `latest`; default: the primary run")
        parser.add_argument("--what", choices=KINDS, default="labels", help="default: labels")
        parser.add_argument(
            "--format",
            choices=FORMATS,
            help="default: as the file's name says, else csv; preferences are never csv, and "
            "tables for other tools are json",
        )
        add_subset(parser, seed=True)
        parser.add_argument("--names", action="store_true", help="names instead of pseudonyms")
        parser.add_argument(
            "--background",
            action="store_true",
            help="with --what people: also what people of a panel said about themselves",
        )
        parser.add_argument(
            "--no-escape",
            action="store_true",
            help="don't escape cells that a spreadsheet would run as formulas",
        )
        parser.add_argument(
            "-o",
            "--output",
            type=Path,
            help="the file to write, such as labels.csv.gz, or the folder of a dataset; default: "
            "standard output",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        path = None if options["output"] == STANDARD else options["output"]
        if path is None and self.as_json:
            raise Misuse(
                "--json says what was written to a file, so it needs -o FILE. For the rows "
                "themselves as JSON, use --format jsonl instead."
            )
        if options["background"] and options["what"] != "people":
            raise Misuse("--background adds to people, so it needs --what people.")
        project = project_for_command(options["project"])
        run = find_run(project, options["run"]) if options["run"] else project.primary_run
        frame = run.frame if run else None
        if names_subset(options):
            frame = freeze(project, subset_from(options), within=frame)
        wanted = ExportRequest(
            what=options["what"],
            format=_format(options["what"], options["format"], path),
            names=options["names"],
            escape=not options["no_escape"],
            frame=frame,
            background=options["background"],
            packing=_packing(path),
        )
        in_folder = wanted.format == "dataset" and path is not None and path.suffix != ".zip"
        if in_folder:
            refuse_full(path)
        pieces = export(project, run, None, wanted)
        if path is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            self._tell_contradictory(project, wanted)
            return
        if in_folder:
            with whole_folder(path) as archive, archive.open("wb") as stream:
                stream.writelines(pieces)
        else:
            with whole_file(path) as partial, open(partial, "wb") as stream:
                stream.writelines(pieces)
        self.stdout.write(f"{wanted.what} of {project.slug} written to {path}")
        self._tell_contradictory(project, wanted)
        done = project.exports.latest("pk")
        files = filter(Path.is_file, path.rglob("*")) if in_folder else [path]
        self.tell(
            {
                "project": project.slug,
                "run": run and run.number,
                "what": wanted.what,
                "format": wanted.format,
                "file": path,
                "sha256": done.sha256,
                "bytes": sum(one.stat().st_size for one in files),
            }
        )

    def _tell_contradictory(self, project: Project, wanted: ExportRequest) -> None:
        if wanted.what != "preferences":
            return
        for name in project.exports.latest("pk").options["contradictory"]:
            self.stderr.write(f"left out, because an equal pair has the opposite label: {name}")


def _packing(path: Path | None) -> str:
    """Return gz or zst if the file's name says so."""
    ending = path.suffix.lower().removeprefix(".") if path else ""
    return "zst" if ending == "zstd" else ending if ending in PACKINGS else ""


def refuse_full(folder: Path) -> None:
    """Raise UserError unless the folder is new or empty: nothing is ever mixed with other files."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} is there already. Nothing was written. Name a new folder.")


@contextmanager
def whole_folder(folder: Path) -> Iterator[Path]:
    """Give the path of a ZIP to write, whose content becomes the folder at the end."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
            archive, unpacked = Path(temporary, "dataset.zip"), Path(temporary, "dataset")
            yield archive
            with ZipFile(archive) as packed:
                packed.extractall(unpacked)
            if folder.exists():
                folder.rmdir()
            unpacked.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} could not be written: {error.strerror}.") from error


def _format(what: str, asked: str | None, path: Path | None) -> str:
    """Return the format. Raises UserError if --format and the file's name contradict each other."""
    path = path.with_suffix("") if path and _packing(path) else path
    named = path.suffix.lower().removeprefix(".") if path else ""
    named = named if named in FORMATS else ""
    if what == "preferences" and "csv" in (asked, named):
        raise UserError(
            "Preferences are JSON lines, which trainers read. Leave out --format, and name the "
            "file .jsonl."
        )
    if what in OTHER_TOOLS:
        if {asked, named} - {"json", "", None}:
            raise UserError(
                f"A table for {what} is JSON. Leave out --format, and name the file .json. Nothing "
                "was written."
            )
        return "json"
    if asked and named and asked != named:
        raise UserError(
            f"--format {asked} contradicts the name of {path}. Leave out --format, or rename the "
            "file. Nothing was written."
        )
    return asked or named or ("jsonl" if what == "preferences" else "csv")
