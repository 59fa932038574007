"""Comments and people that are removed from a project on the day that its owner set."""

import base64
import json
from datetime import timedelta

import pytest
from django.apps import apps
from django.contrib.auth.models import User
from django.core.management import CommandError, call_command
from django.db.models import Count, Q
from django.urls import reverse
from django.utils import timezone

from annotation import retention
from annotation.models import (
    Adjudication,
    Annotator,
    CrowdSubmission,
    Draft,
    FirstChoice,
    Flag,
    Item,
    Lesson,
    Repeat,
    Round,
    Skip,
    Vote,
    VoteRevision,
)  # fmt: skip
from annotation.people import crowds
from annotation.people.invitations import Terms, invite, revoke_invitation
from annotation.queue.queue import NoItem, claim_next, flag
from annotation.results.data.figures import to_json
from annotation.results.delivery.teaching import plan_lesson
from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.results.tables.exports import ExportRequest, export
from annotation.retention import remove_due, set_dates, wake_due
from annotation.rounds.changes import close, reopen
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.voting import choose_first, decide, record_vote
from judging.core import waking
from judging.core.caching import report_cache
from judging.core.errors import UserError
from judging.dataset.models import Example, Image, Import
from judging.dataset.scores import import_scores
from judging.dataset.writing import import_files
from judging.projects.models import AuditEvent, Membership, Retention, Role
from judging.runs.engine import rereading
from judging.runs.lifecycle import resume
from judging.runs.models import Call, Parse, Run, Sample
from judging.runs.planning.start import start_run
from judging.runs.recorded.writing import import_judgments
from tests.factories import (
    make_annotator,
    make_examples,
    make_lesson,
    make_member,
    make_run,
    make_verdict,
)
from tests.pictures import picture

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
SECRET = "Ana from Kassel thinks so"


@pytest.fixture(autouse=True)
def sent(monkeypatch):
    """The messages to workers, which nobody reads here."""
    found = []
    monkeypatch.setattr(waking, "wake", lambda task, *values: found.append((task, *values)) or True)
    return found


@pytest.fixture
def tomorrow(monkeypatch):
    """Lets a day pass."""
    now = timezone.now()
    return lambda: monkeypatch.setattr(timezone, "now", lambda: now + timedelta(days=1, hours=1))


@pytest.fixture
def voted(project, owner):
    """A closed round with words of Ana's in every place."""
    make_examples(project, 5)
    round_ = open_round(project, owner, None, RoundSettings(everything=True, votes=2, seed=5))
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    for person, side in ((ana, "left"), (ben, "right")):
        for _ in range(4):
            record_vote(claim_next(round_, person), {"overall": side}, comment=SECRET)
    flag(claim_next(round_, ana), SECRET)
    voted = Count("slots", filter=Q(slots__vote__isnull=False))
    undecided = Item.objects.annotate(n=voted).filter(n=2).order_by("pk").first()
    Item.objects.filter(pk=undecided.pk).update(state=Item.State.ADJUDICATE)
    undecided.refresh_from_db()
    decide(undecided, make_member(project, Role.REVIEWER, "rita"), "win", SECRET)
    close(round_, owner)
    return round_


def day(n=1):
    return timezone.now().date() + timedelta(days=n)


def labels_of(project):
    votes = Vote.every.filter(example__project=project).order_by("pk")
    return list(votes.values_list("label", "answer", "submitted_at", "active_seconds"))


def everything():
    rows = [list(model._base_manager.values()) for model in apps.get_models()]
    return json.dumps(rows, default=str)


def test_comments_go_on_their_day_and_labels_stay(voted, project, owner, tomorrow, sent):
    set_dates(project, owner, {"comments": day()})
    before = labels_of(project)
    row = Retention.objects.get()
    assert not remove_due(row.pk)
    assert SECRET in everything()
    tomorrow()
    report_cache.delete(f"retention:{row.pk}")
    wake_due()
    assert (waking.REMOVE_DUE, row.pk) in sent
    assert remove_due(row.pk)
    assert SECRET not in everything()
    assert labels_of(project) == before
    assert Annotator.objects.filter(name="ana").exists()
    event = AuditEvent.objects.get(action="comments removed")
    assert (event.project, event.actor) == (project, "command line")
    assert event.detail["n"] >= 5
    assert not remove_due(row.pk)
    assert AuditEvent.objects.filter(action="comments removed").count() == 1


