"""What comes before an import of pairs: where its files are, and its first pass as a record.

Uploads are the site's own copies, in its folder. The files that a command is given stay where they
are. Refused rows are copied out unchanged next to their file, to be fixed and imported again. The
first pass compares every row to the project, and is kept with the import until somebody decides.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass
from functools import cache, partial
from itertools import chain, count
from pathlib import Path
from typing import Any, BinaryIO

from django.conf import settings
from django.contrib.auth.models import AbstractUser
from django.core.files.uploadedfile import UploadedFile
from django.db import transaction

from judging.core import storage
from judging.core.errors import UserError
from judging.core.leases import KeptRows
from judging.core.storage import FOLDER
from judging.core.text import Encoding, encode
from judging.dataset.files import IN_WORDS, Records, data_files, encoding_in, is_archive, open_sheet
from judging.dataset.images import Images, is_bundle, log_as_json, unpacked
from judging.dataset.models import Example, Import
from judging.dataset.reading import Reader, Summary, check, mapping_faults
from judging.dataset.records import (
    IDENTITY_FIELDS,
    Codes,
    Compared,
    ExampleRow,
    Refused,
    compare,
    documented,
    unpacked_name,
)
from judging.dataset.wide import PairDesign
from judging.projects.access import BRINGS_TEXTS, need_texts, next_number
from judging.projects.models import Project


def refused_path(path: Path, layout: str = "") -> Path:
    """`pairs.csv`, packed or not, leaves its refused rows in `pairs.refused.csv`.

    Those of a file that is no text are JSON lines.
    """
    path = path.with_name(unpacked_name(path.name))
    return path.with_suffix(f".refused{'.jsonl' if layout in IN_WORDS else path.suffix}")


def copies_of(path: Path) -> tuple[Path, Path]:
    """Return where the refused rows of a file may be: its content is gone after the import."""
    return refused_path(path), refused_path(path, "parquet")


class RefusedFiles:
    """One file for each source that has refused records. They appear once all are complete."""

    def __init__(self, records: Records) -> None:
        self._records = records
        self._open: dict[Path, _RefusedFile] = {}

    def add(self, refused: Refused) -> None:
        if not refused.raw:
            return
        source = Path(refused.problems[0].place.file)
        if source not in self._open:
            self._open[source] = _RefusedFile(source, self._records.layout(source))
        self._open[source].add(refused.raw)

    def finish(self) -> list[Path]:
        return [file.finish() for file in self._open.values()]

    def discard(self) -> None:
        for file in self._open.values():
            file.discard()


class _RefusedFile:
    """The refused records of one source, in its encoding and layout, under a draft's name."""

    def __init__(self, source: Path, layout: str) -> None:
        self._target = refused_path(source, layout)
        self._draft = self._target.with_name(f"{self._target.name}.part")
        self._encoding = Encoding("utf-8") if layout in IN_WORDS else encoding_in(source)
        # A copy of an array, or of a document with rows in it, is an array of the refused rows.
        self._array = layout not in ("csv", "tsv", "jsonl", *IN_WORDS)
        try:
            self._stream: BinaryIO = self._draft.open("wb")
        except OSError as error:
            raise UserError(
                f"{self._target} can't be written ({error.strerror}). Make its folder writable."
            ) from None
        # In the file's own encoding, rows stay as they were, byte for byte.
        self._stream.write(self._encoding.mark)
        self._first = True
        # The copy begins with the header, so that it can be imported by itself.
        if layout in ("csv", "tsv"):
            sheet = open_sheet(source, "\t" if layout == "tsv" else None)
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


# In bytes. File systems take 255, and a copy of the refused rows has a longer name.
LONGEST_NAME = 200
LONGEST_ENDING = 10


