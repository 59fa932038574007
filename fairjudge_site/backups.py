"""Backups: the database and the uploads in one file, made while the site is running."""

import fcntl
import hashlib
import json
import os
import secrets
import shutil
import sqlite3
import subprocess
import tempfile
import zlib
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import IO, Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile

from django.apps import apps
from django.conf import settings
from django.contrib.sessions.models import Session
from django.core.management import call_command
from django.db import connections
from django.db.migrations.loader import MigrationLoader
from django.utils import timezone

from judging.core import storage
from judging.core.bounds import (
    MEBIBYTE,
    MOST_INFLATED,
    PIECE,
    Archive,
    ArchiveBounds,
    TooLarge,
    shallow_json,
)
from judging.core.caching import report_cache
from judging.core.errors import UserError
from judging.core.sql.statements import MANY, rows_came
from judging.projects.models import ApiToken, LoginSession, Mail, Webhook
from judging.runs.models import Run

_KIND = "fairjudge-backup"
_DATABASE = {"sqlite": "database.sqlite3", "postgresql": "database.dump"}
_UPLOADS = "uploads/"
# The files of an object storage, by their names there.
_STORED = "stored/"
_REPLACED = "replaced"
_MANIFEST = "backup.json"
_LARGEST_MANIFEST = MEBIBYTE
_MIGRATIONS = "django_migrations"
# Tables whose keys open the site. No other table refers to these keys.
_SESSIONS = (Session._meta.db_table, LoginSession._meta.db_table)
# A dump of FairJudge has some 300 entries and a few hundred migrations.
_MOST_ENTRIES = 20_000
_LARGEST_LIST = 4 * MEBIBYTE
_OWN_APPS = ("annotation", "judging")
# Their tables are there, and stay empty, where single sign-on was configured at some time.
_SIGN_ON_APPS = ("account", "socialaccount")
# Every table to whose rows signed links refer has a field of this name.
NONCE = "nonce"

# By table, its number of rows, and the sum of their hashes: rows come in any order.
Contents = dict[str, list[Any]]


def back_up(path: Path) -> tuple[int, int]:
    """Write a backup to a new file that only its owner can read.

    Returns its size in bytes, and its number of rows. What each table holds is counted and hashed
    in the state that was copied, so that `restore` can compare.
    """
    if path.exists():
        raise UserError(f"{path} exists already. Nothing was written. Give another name.")
    vendor = connections["default"].vendor
    try:
        with _working_folder(path.parent, ".backup-") as folder:
            database = Path(folder, _DATABASE[vendor])
            held = (_copy_sqlite if vendor == "sqlite" else _dump_postgresql)(database)
            whole = Path(folder, "whole.zip")
            with open(os.open(whole, os.O_CREAT | os.O_WRONLY, 0o600), "wb") as stream:
                _pack(stream, vendor, database, held)
            whole.rename(path)
    except (OSError, sqlite3.Error) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path} can't be written: {reason}.") from error
    return path.stat().st_size, sum(rows for rows, _ in held.values())