def test_people_become_pseudonyms_and_managers_stay(voted, project, owner, researcher, tomorrow):
    another = open_round(project, owner, None, RoundSettings(everything=True, votes=3, seed=5))
    record_vote(claim_next(another, make_annotator(project, user=owner)), {"overall": "left"})
    close(another, owner)
    choose_first(Adjudication.objects.get().item, User.objects.get(username="rita"), "left")
    revoke_invitation(invite(project, owner, Terms(note="For Ana from Kassel")), owner)
    set_dates(project, owner, {"logins": day()})
    before = labels_of(project)
    pseudonyms = set(Annotator.objects.values_list("number", flat=True))
    tomorrow()
    assert remove_due(Retention.objects.get().pk)
    assert labels_of(project) == before
    assert set(Annotator.objects.values_list("number", flat=True)) == pseudonyms
    assert not Annotator.objects.exclude(user=None).exists()
    assert not Annotator.objects.exclude(name__startswith="erased person").exists()
    members = Membership.objects.filter(project=project).values_list("user__username", flat=True)
    assert sorted(members) == ["olga", "rosa"]
    assert User.objects.filter(username="ana").exists()
    trail = AuditEvent.objects.filter(project=project)
    assert not trail.filter(actor__in=("ana", "ben", "rita")).exists()
    assert not trail.filter(subject__in=("ana", "ben", "rita")).exists()
    assert trail.filter(actor="olga").exists()
    assert not trail.filter(actor="olga", action="voted").exists()
    assert Adjudication.objects.get().decider == "erased person"
    assert not FirstChoice.objects.exists()
    assert SECRET not in everything()
    assert "Ana from Kassel" not in everything()


def test_another_project_keeps_everything(voted, project, owner, tomorrow):
    from tests.factories import make_project

    other = make_project("other")
    ana = User.objects.get(username="ana")
    Membership.objects.create(project=other, user=ana, role=Role.ANNOTATOR)
    example, *_ = make_examples(other, 1)
    round_ = open_round(other, None, None, RoundSettings(everything=True, votes=1, seed=5))
    record_vote(
        claim_next(round_, make_annotator(other, "ana", ana)), {"overall": "left"}, comment="mine"
    )
    close(round_, owner)
    set_dates(project, owner, {"comments": day(), "logins": day()})
    tomorrow()
    for row in Retention.objects.all():
        assert remove_due(row.pk)
    assert Vote.every.get(example=example).comment == "mine"
    assert Annotator.objects.get(project=other).user == ana
    assert Membership.objects.filter(project=other, user=ana).exists()


def test_the_people_of_a_panel_are_forgotten(project, owner, tomorrow):
    make_examples(project, 2)
    round_ = open_round(project, owner, None, RoundSettings(everything=True, votes=1, seed=5))
    link = crowds.set_up(round_, owner, {"consent": "We pay.", "completion_code": "DONE"})
    user = User.objects.create_user("crowd-1")
    annotator = make_annotator(project, "crowd-1", user)
    Annotator.objects.filter(pk=annotator.pk).update(is_crowd=True)
    Membership.objects.filter(user=user).delete()
    for number, person in enumerate((annotator, None)):
        CrowdSubmission.objects.create(
            link=link, annotator=person, worker_id=f"worker-{number}", study_id="s",
            session_id="z", answers={"age": "secret age"},
        )  # fmt: skip
    close(round_, owner)
    set_dates(project, owner, {"logins": day()})
    tomorrow()
    assert remove_due(Retention.objects.get().pk)
    assert not User.objects.filter(pk=user.pk).exists()
    assert "worker-" not in everything()
    assert "secret age" not in everything()


def test_it_waits_while_a_round_is_open(voted, project, owner, tomorrow, as_owner):
    set_dates(project, owner, {"comments": day()})
    Round.objects.update(state=Round.State.OPEN)
    tomorrow()
    assert not remove_due(Retention.objects.get().pk)
    assert SECRET in everything()
    assert retention.plan(project)[0].waits
    assert "waits until all rounds" in as_owner.get(reverse("retention", args=["vicuna"])).text


@pytest.mark.parametrize("n", [0, -1])
def test_a_day_that_is_not_in_the_future_is_refused(project, owner, n):
    with pytest.raises(UserError, match="not in the future"):
        set_dates(project, owner, {"comments": day(n)})
    assert not Retention.objects.exists()


def test_dates_are_changed_and_taken_back_on_record(project, owner):
    set_dates(project, owner, {"comments": day(5), "logins": None})
    set_dates(project, owner, {"comments": day(9)})
    set_dates(project, owner, {"comments": None})
    assert not Retention.objects.exists()
    events = AuditEvent.objects.filter(action="retention changed").order_by("pk")
    assert [event.detail["now"] for event in events] == [str(day(5)), str(day(9)), "kept"]


