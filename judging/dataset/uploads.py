"""Refused records, copied out unchanged next to their file, to be mended and imported again."""

from __future__ import annotations

import hashlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction

from judging.core.errors import UserError
from judging.core.text import detect, encode
from judging.dataset import files as dataset_files
from judging.dataset.files import refuse_unreadable
from judging.dataset.models import Example, Import
from judging.dataset.reading import Summary, check, mapping_faults
from judging.dataset.records import IDENTITY_FIELDS, ExampleRow, Refused, differing
from judging.projects.access import next_number
from judging.projects.models import Project


def refused_path(path: Path) -> Path:
    """`pairs.csv` leaves its refused rows in `pairs.refused.csv`."""
    return path.with_suffix(f".refused{path.suffix}")


class RefusedFiles:
    """One file for each source that has refused records; they appear when all are complete."""

    def __init__(self, paths: Sequence[Path], file_format: str) -> None:
        three = file_format == "auto" and dataset_files.detect_format(paths) == "faireval"
        self._format = "faireval" if three else file_format
        self._open: dict[Path, _RefusedFile] = {}

    def add(self, refused: Refused) -> None:
        if not refused.raw:
            return
        source = Path(refused.problems[0].file)
        if source not in self._open:
            self._open[source] = _RefusedFile(source, self._kind(source))
        self._open[source].add(refused.raw)

    def _kind(self, source: Path) -> str:
        if self._format == "faireval":
            return "jsonl"
        return dataset_files.format_of(source) if self._format == "auto" else self._format

    def finish(self) -> list[Path]:
        return [file.finish() for file in self._open.values()]

    def discard(self) -> None:
        for file in self._open.values():
            file.discard()


class _RefusedFile:
    def __init__(self, source: Path, kind: str) -> None:
        self._target = refused_path(source)
        self._draft = self._target.with_name(f"{self._target.name}.part")
        self._encoding = detect(source)
        self._array = kind not in ("csv", "tsv", "jsonl")
        try:
            self._stream: BinaryIO = self._draft.open("wb")
        except OSError as error:
            raise UserError(
                f"{self._target} can't be written ({error.strerror}). Make its folder writable."
            ) from None
        self._stream.write(self._encoding.mark)
        self._first = True
        if kind in ("csv", "tsv"):
            sheet = dataset_files.open_sheet(source, "\t" if kind == "tsv" else None)
            self._write(sheet.header_raw if sheet else "")

    def add(self, raw: str) -> None:
        if self._array:
            raw = ("[\n" if self._first else ",\n") + raw
        elif not raw.endswith(("\n", "\r")):
            raw += "\n"
        self._write(raw)
        self._first = False

    def _write(self, text: str) -> None:
        self._stream.write(encode(text, self._encoding))

    def finish(self) -> Path:
        self._write("\n]\n" if self._array else "")
        self._stream.close()
        os.replace(self._draft, self._target)
        return self._target

    def discard(self) -> None:
        self._stream.close()
        self._draft.unlink(missing_ok=True)


FOLDER = "imports"
# In bytes. File systems take 255, and a copy of the refused rows has a longer name.
LONGEST_NAME = 200
LONGEST_ENDING = 10


def store(files: Iterable[UploadedFile]) -> list[Path]:
    """Keep uploads in a folder of their own, under the names that they came with."""
    folder = Path(settings.MEDIA_ROOT) / FOLDER / uuid.uuid4().hex
    folder.mkdir(parents=True, mode=0o700)
    paths: list[Path] = []
    taken: set[Path] = set()
    for number, file in enumerate(files, start=1):
        name = shortened(Path(file.name or "").name) or f"file-{number}"
        # A copy of its refused rows may come to lie beside each.
        path = next(one for one in _places(folder, name) if taken.isdisjoint(_names(one)))
        taken.update(_names(path))
        with path.open("xb") as stream:
            for chunk in file.chunks():
                stream.write(chunk)
        paths.append(path)
    return paths


