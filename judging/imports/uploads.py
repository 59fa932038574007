"""Where the files of an import are: uploads in the site's folder, others where they were found."""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterable, Iterator
from itertools import count
from pathlib import Path

from django.conf import settings
from django.core.files.uploadedfile import UploadedFile

from judging.imports.refused import refused_path
from judging.models.imports import Import

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