def store(files: Iterable[UploadedFile]) -> list[Path]:
    """Keep uploads in a new folder under their own names, with numbers for equal names."""
    folder = new_folder()
    paths: list[Path] = []
    taken: set[Path] = set()
    for number, file in enumerate(files, start=1):
        name = shortened(Path(file.name or "").name) or f"file-{number}"
        # A copy of the refused rows of each may be put next to it, and needs a name as well.
        choices = chain([name], (f"{n}-{name}" for n in count(2)))
        three = ((path := folder / choice, *copies_of(path)) for choice in choices)
        path, *copies = next(names for names in three if taken.isdisjoint(names))
        taken |= {path, *copies}
        with path.open("xb") as stream:
            for chunk in file.chunks():
                stream.write(chunk)
        paths.append(path)
    return paths


def shortened(name: str) -> str:
    """Return a name that file systems take, with its ending."""
    if len(name.encode()) <= LONGEST_NAME:
        return name
    ending = Path(name).suffix if len(Path(name).suffix) <= LONGEST_ENDING else ""
    # The cut may be within a character, whose other bytes are left out.
    return name.encode()[: LONGEST_NAME - len(ending)].decode(errors="ignore") + ending


def discard(paths: Iterable[Path]) -> None:
    """Delete what `store` kept or a ZIP was unpacked to, if no import came of it."""
    discard_named(map(stored_name, paths))


def discard_named(names: Iterable[str]) -> None:
    """Delete the folders of uploads that are remembered by these names."""
    for folder in own_folders(names):
        discard_folder(folder)


def discard_folder(folder: Path) -> None:
    """Delete a folder of uploads, here and in the store."""
    shutil.rmtree(folder, ignore_errors=True)
    storage.forget(storage.folder_name(Path(*folder.parts[-2:])))


def share(paths: Iterable[Path]) -> None:
    """Put uploads where the workers of all machines find them. They may be gone from here then."""
    for folder in own_folders(map(stored_name, paths)):
        storage.share(folder)


def new_folder() -> Path:
    """Make a folder of the site's own, which is deleted after a week if no import needs it."""
    folder = Path(settings.MEDIA_ROOT) / FOLDER / uuid.uuid4().hex
    folder.mkdir(parents=True, mode=0o700)
    return folder


def discard_unused(paths: Iterable[Path]) -> None:
    """Delete what ZIPs of a command were unpacked to, unless an import needs it."""
    for folder in own_folders(map(stored_name, paths)):
        # The folder's name is random, so finding it in the JSON text of a list is enough.
        if not Import.objects.filter(stored_files__icontains=folder.name).exists():
            discard_folder(folder)


def own_folders(names: Iterable[str]) -> set[Path]:
    """Return the folders that the site made for the uploads among some remembered files."""
    return {Path(settings.MEDIA_ROOT, *Path(name).parts[:2]) for name in filter(is_upload, names)}


def stored_name(path: Path) -> str:
    """Return how an import remembers a file: an upload relative to the site's folder."""
    path = path.resolve()
    root = Path(settings.MEDIA_ROOT).resolve()
    return str(path.relative_to(root)) if path.is_relative_to(root) else str(path)


def is_upload(name: str) -> bool:
    """Return True if a remembered file is the site's own copy."""
    path = Path(name)
    return not path.is_absolute() and path.parts[0] == FOLDER


@contextmanager
def files_of(imported: Import) -> Iterator[list[Path]]:
    """Give the files of an import on this machine, while the block lasts."""
    with _at_hand(imported.stored_files) as root:
        yield [root / name for name in imported.stored_files]


def _at_hand(names: Iterable[str]) -> AbstractContextManager[Path]:
    """Bring uploads to this machine. What a command reads is here already."""
    uploads = list(filter(is_upload, names))
    return storage.at_hand(uploads) if uploads else nullcontext(Path(settings.MEDIA_ROOT))