def test_an_owner_sets_days_on_the_page(voted, as_owner):
    page = reverse("retention", args=["vicuna"])
    assert "Kept." in as_owner.get(page).text
    answer = as_owner.post(page, {"comments": str(day(30)), "logins": ""}, follow=True)
    assert f"Removed on {day(30):%-d %B %Y}" in answer.text
    assert as_owner.post(page, {"comments": "soon"}).status_code == 422
    assert as_owner.post(page, {"comments": str(day(-1))}).status_code == 422
    assert Retention.objects.get().on == day(30)


def test_the_command_shows_and_sets_days(voted, project, capsys):
    call_command("retention", "vicuna", "--comments", str(day(3)))
    assert f"comments: removed on {day(3)}; " in capsys.readouterr().out
    call_command("retention", "vicuna", "--comments", "never", "--json")
    told = json.loads(capsys.readouterr().out)
    assert [one["on"] for one in told["retention"]] == [None, None, None]
    with pytest.raises(CommandError, match="is no day"):
        call_command("retention", "vicuna", "--comments", "soon")


def test_votes_are_exported_with_the_same_labels_afterwards(voted, project, owner, tomorrow):
    def votes():
        pieces = b"".join(export(project, None, owner, ExportRequest("votes", "jsonl")))
        kept = ("external_id", "annotator", "label", "submitted_at", "round")
        return [{name: row[name] for name in kept} for row in map(json.loads, pieces.splitlines())]

    before = votes()
    set_dates(project, owner, {"comments": day(), "logins": day()})
    tomorrow()
    for row in Retention.objects.all():
        assert remove_due(row.pk)
    assert votes() == before


def test_every_table_with_words_of_people_is_among_those_that_are_emptied():
    named = {
        (model, field.name)
        for model in apps.get_app_config("annotation").get_models()
        for field in model._meta.fields
        if field.name in ("comment", "reason")
    }
    emptied = {(rows.model, column) for rows, _, column in retention._WORDS}
    others = {(model.__name__, name) for model, name in named - emptied}
    # Why a request or a draft was refused is FairJudge's own sentence.
    assert others == {("Job", "reason"), ("Lesson", "reason")}
    assert (Lesson, "drafted") in emptied
    assert {Vote, VoteRevision, Draft, Repeat, Skip, Flag, Adjudication} <= {
        model for model, _ in emptied
    }


@pytest.fixture
def judged(project, owner, tmp_path):
    """Imported pairs with an image, judged, and voted on in a closed round with marked text."""
    drawn = base64.b64encode(picture()).decode()
    image = f"![red](data:image/png;base64,{drawn})"
    texts = [(f"What does {SECRET}?", f"One: {SECRET}", f"Two: {SECRET} {n}") for n in range(3)]
    texts += [(f"What does {SECRET}?", f"{SECRET} {image}", ""), ("?", "a", SECRET)]
    path = tmp_path / "pairs.jsonl"
    names = ("question", "response_1", "response_2")
    rows = [
        dict(zip(names, one, strict=True)) | {"id": str(n), "reference": SECRET}
        for n, one in enumerate(texts)
    ]
    path.write_text("\n".join(map(json.dumps, rows)))
    import_files(project, owner, [path])
    assert Image.objects.count() == 1
    run = make_run(project, k=1)
    for example in project.examples.all():
        make_verdict(run, example, 0.2 + example.number / 10)
        call = Call.objects.create(
            run=run, example=example, part="original", state="done", claimed_at=timezone.now()
        )
        sample = Sample.objects.create(
            call=call, index=0, slot=0, raw_text=SECRET, reasoning=SECRET, logprobs=[[SECRET, -1]]
        )
        Parse.objects.create(
            sample=sample, version=1, status="valid", score_1=8, score_2=7, outcome="win",
            evidence=SECRET, current=True,
        )  # fmt: skip
    project.ask_spans = True
    project.save()
    round_ = open_round(project, owner, run, RoundSettings(everything=True, votes=1, seed=5))
    ana = make_annotator(project, "ana")
    while not isinstance(draft := claim_next(round_, ana), NoItem):
        vote = record_vote(draft, {"overall": "left"})
        spans = [{"response": 1, "start": 0, "end": 1, "text": SECRET}]
        Vote.every.filter(pk=vote.pk).update(answer=vote.answer | {"spans": spans})
    close(round_, owner)
    return run


