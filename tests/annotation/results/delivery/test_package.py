"""A delivered report opens anywhere, and anyone can verify it from the file alone."""

import csv
import hashlib
import io
import json
import os
import subprocess
import sys
import time
import zipfile
from decimal import Decimal

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.db import DatabaseError, connection, transaction

from annotation.models import Draft, Vote
from annotation.queue.queue import claim_next
from annotation.results.delivery import package
from annotation.results.delivery.verify import OTHER_CODE, verify, verify_within
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import record_vote
from judging.core.errors import UserError
from judging.core.sql.statements import after_snapshot, snapshot
from judging.dataset.models import Example
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote
from tests.together import at_once

# Whichever of them runs first makes the ZIP, and alone too it finds tables.
pytestmark = pytest.mark.django_db


@pytest.fixture
def audited(project):
    """A run with two others beside it, and a round with an audit that a person has finished."""
    run = make_run(project)
    others = [make_run(project, k=1, method="vanilla"), make_run(project, model="another")]
    for example in make_examples(project, 80):
        place = {"rank": example.number + 1}
        make_verdict(run, example, 1.0 if example.number < 16 else 0.0, **place)
        for other in others:
            make_verdict(
                other, example, 0.1, label="lose" if example.number % 3 else "win", **place
            )
    project.primary_run = run
    project.save()
    person = make_annotator(project)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1, audit=40))
    while isinstance(draft := claim_next(round_, person), Draft):
        record_vote(draft, {"overall": "left" if draft.left_response == 1 else "right"})
    return run


@pytest.fixture(scope="module")
def made():
    """The delivered ZIP, made by the first test that needs it: checking it takes no database."""
    return {}


@pytest.fixture
def delivered(request, made, tmp_path):
    path = tmp_path / "report.zip"
    if not made:
        run = request.getfixturevalue("audited")
        call_command("report", run.project.slug, output=path)
        made["zip"] = path.read_bytes()
    path.write_bytes(made["zip"])
    return path


def rewritten(path, name, change):
    """The same ZIP with one file changed."""
    with zipfile.ZipFile(path) as archive:
        files = {one: archive.read(one) for one in archive.namelist()}
    files[name] = change(files[name])
    with zipfile.ZipFile(path, "w") as archive:
        for one, content in files.items():
            archive.writestr(one, content)
    return path


def resealed(path, name, change):
    """The same, with a manifest that says nothing was changed."""
    rewritten(path, name, change)
    with zipfile.ZipFile(path) as archive:
        content = archive.read(name)

    def seal(text):
        manifest = json.loads(text)
        manifest["sha256"][name] = hashlib.sha256(content).hexdigest()
        return json.dumps(manifest).encode()

    return rewritten(path, "manifest.json", seal)


def column(name, change):
    """A change of one column of labels.csv."""

    def changed(text):
        rows = list(csv.DictReader(io.StringIO(text.decode())))
        for row in rows:
            row[name] = change(row[name])
        out = io.StringIO()
        writer = csv.DictWriter(out, list(rows[0]))
        writer.writeheader()
        writer.writerows(rows)
        return out.getvalue().encode()

    return changed


@pytest.mark.system
def test_what_was_delivered_holds(delivered, capsys):
    call_command("verify", delivered)
    assert "every number" in capsys.readouterr().out


def test_verification_needs_no_database(delivered, django_db_blocker):
    with django_db_blocker.block():
        assert verify(delivered) == []


@pytest.mark.system
def test_a_changed_label_is_found(delivered):
    changed = rewritten(delivered, "labels.csv", lambda text: text.replace(b",win,", b",lose,", 1))
    problems = verify(changed)
    assert "labels.csv is not the file that was delivered" in problems
    assert any("certificate is not about these labels" in problem for problem in problems)
    with pytest.raises(CommandError, match="does not hold"):
        call_command("verify", changed)


