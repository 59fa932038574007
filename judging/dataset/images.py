"""Images of a data set: found in rows, fetched or read from the ZIP, cleaned, and kept by hash.

`unpacked` turns a ZIP into a folder of the site's own. `Images` then puts hashes in the place of
names and addresses, row by row, and holds what was cleaned in a temporary folder until `keep`
writes it with its import. Reading the same files again asks nobody: the import remembers which hash
a name became.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import shutil
import tempfile
import time
import uuid
import weakref
import zipfile
import zlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from django.conf import settings
from django.db import transaction

from judging.core import conversations, outbound
from judging.core.bounds import MEBIBYTE, Archive, ArchiveBounds, TooLarge, shallow_json
from judging.core.errors import UserError
from judging.core.images import SCHEME, Cleaned, NoImage, cleaned, hashes_in, replaced
from judging.core.leases import delete_rows
from judging.core.outbound import Unreachable
from judging.core.storage import FOLDER
from judging.dataset.models import ExampleImage, Image, Import
from judging.dataset.records import ExampleRow, Record, RecordProblem, Refused, quoted

UNPACKED = "unpacked"
BOUNDS = ArchiveBounds(members=20_000, inflated=4096 * MEBIBYTE, free=256 * MEBIBYTE)
MOST_IN_A_ROW = 20
MOST_IN_AN_IMPORT = 10_000
MOST_FETCHED = 500
SECONDS_OF_FETCHING = 90.0
LONGEST_NAME = 200
# A key of `reading.SENTENCES`.
LEFT_AS_TEXT = "images left as text"
# An image may have megabytes, and all images of a statement are in memory.
_WRITTEN_TOGETHER = 20
_HASH = re.compile(r"[0-9a-f]{64}")
_DATA = re.compile(r"data:[^,]{0,200};base64,", re.IGNORECASE)
_BROKEN = (zipfile.BadZipFile, zlib.error, EOFError, RuntimeError, NotImplementedError, OSError)
_OF_WORKBOOKS = "[Content_Types].xml"


def is_bundle(path: Path) -> bool:
    """Return True for a ZIP of pairs and images. A workbook is a ZIP as well."""
    try:
        with Archive(path, BOUNDS) as archive:
            return _OF_WORKBOOKS not in archive.names
    # The reader that its name asks for refuses it, and says why.
    except TooLarge:
        return path.suffix.lower() == ".zip"
    except (OSError, zipfile.BadZipFile):
        return False


def _unusable(path: Path, reason: str) -> UserError:
    return UserError(f"{path.name} can't be used: {reason}. Nothing was imported.")


def _own_folder(path: Path) -> tuple[Path, bool]:
    """Return a folder of the site's own for what a ZIP holds, and whether the ZIP is an upload."""
    root = Path(settings.MEDIA_ROOT) / FOLDER
    is_upload = path.parent.parent == root
    return path.parent if is_upload else root / uuid.uuid4().hex, is_upload


def unpacked(path: Path) -> Path:
    """Unpack a ZIP of pairs and images into a folder of the site's own, and return this.

    An upload becomes its folder's content: the ZIP is deleted.
    """
    folder, is_upload = _own_folder(path)
    target = folder / UNPACKED
    if target.exists():
        raise _unusable(path, "one ZIP can be imported at a time")
    try:
        target.mkdir(parents=True, mode=0o700)
        with Archive(path, BOUNDS) as archive:
            for name in archive.names:
                if not name.endswith("/") and (inside := _inside(path, name)):
                    archive.extract(name, target / inside)
    except (TooLarge, FileExistsError) as error:
        shutil.rmtree(target, ignore_errors=True)
        twice = "it holds a file twice" if isinstance(error, FileExistsError) else str(error)
        raise _unusable(path, twice) from None
    except _BROKEN:
        shutil.rmtree(target, ignore_errors=True)
        raise _unusable(path, "it is no whole ZIP, or it needs a password") from None
    except UserError:
        shutil.rmtree(target, ignore_errors=True)
        raise
    if is_upload:
        path.unlink()
    return target


def _inside(path: Path, name: str) -> PurePosixPath | None:
    """Return where a member goes. Hidden files, which some systems add, are left out."""
    parts = PurePosixPath(name).parts
    if not parts or any(part.startswith((".", "__MACOSX")) and part != ".." for part in parts):
        return None
    # No name may lead out of the folder, or be one that another file system can't have.
    long = any(len(part.encode(errors="replace")) > LONGEST_NAME for part in parts)
    if long or ".." in parts or name.startswith("/") or not name.isprintable() or "\\" in name:
        raise _unusable(path, f"it holds the file {quoted(name)}, whose name is not allowed")
    return PurePosixPath(*parts)


