"""Imports and files that a program leaves to a worker: 202, a job to poll, and what came of it."""

import io
import json
import socket
import zipfile
from datetime import timedelta

import pytest
from django.utils import timezone

from annotation.models import Job, Vote
from annotation.results.delivery import jobs
from fairjudge_site.api import gate, tables
from judging.core import leases, waking
from judging.core.models import Worker
from judging.dataset.models import HumanScore, Import
from judging.projects.models import Export, KeptAnswer, Membership, Role
from judging.runs.models import Run, Sample
from tests.factories import make_examples, make_member, make_run, make_verdict
from tests.fairjudge_site.api.test_verdicts import validated

pytestmark = pytest.mark.django_db

ASYNC = {"Prefer": "respond-async"}
VOTES = [
    {"external_id": f"e{n}", "annotator": "ana", "label": label}
    for n, label in enumerate(["win", "lose", "tie"])
]
JUDGMENTS = [{"external_id": f"e{n}", "order": "original", "outcome": "win"} for n in range(3)]
SCORES = [
    {"external_id": "p", "input": "Q", "output": "A", "model": "m", "criterion": criterion,
     "rater": "rita", "score": 3}
    for criterion in ("fluency", "grammar")
]  # fmt: skip


def lines(rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


@pytest.fixture(autouse=True)
def media(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path
    return tmp_path


@pytest.fixture
def ranked(project):
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.5)
    project.primary_run = run
    project.save()
    run.ranked_at = timezone.now()
    run.save()
    return run


@pytest.fixture
def large(monkeypatch, ranked):
    """Whatever is asked is large, and a worker is there that never gets a message."""
    monkeypatch.setattr("fairjudge_site.api.jobs.MOST_AT_ONCE", 0)
    monkeypatch.setattr(tables, "LARGE_BODY", 0)
    monkeypatch.setattr(waking, "wake", lambda *message: True)
    # The thread that keeps a lease doesn't see what the test hasn't committed.
    for name in ("_RENEW_SECONDS", "_RENEW_FILE_SECONDS"):
        monkeypatch.setattr(jobs, name, 3600)
    monkeypatch.setattr("judging.core.models.SILENT_AFTER", timedelta(hours=1))
    now = timezone.now()
    Worker.objects.create(name="w", queues="quick", started_at=now, seen_at=now)


@pytest.fixture
def as_owner(token_for, owner):
    return token_for(owner)


def done(client, sent):
    """The job, as a worker has done it."""
    assert (sent.status_code, sent["Preference-Applied"]) == (202, "respond-async"), sent.content
    validated("JobOut", sent.json())
    assert sent.json()["state"] == "waiting"
    jobs.work_on(sent.json()["id"])
    found = client.get(sent["Location"]).json()
    validated("JobOut", found)
    return found


def status(response):
    b"".join(response)
    return response.status_code


def uploads(media):
    return [path for path in media.rglob("*") if path.is_file()]


@pytest.mark.databases
def test_a_worker_imports_votes_for_those_who_prefer_it(as_owner, large, media):
    key = {"Idempotency-Key": "one"}
    sent = as_owner.post("projects/vicuna/votes", lines(VOTES), **ASYNC, **key)
    assert len(uploads(media)) == 1
    again = as_owner.post("projects/vicuna/votes", lines(VOTES), **ASYNC, **key)
    assert (again.content, again["Location"]) == (sent.content, sent["Location"])
    assert again["Preference-Applied"] == "respond-async"
    assert (Job.objects.count(), Vote.objects.count(), len(uploads(media))) == (1, 0, 1)
    jobs.wake_jobs()
    job = done(as_owner, sent)
    assert (job["state"], job["votes"]["added"], job["votes"]["annotators"]) == ("done", 3, ["ana"])
    assert uploads(media) == [], "the rows are in the project"
    # A message that comes twice finds nothing to do.
    jobs.work_on(job["id"])
    assert Vote.objects.count() == 3
    now = as_owner.post("projects/vicuna/votes", lines(VOTES))
    assert now.status_code == 201
    assert now.json() == job["votes"] | {"added": 0, "known": 3}
    assert as_owner.get("projects/vicuna/jobs").json()["items"] == [job]


@pytest.mark.system
def test_judgments_and_scores_are_left_to_it_too(as_owner, large):
    sent = as_owner.post("projects/vicuna/judgments?name=old", lines(JUDGMENTS), **ASYNC)
    run = Run.objects.get(number=done(as_owner, sent)["run"])
    assert (run.name, run.state, run.verdicts.count()) == ("old", "done", 3)
    sent = as_owner.post("projects/vicuna/scores", lines(SCORES), **ASYNC)
    found = done(as_owner, sent)["scores"]
    assert (found["items"], found["added"], HumanScore.objects.count()) == (1, 2, 2)


@pytest.mark.parametrize(
    ("what", "rows"),
    [
        ("votes", [*VOTES, {"external_id": "e0", "annotator": "bo", "label": "best"}]),
        ("judgments", [*JUDGMENTS, {"external_id": "e0", "order": "sideways"}]),
        ("scores", [*SCORES, SCORES[0] | {"score": "high"}]),
    ],
)
def test_a_wrong_row_is_named_by_line_as_it_is_at_once(as_owner, large, media, what, rows):
    refused = as_owner.post(f"projects/vicuna/{what}", lines(rows))
    assert refused.status_code == 422
    job = done(as_owner, as_owner.post(f"projects/vicuna/{what}", lines(rows), **ASYNC))
    assert (job["state"], job["reason"]) == ("refused", refused.json()["detail"])
    assert f"line {len(rows)}" in job["reason"]
    assert not Import.objects.filter(kind=what).exists()
    assert uploads(media) == []


def test_what_is_misspelt_is_refused_before_a_worker_is_woken(as_owner, large, media):
    for what in ("votes", "judgments"):
        sent = as_owner.post(f"projects/vicuna/{what}?labels=1", lines(VOTES), **ASYNC)
        assert sent.status_code == 422
    assert (Job.objects.count(), uploads(media)) == (0, [])


def test_without_a_worker_or_for_few_rows_the_answer_comes_at_once(as_owner, large, monkeypatch):
    with monkeypatch.context() as few:
        few.setattr(tables, "LARGE_BODY", 2**18)
        assert as_owner.post("projects/vicuna/votes", lines(VOTES), **ASYNC).status_code == 201
    monkeypatch.setattr("fairjudge_site.api.jobs.MOST_AT_ONCE", 3)
    for path in ("runs/1/report.zip", "labels.xlsx"):
        assert status(as_owner.get(f"projects/vicuna/{path}", **ASYNC)) == 200
    monkeypatch.setattr("fairjudge_site.api.jobs.MOST_AT_ONCE", 0)
    Worker.objects.all().delete()
    assert as_owner.post("projects/vicuna/votes", lines(VOTES), **ASYNC).status_code == 201
    for path in ("runs/1/report.html", "labels.xlsx"):
        assert status(as_owner.get(f"projects/vicuna/{path}", **ASYNC)) == 200
    assert not Job.objects.exists()


@pytest.mark.databases
@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("runs/1/report.zip", "vicuna-run1-report.zip"),
        ("runs/1/report.html", "vicuna-run1-report.html"),
        ("labels.xlsx", "vicuna-run1-labels.xlsx"),
        ("votes.parquet?names=true&where=category%3Dnone", "vicuna-votes.parquet"),
    ],
)
def test_a_worker_writes_reports_and_tables(as_owner, ranked, large, path, name):
    if "category" in path:
        ranked.project.examples.update(category="none")
    at = f"projects/vicuna/{path}"
    sent = as_owner.get(at, **ASYNC)
    # A program that asks again meanwhile gets no second job.
    assert as_owner.get(at, **ASYNC).json() == sent.json()
    assert status(as_owner.ask("HEAD", at, **ASYNC)) == 200
    early = as_owner.get(f"{sent['Location']}/file")
    assert (early.status_code, "waiting" in early.json()["detail"]) == (422, True)
    job = done(as_owner, sent)
    assert job["state"] == "done", job["reason"]
    n_exports = Export.objects.count()
    file = as_owner.get(job["file"])
    content = b"".join(file.streaming_content)
    assert name in file["Content-Disposition"]
    assert len(content) == int(file["Content-Length"])
    assert Export.objects.count() == n_exports, "it went on record when it was written"
    if path.endswith(("zip", "xlsx")):
        assert zipfile.ZipFile(io.BytesIO(content)).testzip() is None
    elif path.endswith("html"):
        assert content.endswith(b"</html>\n")
    else:
        assert content.endswith(b"PAR1")
    # The week is over.
    for kept in Job.objects.get().files:
        jobs.discard_named([kept])
    gone = as_owner.get(job["file"])
    assert (gone.status_code, "for a week" in gone.json()["detail"]) == (422, True)
    assert Job.objects.count() == 1