def share_refused(copies: Iterable[Path]) -> None:
    """Put copies of refused rows where each machine finds them, if their files are the site's."""
    root = Path(settings.MEDIA_ROOT)
    folders: dict[Path, list[Path]] = {}
    for path in copies:
        parts = path.relative_to(root).parts if path.is_relative_to(root) else ()
        if FOLDER in parts:
            # A copy from the store lies deeper than the upload itself: in a folder that is made for
            # a while.
            folder = root.joinpath(*parts[: parts.index(FOLDER) + 2])
            folders.setdefault(folder, []).append(path)
    for folder, paths in folders.items():
        storage.share(folder, storage.REFUSED, paths)


def _refused_at(root: Path, imported: Import) -> list[Path]:
    names = imported.summary.get("refused_files", [])
    paths = [root / name for name in imported.stored_files]
    copies = dict.fromkeys(copy for path in paths for copy in copies_of(path))
    return [path for path in copies if path.name in names]


@contextmanager
def refused_files_of(imported: Import) -> Iterator[list[Path]]:
    """Give the copies of refused rows that the import left, while the block lasts."""
    names = imported.stored_files if imported.summary.get("refused_files") else []
    with _at_hand(names) as root:
        yield [path for path in _refused_at(root, imported) if path.is_file()]


def refused_names_of(imported: Import) -> list[str]:
    copies = _refused_at(Path(settings.MEDIA_ROOT), imported)
    folders = {storage.folder_name(name) for name in filter(is_upload, imported.stored_files)}
    if copies and any(map(storage.holds, folders)):
        return [path.name for path in copies]
    return [path.name for path in copies if path.is_file()]


def remove_uploads(imported: Import, *, with_refused: bool = False) -> None:
    """Delete the site's own copies; files that a command was given are left alone."""
    root = Path(settings.MEDIA_ROOT)
    refused = {copy for name in imported.stored_files for copy in copies_of(root / name)}
    for folder in own_folders(imported.stored_files):
        if with_refused:
            discard_folder(folder)
            continue
        storage.forget(storage.folder_name(Path(*folder.parts[-2:])), (storage.CONTENT,))
        for path in folder.rglob("*"):
            if path.is_file() and path not in refused:
                path.unlink(missing_ok=True)


CHUNK = 1000
SHOWN_CONFLICTS = 100
SHOWN_TEXT = 160


def compare_examples(project_id: int | None, rows: Sequence[ExampleRow]) -> Compared[ExampleRow]:
    """Compare rows to a project with one query. If there is no project yet, all are new."""
    held: dict[str, tuple[Any, ...]] = {}
    if project_id is not None:
        there = Example.objects.filter(
            project_id=project_id, external_id__in=[row.external_id for row in rows]
        )
        contents = there.values_list("external_id", *IDENTITY_FIELDS)
        held = {external_id: tuple(content) for external_id, *content in contents}
    return compare(rows, held, lambda row: row.external_id)


class ImportComparison:
    """Compares rows to a project as they are read, a thousand at a time, and may keep them."""

    def __init__(self, project_id: int | None, keep: bool = False) -> None:
        self.kept: KeptRows[ExampleRow] | None = KeptRows(ExampleRow) if keep else None
        self.n_new = self.n_known = self.n_conflicts = 0
        self.conflicts: list[str] = []
        self._project_id = project_id
        self._waiting: list[ExampleRow] = []

    def watch(self, row: ExampleRow) -> None:
        self._waiting.append(row)
        if self.kept:
            self.kept.add(row)
        if len(self._waiting) == CHUNK:
            self.settle()

    def settle(self) -> None:
        """Compare the rows that still wait; to be called after the last row."""
        self.add(compare_examples(self._project_id, self._waiting))
        self._waiting.clear()

    def add(self, compared: Compared[ExampleRow]) -> None:
        self.n_new += len(compared.new)
        self.n_known += compared.n_known
        self.n_conflicts += len(compared.conflicts)
        self.conflicts += compared.conflicts[: SHOWN_CONFLICTS - len(self.conflicts)]


@dataclass(frozen=True)
class FirstPass:
    """What was read from which files, before anything is written."""

    paths: Sequence[Path]
    file_format: str
    mapping: Mapping[str, str]
    options: Mapping[str, Any]
    summary: Summary
    comparison: ImportComparison
    images: Images | None