# inspect_ai's own files are ZIPs: `header.json` is there once a log is finished.
_LOG_HEADS = ("header.json", "_journal/start.json", "start.json")
_OF_A_LOG = re.compile(r"samples/[^/]+_epoch_[0-9]+\.json")


def log_as_json(path: Path) -> Path | None:
    """Write a ZIP that is a log of inspect_ai as its own JSON format has it, and return the file.

    It is one object with all samples. Any other ZIP gives None. An uploaded log is deleted.
    """
    folder, is_upload = _own_folder(path)
    target = (folder if is_upload else folder / UNPACKED) / f"{path.name}.json"
    try:
        with Archive(path, BOUNDS) as archive:
            names = archive.names
            head = next((name for name in _LOG_HEADS if name in names), "")
            if not head or not any(map(_OF_A_LOG.fullmatch, names)):
                return None
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            _write_log(path, archive, head, target)
    except TooLarge as error:
        target.unlink(missing_ok=True)
        raise _unusable(path, str(error)) from None
    except _BROKEN:
        target.unlink(missing_ok=True)
        raise _unusable(path, "it is no whole log") from None
    if is_upload:
        path.unlink()
    return target


def _write_log(path: Path, archive: Archive, head: str, target: Path) -> None:
    try:
        about = shallow_json(b"".join(archive.pieces(head)))["eval"]
    except (ValueError, LookupError, TypeError):
        raise _unusable(path, f"its {head} doesn't say what was evaluated") from None
    with target.open("wb") as stream:
        # By the line break, `format_of` takes the file for one document and not for JSON Lines.
        stream.write(b'{\n"eval": ' + json.dumps(about).encode() + b',\n"samples": [')
        for place, name in enumerate(filter(_OF_A_LOG.fullmatch, archive.names)):
            stream.write(b",\n" if place else b"\n")
            for piece in archive.pieces(name):
                stream.write(piece)
        stream.write(b"\n]}\n")


def folder_of(path: Path) -> tuple[Path, bool]:
    """Return the folder in which the images of a file of pairs are, and whether it is a ZIP's."""
    for parent in path.parents:
        if parent.name == UNPACKED and parent.parent.parent.name == FOLDER:
            return parent, True
    return path.parent, False


