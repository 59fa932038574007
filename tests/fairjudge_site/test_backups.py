"""Backup, restore and the move to PostgreSQL, over a data folder of their own, by the commands as
people type them."""

import csv
import fcntl
import io
import json
import os
import shutil
import sqlite3
import stat
import subprocess
import sys
import uuid
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta, timezone
from decimal import Decimal
from functools import partial
from pathlib import Path
from zipfile import ZIP_DEFLATED, ZipFile

import psycopg
import pytest
from django.core.management import CommandError, call_command

from fairjudge_site import backups, moving
from judging.core.errors import UserError
from tests.conftest import folder_of_the_run, made_once
from tests.pictures import packed, picture

pytestmark = pytest.mark.system

ROOT = Path(__file__).parents[2]
MIGRATE = ("migrate", "--verbosity=0")
# As a release to come leaves it once it has changed the tables.
LATER = (
    "INSERT INTO django_migrations (app, name, applied) "
    "VALUES ('judging', '0099_later', '2030-01-01 00:00:00')"
)


@pytest.fixture
def manage(launcher, tmp_path):
    return partial(launcher.run, folder=tmp_path)


@pytest.fixture
def data(launcher):
    return launcher.data


def rows(data, sql):
    return [row[0] for row in sqlite3.connect(data / "fairjudge.sqlite3").execute(sql)]


def write_example(tmp_path):
    file = tmp_path / "pairs.csv"
    file.write_text("question,response_1,response_2\nWhich?,This one.,That one.\n")
    return file


def test_a_backup_brings_back_rows_and_uploads_and_pauses_runs(manage, data, tmp_path):
    assert manage("import_examples", "kept", str(write_example(tmp_path))).returncode == 0
    upload = data / "uploads" / "imports" / "a" / "pairs.csv"
    upload.parent.mkdir(parents=True, exist_ok=True)
    upload.write_text("an upload")
    with sqlite3.connect(data / "fairjudge.sqlite3") as database:
        add_running_run(database)
    made = manage("backup", "all.zip")
    assert made.returncode == 0, made.stderr
    assert stat.S_IMODE(os.stat(tmp_path / "all.zip").st_mode) == 0o600

    with sqlite3.connect(data / "fairjudge.sqlite3") as database:
        database.execute("UPDATE judging_project SET slug = 'changed'")
    upload.write_text("changed")
    (upload.parent / "new.csv").write_text("new")
    kept_figures = data / "cache" / "figures.djcache"
    kept_figures.parent.mkdir(exist_ok=True)
    kept_figures.write_text("of what is replaced")

    asked = manage("restore", "all.zip")
    assert asked.returncode == 1
    assert "--yes" in asked.stderr
    assert rows(data, "SELECT slug FROM judging_project") == ["changed"]

    done = manage("restore", "all.zip", "--yes")
    assert done.returncode == 0, done.stderr
    assert rows(data, "SELECT slug FROM judging_project") == ["kept"]
    assert rows(data, "SELECT question FROM judging_example") == ["Which?"]
    assert rows(data, "SELECT state FROM judging_run") == ["paused"]
    assert upload.read_text() == "an upload"
    assert not (upload.parent / "new.csv").exists()
    assert not kept_figures.exists()
    assert not list(data.glob(".restore-*"))


def add_running_run(database):
    """As it stands while a worker holds it; every column that has no default is filled."""
    columns = database.execute("PRAGMA table_info(judging_run)").fetchall()
    known = {"project_id": 1, "state": "running", "name": "run-1", "number": 1, "method": "mec"}
    known |= {"created_at": "2026-01-01 00:00:00", "temperature": "1.00"}
    values = {
        name: known.get(name, "{}" if "JSON" in str(kind).upper() or kind == "TEXT" else 0)
        for _, name, kind, required, _, key in columns
        if required and not key
    }
    marks = ", ".join("?" for _ in values)
    database.execute(
        f"INSERT INTO judging_run ({', '.join(values)}) VALUES ({marks})", tuple(values.values())
    )


@pytest.fixture(scope="session")
def on_server(postgresql_url, launched):
    """Runs commands over a database of this process of tests on the server, while it is there."""
    name = f"fairjudge_backup_{uuid.uuid4().hex[:12]}"
    return launched(DATABASE_URL=postgresql_url.rpartition("/")[0] + "/" + name)


@contextmanager
def empty_database(postgresql_url, launcher):
    url = launcher.environment["DATABASE_URL"]
    name = url.rpartition("/")[2]
    with psycopg.connect(postgresql_url, autocommit=True) as server:
        server.execute(f'CREATE DATABASE "{name}"')
        try:
            yield url
        finally:
            server.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


@pytest.fixture(scope="session")
def server_tables(postgresql_url, on_server, tmp_path_factory):
    """A dump of all tables without rows, for all processes of one run, and how three processes
    ended that made them at once."""
    with made_once(folder_of_the_run(tmp_path_factory) / "server-tables") as folder:
        dump, ended = folder / "tables.dump", folder / "ended.json"
        if not ended.exists():
            with empty_database(postgresql_url, on_server) as url:
                together = on_server.run_at_once(*[MIGRATE] * 3)
                subprocess.run(
                    ["pg_dump", "--format=custom", f"--dbname={url}", f"--file={dump}"], check=True
                )
            ended.write_text(
                json.dumps([[one.returncode, one.stderr.decode()] for one in together])
            )
        return dump, json.loads(ended.read_text())