def test_a_changed_number_is_computed_to_be_wrong(delivered):
    def better(text):
        figures = json.loads(text)
        figures["win_rate"]["people"]["value"] = 0.5
        return json.dumps(figures).encode()

    problems = verify(rewritten(delivered, "report.json", better))
    assert any(problem.startswith("win_rate.people.value is 0.5") for problem in problems)
    assert OTHER_CODE not in problems


def by_other_code(text):
    return json.dumps(json.loads(text) | {"code": "0"}).encode()


def test_a_report_of_another_state_of_the_code_says_so_where_a_figure_differs(delivered):
    assert verify(rewritten(delivered, "manifest.json", by_other_code)) == []

    def more(text):
        figures = json.loads(text)
        figures["coverage"]["examples"] += 1
        return json.dumps(figures).encode()

    assert OTHER_CODE in verify(rewritten(delivered, "report.json", more))


def test_a_report_whose_data_another_state_of_the_code_kept_otherwise_says_so(delivered):
    def with_less(text):
        return json.dumps({k: v for k, v in json.loads(text).items() if k != "basis"}).encode()

    (unread,) = verify(resealed(delivered, "context.json", with_less))
    assert unread == "the data of the report cannot be read: KeyError 'basis'"
    assert verify(rewritten(delivered, "manifest.json", by_other_code)) == [unread, OTHER_CODE]


def test_the_certificate_names_the_labels_that_it_is_about(delivered):
    with zipfile.ZipFile(delivered) as archive:
        found = json.loads(archive.read("certificate.json"))
        hashes = json.loads(archive.read("manifest.json"))["sha256"]
        methods = archive.read("methods.md").decode()
    assert found["certificate"]["issued"] is True
    assert found["labels_sha256"] == hashes["labels.csv"]
    assert "in at most 5% of projects" in methods.lower()


def test_the_page_is_one_file_that_fetches_nothing(project, audited, tmp_path):
    path = tmp_path / "report.html"
    call_command("report", project.slug, output=path)
    page = path.read_text(encoding="utf-8")
    assert page.count("<svg") > 4
    for fetched in ("<script", "<link", "src=", 'href="/', "url("):
        assert fetched not in page
    # What a screen reader leads to; all else stands in it.
    assert page.index("<body>\n<main>") < page.index("<h1") < page.index("</main>\n</body>")


@pytest.mark.system
def test_another_file_is_refused(tmp_path, project, audited):
    path = tmp_path / "notes.txt"
    path.write_text("no report")
    with pytest.raises(CommandError, match="not a report"):
        call_command("verify", path)
    with pytest.raises(CommandError, match="not as notes"):
        call_command("report", project.slug, output=path)


@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("labels.csv", lambda text: text.replace(b"judge_label", b"judge"), "judge_label is miss"),
        ("labels.csv", lambda text: text.replace(b",", b";"), "labels.csv cannot be read"),
        ("labels.csv", lambda text: text.decode().encode("utf-16"), "labels.csv cannot be read"),
        ("labels.csv", column("bpde", lambda value: value.replace(".", ",")), "cannot be read"),
        ("labels.csv", column("bpde", lambda value: "0.5"), "bpde of 80 examples"),
        ("labels.csv", column("human_label", lambda value: "tie"), "human_label of 56 examples"),
        ("labels.csv", column("selection", lambda value: "top"), "selection of 40 examples"),
        ("labels.csv", lambda text: b"", "labels.csv has 0 examples"),
        ("certificate.json", lambda text: b"{}", "the certificate cannot be read"),
        ("certificate.json", lambda text: b"not JSON", "the certificate cannot be read"),
        ("report.json", lambda text: text.replace(b'"issued": true', b'"issued": 1'), "issued"),
        ("report.json", lambda text: b"[]", "cannot be read"),
        ("data.npz", lambda data: data[:-30], "data of the report cannot be read"),
        ("context.json", lambda text: b"{}", "data of the report cannot be read"),
        ("report.html", lambda text: text.replace(b"issued.", b"denied."), "report.html does not"),
        ("methods.md", lambda text: text.replace(b"k = 3", b"k = 30"), "methods.md differs"),
    ],
)
def test_a_change_is_found_under_a_new_seal_as_well(delivered, name, change, problem):
    problems = verify(resealed(delivered, name, change))
    assert any(problem in one for one in problems), problems