def restore(path: Path) -> int | None:
    """Replace the database and the uploads by a backup, whose file is checked first.

    Returns the number of rows, each of which reads as it did when the backup was made. It is None
    for a backup of a release that didn't count them.

    Runs that were working when the backup was made are paused: the answers that they got since are
    lost, and a person should decide whether to pay for them twice.
    """
    vendor = connections["default"].vendor
    with _working_folder(settings.FAIRJUDGE_DATA, ".restore-") as folder:
        try:
            room = shutil.disk_usage(folder).free
            bounds = ArchiveBounds(members=2_000_000, inflated=room, free=room, seconds=24 * 3600)
            with Archive(path, bounds) as packed:
                held = _check(packed, vendor)
                _unpack(packed, vendor, Path(folder))
        except TooLarge as error:
            raise UserError(f"{path} can't be restored: {error}. Nothing was changed.") from None
        except (BadZipFile, OSError, KeyError, ValueError, zlib.error, NotImplementedError):
            raise UserError(
                f"{path} is not a complete FairJudge backup. Nothing was changed."
            ) from None
        database = Path(folder, _DATABASE[vendor])
        _refuse_other_schema(_migrations(vendor, database))
        (_put_sqlite if vendor == "sqlite" else _load_postgresql)(database)
        _put_uploads(Path(folder, _UPLOADS))
        if held is not None:
            _compare(held, vendor)
        # The backup may come from an older release. Nobody else uses the tables at this time.
        call_command("migrate", verbosity=0, interactive=False)
        _put_archives(Path(folder, _STORED))
    # Reports are cached by the number of votes, and as many other votes may be given again.
    report_cache.clear()
    at_work = (Run.State.QUEUED, Run.State.RUNNING, Run.State.PAUSING, Run.State.CANCELLING)
    Run.objects.filter(state__in=at_work).update(
        state=Run.State.PAUSED, lease_until=None, reason="Restored from a backup. Resume to go on."
    )
    _end_links_and_logins()
    # A dump of PostgreSQL holds no statistics.
    rows_came(MANY)
    return None if held is None else sum(rows for rows, _ in held.values())


def _compare(held: Contents, vendor: str) -> None:
    if vendor == "sqlite":
        with closing(sqlite3.connect(_sqlite_file())) as database:
            contents = _sqlite_contents(database)
    else:
        with _own_connection() as connection:
            contents = _postgresql_contents(connection)
    for table in sorted(held):
        rows, there = held[table][0], contents.get(table, [0, ""])
        if there != held[table]:
            raise UserError(
                f"The table {table} isn't as it was when the backup was made: it has {there[0]} "
                f"rows, and {rows} were saved. Don't start the site. Restore the backup again, or "
                "another one."
            )


@contextmanager
def _working_folder(parent: Path, prefix: str) -> Iterator[str]:
    """Make a folder, and delete those that killed processes left.

    A process locks its folder, and the lock ends with the process.
    """
    for left in parent.glob(f"{prefix}*/"):
        with suppress(OSError), _locked(left):
            if prefix == ".restore-":
                _bring_back_uploads(left)
            shutil.rmtree(left)
    with tempfile.TemporaryDirectory(dir=parent, prefix=prefix) as folder, _locked(Path(folder)):
        yield folder


@contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Lock it. Raises OSError if another process has the lock."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(handle)


def _bring_back_uploads(left: Path) -> None:
    """Put uploads in place if the process was killed while it exchanged them."""
    media = Path(settings.MEDIA_ROOT)
    for name in (_UPLOADS, _REPLACED):
        if (left / _REPLACED).is_dir() and (left / name).is_dir() and not media.exists():
            (left / name).rename(media)


def _end_links_and_logins() -> None:
    """End all links, logins and API tokens from before, and pause webhooks.

    Otherwise those that were withdrawn, used or logged out since the backup would work again, and a
    link could refer to a row that is a different one now. Receivers would be told twice what a
    webhook has sent since the backup, or what a copy of the site does. The same holds for mail.
    """
    for model in apps.get_models():
        if any(field.name == NONCE for field in model._meta.fields):
            for key in model._base_manager.values_list("pk", flat=True):
                model._base_manager.filter(pk=key).update(**{NONCE: secrets.token_urlsafe()})
    Session.objects.all().delete()
    LoginSession.objects.all().delete()
    ApiToken.objects.filter(revoked_at=None).update(revoked_at=timezone.now())
    waiting = Mail.objects.filter(state__in=(Mail.State.WAITING, Mail.State.SENDING))
    waiting.update(state=Mail.State.DROPPED, to="")
    on = Webhook.objects.filter(state=Webhook.State.ON)
    on.update(state=Webhook.State.PAUSED, holder="", lease_until=None)