def _places(folder: Path, name: str) -> Iterator[Path]:
    """The name, then with numbers before it for files that are called alike."""
    yield folder / name
    yield from (folder / f"{number}-{name}" for number in count(2))


def _names(path: Path) -> tuple[Path, Path]:
    return path, refused_path(path)


def shortened(name: str) -> str:
    """A name that file systems take, with its ending."""
    if len(name.encode()) <= LONGEST_NAME:
        return name
    ending = Path(name).suffix if len(Path(name).suffix) <= LONGEST_ENDING else ""
    return name.encode()[: LONGEST_NAME - len(ending)].decode(errors="ignore") + ending


def discard(paths: list[Path]) -> None:
    """Delete what `store` kept, where no import came of it."""
    shutil.rmtree(paths[0].parent, ignore_errors=True)


def stored_name(path: Path) -> str:
    """How an import remembers a file: relative to the site's folder where it is an upload."""
    path = path.resolve()
    root = Path(settings.MEDIA_ROOT).resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def is_upload(name: str) -> bool:
    """Whether a remembered file is the site's own copy."""
    path = Path(name)
    return not path.is_absolute() and path.parts[0] == FOLDER


def files_of(imported: Import) -> list[Path]:
    return [Path(settings.MEDIA_ROOT) / name for name in imported.stored_files]


def refused_files_of(imported: Import) -> list[Path]:
    """The copies of refused rows that the import left."""
    names = imported.summary.get("refused_files", [])
    copies = [refused_path(path) for path in files_of(imported)]
    return [path for path in copies if path.name in names and path.is_file()]


def remove_uploads(imported: Import, *, with_refused: bool = False) -> None:
    """Delete the site's own copies; files that a command was given are left alone."""
    for name in filter(is_upload, imported.stored_files):
        path = Path(settings.MEDIA_ROOT) / name
        if with_refused:
            shutil.rmtree(path.parent, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)


CHUNK = 1000
SHOWN_CONFLICTS = 100


@dataclass(frozen=True, slots=True)
class Conflict:
    """A row whose id the project holds with other content. The project's example stays."""

    file: str
    line: int
    external_id: str
    fields: tuple[str, ...]

    def __str__(self) -> str:
        return (
            f"{Path(self.file).name}, line {self.line}: the id {self.external_id!r} is in the "
            f"project with another {' and '.join(self.fields)}. The project's example stays."
        )


@dataclass(slots=True)
class Compared:
    new: list[ExampleRow] = field(default_factory=list)
    n_known: int = 0
    conflicts: list[Conflict] = field(default_factory=list)


def compare(project_id: int, rows: Sequence[ExampleRow]) -> Compared:
    """Part rows into new ones, ones that the project holds, and conflicts, with one query."""
    there = Example.objects.filter(
        project_id=project_id, external_id__in=[row.external_id for row in rows]
    )
    known = {external_id: tuple(content) for external_id, *content in
             there.values_list("external_id", *IDENTITY_FIELDS)}  # fmt: skip
    compared = Compared()
    for row in rows:
        held = known.setdefault(row.external_id, ())
        if not held:
            compared.new.append(row)
            known[row.external_id] = row.content
        elif held == row.content:
            compared.n_known += 1
        else:
            fields = tuple(differing(row.content, held))
            compared.conflicts.append(Conflict(row.file, row.line, row.external_id, fields))
    return compared


class ImportComparison:
    """Compares rows to a project as they come, a thousand at a time."""

    def __init__(self, project_id: int) -> None:
        self.n_new = self.n_known = self.n_conflicts = 0
        self.conflicts: list[Conflict] = []
        self._project_id = project_id
        self._waiting: list[ExampleRow] = []

    def watch(self, row: ExampleRow) -> None:
        self._waiting.append(row)
        if len(self._waiting) == CHUNK:
            self.settle()

    def settle(self) -> None:
        """Compare what still waits; to be called after the last row."""
        self.add(compare(self._project_id, self._waiting))
        self._waiting.clear()

    def add(self, compared: Compared) -> None:
        self.n_new += len(compared.new)
        self.n_known += compared.n_known
        self.n_conflicts += len(compared.conflicts)
        self.conflicts += compared.conflicts[: SHOWN_CONFLICTS - len(self.conflicts)]