@pytest.fixture
def server_database(server_tables, postgresql_url, on_server):
    """A database of its own on the server, in which the tables are there already."""
    on_server.start_over()
    with empty_database(postgresql_url, on_server) as url:
        subprocess.run(["pg_restore", f"--dbname={url}", server_tables[0]], check=True)
        yield url


@pytest.fixture
def site(request, vendor, tmp_path):
    """Runs commands on one of the databases, which must succeed, and returns what they print."""
    if vendor == "postgresql":
        request.getfixturevalue("server_database")
    launcher = request.getfixturevalue("on_server" if vendor == "postgresql" else "launcher")

    def run(*arguments):
        done = launcher.run(*arguments, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run


def ask(run, script):
    """What a script says in its last line."""
    return json.loads(run("shell", "--no-imports", "-c", script).splitlines()[-1])


@pytest.mark.long
def test_the_same_on_postgresql(on_server, tmp_path, server_database):
    manage = partial(on_server.run, folder=tmp_path)

    def run(*arguments):
        done = manage(*arguments)
        assert done.returncode == 0, done.stderr

    def slugs():
        with psycopg.connect(server_database) as database:
            return [row[0] for row in database.execute("SELECT slug FROM judging_project")]

    run("import_examples", "kept", str(write_example(tmp_path)))
    run("backup", "all.zip")
    run("import_examples", "later", str(write_example(tmp_path)))
    assert sorted(slugs()) == ["kept", "later"]
    run("restore", "all.zip", "--yes")
    assert slugs() == ["kept"]

    with psycopg.connect(server_database, autocommit=True) as database:
        database.execute(LATER)
        run("backup", "newer.zip")
        database.execute("DELETE FROM django_migrations WHERE name = '0099_later'")
        database.execute("UPDATE judging_project SET slug = 'now'")
    refused = manage("restore", "newer.zip", "--yes")
    assert refused.returncode == 1
    assert "made by a newer FairJudge: its database has judging.0099_later" in refused.stderr
    assert slugs() == ["now"]


# Run inside a site by `manage.py shell`. Its last line is what it found.
BEFORE = """
import csv
import fcntl
import json
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from annotation.people.invitations import Terms, invite, link_of
from annotation.people.invitations import revoke_invitation, usable_invitations
from annotation.people.annotators import leave_project
from annotation.models import Invitation, Round
from annotation.rounds.opening import RoundSettings, open_round
from annotation.screen.hand import address_of
from judging.projects.models import Membership, PasswordLink, Project
from judging.projects.accounts import create_login, password_link, reset_link
from judging.projects.access import change_role

def person(name, project, role):
    user = create_login(name, researcher=role != "annotator")
    Membership.objects.create(project=project, user=user, role=role)
    return user

def path(link):
    return link.removeprefix(settings.FAIRJUDGE_URL)

def client(user=None):
    found = Client(SERVER_NAME="127.0.0.1")
    if user is not None:
        found.force_login(user)
    return found

def outcomes(addresses):
    otto, ana = User.objects.get(username="otto"), User.objects.get(username="ana")
    kept = client()
    kept.cookies["sessionid"] = addresses["session"]
    return {
        "invitation": client(otto).get(addresses["invitation"]).status_code,
        "later invitation": client(otto).get(addresses["later invitation"]).status_code,
        "password": client().get(addresses["password"]).status_code,
        "owner's link": client().get(addresses["owner's link"]).status_code,
        "round": client(ana).get(addresses["round"]).url != "/annotate/",
        "session": kept.get("/annotate/").status_code,
    }
"""
MAKE = (
    BEFORE
    + """
project = Project.objects.get(slug="kept")
olga, ana = person("olga", project, "owner"), person("ana", project, "annotator")
ida, otto = person("ida", project, "annotator"), create_login("otto")
session = client(otto).cookies["sessionid"].value
round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
print(json.dumps({
    "invitation": path(link_of(invite(project, olga, Terms()))),
    "later invitation": path(link_of(Invitation.objects.get())),
    "password": path(password_link(create_login("ivo"))),
    "owner's link": path(reset_link(Membership.objects.get(user=ida), olga)),
    "round": address_of(round_),
    "session": session,
}))
"""
)
# All is withdrawn; what is made then gets numbers that the restored site gives again.
WITHDRAW = (
    BEFORE
    + """
olga = User.objects.get(username="olga")
revoke_invitation(Invitation.objects.get(), olga)
later = invite(Project.objects.get(slug="kept"), olga, Terms(role="owner"))
print(json.dumps({"later invitation": path(link_of(later)), "number": later.pk}))
"""
)
AGAIN = (
    BEFORE
    + """
another = Project.objects.create(slug="another", name="another")
again = invite(another, None, Terms(role="owner"))
print(json.dumps(outcomes(ADDRESSES) | {"number": again.pk}))
"""
)
SAME = (
    BEFORE
    + """
print(json.dumps(outcomes(ADDRESSES)))
"""
)


@pytest.mark.parametrize("vendor", ["sqlite", pytest.param("postgresql", marks=pytest.mark.long)])
def test_no_link_and_no_login_from_before_a_restore_opens_anything(site, tmp_path):
    site("import_examples", "kept", str(write_example(tmp_path)))
    addresses = ask(site, MAKE)
    good = {
        "invitation": 200, "later invitation": 200, "password": 302, "owner's link": 302,
        "round": True, "session": 200,
    }  # fmt: skip
    assert ask(site, f"ADDRESSES = {addresses}{SAME}") == good
    site("backup", "all.zip")
    later = ask(site, WITHDRAW)
    addresses["later invitation"] = later["later invitation"]
    assert ask(site, f"ADDRESSES = {addresses}{SAME}") == good | {"invitation": 410}

    site("restore", "all.zip", "--yes")
    found = ask(site, f"ADDRESSES = {addresses}{AGAIN}")
    # Another project's invitation has the number now that a link from before names.
    assert found.pop("number") == later["number"]
    assert found == {
        "invitation": 410, "later invitation": 410, "password": 200, "owner's link": 200,
        "round": False, "session": 302,
    }  # fmt: skip


# As the last release left it: the trail alone knows of removals, and no row has a nonce.
OLD = (
    BEFORE
    + """
project = Project.objects.get(slug="kept")
olga, kim = person("olga", project, "owner"), person("kim", project, "owner")
ana, ben = person("ana", project, "annotator"), person("ben", project, "annotator")
cleo = person("cleo", project, "researcher")
for _ in range(2):
    open_round(project, None, None, RoundSettings(everything=True, votes=1))
invite(project, olga, Terms(note="before", uses=9))
invite(project, kim, Terms(note="of kim", uses=9))
invite(project, None, Terms(note="of somebody who was erased", uses=9))
for user in (ana, kim):
    leave_project(Membership.objects.get(user=user), olga)
leave_project(Membership.objects.get(user=ben), ben)
change_role(Membership.objects.get(user=cleo), olga, "annotator")
invite(project, olga, Terms(note="after", uses=9))
print("{}")
"""
)
NEW = (
    BEFORE
    + """
from judging.projects.models import LostRight
project = Project.objects.get(slug="kept")
nonces = [row.nonce for model in (Invitation, Round) for row in model.objects.all()]
people = {name: User.objects.get(username=name) for name in ("ana", "ben", "otto")}
print(json.dumps({
    "usable": sorted(usable_invitations(project).values_list("note", flat=True)),
    "lost": sorted(LostRight.objects.values_list("user__username", "how")),
    "nonces": [len(set(nonces)), {len(nonce) for nonce in nonces} == {43}],
    "in": {
        f"{name} {one.note}": client(user).get(path(link_of(one))).status_code
        for name, user in people.items() for one in usable_invitations(project)
    },
}))
"""
)


# Votes were a model `Annotation` in the release before; what refers to them must find them again.
CAST_VOTES = """
from django.contrib.auth.models import User
from annotation.people.annotators import annotator_of
from annotation.queue.queue import claim_next
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import edit_vote, record_vote
from judging.projects.models import Project

project = Project.objects.get(slug="voted")
user = User.objects.get(username="otto")
round_ = open_round(project, user, None, RoundSettings(everything=True))
vote = record_vote(claim_next(round_, annotator_of(project, user)), {"overall": "left"}, "said")
edit_vote(vote, {"overall": "tie"}, "said again")
"""
READ_VOTES = """
import csv
import fcntl
import json
from django.contrib.contenttypes.models import ContentType
from annotation.models import Slot, Vote

vote = Vote.objects.get()
types = ContentType.objects.filter(app_label="annotation")
print(json.dumps({
    "vote": [vote.label, vote.comment],
    "before": list(vote.revisions.values_list("comment", flat=True)),
    "counted": Slot.objects.filter(vote=vote).count() == vote.counted_in.count() == 1,
    "given": vote.item.annotations.get() == vote.slot.annotation == vote,
    "types": sorted(types.filter(model__contains="vote").values_list("model", flat=True)),
    "old_types": types.filter(model__startswith="annotation").count(),
}))
"""


# Run in the tables of a release to which the commands of this one don't fit. Final labels were a
# table then, with rows that refer to examples.
BACK_UP_OLD = """
import csv
import fcntl
from pathlib import Path
from django.db import connection
from fairjudge_site.backups import back_up
with connection.cursor() as cursor:
    cursor.execute(
        "INSERT INTO annotation_finallabel (example_id, source, rule, votes_win, votes_tie,"
        " votes_lose, selection, adjudicator)"
        " SELECT id, 'none', '', 0, 0, 0, '', '' FROM judging_example"
    )
    print(cursor.rowcount)
back_up(Path('old.zip'))
"""
FOUND = """
import json
from django.db import connection
from judging.dataset.models import Example
print(json.dumps([Example.objects.count(), connection.introspection.table_names()]))
"""
# Releases until now took these steps, and knew no migration that makes all tables at once.
STEPS = """
import sys
from django.core.management import call_command
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from django.db.migrations.recorder import MigrationRecorder
read, recorder = MigrationLoader.load_disk, MigrationRecorder(connection)
at_once = [key for key, one in MigrationLoader(None).disk_migrations.items() if one.replaces]
def steps_alone(loader):
    read(loader)
    for key in at_once:
        del loader.disk_migrations[key]
MigrationLoader.load_disk = steps_alone
for target in {targets}:
    call_command("migrate", *target, verbosity=0)
for key in at_once:
    recorder.record_unapplied(*key)
"""
# Of each table its columns and what holds for them, in any order. Names that PostgreSQL gives to
# constraints differ, and mean nothing.
SHAPE = """
import json, re
from django.db import connection
found = {}
with connection.cursor() as cursor:
    if connection.vendor == "sqlite":
        cursor.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL")
        found = {name: sorted(re.findall(r"\\w+|\\S", sql)) for name, sql in cursor.fetchall()}
    else:
        for table in connection.introspection.table_names(cursor):
            cursor.execute(f"SELECT * FROM {table} LIMIT 0")
            columns = sorted((one[0], one[1]) for one in cursor.description)
            rules = connection.introspection.get_constraints(cursor, table).values()
            found[table] = [columns, sorted(json.dumps(rule, default=str) for rule in rules)]
print(json.dumps(found))
"""


@pytest.mark.long
@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_all_steps_make_the_tables_that_a_new_database_gets_at_once(site):
    """The test below takes some of the steps."""
    at_once = ask(site, SHAPE)
    site("migrate", "--verbosity=0", "annotation", "zero")
    site("migrate", "--verbosity=0", "judging", "zero")
    site("shell", "--no-imports", "-c", STEPS.format(targets=[()]))
    assert ask(site, SHAPE) == at_once


@pytest.mark.long
@pytest.mark.parametrize(
    ("vendor", "annotation", "judging"),
    [
        ("sqlite", "0004", "0004"),
        ("postgresql", "0001", "0001"),
    ],
)
def test_an_older_release_is_brought_up_to_date_and_so_is_a_backup_of_it(
    site, tmp_path, annotation, judging
):
    for project in ("kept", "voted"):
        site("import_examples", project, str(write_example(tmp_path)))
    site("create_user", "otto")
    ask(site, OLD)
    site("shell", "--no-imports", "-c", CAST_VOTES)
    votes = ask(site, READ_VOTES)
    assert votes == {
        "vote": ["tie", "said again"], "before": ["said"], "counted": True, "given": True,
        "types": ["vote", "voterevision"], "old_types": 0,
    }  # fmt: skip

    tables = ask(site, SHAPE)
    targets = [("annotation", annotation), ("judging", judging)]
    site("shell", "--no-imports", "-c", STEPS.format(targets=targets))
    assert "[ ] 0005_no_final_labels" in site("showmigrations")
    assert ask(site, BACK_UP_OLD) == 2
    site("migrate", "--verbosity=0")
    assert ask(site, SHAPE) == tables
    assert ask(site, READ_VOTES) == votes
    assert ask(site, NEW) == {
        "usable": ["after", "before"],
        "lost": [["ana", "removed"], ["ben", "left"], ["cleo", "lowered"], ["kim", "removed"]],
        "nonces": [7, True],
        "in": {
            "ana after": 200, "ana before": 410, "ben after": 200, "ben before": 410,
            "otto after": 200, "otto before": 200,
        },
    }  # fmt: skip

    # Left by a release that dropped its table in another way.
    left = "from django.db import connection; connection.cursor().execute('CREATE TABLE "
    site("shell", "--no-imports", "-c", left + "annotation_finallabel (id int)')")
    site("import_examples", "later", str(write_example(tmp_path)))
    assert "2 projects." in site("restore", "old.zip", "--yes")
    assert ask(site, READ_VOTES) == votes
    assert "[ ]" not in site("showmigrations")
    examples, tables = ask(site, FOUND)
    assert examples == 2
    assert "annotation_finallabel" not in tables


def test_of_what_postgresql_says_the_error_itself_is_told(postgresql_url):
    with pytest.raises(UserError, match='column "nonsense" does not exist'):
        backups._run(["psql", f"--dbname={postgresql_url}", "--command=SELECT nonsense"])


SESSION = "INSERT INTO django_session VALUES ('akeythatopensthelivesite', 'data', '2099-01-01')"


def test_a_backup_holds_no_session_keys(manage, data, tmp_path):
    with sqlite3.connect(data / "fairjudge.sqlite3") as database:
        database.execute(SESSION)
    assert manage("backup", "all.zip").returncode == 0
    assert rows(data, "SELECT count(*) FROM django_session") == [1]
    with ZipFile(tmp_path / "all.zip") as packed:
        # Not in a free page of the file either.
        assert b"akeythatopensthelivesite" not in packed.read("database.sqlite3")


def test_a_dump_of_postgresql_holds_no_session_keys(on_server, tmp_path, server_database):
    with psycopg.connect(server_database) as database:
        database.execute(SESSION)
    assert on_server.run("backup", "all.zip", folder=tmp_path).returncode == 0
    with ZipFile(tmp_path / "all.zip") as packed:
        packed.extract("database.dump", tmp_path)
    dump = ["pg_restore", "--data-only", "--table=django_session", "--file=-"]
    told = subprocess.run([*dump, tmp_path / "database.dump"], capture_output=True, check=True)
    assert b"COPY" not in told.stdout or b"akeythat" not in told.stdout


def test_a_dump_that_inflates_without_an_end_is_stopped(db, tmp_path, monkeypatch):
    """As `pg_restore` of a dump whose tables are repetitions would go on."""
    tool = tmp_path / "bin" / "pg_restore"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexec yes 'INSERT INTO t VALUES (1);'\n")
    tool.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tool.parent}:{os.environ['PATH']}")
    whole = tmp_path / "whole.sql"
    with pytest.raises(UserError, match="inflates further"):
        backups._bounded(["pg_restore", "--file=-", "x"], whole, 2**22)
    assert whole.stat().st_size <= 2**22
    dump = tmp_path / "database.dump"
    dump.write_bytes(b"")
    monkeypatch.setattr(backups, "_LARGEST_LIST", 2**20)
    with pytest.raises(UserError, match="Nothing was changed"):
        backups._dumped_migrations(dump)