class Images:
    """The images that the rows of some files name.

    Args:
        folders: folders of data sets that were named. Their images must be there.
        known: what an earlier reading made of each name: a hash, "" for what stays text, or else
            nothing. Then nothing else is read.
        before: the same of a reading with another mapping. What isn't in it is read.
    """

    def __init__(
        self,
        paths: Sequence[Path] = (),
        folders: Sequence[Path] = (),
        project_id: int | None = None,
        known: Mapping[str, str] | None = None,
        before: Mapping[str, str] | None = None,
    ) -> None:
        self._places = {str(path): number for number, path in enumerate(paths)}
        self._folders = folders
        self._project = project_id
        self._closed = known is not None
        self.known: dict[str, str] = dict(known or before or {})
        self._faults: dict[str, str] = {}
        self._kept: dict[str, Cleaned] = {}
        self._fetched, self._seconds = 0, 0.0
        self._folder = Path()

    @property
    def to_remember(self) -> dict[str, str] | None:
        """What a later reading needs; None if the rows have no images."""
        return self.known if self._faults or any(self.known.values()) else None

    def settle(self, row: ExampleRow, record: Record) -> ExampleRow | Refused:
        """Return the row with hashes for images, or all that is wrong with these."""
        problems: list[RecordProblem] = []
        notes: list[str] = []
        lists = conversations.unpacked(row.conversation) if row.conversation else {}
        texts: dict[str, str] = {}
        for field, text in zip(conversations.ALONE, row.texts, strict=True):

            def put(target: str, *, required: bool = False, field: str = field) -> str:
                try:
                    sha256 = self._hash(row, target, required=required)
                except NoImage as error:
                    problems.append(RecordProblem(row.place, field, f"{_named(target)} {error}."))
                    return ""
                if not sha256 and LEFT_AS_TEXT not in notes:
                    notes.append(LEFT_AS_TEXT)
                return sha256

            if field in lists:
                lists[field] = conversations.with_images(
                    lists[field],
                    lambda text, put=put: replaced(text, put),
                    lambda target, put=put: SCHEME + put(target, required=True),
                )
                texts[field] = conversations.text_of(lists[field], field)
            else:
                texts[field] = replaced(text, put)
        if len(hashes_in(*texts.values())) > MOST_IN_A_ROW:
            sentence = f"The row has more than {MOST_IN_A_ROW} images. Leave some of them out."
            problems.append(RecordProblem(row.place, "", sentence))
        if problems:
            return Refused(tuple(problems), record.raw)
        packed = conversations.dumped(lists) if lists else None
        return replace(row, **texts, conversation=packed, notes=(*row.notes, *notes))

    def _hash(self, row: ExampleRow, target: str, *, required: bool) -> str:
        """Return the hash of an image, "" if its name stays text. Raises NoImage."""
        target = target.strip()
        is_data = target[:5].lower() == "data:"
        # The same name means another file next to another file of pairs.
        key = (
            f"data:{hashlib.sha256(target.encode(errors='replace')).hexdigest()}"
            if is_data
            else f"{self._places.get(row.place.file, 0)}:{target}"
        )
        if fault := self._faults.get(key):
            raise NoImage(fault)
        if key not in self.known:
            if self._closed:
                raise NoImage("was refused when the file was checked")
            try:
                self.known[key] = self._read(Path(row.place.file), target)
            except NoImage as error:
                self._faults[key] = str(error)
                raise
        if required and not self.known[key]:
            raise NoImage(_why_not(target))
        return self.known[key]

    def _read(self, file: Path, target: str) -> str:
        if target.lower().startswith(SCHEME):
            return self._by_hash(file, target[len(SCHEME) :].lower())
        if target[:5].lower() == "data:":
            return self._clean(_decoded(target))
        if re.match(r"[a-z][a-z0-9+.-]+:", target, re.IGNORECASE):
            return self._fetch(target)
        path, must = self._path(file, target)
        if path is None and must:
            raise NoImage("is not in the ZIP or the folder. Add it, or correct its name")
        return self._clean(_content(path)) if path else ""

    def _by_hash(self, file: Path, sha256: str) -> str:
        """Take an image that the project has, or that an export put next to the rows."""
        if not _HASH.fullmatch(sha256):
            return ""
        if self._is_own(sha256):
            return sha256
        for ending in (".png", ".jpg"):
            path, _ = self._path(file, f"images/{sha256}{ending}")
            if path is not None:
                return self._clean(_content(path))
        raise NoImage(
            "is neither in the project nor next to the rows. Import the whole folder or ZIP that "
            "was exported"
        )

    def _is_own(self, sha256: str) -> bool:
        own = Image.objects.filter(pk=sha256, imports__project=self._project)
        return self._project is not None and own.exists()

    def _path(self, file: Path, target: str) -> tuple[Path | None, bool]:
        """Return the file that is meant, and whether there should be one."""
        folder, must = folder_of(file)
        for named in self._folders:
            if file.is_relative_to(named):
                folder, must = named, True
        name = PurePosixPath(unquote(target))
        if name.is_absolute() or ".." in name.parts or not unquote(target).isprintable():
            return None, must
        for path in (file.parent / name, folder / name):
            # A link in the folder may lead out of it.
            if path.is_file() and path.resolve().is_relative_to(folder.resolve()):
                return path, must
        return None, must

    def _fetch(self, url: str) -> str:
        try:
            parts = urlsplit(url)
            allowed = parts.scheme.lower() in ("http", "https") and outbound.is_allowed(
                parts, settings.FAIRJUDGE_IMAGE_HOSTS
            )
        except ValueError:
            allowed = False
        if not allowed:
            return ""
        self._fetched += 1
        if self._fetched > MOST_FETCHED or self._seconds > SECONDS_OF_FETCHING:
            raise NoImage(
                f"was not fetched: an import fetches at most {MOST_FETCHED} images within "
                f"{SECONDS_OF_FETCHING:.0f} seconds. Upload a ZIP that holds them"
            )
        started = time.monotonic()
        try:
            # From which hosts images come is one list. Which hosts may be in a private network is
            # another.
            content = outbound.get(
                url, settings.FAIRJUDGE_WEBHOOK_HOSTS, settings.FAIRJUDGE_MAX_IMAGE_BYTES
            )
        except Unreachable as error:
            raise NoImage(f"could not be fetched. {str(error).rstrip('.')}") from None
        finally:
            self._seconds += time.monotonic() - started
        return self._clean(content)

    def _clean(self, content: bytes) -> str:
        made = cleaned(content, settings.FAIRJUDGE_MAX_IMAGE_BYTES)
        if made.sha256 not in self._kept:
            if len(self._kept) == MOST_IN_AN_IMPORT:
                raise NoImage(
                    f"is one too many: an import has at most {MOST_IN_AN_IMPORT:,} images. Import "
                    "the rows in parts"
                )
            if not self._kept:
                self._folder = Path(tempfile.mkdtemp(prefix="fairjudge-images-"))
                weakref.finalize(self, shutil.rmtree, self._folder, ignore_errors=True)
            # The contents of a large data set's images don't fit into memory.
            (self._folder / made.sha256).write_bytes(made.content)
            self._kept[made.sha256] = replace(made, content=b"")
        return made.sha256

    def _rows(self, hashes: Iterable[str]) -> list[Image]:
        return [
            Image(
                sha256=sha256,
                content_type=self._kept[sha256].content_type,
                width=self._kept[sha256].width,
                height=self._kept[sha256].height,
                content=(self._folder / sha256).read_bytes(),
            )
            for sha256 in hashes
        ]

    def write(self) -> None:
        """Write the images, a few at a time. Nobody sees them until an import has them."""
        there = present(self._kept)
        new = sorted(self._kept.keys() - there)
        for start in range(0, len(new), _WRITTEN_TOGETHER):
            rows = self._rows(new[start : start + _WRITTEN_TOGETHER])
            # Another import may write the same image at this moment.
            Image.objects.bulk_create(rows, ignore_conflicts=True)

    def keep(self, imported: Import) -> None:
        """Give the images to their import. Call it in a transaction, after `write`."""
        used = set(filter(None, self.known.values()))
        # Another project may have ended meanwhile, and its images with it.
        locked = Image.objects.select_for_update(no_key=True).filter(pk__in=used)
        # In one order for all, so that no two imports wait for each other's locks.
        there = set(locked.order_by("pk").values_list("pk", flat=True))
        Image.objects.bulk_create(self._rows(sorted(self._kept.keys() - there)))
        imported.images.set(used & (there | self._kept.keys()))