def test_a_worker_writes_probabilities_by_the_model_that_was_asked_for(
    as_owner, large, monkeypatch
):
    at = "projects/vicuna/labels.xlsx?model=dawid_skene"
    asked, real = [], jobs.export
    monkeypatch.setattr(jobs, "export", lambda *args, **more: asked.append(args) or real(*args))
    assert done(as_owner, as_owner.get(at, **ASYNC))["state"] == "done"
    assert asked[0][-1].model == "dawid_skene"


def test_a_file_that_waits_is_cancelled_and_nothing_else(token_for, project, owner, large):
    as_owner = token_for(owner)
    sent = as_owner.get("projects/vicuna/runs/1/report.zip", **ASYNC).json()
    cancel = f"projects/vicuna/jobs/{sent['id']}/cancel"
    as_observer = token_for(make_member(project, Role.OBSERVER, "oona"))
    refused = as_observer.post(cancel)
    assert (refused.status_code, "another person" in refused.json()["detail"]) == (422, True)
    cancelled = as_owner.post(cancel)
    validated("JobOut", cancelled.json())
    assert (cancelled.json()["state"], cancelled.json()["at_work"]) == ("stopped", False)
    jobs.work_on(sent["id"])
    assert Job.objects.get().result is None
    assert as_owner.post(cancel).status_code == 422
    voted = as_owner.post("projects/vicuna/votes", lines(VOTES), **ASYNC).json()
    assert as_owner.post(f"projects/vicuna/jobs/{voted['id']}/cancel").status_code == 422
    assert Job.objects.get(pk=voted["id"]).state == "waiting"