def _pack(stream: IO[bytes], vendor: str, database: Path, held: Contents) -> None:
    media = Path(settings.MEDIA_ROOT)
    manifest = {"kind": _KIND, "database": vendor, "made_at": timezone.now().isoformat()}
    manifest |= {"tables": held}
    with ZipFile(stream, "w", ZIP_DEFLATED) as packed:
        packed.writestr(_MANIFEST, json.dumps(manifest))
        packed.write(database, database.name)
        for file in sorted(path for path in media.rglob("*") if path.is_file()):
            if file.relative_to(media).parts[0].startswith(storage.AT_HAND):
                continue
            # An import that is undone at this moment deletes its files.
            with suppress(FileNotFoundError):
                packed.write(file, _UPLOADS + str(file.relative_to(media)))
        if not settings.FAIRJUDGE_FILES.is_elsewhere:
            return
        for name in storage.archives():
            with (
                suppress(FileNotFoundError),
                storage.opened(name) as source,
                packed.open(_STORED + name, "w", force_zip64=True) as target,
            ):
                shutil.copyfileobj(source, target, PIECE)


def _check(packed: Archive, vendor: str) -> Contents | None:
    manifest = shallow_json(packed.read(_MANIFEST, _LARGEST_MANIFEST))
    if manifest["kind"] != _KIND:
        raise ValueError("another kind of file")
    if manifest["database"] != vendor:
        raise UserError(
            f"This backup comes from {manifest['database']}, and this site uses {vendor}. "
            "Nothing was changed."
        )
    held: Contents | None = manifest.get("tables")
    if held is not None and not all(
        isinstance(entry, list) and [type(part) for part in entry] == [int, str]
        for entry in held.values()
    ):
        raise ValueError("what the tables held can't be read")
    return held


def _unpack(packed: Archive, vendor: str, folder: Path) -> None:
    """Write the database and the uploads into the folder. A damaged member raises BadZipFile."""
    for name in packed.names:
        target = folder / name
        kept = name.startswith((_UPLOADS, _STORED))
        if kept and ".." in target.parts:
            raise ValueError("a name that leads elsewhere")
        if name == _DATABASE[vendor] or (kept and not name.endswith("/")):
            packed.extract(name, target)


def _refuse_other_schema(applied: set[tuple[str, str]]) -> None:
    """Refuse tables of a newer release: they would break some page after the old ones are gone."""
    if not any(app == Run._meta.app_label for app, _ in applied):
        raise UserError("The database in this backup isn't one of FairJudge. Nothing was changed.")
    here = MigrationLoader(None).disk_migrations
    known = set(here).union(*(migration.replaces for migration in here.values()))
    known |= {migration for migration in applied if migration[0] in _SIGN_ON_APPS}
    if unknown := sorted(f"{app}.{name}" for app, name in applied - known):
        raise UserError(
            "This backup was made by a newer FairJudge: its database has "
            f"{', '.join(unknown)}, which this one does not know. Nothing was changed. Install "
            "that release or a later one, and restore the backup there."
        )


def _migrations(vendor: str, database: Path) -> set[tuple[str, str]]:
    """Return app and name of the migrations that were applied to the database in this file."""
    return (_sqlite_migrations if vendor == "sqlite" else _dumped_migrations)(database)


def _sqlite_migrations(source: Path) -> set[tuple[str, str]]:
    with closing(sqlite3.connect(source)) as held:
        if not _sound(held):
            raise UserError("The database in this backup is damaged. Nothing was changed.")
        tables = held.execute("SELECT name FROM sqlite_master WHERE type = 'table'")
        if (_MIGRATIONS,) not in tables.fetchall():
            return set()
        return set(held.execute(f"SELECT app, name FROM {_MIGRATIONS}"))


def _dumped_migrations(source: Path) -> set[tuple[str, str]]:
    """Read the rows as pg_restore writes them: id, app, name and time, separated by tabs."""
    listed = source.with_name("list.txt")
    _bounded(["pg_restore", "--list", str(source)], listed, _LARGEST_LIST)
    if listed.read_bytes().count(b"\n") > _MOST_ENTRIES:
        raise UserError("The dump in this backup has too many entries. Nothing was changed.")
    rows = source.with_name("migrations.sql")
    only = ["--data-only", f"--table={_MIGRATIONS}", "--file=-"]
    _bounded(["pg_restore", *only, str(source)], rows, _LARGEST_LIST)
    lines = rows.read_text(encoding="utf-8").splitlines()
    return {(cells[1], cells[2]) for line in lines if len(cells := line.split("\t")) == 4}


