"""Deleting a project leaves nothing of it, and nothing of any other one is touched."""

import os
import signal
from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db import IntegrityError, connections
from django.urls import reverse
from django.utils import timezone

from annotation import deletion
from annotation.deletion import delete_project
from annotation.models import (
    Adjudication,
    CrowdLink,
    CrowdSubmission,
    Draft,
    FirstChoice,
    Flag,
    GateLook,
    Intervention,
    Item,
    Job,
    PracticeResult,
    Reading,
    Repeat,
    Round,
    RoundTold,
    RoundWork,
    RoutingScores,
    Skip,
    WorkPart,
)
from annotation.people.annotators import crowd_annotator
from annotation.people.invitations import Terms, invite
from annotation.queue.queue import claim_next, skip
from annotation.results.planner.registration import Plan, register
from annotation.results.tables.exports import ExportRequest, export
from annotation.rounds import growing
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import edit_vote, record_vote
from judging.core import leases
from judging.core.errors import UserError
from judging.core.leases import delete_rows
from judging.dataset.models import ExampleImage, HumanScore, Image, Import, PointItem
from judging.dataset.subsets import Subset, change_tag, freeze
from judging.projects.access import project_for, remove_member
from judging.projects.models import (
    ApiToken,
    AuditEvent,
    Deletion,
    Delivery,
    Export,
    KeptAnswer,
    PasswordLink,
    Project,
    Retention,
    Webhook,
)
from judging.runs.models import (
    Batch,
    Call,
    JudgeTemplate,
    Parse,
    Sample,
    Share,
    Stretch,
    TextLikelihood,
)
from tests.factories import (
    make_annotator,
    make_examples,
    make_import,
    make_lesson,
    make_member,
    make_project,
    make_run,
    make_user,
    make_verdict,
)
from tests.rows_written import rows_of_transactions

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

# Not a project's: logins, how they are protected, their settings, mails and teams, workers, what
# was learned of endpoints, the trail, alerts, files of the site, and what it keeps for a while.
OTHERS = {
    "Alert", "AuditEvent", "Deletion", "EndpointLearned", "Erasure", "KeptFigure", "LoginSession",
    "Mail", "MailServer", "MailSettings", "Preferences", "RecoveryCode", "SecondFactor", "SignOn",
    "SiteEndpoint", "StoredFile", "StoredPiece", "Team", "TeamMember", "Worker",
}  # fmt: skip
TABLES = [
    model
    for label in ("judging", "annotation")
    for model in apps.get_app_config(label).get_models()
    if model.__name__ not in OTHERS
]


def make_full_project(slug):
    """One row at least in every table that belongs to a project."""
    project = make_project(slug)
    examples = make_examples(project, 4)
    run = make_run(project)
    Project.objects.filter(pk=project.pk).update(primary_run=run)
    for example in examples:
        make_verdict(run, example, 0.5)
    judged(run, examples[0])
    Share.objects.create(run=run, holder=slug)
    Stretch.objects.create(run=run, holder=slug, after=-1, through=3)
    point = PointItem.objects.create(
        project=project, source=make_import(project), external_id="p", number=1
    )
    image = Image.objects.create(
        sha256=slug, content_type="image/png", width=1, height=1, content=b"1"
    )
    examples[0].source.images.add(image)
    ExampleImage.objects.create(example=examples[0], image=image)
    HumanScore.objects.create(point_item=point, criterion="fluency", rater="r", value=3)
    TextLikelihood.objects.create(
        project=project, base_url="http://127.0.0.1", model="m", sha256="0"
    )
    JudgeTemplate.objects.create(project=project, name="own", form="score", text="", sha256="0")
    Export.objects.create(project=project, run=run, what="labels", format="csv")
    invite(project, None, Terms())
    gone, member = make_member(project), make_member(project)
    project_for(gone, slug, shows_judge=True, is_told=True)
    remove_member(project.memberships.get(user=gone), member)
    PasswordLink.objects.create(user=member, made_by=gone, project=project)
    change_tag(project, None, "hard", [examples[0].pk], added=True)
    run.frame = freeze(project, Subset.chosen(sample=3, seed=1))
    run.save()
    labelled(project, make_annotator(project))
    Job.objects.create(project=project, kind="gate", asked={})
    make_lesson(run)
    GateLook.objects.create(
        project=project, run=run, requirements=[], number=1, confidence=0.95, result={}
    )
    register(project, None, Plan(goal="Which is better?"))
    Retention.objects.create(project=project, what="comments", on="2099-01-01")
    hook = Webhook.objects.create(project=project, number=1, url="https://example.org/")
    Delivery.objects.create(webhook=hook, message="msg_1", event="run.done", body="{}")
    token = ApiToken.objects.create(user=member, project=project, prefix=slug)
    KeptAnswer.objects.create(token=token, key="k")
    return project


def judged(run, example):
    batch = Batch.objects.create(run=run)
    call = Call.objects.create(
        run=run, example=example, batch=batch, part="original", claimed_at=timezone.now()
    )
    sample = Sample.objects.create(call=call, index=0, slot=0, raw_text="8 7")
    Parse.objects.create(sample=sample, version=1, status="valid")


