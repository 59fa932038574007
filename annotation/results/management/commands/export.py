"""export PROJECT: labels, votes, samples, preferences, people, criteria, other tools' tables."""

import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
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
from annotation.results.tables.typed import join_cards
from judging.core.commands import STANDARD, FairJudgeCommand, add_project, add_subset, names_subset
from judging.core.errors import Misuse, UserError
from judging.dataset.subsets import freeze, subset_from
from judging.projects.access import project_for_command
from judging.projects.models import Project
from judging.runs.models import Run, find_run

# The tables of one data set. What people cost is nobody else's business.
ALL = "all"
OF_ALL = ("labels", "votes", "samples", "preferences", "criteria")


class Command(FairJudgeCommand):
    reads = ("examples",)
    help = "Write labels, votes, samples or another table to a file, or to standard output."

    def add_arguments(self, parser: CommandParser) -> None:
        add_project(parser)
        parser.add_argument("--run", help="number, name or `latest`; default: the primary run")
        parser.add_argument(
            "--what",
            choices=(*KINDS, ALL),
            default="labels",
            help=f"default: labels; {ALL} tables go into the folder of one data set",
        )
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
            "--model",
            choices=Project.LabelRule.values[1:],
            help="with labels: probabilities by this model of votes, if majorities are final",
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
            # Frozen before its rows are read, so that the record of the export names its examples.
            frame = freeze(project, subset_from(options), within=frame)
        tables = [options["what"]]
        if options["what"] == ALL:
            tables = [what for what in OF_ALL if what != "samples" or run]
        wanted = ExportRequest(
            what=tables[0],
            format=_format(options["what"], options["format"], path),
            names=options["names"],
            escape=not options["no_escape"],
            frame=frame,
            background=options["background"],
            model=options["model"] or "",
            packing=_packing(path),
        )
        in_folder = wanted.format == "dataset" and path is not None and path.suffix != ".zip"
        if options["what"] == ALL and not in_folder:
            raise Misuse(
                f"--what {ALL} writes the folder of a data set. Use --format dataset, and name a "
                "new folder with -o."
            )
        if in_folder:
            refuse_full(path)
            self._write_folder(project, run, wanted, tables, path)
            return
        pieces = export(project, run, None, wanted)
        if path is None:
            for piece in pieces:
                sys.stdout.buffer.write(piece)
            sys.stdout.buffer.flush()
            self._tell_contradictory(project, wanted)
            return
        with whole_file(path) as partial, open(partial, "wb") as stream:
            stream.writelines(pieces)
        # The last piece of the file has put the export and its hash on record.
        sha256 = project.exports.latest("pk").sha256
        self._tell_contradictory(project, wanted)
        self._tell_written(project, run, wanted.what, wanted.format, path, sha256)

    def _write_folder(
        self,
        project: Project,
        run: Run | None,
        wanted: ExportRequest,
        tables: Sequence[str],
        path: Path,
    ) -> None:
        """Write a table into a new folder, or several of them into a folder each within it."""
        hashes = {}
        with whole_folder(path) as folder:
            for what in tables:
                table = replace(wanted, what=what)
                inside = folder / what if tables[1:] else folder
                unpack(export(project, run, None, table), inside)
                done = project.exports.latest("pk")
                self._tell_contradictory(project, table)
                # The first table stays also without rows, so that the folder is never empty.
                if done.n_rows or what == tables[0]:
                    hashes[what] = done.sha256
                    continue
                # The library opens no table without rows.
                shutil.rmtree(inside)
                self.stderr.write(f"left out, because there are none: {what}")
            if tables[1:]:
                join_cards(folder, project.name, list(hashes))
        what = ALL if tables[1:] else tables[0]
        sha256 = hashes if tables[1:] else hashes[what]
        self._tell_written(project, run, what, wanted.format, path, sha256)

    def _tell_written(
        self,
        project: Project,
        run: Run | None,
        what: str,
        file_format: str,
        path: Path,
        sha256: str | Mapping[str, str],
    ) -> None:
        self.stdout.write(f"{what} of {project.slug} written to {path}")
        files = filter(Path.is_file, path.rglob("*")) if path.is_dir() else [path]
        self.tell(
            {
                "project": project.slug,
                "run": run and run.number,
                "what": what,
                "format": file_format,
                "file": path,
                "sha256": sha256,
                "bytes": sum(file.stat().st_size for file in files),
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
    """Give an empty folder to fill, which gets its name at the end."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        # In the same parent, so that a rename is enough and nobody sees a folder that is half full.
        with TemporaryDirectory(prefix=f".{folder.name}-", dir=folder.parent) as temporary:
            filled = Path(temporary, "dataset")
            filled.mkdir()
            yield filled
            if folder.exists():
                # Only an empty folder can be removed: files that came meanwhile are never lost.
                folder.rmdir()
            filled.rename(folder)
    except OSError as error:
        raise UserError(f"{folder} could not be written: {error.strerror}.") from error


def unpack(pieces: Iterable[bytes], folder: Path) -> None:
    """Write the ZIP of a data set, and leave what it holds."""
    # A ZIP lists its members at its end, so that it is read once it is whole.
    with TemporaryFile(dir=folder.parent) as archive:
        archive.writelines(pieces)
        with ZipFile(archive) as packed:
            packed.extractall(folder)


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