def test_a_backup_never_overwrites_a_file(manage, tmp_path):
    (tmp_path / "all.zip").write_text("mine")
    refused = manage("backup", "all.zip")
    assert refused.returncode == 1
    assert "exists already" in refused.stderr
    assert (tmp_path / "all.zip").read_text() == "mine"


@pytest.mark.parametrize("spoil", ["no zip", "no manifest", "cut short"])
def test_what_is_no_backup_changes_nothing(db, tmp_path, project, spoil):
    file = tmp_path / "bad.zip"
    if spoil == "no zip":
        file.write_text("hello")
    else:
        with ZipFile(file, "w") as packed:
            packed.writestr("readme.txt", "hello")
    if spoil == "cut short":
        file.write_bytes(file.read_bytes()[:-10])
    with pytest.raises(CommandError, match="not a complete FairJudge backup"):
        call_command("restore", str(file), "--yes")


def test_a_backup_whose_database_is_none_changes_nothing(manage, data, tmp_path):
    with ZipFile(tmp_path / "bad.zip", "w") as packed:
        packed.writestr("backup.json", '{"kind": "fairjudge-backup", "database": "sqlite"}')
        packed.writestr("database.sqlite3", "no database at all " * 99)
    refused = manage("restore", "bad.zip", "--yes")
    assert refused.stderr == (
        "CommandError: The database in this backup is damaged. Nothing was changed.\n"
    )
    assert rows(data, "PRAGMA quick_check") == ["ok"]


