"""The store of the site's own files and computed figures, in which each machine finds them.

Work on files needs a folder of this machine, `MEDIA_ROOT`. `share` moves what is in a folder of
uploads to the store, as one archive for each part, and `at_hand` brings it back for a while. If
that folder is itself the store (FAIRJUDGE_FILES), both do nothing.
"""

import hashlib
import hmac
import pickle
import shutil
import tempfile
import zlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path, PurePosixPath
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from django.conf import settings
from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache
from django.core.files.base import File
from django.core.files.storage import Storage, storages
from django.db.models import Q
from django.utils import timezone

from judging.core.bounds import MEBIBYTE
from judging.core.errors import UserError
from judging.core.models import KeptFigure, StoredFile, StoredPiece

FOLDER = "imports"
# What was uploaded or made, and the refused rows that an import left.
CONTENT, REFUSED = "content", "refused"
PARTS = (CONTENT, REFUSED)
ALIAS = "files"
# Folders with copies from the store. A process that was killed leaves its own behind.
AT_HAND = ".at-hand-"
LEFT_BEHIND_AFTER = timedelta(days=1)


class StoreAway(UserError):
    """The object storage doesn't answer, or refuses."""


def is_shared() -> bool:
    """Return True if files are kept elsewhere than in this machine's folder of uploads."""
    return ALIAS in settings.STORAGES


@contextmanager
def _store() -> Iterator[Storage]:
    """Give the store, and say in a sentence what its client raises."""
    try:
        yield storages[ALIAS]
    # That a file isn't there is an answer, and no failure of the store.
    except FileNotFoundError:
        raise
    except Exception as error:
        # The client is an extra and may be missing, so its errors are known by their modules.
        if not type(error).__module__.startswith(("boto", "s3transfer", "urllib3")):
            raise
        raise StoreAway(
            f"The object storage of FAIRJUDGE_FILES failed: {error} Nothing was changed. Try again "
            "later, or tell the operator."
        ) from None


def folder_name(name: str | Path) -> str:
    """Return the folder of a file of the site's own, such as `imports/3f…`."""
    return str(PurePosixPath(*Path(name).parts[:2]))


def _archive(folder: str, part: str) -> str:
    return f"{folder}/{part}.zip"


def share(folder: Path, part: str = CONTENT, paths: Sequence[Path] | None = None) -> None:
    """Put files of a folder of uploads where each machine finds them, in the place of the part.

    Args:
        folder: below `MEDIA_ROOT`, or where `at_hand` put it.
        paths: only these; by default all, and then nothing of the folder stays here.
    """
    if not is_shared():
        return
    name = folder_name(Path(*folder.parts[-2:]))
    files = sorted(folder.rglob("*")) if paths is None else paths
    with tempfile.TemporaryFile() as packed:
        with ZipFile(packed, "w", ZIP_DEFLATED, compresslevel=1) as archive:
            for path in filter(Path.is_file, files):
                archive.write(path, path.relative_to(folder))
        packed.seek(0)
        with _store() as store:
            store.save(_archive(name, part), File(packed, name=part))
    if paths is None:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def at_hand(names: Iterable[str]) -> Iterator[Path]:
    """Give the folder below which these files of the site's own are, while the block lasts.

    What isn't in the store is missing there, as a file is that was deleted.

    Args:
        names: of the files, relative to `MEDIA_ROOT`. All of their folders is fetched.
    """
    root = Path(settings.MEDIA_ROOT)
    folders = sorted({folder_name(name) for name in names})
    if not is_shared() or all((root / folder).is_dir() for folder in folders):
        yield root
        return
    root.mkdir(parents=True, exist_ok=True, mode=0o700)
    with tempfile.TemporaryDirectory(dir=root, prefix=AT_HAND) as made:
        for folder in folders:
            target = Path(made, folder)
            target.parent.mkdir(parents=True, exist_ok=True)
            if (root / folder).is_dir():
                # From before the files moved to the store.
                target.symlink_to(root / folder)
                continue
            target.mkdir()
            for part in PARTS:
                _fetch(folder, part, target)
        yield Path(made)