def test_a_worker_that_is_busy_for_a_minute_is_waited_for(as_owner, large, monkeypatch):
    monkeypatch.setattr("judging.core.models.SILENT_AFTER", timedelta(seconds=30))
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=1))
    assert as_owner.get("projects/vicuna/runs/1/report.html", **ASYNC).status_code == 202
    Worker.objects.update(seen_at=timezone.now() - timedelta(minutes=3))
    assert status(as_owner.get("projects/vicuna/runs/1/report.html", **ASYNC)) == 200


def test_texts_are_streamed_at_once(as_owner, large):
    for path in ("labels.csv", "votes.jsonl"):
        assert status(as_owner.get(f"projects/vicuna/{path}", **ASYNC)) == 200


@pytest.mark.system
def test_observers_see_files_but_no_imports_and_no_names(token_for, project, owner, large):
    as_owner = token_for(owner)
    observer = make_member(project, Role.OBSERVER, "oona")
    as_observer = token_for(observer)
    voted = done(as_owner, as_owner.post("projects/vicuna/votes", lines(VOTES), **ASYNC))
    named = done(as_owner, as_owner.get("projects/vicuna/votes.xlsx?names=true", **ASYNC))
    votes = done(as_owner, as_owner.get("projects/vicuna/votes.xlsx", **ASYNC))
    report = done(as_observer, as_observer.get("projects/vicuna/runs/1/report.html", **ASYNC))
    seen = as_observer.get("projects/vicuna/jobs").json()["items"]
    assert [one["id"] for one in seen] == [named["id"], votes["id"], report["id"]]
    assert as_observer.get(f"projects/vicuna/jobs/{voted['id']}").status_code == 403
    assert as_observer.get(named["file"]).status_code == 403
    assert status(as_observer.get(votes["file"])) == 200
    mine = Membership.objects.filter(user=observer, unblinded_at__isnull=False)
    assert as_observer.get(f"projects/vicuna/jobs/{report['id']}").status_code == 200
    was = mine.exists()
    assert status(as_observer.get(report["file"])) == 200
    assert (was, mine.exists()) == (True, True), "asking for the report showed it"
    # Gates show what the judge said, and are in a list of their own.
    held = Job.objects.create(project=project, user=owner, kind="gate", asked={})
    assert as_owner.get(f"projects/vicuna/jobs/{held.pk}").status_code == 404
    assert as_owner.get(f"projects/vicuna/gates/{voted['id']}").status_code == 404
    assert as_owner.get(f"projects/vicuna/jobs/{voted['id']}/file").status_code == 404