def test_reordered_rows_are_not_the_labels_that_the_figures_rest_on(delivered):
    def turned(text):
        head, *rows = text.splitlines(keepends=True)
        return head + b"".join(reversed(rows))

    problems = verify(resealed(delivered, "labels.csv", turned))
    assert any("the certificate is not about these labels" in one for one in problems)
    assert any("is not what the figures rest on" in one for one in problems)


def test_a_file_that_was_taken_out_or_put_in_is_named(delivered):
    with zipfile.ZipFile(delivered) as archive:
        files = {one: archive.read(one) for one in archive.namelist()}
    manifest = json.loads(files["manifest.json"])
    del files["votes.csv"], manifest["sha256"]["votes.csv"]
    files |= {"manifest.json": json.dumps(manifest).encode(), "more.txt": b"more"}
    with zipfile.ZipFile(delivered, "w") as archive:
        for one, content in files.items():
            archive.writestr(one, content)
    assert verify(delivered) == ["votes.csv is missing"]


@pytest.mark.filterwarnings("ignore:Duplicate name")
def test_a_second_file_of_a_name_is_found(delivered):
    with zipfile.ZipFile(delivered, "a") as archive:
        archive.writestr("labels.csv", archive.read("labels.csv"))
    assert "labels.csv is there 2 times" in verify(delivered)


@pytest.mark.system
@pytest.mark.databases
@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("suffix", ["zip", pytest.param("html", marks=pytest.mark.long)])
def test_people_vote_while_a_report_is_written_and_it_shows_one_moment(
    project, audited, tmp_path, monkeypatch, suffix
):
    """The vote is cast once the figures are computed, and before the tables are written."""
    before, votes = package.report, Vote.objects.count()
    monkeypatch.setattr(package, "report", lambda analysis: (before(analysis), vote_elsewhere())[0])

    def vote_elsewhere():
        at_once(lambda _: cast_a_vote(project), 1)

    path = tmp_path / f"report.{suffix}"
    call_command("report", project.slug, output=path)
    monkeypatch.undo()
    assert Vote.objects.count() == votes + 1
    assert project.exports.count() == (len(package.TABLES) if suffix == "zip" else 0)
    if suffix == "zip":
        assert verify(path) == []
        assert rows_of(path, "votes.csv") == votes
        call_command("report", project.slug, output=path)
        assert rows_of(path, "votes.csv") == votes + 1
        assert verify(path) == []


def cast_a_vote(project):
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    item = round_.items.filter(slots__vote=None).first()
    make_vote(item, make_annotator(project, "another"), "lose")


def rows_of(path, name):
    with zipfile.ZipFile(path) as archive:
        return len(list(csv.reader(io.StringIO(archive.read(name).decode())))) - 1


@pytest.mark.databases
@pytest.mark.django_db(transaction=True)
def test_a_snapshot_writes_nothing_and_leaves_it_for_after(project):
    with pytest.raises(DatabaseError), snapshot():
        project.save()
    done = []
    with snapshot():
        after_snapshot(lambda: done.append(connection.in_atomic_block))
        assert done == []
    assert done == [False]
    # Outside it, the usual transactions again, which write.
    after_snapshot(project.save)
    with transaction.atomic():
        project.save()


def test_verifying_a_file_that_is_not_there_says_so(tmp_path):
    with pytest.raises(UserError, match=r"^There is no file .*report\.zip\.$"):
        verify(tmp_path / "report.zip")


def test_a_text_of_any_length_holds(project, audited, tmp_path):
    path = tmp_path / "report.zip"
    Example.objects.filter(number=0).update(response_1="long " * 40_000)
    call_command("report", project.slug, output=path)
    # The limit belongs to the whole process. Another command may not have raised it.
    before = csv.field_size_limit(131_072)
    try:
        assert verify(path) == []
    finally:
        csv.field_size_limit(before)