def labelled(project, annotator):
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2, seed=3))
    Reading.objects.create(annotator=annotator, protocol=round_.protocol)
    WorkPart.objects.create(work=RoundWork.objects.get(round=round_), start=0, content=[])
    RoutingScores.objects.create(round=round_, fit={}, examples=[], scores=[])
    RoundTold.objects.create(round=round_)
    vote = record_vote(claim_next(round_, annotator), {"overall": "left"})
    edit_vote(vote, {"overall": "tie"}, "on second thought")
    Adjudication.objects.create(item=vote.item, label="win")
    FirstChoice.objects.create(item=vote.item, user=annotator.user, left_response=1)
    result = {"number": 1, "n": 1, "right": 1, "passed": True, "is_over": True}
    PracticeResult.objects.create(round=round_, annotator=annotator, **result)
    again = Repeat.objects.create(vote=vote, round=round_, annotator=annotator, due=1)
    Draft.every.create(
        item=vote.item, annotator=annotator, token=f"again {project.pk}", left_response=1,
        repeat=again,
    )  # fmt: skip
    skip(claim_next(round_, annotator), "too long")
    link = CrowdLink.objects.create(round=round_, consent="We pay.", created_by=annotator.user)
    with_login = crowd_annotator(project, make_user())
    CrowdSubmission.objects.create(link=link, annotator=with_login, worker_id="w")
    CrowdSubmission.objects.create(link=link, worker_id="screened")
    draft = claim_next(round_, annotator)
    Flag.objects.create(item=draft.item, annotator=annotator, reason="odd")
    Intervention.objects.create(round=round_, annotator=annotator, kind="aside", actor="olga")


def rows():
    return {model.__name__: set(model.objects.values_list("pk", flat=True)) for model in TABLES}


def test_nothing_is_left_and_other_projects_are_untouched(monkeypatch):
    monkeypatch.setattr(leases, "FIRST", 1)
    other = make_full_project("stays")
    before = rows()
    assert all(before.values()), f"empty: {[name for name, keys in before.items() if not keys]}"
    project = make_full_project("goes")
    assert all(len(rows()[name]) > len(keys) for name, keys in before.items())
    crowd = User.objects.filter(annotators__is_crowd=True)
    names = set(crowd.values_list("username", flat=True))
    assert len(names) == 2
    delete_project(project, None)
    assert rows() == before
    # The logins of a panel's people open nothing else, so they go with it.
    assert User.objects.filter(username__in=names).count() == 1
    assert Project.objects.get() == other


def test_the_trail_stays_without_its_project():
    project = make_full_project("goes")
    delete_project(project, None)
    assert AuditEvent.objects.filter(project=None, project_slug="goes").exists()
    assert AuditEvent.objects.get(action="project deleted").subject == "goes"