SHOWN_TEXT = 160


def first_pass(
    project: Project | None,
    paths: Sequence[Path],
    file_format: str = "auto",
    mapping: Mapping[str, str] | None = None,
) -> tuple[Summary, ImportComparison | None]:
    """Read the files, and compare them to the project where there is one. Nothing is written."""
    faults = mapping_faults(mapping or {})
    if faults:
        raise UserError(f"{' '.join(faults)} Nothing was imported.")
    comparison = ImportComparison(project.pk) if project else None
    summary = check(paths, file_format, mapping, comparison.watch if comparison else None)
    if comparison:
        comparison.settle()
    return summary, comparison


def record_import(
    project: Project,
    user: AbstractUser | None,
    paths: Sequence[Path],
    *,
    file_format: str = "auto",
    mapping: Mapping[str, str] | None = None,
) -> Import:
    """Check files and keep what was found, as an import that nothing is written of yet."""
    imported = Import(
        project=project,
        created_by=user,
        file_names=[path.name for path in paths],
        stored_files=[stored_name(path) for path in paths],
        sha256=digest(paths),
    )
    _fill(imported, file_format, mapping or {})
    with transaction.atomic():
        imported.number = next_number(project, Import)
        imported.save()
    return imported


def check_again(imported: Import, file_format: str, mapping: Mapping[str, str]) -> bool:
    """Read the files again with another mapping; False when the import has begun already."""
    _fill(imported, file_format, mapping)
    fields = ("format", "mapping", "summary", "n_rows", "n_refused")
    checked = Import.objects.filter(pk=imported.pk, state=Import.State.CHECKED)
    return checked.update(**{name: getattr(imported, name) for name in fields}) == 1


def digest(paths: Sequence[Path]) -> str:
    """SHA-256 over the contents of the files, one after the other."""
    total = hashlib.sha256()
    for path in paths:
        refuse_unreadable(path)
        with path.open("rb") as stream:
            total.update(hashlib.file_digest(stream, "sha256").digest())
    return total.hexdigest()


def _fill(imported: Import, file_format: str, mapping: Mapping[str, str]) -> None:
    summary, comparison = first_pass(imported.project, files_of(imported), file_format, mapping)
    assert comparison is not None
    imported.format = file_format
    imported.mapping = dict(mapping)
    imported.n_rows = summary.n_rows
    imported.n_refused = summary.n_refused
    imported.summary = as_json(summary, comparison)


def as_json(summary: Summary, comparison: ImportComparison) -> dict[str, Any]:
    """What the preview shows: of texts their beginning, of lists their first entries."""
    kept = asdict(summary)
    kept["problems"] = [
        {"place": problem.place, "column": problem.column, "sentence": problem.sentence}
        for problem in summary.problems
    ]
    kept["rows"] = [
        {
            "external_id": row.external_id,
            "models": [row.model_1, row.model_2],
            "category": row.category,
            "gold_label": row.gold_label,
            "texts": [beginning(text) for text in row.texts],
        }
        for row in summary.rows
    ]
    kept["n_new"], kept["n_known"] = comparison.n_new, comparison.n_known
    kept["n_conflicts"] = comparison.n_conflicts
    kept["conflicts"] = as_sentences(comparison.conflicts)
    kept["acceptable"] = summary.acceptable
    return kept


def beginning(text: str) -> str:
    text = " ".join(text[: 4 * SHOWN_TEXT].split())
    return text if len(text) <= SHOWN_TEXT else text[:SHOWN_TEXT] + "…"


def as_sentences(conflicts: Sequence[Conflict]) -> list[str]:
    return [str(conflict) for conflict in conflicts]