def _copy_sqlite(target: Path) -> Contents:
    """Use SQLite's own backup, which copies consistently while others write."""
    with closing(sqlite3.connect(_sqlite_file())) as source, closing(sqlite3.connect(target)) as to:
        source.backup(to)
        # Anyone who has the file could use the keys at the site. Overwritten, not only deleted.
        to.execute("PRAGMA secure_delete = ON")
        # Before an upgrade has made its tables, one of them may be missing.
        tables = {name for (name,) in to.execute("SELECT name FROM sqlite_master")}
        for table in tables.intersection(_SESSIONS):
            to.execute(f"DELETE FROM {table}")
        to.commit()
        to.execute("PRAGMA journal_mode = DELETE")
        return _sqlite_contents(to)


def _sqlite_contents(database: sqlite3.Connection) -> Contents:
    contents: Contents = {}
    # A text that isn't UTF-8 is counted like any other.
    database.text_factory = bytes
    named = database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
    for table in (name.decode() for (name,) in named):
        if table.startswith("sqlite_"):
            continue
        rows = total = 0
        for row in database.execute(f'SELECT * FROM "{table}"'):
            rows += 1
            total += int.from_bytes(hashlib.sha256(repr(row).encode()).digest())
        contents[table] = [rows, f"{total % 2**256:064x}"]
    return contents


def _put_sqlite(source: Path) -> None:
    connections.close_all()
    try:
        with (
            closing(sqlite3.connect(source)) as held,
            closing(sqlite3.connect(_sqlite_file(), timeout=20)) as target,
        ):
            held.backup(target)
    except sqlite3.Error as error:
        raise UserError(f"The database can't be restored: {error}.") from error


def _sound(database: sqlite3.Connection) -> bool:
    try:
        return bool(database.execute("PRAGMA quick_check").fetchone()[0] == "ok")
    except sqlite3.DatabaseError:
        return False


def _sqlite_file() -> str:
    return str(connections["default"].settings_dict["NAME"])


def _dump_postgresql(target: Path) -> Contents:
    """Dump and count in one snapshot. Neither takes a lock for which a writer would wait."""
    without_keys = [f"--exclude-table-data={table}" for table in _SESSIONS]
    command = ["pg_dump", "--format=custom", "--no-owner", *without_keys, f"--file={target}"]
    with _own_connection() as connection:
        (snapshot,) = connection.execute("SELECT pg_export_snapshot()").fetchone()
        _run([*command, f"--snapshot={snapshot}"])
        return _postgresql_contents(connection)


@contextmanager
def _own_connection() -> Iterator[Any]:
    """A transaction that sees one state of the database, and is no part of another one."""
    default = connections["default"]
    with closing(default.get_new_connection(default.get_connection_params())) as connection:
        connection.autocommit = True
        connection.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        # As texts of values are compared, nobody's settings may change how they are written.
        connection.execute("SET LOCAL TimeZone = 'UTC'")
        connection.execute("SET LOCAL DateStyle = 'ISO'")
        yield connection


def _postgresql_contents(connection: Any) -> Contents:
    quote = connections["default"].ops.quote_name
    tables = connection.execute(
        "SELECT tablename FROM pg_tables WHERE schemaname = current_schema() ORDER BY tablename"
    ).fetchall()
    contents: Contents = {}
    for (table,) in tables:
        if table not in _SESSIONS:
            rows, total = connection.execute(
                "SELECT count(*), coalesce(sum(('x' || left(md5(one::text), 16))::bit(64)::bigint"
                f"::numeric), 0) FROM {quote(table)} AS one"
            ).fetchone()
            contents[table] = [rows, str(total)]
    return contents