def test_uploads_go_with_it_and_files_of_commands_stay(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path / "uploads"
    mine = tmp_path / "pairs.csv"
    upload = tmp_path / "uploads" / "imports" / "abc" / "pairs.csv"
    upload.parent.mkdir(parents=True)
    for file in (mine, upload, upload.with_name("pairs.refused.csv")):
        file.write_text("question\n")
    project = make_project()
    make_import(project, stored_files=["imports/abc/pairs.csv"])
    make_import(project, stored_files=[str(mine)])
    delete_project(project, None)
    assert mine.exists()
    assert not upload.parent.exists()


@pytest.mark.parametrize("busy", ["run", "import"])
def test_a_project_at_work_is_not_deleted(busy):
    project = make_project()
    make = make_run if busy == "run" else make_import
    held = make(project, lease_until=timezone.now() + timedelta(seconds=20))
    with pytest.raises(UserError, match="Nothing was deleted"):
        delete_project(project, None)
    assert type(held).objects.filter(pk=held.pk).exists()
    assert not AuditEvent.objects.exists()


def test_a_deletion_that_was_cut_short_goes_on(monkeypatch):
    project = make_full_project("goes")

    def cut(model, **which):
        if model is Skip:
            raise KeyboardInterrupt
        return delete_rows(model, **which)

    monkeypatch.setattr(deletion, "delete_rows", cut)
    with pytest.raises(KeyboardInterrupt):
        delete_project(project, None)
    monkeypatch.undo()
    assert not Project.objects.exists()
    assert Draft.objects.exists()
    assert delete_project(Project.every.get(), None)
    assert not any(rows().values())
    assert not Import.objects.exists()


@pytest.mark.parametrize("times", [1, 3])
def test_exports_that_end_while_the_project_is_deleted(monkeypatch, times):
    project, left = make_full_project("goes"), [times]
    delete = deletion._Rest.delete

    def with_an_export(self):
        # What PostgreSQL says where an export was put on record after its row was looked for.
        if left[0]:
            left[0] -= 1
            raise IntegrityError("still referenced by judging_export")
        delete(self)

    monkeypatch.setattr(deletion._Rest, "delete", with_an_export)
    delete_project(project, None)
    assert not Project.every.filter(pk=project.pk).exists()


def test_a_project_that_somebody_keeps_writing_to_is_refused_in_a_sentence(monkeypatch):
    def always(self):
        raise IntegrityError("still referenced")

    monkeypatch.setattr(deletion._Rest, "delete", always)
    project = make_project("goes")
    with pytest.raises(UserError, match="deletes the rest later"):
        delete_project(project, None)
    monkeypatch.undo()
    assert deletion.go_on(Deletion.objects.get().pk)
    assert not Project.every.exists()


@pytest.mark.parametrize("what", ["labels", "votes", "samples"])
def test_an_export_of_a_project_that_is_gone_at_its_end_says_so(what):
    project = make_full_project("goes")
    run = project.runs.get()
    pieces = export(project, run, None, ExportRequest(what))
    next(pieces)
    delete_project(project, None)
    with pytest.raises(UserError, match="deleted during the export"):
        list(pieces)
    assert not Export.objects.exists()


def test_no_transaction_of_a_deletion_changes_many_rows(monkeypatch):
    monkeypatch.setattr(leases, "FIRST", 2)
    monkeypatch.setattr(leases, "MOST", 2)
    project = make_full_project("goes")
    make_examples(project, 40)
    for number in range(40):
        AuditEvent.objects.create(project=project, action="voted", subject=str(number))
    with rows_of_transactions() as sizes:
        delete_project(project, None)
    # The last one takes the project with what is left of its small tables.
    assert max(sizes[:-1]) <= 36
    assert sum(sizes) > 100


def test_a_large_project_is_hidden_at_once_and_deleted_by_a_worker(monkeypatch, client):
    woken = []
    monkeypatch.setattr(deletion, "AT_ONCE", 3)
    monkeypatch.setattr(deletion.waking, "wake_on_commit", lambda *what: woken.append(what))
    project = make_full_project("goes")
    owner = make_member(project, "owner")
    client.force_login(owner)
    posted = client.post(reverse("project_delete", args=["goes"]), {"confirm": "goes"}, follow=True)
    page = posted.content.decode()
    assert "The project goes is deleted." in page
    assert "is being deleted" in page
    assert not Project.objects.exists()
    assert client.get(reverse("project", args=["goes"])).status_code == 404
    assert Call.objects.exists()
    another = make_project("goes")
    ((task, key),) = woken
    assert task == deletion.waking.DELETE_PROJECT
    assert deletion.go_on(key)
    assert not deletion.go_on(key)
    assert list(Project.every.all()) == [another]
    assert "is being deleted" not in client.get("/").content.decode()


def test_a_round_that_a_worker_still_opens_is_opened_no_more(monkeypatch):
    monkeypatch.setattr(deletion, "AT_ONCE", 3)
    monkeypatch.setattr(growing, "AT_ONCE", 1)
    project = make_full_project("goes")
    settings = RoundSettings(everything=True, votes=1)
    round_ = open_round(project, None, None, settings, background=True)
    work = growing.current_work(round_)
    assert work.state == "writing"
    delete_project(project, None, background=True)
    assert not growing.work_on(work.pk)
    assert Round.every.get(pk=round_.pk).state == "closed"
    assert not Item.every.filter(round=round_).exists()
    assert deletion.go_on(Deletion.objects.get().pk)
    assert not Round.every.exists()


def test_the_command_deletes_and_goes_on_with_what_was_cut_off(monkeypatch, capsys):
    make_full_project("goes")
    with pytest.raises(CommandError, match="Add --yes"):
        call_command("delete_project", "goes")
    assert Project.objects.exists()
    with monkeypatch.context() as patched:
        patched.setattr(deletion, "_of_items", lambda keys: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            call_command("delete_project", "goes", "--yes")
    assert not Project.objects.exists()
    call_command("delete_project", "goes")
    assert not Project.every.exists()
    assert "goes and everything in it was deleted" in capsys.readouterr().out
    with pytest.raises(CommandError, match="no project"):
        call_command("delete_project", "goes", "--yes")


@pytest.mark.django_db(transaction=True)
def test_a_deletion_whose_process_was_killed_goes_on(monkeypatch):
    monkeypatch.setattr(leases, "FIRST", 2)
    monkeypatch.setattr(leases, "MOST", 2)
    project = make_full_project("goes")
    make_examples(project, 20)
    connections.close_all()
    child = os.fork()
    if not child:
        calls = []

        def killed(model, **which):
            calls.append(1)
            if len(calls) > 16:
                os.kill(os.getpid(), signal.SIGKILL)
            return delete_rows(model, **which)

        deletion.delete_rows = killed
        try:
            delete_project(project, None)
        finally:
            os._exit(1)
    assert os.waitpid(child, 0)[1] == signal.SIGKILL
    assert not Project.objects.exists()
    cut_off = Deletion.objects.get()
    assert 0 < cut_off.n_done < cut_off.n_total
    assert deletion.go_on(cut_off.pk)
    assert not any(rows().values())
