"""Archives, JSON, tables and form fields that are small outside and endless inside."""

import json
import stat
import time
import warnings
import zipfile
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.urls import reverse

from annotation.results.delivery.verify import verify
from fairjudge_site.backups import restore
from judging.core.bounds import MEBIBYTE, TooLarge, shallow_json
from judging.core.errors import UserError
from judging.projects.models import Project

pytestmark = pytest.mark.django_db
MOST_SECONDS = 20
BACKUP = json.dumps({"kind": "fairjudge-backup", "database": "sqlite"})
DEEP = "[" * 10**6 + "]" * 10**6
NAMES = (
    "../evil", "/tmp/evil", "uploads/../../evil", "uploads//tmp/evil", "C:\\evil",
    "uploads/\\..\\evil",
)  # fmt: skip


def link(name: str, to: str) -> tuple[zipfile.ZipInfo, str]:
    info = zipfile.ZipInfo(name)
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return info, to


def packed(path: Path, members, method=zipfile.ZIP_DEFLATED) -> Path:
    with warnings.catch_warnings(), zipfile.ZipFile(path, "w", method) as archive:
        warnings.simplefilter("ignore", UserWarning)
        for name, content in members:
            archive.writestr(name, content)
    return path


def archives(folder: Path):
    """Return each archive by what is wrong with it."""
    zeros = b"\0" * (300 * MEBIBYTE)
    yield "no ZIP", packed(folder / "a.zip", [])
    yield "inflates to 300 MiB", packed(folder / "b.zip", [("manifest.json", zeros)])
    yield "deep JSON", packed(folder / "c.zip", [("manifest.json", DEEP), ("backup.json", DEEP)])
    yield "members", packed(folder / "d.zip", [(str(n), b"") for n in range(5000)])
    many = [("backup.json", BACKUP), *[("backup.json", BACKUP)] * 50]
    yield "names twice", packed(folder / "e.zip", many)
    for number, name in enumerate(NAMES):
        members = [("backup.json", BACKUP), ("database.sqlite3", b"x"), (name, b"evil")]
        yield f"the name {name}", packed(folder / f"f{number}.zip", members)
    target = link("uploads/link", str(folder))
    members = [("backup.json", BACKUP), target, ("uploads/link/evil", b"evil")]
    yield "a symbolic link", packed(folder / "g.zip", members)
    yield "huge numbers", packed(folder / "h.zip", [("backup.json", "9" * 10**6)])
    yield "LZMA", packed(folder / "i.zip", [("backup.json", BACKUP)], zipfile.ZIP_LZMA)
    broken = packed(folder / "j.zip", [("backup.json", BACKUP)]).read_bytes()
    (folder / "j.zip").write_bytes(broken[: len(broken) // 2])
    yield "half an archive", folder / "j.zip"


def refuses(read, file) -> bool:
    """Whether it is refused in a sentence, or what is wrong with it is listed."""
    try:
        return bool(read(file))
    except UserError as error:
        return bool(str(error))


def test_no_archive_harms_whoever_verifies_or_restores_it(tmp_path, project, figure):
    tried, longest = 0, 0.0
    for what, file in archives(tmp_path):
        before = set(tmp_path.rglob("*"))
        for read in (verify, restore):
            began = time.process_time()
            assert refuses(read, file), what
            tried, longest = tried + 1, max(longest, time.process_time() - began)
        assert set(tmp_path.rglob("*")) == before, what
        assert not Path("/tmp/evil").exists()
        assert not list(Path(settings.FAIRJUDGE_DATA).glob("**/evil"))
        assert not list(Path(settings.FAIRJUDGE_DATA).glob(".restore-*")), what
    assert Project.objects.get() == project
    assert longest < MOST_SECONDS
    figure("bombs: archives for verify and restore", tried)
    figure("bombs: longest refusal of an archive, seconds", f"{longest:.1f}")


@pytest.mark.parametrize(
    "content",
    [DEEP, '{"a":' * 10**5 + "1" + "}" * 10**5, "9" * 10**6, '"' + "a" * 10**7],
    ids=["arrays", "objects", "digits", "no end"],
)
def test_json_that_never_ends_is_refused(content):
    with pytest.raises((TooLarge, ValueError)):
        shallow_json(content)


LINES = {
    "one long line": b"question,response_1,response_2\n" + b"a" * 10**7,
    "an open quote": b'question,response_1,response_2\n"' + b"a,b\n" * 10**6,
    "columns": b"a," * 10**5 + b"\n" + b"1," * 10**5,
    "deep JSON line": DEEP.encode() + b"\n",
    "huge numbers": b'{"question": ' + b"9" * 10**5 + b', "response_1": 1e999, "response_2": 1}\n',
    "quotes": b"question,response_1,response_2\n" + b'"' * 10**6,
}


def said_about(file) -> str:
    try:
        call_command("import_examples", "bombs", str(file), "--dry-run")
    except CommandError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("content", LINES.values(), ids=LINES)
@pytest.mark.parametrize("suffix", ["csv", "jsonl", "json"])
def test_a_hostile_file_is_refused_in_a_sentence(tmp_path, content, suffix, figure):
    file = tmp_path / f"pairs.{suffix}"
    file.write_bytes(content)
    began = time.process_time()
    said = said_about(file)
    assert "Traceback" not in said
    assert len(said) < 5000
    assert time.process_time() - began < 3 * MOST_SECONDS
    figure(
        f"bombs: {suffix} file with {next(k for k, v in LINES.items() if v == content)}", "refused"
    )


@pytest.mark.parametrize("number", ["9" * 5000, "-1", "1e999", "NaN", "0x10", "١", "\0", ""])
def test_a_number_of_a_form_is_never_an_error_of_the_server(as_owner, project, number):
    for name in ("run_estimate", "plan_preview", "rounds", "people"):
        address = reverse(name, args=[project.slug])
        fields = ("votes", "beta", "audit", "k", "budget", "uses", "days", "seed", "temperature")
        for method in ("get", "post"):
            answer = getattr(as_owner, method)(address, dict.fromkeys(fields, number))
            assert answer.status_code < 500, (name, method)
    for name in ("examples", "trail", "people_pace", "results"):
        query = f"?page={number}&run={number}&offset={number}".replace("\0", "%00")
        assert as_owner.get(reverse(name, args=[project.slug]) + query).status_code < 500, name


def test_an_archive_without_a_bound_would_be_noticed(tmp_path, monkeypatch):
    """The hole planted: the bounded reader checks nothing, and what it reads comes through."""
    file = packed(tmp_path / "a.zip", [("x.txt", b"\0" * (300 * MEBIBYTE))])
    with pytest.raises(UserError, match="would inflate"):
        verify(file)
    monkeypatch.setattr("judging.core.bounds.Archive._check", lambda self, bounds: None)
    with pytest.raises(UserError) as refused:
        verify(file)
    assert "inflate" not in str(refused.value)