def test_who_has_lost_their_role_meanwhile_changes_nothing(as_owner, large, media):
    sent = as_owner.post("projects/vicuna/votes", lines(VOTES), **ASYNC)
    file = as_owner.get("projects/vicuna/votes.xlsx?names=true", **ASYNC)
    Membership.objects.update(role="observer")
    for one in (sent, file):
        jobs.work_on(one.json()["id"])
    assert {job.state for job in Job.objects.all()} == {"refused"}
    assert (Vote.objects.count(), uploads(media)) == (0, [])


def test_after_a_kill_the_next_worker_begins_again(as_owner, large, media, monkeypatch):
    sent = as_owner.post("projects/vicuna/votes", lines(VOTES), **ASYNC)
    with monkeypatch.context() as kill:
        kill.setattr("annotation.votes.imports.record_import", killed)
        with pytest.raises(SystemExit):
            jobs.work_on(sent.json()["id"])
    assert (Vote.objects.count(), Import.objects.filter(kind="votes").count()) == (3, 0)
    assert Job.objects.get().state == "waiting"
    Job.objects.update(lease_until=None)
    job = done(as_owner, sent)
    assert (job["state"], job["votes"]["added"], job["votes"]["known"]) == ("done", 0, 3)
    assert Vote.objects.count() == 3


def test_a_job_that_another_worker_took_over_leaves_nothing_twice(as_owner, large, monkeypatch):
    sent = as_owner.post("projects/vicuna/judgments", lines(JUDGMENTS), **ASYNC)
    with monkeypatch.context() as slow:
        real = jobs.import_judgments

        def overtaken(*args, **options):
            Job.objects.update(holder="another")
            return real(*args, **options)

        slow.setattr(jobs, "import_judgments", overtaken)
        jobs.work_on(sent.json()["id"])
    assert not Run.objects.filter(method="imported", state="done").exists()
    Job.objects.update(holder="", lease_until=None)
    assert Run.objects.get(number=done(as_owner, sent)["run"]).state == "done"


# At once, with a key


def killed(*args, **options):
    raise SystemExit


@pytest.mark.parametrize(
    ("what", "rows", "made"),
    [
        ("votes", VOTES, lambda: Import.objects.filter(kind="votes")),
        ("judgments", JUDGMENTS, lambda: Run.objects.filter(method="imported", state="done")),
        ("scores", SCORES, lambda: Import.objects.filter(kind="points", state="done")),
    ],
)
def test_the_answer_is_kept_with_the_last_of_the_rows(
    as_owner, ranked, monkeypatch, what, rows, made
):
    key, at = {"Idempotency-Key": "one"}, f"projects/vicuna/{what}?{'name=n' * (what[0] == 'j')}"
    with monkeypatch.context() as crash:
        crash.setattr(gate, "_keep", killed)
        with pytest.raises(SystemExit):
            as_owner.post(at, lines(rows), **key)
    assert not made().exists()
    # The killed process is one of the past.
    claimed = {"headers": {"Holder": f"{socket.gethostname()}:999999999:1:dead"}}
    KeptAnswer.objects.filter(status=0).update(**claimed)
    Import.objects.filter(state="writing").update(lease_until=None)
    first = as_owner.post(at, lines(rows), **key)
    assert first.status_code == 201, first.content
    again = as_owner.post(at, lines(rows), **key)
    assert (again.content, again["Idempotency-Replayed"]) == (first.content, "true")
    assert "Holder" not in again.headers
    assert made().count() == 1
    assert Sample.objects.count() == (3 if what == "judgments" else 0)


def test_who_is_alive_at_work_keeps_the_key(as_owner, ranked, monkeypatch):
    monkeypatch.setattr(gate, "WAITS_SECONDS", 0.2)
    at, rows = "projects/vicuna/judgments", lines(JUDGMENTS)
    taken = gate.KeptAnswer.objects.create(
        token=as_owner.kept, key="one", headers={"Holder": leases.new_holder()}
    )
    assert as_owner.post(at, rows, **{"Idempotency-Key": "one"}).status_code == 409
    taken.delete()