def _fetch(folder: str, part: str, target: Path) -> None:
    try:
        with _store() as store, store.open(_archive(folder, part)) as packed:
            ZipFile(packed).extractall(target)
    except FileNotFoundError:
        return
    except BadZipFile:
        raise UserError(
            f"The file {_archive(folder, part)} in the store is damaged. Nothing was changed. "
            "Upload the file again."
        ) from None


def holds(folder: str) -> bool:
    """Return True if the store has anything of a folder."""
    if not is_shared():
        return False
    with _store() as store:
        return any(store.exists(_archive(folder, part)) for part in PARTS)


def forget(folder: str, parts: Sequence[str] = PARTS) -> None:
    """Delete parts of a folder from the store. Those that aren't there are no fault."""
    if is_shared():
        for part in parts:
            with _store() as store:
                store.delete(_archive(folder, part))


def stored() -> Iterator[tuple[str, datetime]]:
    """Yield each folder in the store, and when its content was put there."""
    if not is_shared():
        return
    with _store() as store:
        for uuid in store.listdir(FOLDER)[0]:
            folder = f"{FOLDER}/{uuid}"
            for part in PARTS:
                if store.exists(_archive(folder, part)):
                    yield folder, store.get_modified_time(_archive(folder, part))
                    break


def archives() -> Iterator[str]:
    """Yield the names of all files in the store."""
    for folder, _ in stored():
        yield from (_archive(folder, part) for part in PARTS)


@contextmanager
def opened(name: str) -> Iterator[File]:
    """Open a file of the store. Raises FileNotFoundError if there is none."""
    with _store() as store, store.open(name) as stream:
        yield stream


def put(name: str, path: Path) -> None:
    """Put one of `archives` back. If the folder of uploads is the store, unpack it there."""
    if not is_shared():
        with ZipFile(path) as packed:
            packed.extractall(Path(settings.MEDIA_ROOT, folder_name(name)))
        return
    with path.open("rb") as stream, _store() as store:
        store.save(name, File(stream, name=name))


def tidy() -> None:
    """Delete what killed processes left in the folder of uploads, and figures that are too old.

    Uploads from before the site had a store go there, too.
    """
    oldest = timezone.now() - LEFT_BEHIND_AFTER
    for left in Path(settings.MEDIA_ROOT).glob(f"{AT_HAND}*/"):
        if left.stat().st_mtime < oldest.timestamp():
            shutil.rmtree(left, ignore_errors=True)
    share_all(oldest)
    StoredFile.objects.filter(whole=False, created_at__lt=oldest).delete()
    KeptFigure.objects.filter(until__lt=timezone.now()).delete()


def share_all(before: datetime) -> None:
    """Move folders of uploads that are older than this from this machine to the store."""
    if not is_shared():
        return
    for folder in (Path(settings.MEDIA_ROOT) / FOLDER).glob("*/"):
        if folder.stat().st_mtime <= before.timestamp():
            share(folder)


PIECE = MEBIBYTE