def test_a_backup_of_a_newer_release_is_refused_before_anything_is_touched(manage, data, tmp_path):
    upload = data / "uploads" / "imports" / "a" / "pairs.csv"
    upload.parent.mkdir(parents=True, exist_ok=True)
    upload.write_text("before")
    with sqlite3.connect(data / "fairjudge.sqlite3") as database:
        database.execute(LATER)
    assert manage("backup", "newer.zip").returncode == 0
    with sqlite3.connect(data / "fairjudge.sqlite3") as database:
        database.execute("DELETE FROM django_migrations WHERE name = '0099_later'")
    assert manage("import_examples", "mine", str(write_example(tmp_path))).returncode == 0
    upload.write_text("now")

    refused = manage("restore", "newer.zip", "--yes")
    assert refused.returncode == 1
    assert refused.stderr == (
        "CommandError: This backup was made by a newer FairJudge: its database has "
        "judging.0099_later, which this one does not know. Nothing was changed. Install that "
        "release or a later one, and restore the backup there.\n"
    )
    assert rows(data, "SELECT slug FROM judging_project") == ["mine"]
    assert upload.read_text() == "now"
    assert not list(data.glob(".restore-*"))


def test_a_backup_with_a_database_of_something_else_changes_nothing(manage, data, tmp_path):
    with sqlite3.connect(tmp_path / "other.sqlite3") as database:
        database.execute("CREATE TABLE other (id)")
    with ZipFile(tmp_path / "bad.zip", "w") as packed:
        packed.writestr("backup.json", '{"kind": "fairjudge-backup", "database": "sqlite"}')
        packed.write(tmp_path / "other.sqlite3", "database.sqlite3")
    refused = manage("restore", "bad.zip", "--yes")
    assert refused.returncode == 1
    assert "isn't one of FairJudge. Nothing was changed." in refused.stderr
    assert rows(data, "SELECT count(*) FROM judging_project") == [0]