def npy(head):
    """An array whose head promises more than the file holds."""
    text = str(head).encode().ljust(117) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + b"\0" * 99


def with_array(head):
    def changed(data):
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            files = {one: archive.read(one) for one in archive.namelist()}
        out = io.BytesIO()
        with zipfile.ZipFile(out, "w") as archive:
            for one, content in (files | {"sheet.judge.npy": npy(head)}).items():
                archive.writestr(one, content)
        return out.getvalue()

    return changed


DEEP = b"[" * 5_000 + b"]" * 5_000
ENDLESS = {"descr": "<i8", "fortran_order": False, "shape": (10**13,)}


@pytest.mark.system
@pytest.mark.parametrize(
    ("name", "change", "problem"),
    [
        ("report.json", lambda text: DEEP, "nested too deeply"),
        ("certificate.json", lambda text: DEEP, "nested too deeply"),
        ("context.json", lambda text: DEEP, "nested too deeply"),
        ("report.json", lambda text: b'{"a":' * 500 + b"1" + b"}" * 500, "nested too deeply"),
        ("report.html", lambda text: b"<style>" * 300_000, "report.html does not show"),
        ("report.html", lambda text: b"<figure>" * 300_000, "report.html does not show"),
        ("labels.csv", lambda text: text + b'"' + b"x" * (65 << 20), "labels.csv cannot be read"),
        ("data.npz", with_array(ENDLESS), "shorter than its head says"),
        ("data.npz", with_array(ENDLESS | {"descr": "|S0"}), "shorter than its head says"),
        ("data.npz", with_array(ENDLESS | {"descr": "|O"}), "data of the report cannot be read"),
    ],
)
def test_what_would_take_memory_or_hours_becomes_a_sentence(delivered, name, change, problem):
    began = time.process_time()
    problems = verify(resealed(delivered, name, change))
    assert any(problem in one for one in problems), problems
    assert time.process_time() - began < 20


def test_a_manifest_that_nests_without_an_end_is_no_report(delivered):
    with pytest.raises(UserError, match="is not a report of FairJudge: its JSON is nested"):
        verify(rewritten(delivered, "manifest.json", lambda text: DEEP))


VERIFY = """
import os, resource, sys
from pathlib import Path
os.environ["DJANGO_SETTINGS_MODULE"] = "fairjudge_site.settings"
import django
django.setup()
from annotation.results.delivery.verify import verify
from judging.core.errors import UserError

before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
try:
    print(verify(Path(sys.argv[1])))
except UserError as error:
    print(error)
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


@pytest.mark.system
def test_a_bomb_is_refused_before_it_inflates(delivered, tmp_path):
    more = zipfile.ZipInfo("more.csv")
    more.compress_type = zipfile.ZIP_DEFLATED
    with (
        zipfile.ZipFile(delivered, "a") as archive,
        archive.open(more, "w", force_zip64=True) as member,
    ):
        # The file is all that is written: 40 of 8 MiB are more than the 256 that are let through.
        for _ in range(40):
            member.write(b" " * 2**23)
    assert delivered.stat().st_size < 2 << 20
    done = subprocess.run(
        [sys.executable, "-c", VERIFY, str(delivered)], capture_output=True, text=True,
        check=True, env=os.environ | {"FAIRJUDGE_DATA": str(tmp_path / "data")},
    )  # fmt: skip
    says, grown = done.stdout.splitlines()
    assert "it would inflate to more than 256 MiB" in says
    assert int(grown) < 60


def test_verifying_ends_by_a_deadline(delivered):
    with pytest.raises(UserError, match="can't be verified within"):
        verify_within(delivered, 0.01)
    with pytest.raises(CommandError, match="at least 1 second"):
        call_command("verify", delivered, "--time-limit", "0")