@contextmanager
def _unpacked(paths: Sequence[Path]) -> Iterator[list[Path]]:
    """Give the paths with a folder in the place of each ZIP. After an error there are none."""
    made: list[Path] = []
    inner = list(paths)
    try:
        for place, path in enumerate(paths):
            if is_archive(path) and is_bundle(path):
                inner[place] = log_as_json(path) or unpacked(path)
                made.append(inner[place])
        yield inner
    except BaseException:
        discard(made)
        raise


def first_pass(
    project: Project | None,
    paths: Sequence[Path],
    file_format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    labels: Codes | None = None,
    *,
    sheet: str = "",
    design: PairDesign | None = None,
    known_images: Mapping[str, str] | None = None,
    keep: bool = False,
) -> FirstPass:
    """Read files and compare them to the project, if there is one. Nothing is written to it.

    A ZIP is unpacked into a folder of the site's own. If no import comes of it, `discard` the paths
    that come back.

    Args:
        paths: files, folders with the files of a data set, or ZIPs of such folders.
        labels: what the codes of gold labels mean; by default, what they can only mean.
        sheet: which sheet of a workbook to read; by default the first one.
        design: how wide rows become pairs.
        known_images: what an earlier reading made of the names of images.
        keep: have the rows at hand for the second pass, which then reads no file.
    """
    if project is not None:
        need_texts(project, BRINGS_TEXTS)
    with _unpacked(paths) as inner:
        files = data_files(inner)
        # A name that no file can have is told by the reader.
        folders = [path for path in inner if os.path.isdir(path)]
        images = cache(
            partial(Images, files, folders, project.pk if project else None, before=known_images)
        )
        of_file = {"sheet": sheet, "design": design, "keep": keep}
        return _first_pass(project, files, file_format, mapping or {}, labels, images, **of_file)


def _first_pass(
    project: Project | None,
    paths: Sequence[Path],
    file_format: str,
    mapping: Mapping[str, str],
    labels: Codes | None,
    images: Any,
    *,
    sheet: str,
    design: PairDesign | None,
    keep: bool,
) -> FirstPass:
    if faults := mapping_faults(mapping):
        raise UserError(f"{' '.join(faults)} Nothing was imported.")
    if design is not None and design.needs_stages:
        design = _staged(design, project, paths, file_format, mapping, sheet)
    options: dict[str, Any] = {"sheet": sheet} if sheet else {}
    options |= design.as_options() if design else {}
    comparison = ImportComparison(project.pk if project else None, keep)
    there = project.examples.judged().order_by() if project else Example.objects.none()
    models = there.exclude(model_1="").exclude(model_2="").values_list("model_1", "model_2")
    earlier = models.distinct()
    summary = check(paths, file_format, mapping, comparison.watch, labels, options, earlier, images)
    comparison.settle()
    # The first reading took the codes for the documented ones.
    if labels is None and not summary.readings and not documented(summary.labels):
        of_file = {"sheet": sheet, "design": design, "keep": keep}
        arguments = (project, paths, file_format, mapping, summary.labels, images)
        return _first_pass(*arguments, **of_file)
    # They are made for the first row that names an image.
    cleaned: Images | None = images() if images.cache_info().currsize else None
    if cleaned and cleaned.to_remember is not None:
        options["images"] = cleaned.to_remember
    return FirstPass(paths, file_format, mapping, options, summary, comparison, cleaned)


def _staged(
    design: PairDesign,
    project: Project | None,
    paths: Sequence[Path],
    file_format: str,
    mapping: Mapping[str, str],
    sheet: str,
) -> PairDesign:
    """Read the files for their models, of which the design has those that it had before first."""
    # A design of blocks needs all models before it makes the first pair.
    reader = Reader(paths, file_format, mapping, options={"sheet": sheet})
    for _ in reader:
        pass
    earlier = None
    for past in designs_of(project) if project else ():
        earlier = past if past.key == design.key else earlier
    return design.staged(reader.wide.models if reader.wide else (), earlier)