def present(hashes: Collection[str]) -> set[str]:
    return set(Image.objects.filter(pk__in=list(hashes)).values_list("pk", flat=True))


def _named(target: str) -> str:
    return f"The image {quoted(target)}"


def _why_not(target: str) -> str:
    if re.match(r"https?:", target, re.IGNORECASE):
        return (
            "is at an address that this site doesn't fetch images from. Upload a ZIP that holds "
            "it, or ask the operator to list its host in FAIRJUDGE_IMAGE_HOSTS"
        )
    return "is not in the file. Upload a ZIP that holds it"


def _decoded(url: str) -> bytes:
    begins = _DATA.match(url)
    try:
        if begins is None:
            raise ValueError
        return base64.b64decode(unquote(url[begins.end() :]), validate=True)
    except (binascii.Error, ValueError):
        raise NoImage("is no image in base64. Write data:image/png;base64,…") from None


def _content(path: Path) -> bytes:
    with path.open("rb") as stream:
        # One byte more than is allowed tells that the file is too large.
        return stream.read(settings.FAIRJUDGE_MAX_IMAGE_BYTES + 1)


def link(rows: Iterable[tuple[int, Sequence[str]]], imported: Import) -> None:
    """Say which images are in the texts of new examples. `rows`: keys and texts."""
    held = set(imported.images.values_list("pk", flat=True))
    links = [
        ExampleImage(example_id=key, image_id=sha256)
        for key, texts in rows
        for sha256 in sorted(hashes_in(*texts) & held)
    ]
    ExampleImage.objects.bulk_create(links, batch_size=1000)


def release(imports: Iterable[Import]) -> None:
    """Take their images from imports whose examples are gone. What nobody else uses is deleted."""
    for imported in imports:
        hashes = list(imported.images.values_list("pk", flat=True))
        imported.images.clear()
        for start in range(0, len(hashes), _WRITTEN_TOGETHER):
            with transaction.atomic():
                delete_unused(hashes[start : start + _WRITTEN_TOGETHER])


def delete_unused(hashes: Collection[str] | None = None, **which: Any) -> int:
    """Delete images that no import and no example has, of these or of all."""
    unused = Image.objects.filter(imports=None, examples=None, **which)
    unused = unused if hashes is None else unused.filter(pk__in=list(hashes))
    # By their keys, since Django would read the images first.
    keys = list(unused.values_list("pk", flat=True))
    return delete_rows(Image, pk__in=keys) if keys else 0


@lru_cache(maxsize=16)
def data_url(sha256: str) -> str:
    """Return an image as judges get it, "" if there is none of this hash."""
    image = Image.objects.filter(pk=sha256).first()
    if image is None:
        return ""
    return f"data:{image.content_type};base64,{base64.b64encode(image.content).decode()}"