class DatabaseStorage(Storage):
    """Keeps files in the database, a mebibyte in each row."""

    def _open(self, name: str, mode: str = "rb") -> File:
        row = self._row(name)
        if row is None:
            raise FileNotFoundError(name)
        content = tempfile.TemporaryFile()  # noqa: SIM115 - the reader closes it
        # One piece at a time, so that no file is in memory as a whole.
        for place in row.pieces.order_by("place").values_list("pk", flat=True):
            content.write(row.pieces.values_list("content", flat=True).get(pk=place))
        content.seek(0)
        return File(content, name=name)

    def _save(self, name: str, content: File) -> str:
        """Readers find the earlier file of the name until the new one is whole."""
        row = StoredFile.objects.create(name=name)
        for place, piece in enumerate(content.chunks(PIECE)):
            StoredPiece.objects.create(file=row, place=place, content=piece)
        StoredFile.objects.filter(pk=row.pk).update(whole=True, size=content.size)
        # A later file of the name may be half written by another process, so it stays.
        StoredFile.objects.filter(name=name, pk__lt=row.pk).delete()
        return name

    def _row(self, name: str) -> StoredFile | None:
        return StoredFile.objects.filter(name=name, whole=True).order_by("-pk").first()

    def get_available_name(self, name: str, max_length: int | None = None) -> str:
        # Django would choose another name for a file that is there. Here the new file replaces it.
        return name

    def delete(self, name: str) -> None:
        StoredFile.objects.filter(name=name).delete()

    def exists(self, name: str) -> bool:
        return self._row(name) is not None

    def size(self, name: str) -> int:
        row = self._row(name)
        if row is None:
            raise FileNotFoundError(name)
        return row.size

    def get_modified_time(self, name: str) -> datetime:
        row = self._row(name)
        if row is None:
            raise FileNotFoundError(name)
        return row.created_at

    def listdir(self, path: str) -> tuple[list[str], list[str]]:
        prefix = f"{path}/" if path else ""
        names = StoredFile.objects.filter(name__startswith=prefix, whole=True)
        inside = [name[len(prefix) :] for name in names.values_list("name", flat=True)]
        folders = sorted({name.partition("/")[0] for name in inside if "/" in name})
        return folders, sorted({name for name in inside if "/" not in name})


def key_mark() -> str:
    """Return what tells whether two machines have the same secret key, and nothing of the key."""
    return hmac.digest(settings.SECRET_KEY.encode(), b"mark of the key", "sha256").hex()[:16]


class DatabaseCache(BaseCache):
    """Keeps figures in the database for all machines of a site.

    Each is signed with the site's secret key: unpickling runs what it reads.
    """

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)

    def _row(self, key: str, version: int | None) -> str:
        # Keys may have any length. The column holds the 64 digits of a hash.
        return hashlib.sha256(self.make_key(key, version).encode()).hexdigest()

    def _signature(self, row: str, content: bytes) -> bytes:
        secret = settings.SECRET_KEY.encode()
        return hmac.digest(secret, b"kept figure" + row.encode() + content, "sha256")

    def _packed(self, row: str, value: Any, timeout: Any) -> dict[str, Any]:
        content = zlib.compress(pickle.dumps(value, pickle.HIGHEST_PROTOCOL), 1)
        seconds = self.get_backend_timeout(timeout)
        until = None if seconds is None else datetime.fromtimestamp(seconds, timezone.now().tzinfo)
        return {"content": self._signature(row, content) + content, "until": until}

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        return self.get_many([key], version).get(key, default)

    def get_many(self, keys: Iterable[str], version: int | None = None) -> dict[str, Any]:
        key_of = {self._row(key, version): key for key in keys}
        still_kept = Q(until=None) | Q(until__gte=timezone.now())
        figures = KeptFigure.objects.filter(still_kept, pk__in=key_of).values_list("key", "content")
        values = {}
        for row, kept in figures:
            signature, content = bytes(kept[:32]), bytes(kept[32:])
            if hmac.compare_digest(signature, self._signature(row, content)):
                values[key_of[row]] = pickle.loads(zlib.decompress(content))
        return values

    def set(
        self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> None:
        row = self._row(key, version)
        KeptFigure.objects.bulk_create(
            [KeptFigure(key=row, **self._packed(row, value, timeout))],
            update_conflicts=True,
            unique_fields=["key"],
            update_fields=["content", "until"],
        )

    def add(
        self, key: str, value: Any, timeout: Any = DEFAULT_TIMEOUT, version: int | None = None
    ) -> bool:
        """Keep a figure unless there is one. If several machines add the same key, one succeeds."""
        row = self._row(key, version)
        packed = self._packed(row, value, timeout)
        # A figure whose time is over counts as none. The conditional UPDATE lets one of several
        # take it.
        over = KeptFigure.objects.filter(pk=row, until__lt=timezone.now())
        if over.update(**packed):
            return True
        return KeptFigure.objects.get_or_create(key=row, defaults=packed)[1]

    def delete(self, key: str, version: int | None = None) -> bool:
        return KeptFigure.objects.filter(pk=self._row(key, version)).delete()[0] > 0

    def clear(self) -> None:
        KeptFigure.objects.all().delete()