def designs_of(project: Project) -> Iterator[PairDesign]:
    """Yield the designs by which examples of the project became pairs, the oldest first."""
    done = project.imports.filter(state=Import.State.DONE)
    for options in done.order_by("number").values_list("options", flat=True):
        if design := PairDesign.stored_in(options):
            yield design


def record_import(
    project: Project,
    user: AbstractUser | None,
    paths: Sequence[Path],
    *,
    file_format: str = "auto",
    mapping: Mapping[str, str] | None = None,
    labels: Codes | None = None,
    sheet: str = "",
) -> Import:
    """Check files and keep what was found, as an import of which nothing is written yet."""
    checked = first_pass(project, paths, file_format, mapping, labels, sheet=sheet)
    return record_checked(project, user, checked)


def record_checked(project: Project, user: AbstractUser | None, checked: FirstPass) -> Import:
    """Keep a first pass as an import of which nothing is written yet."""
    # Images may be large, so they are written before the transaction.
    if checked.images:
        checked.images.write()
    share(checked.paths)
    with transaction.atomic():
        imported = Import.objects.create(
            project=project,
            number=next_number(project, Import),
            created_by=user,
            file_names=[path.name for path in checked.paths],
            stored_files=[stored_name(path) for path in checked.paths],
            sha256=checked.summary.sha256,
            **_fields_from(checked),
        )
        if checked.images:
            checked.images.keep(imported)
    return imported


def check_again(
    imported: Import,
    file_format: str,
    mapping: Mapping[str, str],
    labels: Codes | None = None,
    design: PairDesign | None = None,
) -> bool:
    """Read the files again with another mapping; False if the import has begun already."""
    sheet = imported.options.get("sheet", "")
    known = imported.options.get("images")
    with files_of(imported) as paths:
        arguments = (imported.project, paths, file_format, mapping, labels)
        checked = first_pass(*arguments, sheet=sheet, design=design, known_images=known)
    if checked.images:
        checked.images.write()
    unbegun = Import.objects.filter(pk=imported.pk, state=Import.State.CHECKED)
    with transaction.atomic():
        changed = unbegun.update(**_fields_from(checked)) == 1
        if changed and checked.images:
            checked.images.keep(imported)
    return changed


def _fields_from(checked: FirstPass) -> dict[str, Any]:
    """Return the fields of an import that a first pass fills."""
    return {
        "format": checked.file_format,
        "mapping": dict(checked.mapping),
        "options": dict(checked.options),
        "n_rows": checked.summary.n_rows,
        "n_refused": checked.summary.n_refused,
        "summary": _as_json(checked.summary, checked.comparison),
    }


def _as_json(summary: Summary, comparison: ImportComparison) -> dict[str, Any]:
    """Return what the preview shows: the beginning of texts, the first entries of lists."""
    kept = asdict(summary)
    # It has a column of its own.
    del kept["sha256"]
    kept["problems"] = [
        {"place": str(problem.place), "column": problem.column, "sentence": problem.sentence}
        for problem in summary.problems
    ]
    kept["rows"] = [
        {
            "external_id": row.external_id,
            "models": [row.model_1, row.model_2],
            "category": row.category,
            "gold_label": row.gold_label,
            "texts": [_beginning(text) for text in row.texts],
        }
        for row in summary.rows
    ]
    kept["n_new"], kept["n_known"] = comparison.n_new, comparison.n_known
    kept["n_conflicts"] = comparison.n_conflicts
    kept["conflicts"] = comparison.conflicts
    kept["acceptable"] = summary.acceptable
    return kept


def _beginning(text: str) -> str:
    # White space shrinks, so some more than is shown is looked at, and never a whole long text.
    text = " ".join(text[: 4 * SHOWN_TEXT].split())
    return text if len(text) <= SHOWN_TEXT else text[:SHOWN_TEXT] + "…"