def test_texts_go_and_figures_stay(judged, project, owner, tomorrow):
    def figures():
        found = to_json(report(Analysis(project, Run.objects.get(pk=judged.pk))))
        for name in [name for name in found["dataset"] if "words" in name]:
            # Of a removed question, nobody knows how many words it had.
            del found["dataset"][name]
        return found

    lengths = list(Example.objects.order_by("pk").values_list("question", "response_1"))
    before = figures()
    set_dates(project, owner, {"texts": day()})
    row = Retention.objects.get()
    assert retention.plan(project)[2].n == 10
    tomorrow()
    Run.objects.update(state=Run.State.RUNNING)
    assert retention.plan(project)[2].waits
    assert not remove_due(row.pk)
    Run.objects.update(state=Run.State.DONE)
    assert remove_due(row.pk)
    project.refresh_from_db()
    assert SECRET not in everything()
    assert Image.objects.count() == 0
    assert retention.plan(project)[2].n == 0
    assert figures() == before
    after = list(Example.objects.order_by("pk").values_list("question", "response_1"))
    assert [tuple(map(len, one)) for one in after] == [tuple(map(len, one)) for one in lengths]
    assert after[0][0] == after[1][0] != after[4][0]
    assert after[0][0].startswith("[removed ")
    assert Example.objects.get(external_id="3").response_2 == ""


def test_nothing_that_needs_texts_can_be_done_without_them(
    judged, project, owner, tomorrow, tmp_path, as_owner
):
    make_lesson(judged)
    set_dates(project, owner, {"texts": day()})
    tomorrow()
    assert remove_due(Retention.objects.get().pk)
    project.refresh_from_db()
    judged = Run.objects.get(pk=judged.pk)
    assert [one.drafted for one in Lesson.objects.all()] == [""]
    Run.objects.update(state=Run.State.PAUSED, method="mec")
    path = tmp_path / "more.jsonl"
    path.write_text('{"question": "?", "response_1": "a", "response_2": "b"}')
    scores = tmp_path / "scores.csv"
    scores.write_text("id,output,criterion,rater,score\n1,An answer,fluency,kim,3\n")
    everything_new = RoundSettings(everything=True, votes=1)
    refused = (
        lambda: start_run(project, owner),
        lambda: plan_lesson(project, judged, "both"),
        lambda: resume(Run.objects.get(pk=judged.pk)),
        lambda: open_round(project, owner, judged, everything_new),
        lambda: reopen(Round.objects.get(), owner),
        lambda: import_files(project, owner, [path]),
        lambda: import_judgments(project, owner, [path]),
        lambda: import_scores(project, owner, scores),
        lambda: list(export(project, judged, owner, ExportRequest("preferences"))),
    )
    for do in refused:
        with pytest.raises(UserError, match="texts of this project were removed"):
            do()
    # What has no text any more isn't read again by a newer parser.
    assert not rereading.older(judged).exists()
    assert Parse.objects.filter(status="valid").count() == 5
    assert Import.objects.get().summary["rows"] == []
    for name in ("examples", "project", "retention"):
        assert as_owner.get(reverse(name, args=["vicuna"])).status_code == 200
    assert "[removed " in as_owner.get(reverse("examples", args=["vicuna"])).text


def test_removing_texts_goes_on_where_it_stopped(judged, project, owner, tomorrow, monkeypatch):
    set_dates(project, owner, {"texts": day()})
    tomorrow()
    row = Retention.objects.get()
    monkeypatch.setattr(retention, "_ROWS", 2)
    whole, seen = retention.removed, []

    def killed(text, project):
        seen.append(text)
        if len(seen) > 12:
            raise SystemExit
        return whole(text, project)

    monkeypatch.setattr(retention, "removed", killed)
    with pytest.raises(SystemExit):
        remove_due(row.pk)
    project.refresh_from_db()
    with pytest.raises(UserError, match="removed"):
        start_run(project, owner)
    monkeypatch.setattr(retention, "removed", whole)
    assert remove_due(row.pk)
    assert SECRET not in everything()
    questions = list(Example.objects.order_by("pk").values_list("question", flat=True))
    assert len(set(questions[:4])) == 1


def test_every_column_of_the_data_set_that_holds_texts_is_among_those_that_are_emptied():
    texts = {
        (model, field.name)
        for model, _ in retention._TEXTS
        for field in model._meta.fields
        if field.get_internal_type() == "TextField"
    }
    emptied = {(model, column) for model, columns in retention._TEXTS for column in columns}
    assert texts == emptied | {(Example, "conversation")}