def _load_postgresql(source: Path) -> None:
    """Drop all tables first: --clean of pg_restore would fail at tables of a later release."""
    introspection = connections["default"].introspection
    tables = {*introspection.django_table_names(only_existing=True), _MIGRATIONS}
    # This release may have dropped a table that this database and the backup both still have.
    own = tuple(f"{app}_" for app in (*_OWN_APPS, *_SIGN_ON_APPS))
    tables.update(name for name in introspection.table_names() if name.startswith(own))
    drops, whole = source.with_name("drops.sql"), source.with_name("whole.sql")
    names = ", ".join(connections["default"].ops.quote_name(table) for table in sorted(tables))
    drops.write_text(f"DROP TABLE IF EXISTS {names} CASCADE;", encoding="utf-8")
    connections.close_all()
    room = shutil.disk_usage(source.parent).free
    most = min(room, max(MEBIBYTE * 256, MOST_INFLATED * source.stat().st_size))
    _bounded(["pg_restore", "--no-owner", "--file=-", str(source)], whole, most)
    options = ["--no-psqlrc", "--quiet", "--single-transaction", "--set=ON_ERROR_STOP=1"]
    _run(["psql", *options, "--output=/dev/null", f"--file={drops}", f"--file={whole}"])


def _run(command: list[str]) -> None:
    """Run one of PostgreSQL's tools."""
    with _started(command) as tool:
        _, errors = tool.communicate()
    _refuse_failure(command, tool.returncode, errors)


def _bounded(command: list[str], target: Path, most: int) -> None:
    """Write what one of the tools reads from a dump, up to a size: it may inflate to anything."""
    with _started(command, log=target.with_suffix(".said")) as tool, target.open("wb") as stream:
        assert tool.stdout is not None
        while piece := tool.stdout.read(PIECE):
            most -= len(piece)
            if most < 0:
                tool.kill()
                raise UserError(
                    "The dump in this backup inflates further than a genuine one, or than the disk "
                    "has room. Nothing was changed."
                )
            stream.write(piece)
    _refuse_failure(command, tool.returncode, target.with_suffix(".said").read_bytes())


@contextmanager
def _started(command: list[str], log: Path | None = None) -> Iterator[subprocess.Popen[bytes]]:
    """Start a tool, with the password in the environment, not in the command."""
    where = connections["default"].settings_dict
    names = {"PGHOST": "HOST", "PGPORT": "PORT", "PGUSER": "USER", "PGPASSWORD": "PASSWORD"}
    login = {name: str(where[key]) for name, key in names.items() if where[key]}
    if shutil.which(command[0]) is None:
        raise UserError(
            f"{command[0]} is not installed here. Nothing was changed. Install PostgreSQL's client "
            "tools, or use the server's own backups. The uploads are in FAIRJUDGE_DATA/uploads."
        )
    environment = os.environ | login | {"PGDATABASE": str(where["NAME"])}
    with ExitStack() as held:
        # To a file, so that neither of two pipes fills while the other is read.
        errors = held.enter_context(log.open("wb")) if log else subprocess.PIPE
        pipes = {"stdout": subprocess.PIPE, "stderr": errors, "env": environment}
        yield held.enter_context(subprocess.Popen(command, **pipes))  # type: ignore[call-overload]


def _refuse_failure(command: list[str], code: int, errors: bytes) -> None:
    if code:
        # There may be notices before the error, and after it what the tool was doing.
        lines = errors.decode(errors="replace").strip().splitlines() or ["no reason given"]
        reason = next((line for line in lines if "error:" in line.lower()), lines[-1])
        raise UserError(f"{command[0]} failed: {reason}. Nothing was changed.")


def _put_uploads(source: Path) -> None:
    media = Path(settings.MEDIA_ROOT)
    if media.is_dir():
        media.rename(source.parent / _REPLACED)
    if source.is_dir():
        source.rename(media)


def _put_archives(source: Path) -> None:
    """Give the files of the backup to the store of this site, wherever they were."""
    for path in sorted(source.rglob("*.zip")):
        storage.put(str(path.relative_to(source)), path)