def test_a_disk_without_room_for_a_backup_is_told_and_nothing_is_left(launcher, tmp_path):
    # Files of at most 100 KiB: less than the database has with its tables alone.
    limited = f"ulimit -f 100; exec {sys.executable} {ROOT / 'manage.py'} backup all.zip"
    refused = subprocess.run(
        ["bash", "-c", limited], cwd=tmp_path, env=launcher.environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip
    assert refused.returncode == 1
    assert refused.stderr.startswith("CommandError: all.zip can't be written: ")
    assert not list(tmp_path.glob("*.zip")) + list(tmp_path.glob(".backup-*"))


def test_a_backup_of_another_database_is_refused(db, tmp_path):
    file = tmp_path / "other.zip"
    with ZipFile(file, "w") as packed:
        packed.writestr("backup.json", '{"kind": "fairjudge-backup", "database": "oracle"}')
    with pytest.raises(CommandError, match="comes from oracle"):
        call_command("restore", str(file), "--yes")


RESTORE = """
import os, resource, sys
os.environ["DJANGO_SETTINGS_MODULE"] = "fairjudge_site.settings"
import django
django.setup()
import shutil
from pathlib import Path
from fairjudge_site.backups import restore
from judging.core.errors import UserError

# The disk has 64 MiB left.
usage = shutil.disk_usage("/")
shutil.disk_usage = lambda path: usage._replace(free=64 << 20)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for name in sys.argv[1:]:
    try:
        restore(Path(name))
    except UserError as error:
        print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_a_backup_that_inflates_over_the_disk_is_refused_first(launcher, data, tmp_path):
    bombs = {
        "a.zip": "backup.json",
        "b.zip": "database.sqlite3",
        "c.zip": "uploads/imports/a/x.csv",
    }
    for bomb, name in bombs.items():
        with ZipFile(tmp_path / bomb, "w", ZIP_DEFLATED) as packed:
            with packed.open(name, "w", force_zip64=True) as member:
                for _ in range(12):
                    member.write(b" " * 2**23)
            if name != "backup.json":
                packed.writestr("backup.json", '{"kind": "fairjudge-backup", "database": "sqlite"}')
    done = subprocess.run(
        [sys.executable, "-c", RESTORE, *bombs], cwd=tmp_path, check=True, text=True,
        env=launcher.environment | {"PYTHONPATH": str(ROOT)}, capture_output=True,
    )  # fmt: skip
    *says, grown = done.stdout.splitlines()
    assert says == [
        f"{bomb} can't be restored: it would inflate to more than 64 MiB. Nothing was changed."
        for bomb in bombs
    ]
    assert int(grown) < 30
    assert rows(data, "SELECT count(*) FROM judging_project") == [0]
    assert not list(data.glob(".restore-*"))


def test_a_backup_takes_no_name_that_leads_elsewhere(manage, data, tmp_path):
    assert manage("backup", "all.zip").returncode == 0
    with ZipFile(tmp_path / "all.zip", "a") as packed:
        packed.writestr("uploads/../../outside.txt", "mine")
        packed.writestr("readme.txt", "not ours")
    refused = manage("restore", "all.zip", "--yes")
    assert "is not a complete FairJudge backup. Nothing was changed." in refused.stderr
    assert not (data.parent / "outside.txt").exists()


def test_what_killed_processes_left_is_tidied_and_what_others_work_in_is_not(
    manage, data, tmp_path
):
    left = [data / ".restore-dead", tmp_path / ".backup-dead"]
    alive = [data / ".restore-alive", tmp_path / ".backup-alive"]
    for folder in (*left, *alive):
        folder.mkdir()
        (folder / "database.sqlite3").write_text("half")
    handles = [os.open(folder, os.O_RDONLY) for folder in alive]
    for handle in handles:
        fcntl.flock(handle, fcntl.LOCK_EX)
    assert manage("backup", "all.zip").returncode == 0
    assert manage("restore", "all.zip", "--yes").returncode == 0
    assert [folder.exists() for folder in (*left, *alive)] == [False, False, True, True]
    for handle in handles:
        os.close(handle)


def test_uploads_of_a_restore_that_was_killed_are_put_in_place(manage, data):
    uploads, killed = data / "uploads", data / ".restore-dead"
    for folder in (killed / "replaced", killed / "uploads"):
        folder.mkdir(parents=True)
        (folder / "file").write_text(folder.name)
    if uploads.exists():
        shutil.rmtree(uploads)
    code = "from fairjudge_site.backups import _working_folder as f; from pathlib import Path\n"
    code += f"with f(Path({str(data)!r}), '.restore-'): pass"
    assert manage("shell", "--no-imports", "-c", code).returncode == 0
    assert (uploads / "file").read_text() == "uploads"
    assert not killed.exists()


@pytest.mark.long
def test_three_processes_that_migrate_at_once_all_succeed(launched):
    launcher = launched()
    launcher.start_over()
    together = launcher.run_at_once(*[MIGRATE] * 3)
    assert [one.returncode for one in together] == [0, 0, 0], [one.stderr for one in together]


def test_three_that_migrate_a_server_at_once_all_succeed(server_tables):
    _, ended = server_tables
    assert [code for code, _ in ended] == [0, 0, 0], ended


def counted(url, *tables):
    with psycopg.connect(url) as server:
        return [server.execute(f"SELECT count(*) FROM {table}").fetchone()[0] for table in tables]


def test_a_site_moves_to_postgresql_and_goes_on_there(
    manage, data, on_server, server_database, tmp_path
):
    file = write_example(tmp_path)
    text = file.read_text().replace("That one.", "![](a.png)")
    pictured = tmp_path / "pairs.zip"
    pictured.write_bytes(packed({"pairs.csv": text, "a.png": picture()}))
    assert manage("import_examples", "moved", str(pictured)).returncode == 0
    with sqlite3.connect(data / "fairjudge.sqlite3") as database:
        add_running_run(database)
        database.execute("UPDATE judging_run SET id = 41")
    done = manage("move_to_postgresql", server_database, "--json")
    assert done.returncode == 0, done.stderr
    tables = {each["table"]: each["rows"] for each in json.loads(done.stdout)["tables"]}
    names = ["judging_example", "judging_run", "auth_permission"]
    assert counted(server_database, *names) == [tables[name] for name in names]
    assert tables["judging_example"] == tables["judging_run"] == tables["judging_image"] == 1
    with psycopg.connect(server_database) as server:
        sql = "SELECT sha256 = encode(sha256(content), 'hex') FROM judging_image"
        assert server.execute(sql).fetchall() == [(True,)]
    # New rows get numbers after those that were moved.
    file.write_text("question,response_1,response_2\nWhich?,Another one.,That one.\n")
    more = on_server.run("import_examples", "moved", str(file))
    assert more.returncode == 0, more.stderr
    assert counted(server_database, "judging_example", "judging_project") == [2, 1]
    again = manage("move_to_postgresql", server_database)
    assert again.returncode == 1
    assert "holds projects already" in again.stderr
    assert counted(server_database, "judging_example") == [2]


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        pytest.param("UPDATE judging_example SET question = char(0)", "a row of judging_example"),
        pytest.param(
            None,
            "The table judging_example reads otherwise on PostgreSQL",
            marks=pytest.mark.long,
        ),
    ],
    ids=["a row that PostgreSQL refuses", "a server that changes a row"],
)
def test_a_move_that_fails_moves_nothing(manage, data, server_database, tmp_path, spoil, said):
    assert manage("import_examples", "kept", str(write_example(tmp_path))).returncode == 0
    if spoil:
        with sqlite3.connect(data / "fairjudge.sqlite3") as database:
            database.execute(spoil)
    else:
        with psycopg.connect(server_database) as server:
            server.execute(
                "CREATE FUNCTION shout() RETURNS trigger AS "
                "'BEGIN NEW.question = upper(NEW.question); RETURN NEW; END' LANGUAGE plpgsql"
            )
            server.execute(
                "CREATE TRIGGER shouts BEFORE INSERT ON judging_example "
                "FOR EACH ROW EXECUTE FUNCTION shout()"
            )
    before = counted(server_database, "auth_permission")
    failed = manage("move_to_postgresql", server_database)
    assert failed.returncode == 1
    assert said in failed.stderr
    assert "Nothing was moved." in failed.stderr
    assert counted(server_database, "judging_project", "judging_example") == [0, 0]
    assert counted(server_database, "auth_permission") == before
    assert rows(data, "SELECT count(*) FROM judging_example") == [1]


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("sqlite:///elsewhere.sqlite3", "must be postgres://"),
        ("nonsense", "must be postgres://"),
        ("postgres://nobody@127.0.0.1:1/nothing", "can't be used"),
    ],
)
def test_a_move_to_what_is_no_database_of_postgresql_is_refused(manage, address, said):
    failed = manage("move_to_postgresql", address)
    assert failed.returncode == 1
    assert said in failed.stderr
    assert "Nothing was moved." in failed.stderr


def test_a_site_that_runs_is_not_moved(manage, data):
    with sqlite3.connect(data / "fairjudge.sqlite3") as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(judging_worker)")]
        now = datetime.now(UTC).replace(tzinfo=None).isoformat(" ")
        values = dict.fromkeys(columns, "quick") | {"id": 1}
        values |= {name: now for name in columns if name.endswith("_at")}
        database.execute(
            f"INSERT INTO judging_worker ({', '.join(values)}) "
            f"VALUES ({', '.join('?' for _ in values)})",
            tuple(values.values()),
        )
    failed = manage("move_to_postgresql", "postgres://nobody@127.0.0.1:1/nothing")
    assert failed.returncode == 1
    assert "Workers of this site are running" in failed.stderr


def test_values_are_the_same_however_a_database_writes_them():
    noon = datetime(2026, 5, 1, 12, tzinfo=UTC)
    later = noon.astimezone(timezone(timedelta(hours=2)))
    for one, other in [
        ({"b": 1, "a": [2.0]}, {"a": [2], "b": 1.0}),
        (Decimal("1.50"), Decimal("1.5")),
        (noon, later),
        (1e300, 1e300),
    ]:
        assert moving._same(one) == moving._same(other)
    for one, other in [({"a": 1}, {"a": 2}), (True, 1), (None, ""), (2**60, 2**60 + 1)]:
        assert moving._same(one) != moving._same(other)


def spoilt(path, table):
    """The same backup, which says that a table held one row more."""
    with ZipFile(path) as packed:
        parts = {name: packed.read(name) for name in packed.namelist()}
    manifest = json.loads(parts["backup.json"])
    manifest["tables"][table][0] += 1
    parts["backup.json"] = json.dumps(manifest).encode()
    path = path.with_name("spoilt.zip")
    with ZipFile(path, "w") as packed:
        for name, content in parts.items():
            packed.writestr(name, content)
    return path


@pytest.mark.parametrize("vendor", ["sqlite", "postgresql"])
def test_what_a_backup_held_is_counted_and_compared(site, tmp_path):
    site("import_examples", "kept", str(write_example(tmp_path)))
    made = json.loads(site("backup", "all.zip", "--json"))
    with ZipFile(tmp_path / "all.zip") as packed:
        tables = json.loads(packed.read("backup.json"))["tables"]
    assert tables["judging_example"][0] == tables["judging_project"][0] == 1
    assert made["rows"] == sum(rows for rows, _ in tables.values())
    site("import_examples", "later", str(write_example(tmp_path)))
    assert json.loads(site("restore", "all.zip", "--yes", "--json"))["rows"] == made["rows"]
    wrong = spoilt(tmp_path / "all.zip", "judging_example")
    with pytest.raises(AssertionError, match="table judging_example isn't as it was"):
        site("restore", wrong.name, "--yes")


def test_a_restored_server_has_counted_its_tables(on_server, server_database, tmp_path):
    """Otherwise it plans as if they were empty, until its autovacuum comes."""
    file = str(write_example(tmp_path))
    for command in (["import_examples", "kept", file], ["backup", "all.zip"]):
        assert on_server.run(*command, folder=tmp_path).returncode == 0
    restored = on_server.run("restore", "all.zip", "--yes", folder=tmp_path)
    assert restored.returncode == 0, restored.stderr
    with psycopg.connect(server_database) as server:
        counted_ = "SELECT count(DISTINCT tablename) FROM pg_stats WHERE tablename = ANY(%s)"
        tables = ["judging_example", "judging_project"]
        assert server.execute(counted_, [tables]).fetchone() == (2,)


def test_each_row_counts_in_what_a_backup_held(tmp_path):
    """A value, its type and how often it is there change the sum. The order doesn't."""
    sums = []
    for rows_ in ([1, "a"], ["a", 1], [1, "b"], ["1", "a"], ["a", "a"], [b"\xff", "a"]):
        with sqlite3.connect(":memory:") as database:
            database.execute("CREATE TABLE t (x)")
            database.executemany("INSERT INTO t VALUES (?)", [(row,) for row in rows_])
            sums.append(backups._sqlite_contents(database)["t"][1])
    assert sums[0] == sums[1]
    assert len(set(sums)) == 5


# The demo's study as a release of that day stored and exported it. CONTRIBUTING.md says how the
# next release adds its own.
RELEASES = sorted((Path(__file__).parent / "releases").glob("*.zip"))
# No column of a release may read otherwise later, unless it is named here, and explained under
# "Upgrades" in docs/operators.md.
READS_OTHERWISE = {"labels": set(), "votes": set(), "samples": set()}


@pytest.mark.parametrize("release", RELEASES, ids=lambda path: path.stem)
@pytest.mark.parametrize("restored", [pytest.param(False, marks=pytest.mark.long), True])
def test_what_a_release_exported_reads_the_same_after_the_upgrade(
    launched, tmp_path, release, restored
):
    """Upgraded in place, and from a backup that was restored after that."""
    launcher = launched()
    launcher.start_over()
    launcher.data.mkdir(exist_ok=True)
    with ZipFile(release) as packed:
        packed.extract("fairjudge.sqlite3", launcher.data)
        before = {what: packed.read(f"{what}.csv").decode() for what in READS_OTHERWISE}
    # A backup that the release made: the commands of this one don't fit its tables.
    old = "from pathlib import Path; from fairjudge_site.backups import back_up; "
    for command in (
        ("shell", "--no-imports", "-c", old + "back_up(Path('old.zip'))"),
        MIGRATE,
        *([("restore", "old.zip", "--yes")] if restored else []),
    ):
        done = launcher.run(*command, folder=tmp_path)
        assert done.returncode == 0, done.stderr
    assert "[ ]" not in launcher.run("showmigrations", folder=tmp_path).stdout
    for what, text in before.items():
        file = tmp_path / f"{what}.csv"
        done = launcher.run(
            "export", "demo-study", "--what", what, "-o", str(file), folder=tmp_path
        )
        assert done.returncode == 0, done.stderr
        old, new = (
            list(csv.DictReader(io.StringIO(each, newline="")))
            for each in (text, file.read_bytes().decode())
        )
        assert len(old) == len(new) > 0
        differ = {
            name
            for one, other in zip(old, new, strict=True)
            for name, value in one.items()
            if other.get(name) != value
        }
        assert differ == READS_OTHERWISE[what], what
