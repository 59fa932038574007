"""Every operation, by the methods of both clients, against the real site."""

import asyncio
import inspect
import json
import re
import zipfile
from contextlib import contextmanager
from decimal import Decimal
from pathlib import Path

import pytest
from fairjudge_client import (
    AsyncFairJudge,
    FairJudge,
    FairJudgeError,
    Invalid,
    NotFinished,
    Problem,
    Run,
    WaitTimeout,
    calls,
)
from fairjudge_client.steps import signature_of

from annotation.models import Adjudication, Flag, Item, Job, Team
from annotation.people.annotators import annotator_named
from annotation.results.delivery import jobs
from annotation.results.planner.registration import Plan, register
from judging.core import waking
from judging.dataset import writing
from judging.dataset.models import Example, Import, TagChange
from judging.projects.models import Delivery, Membership, Project
from tests.client.proxy import status
from tests.client.test_generated import OPERATIONS
from tests.factories import make_lesson, make_member, make_run, make_verdict
from tests.test_access_walk import import_with_refused_rows

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.system]
# Operations that only `api` has. Each should get a method that people find.
BY_NAME_ONLY: set[str] = set()
SCORE = {
    "external_id": "p", "input": "Q", "output": "A", "model": "m", "criterion": "fluency",
    "value": 3,
}  # fmt: skip
TEMPLATE = {
    "name": "own", "form": "relation", "reply": "verdict_mark", "sample_reply": "Better: [[A]]",
    "text": "{question} {first} {second} Answer [[A]], [[B]] or [[C]].",
}  # fmt: skip
JUDGE = {"endpoint": "local", "model": "smollm2", "k": 1}


@contextmanager
def blocking(url, token):
    def do(outcome):
        return list(outcome) if hasattr(outcome, "__next__") else outcome

    with FairJudge(url, token) as fj:
        yield fj, do


@contextmanager
def awaiting(url, token):
    def do(outcome):
        async def listed():
            return [one async for one in outcome]

        if hasattr(outcome, "__anext__"):
            return runner.run(listed())
        return runner.run(outcome) if inspect.iscoroutine(outcome) else outcome

    with asyncio.Runner() as runner:
        fj = AsyncFairJudge(url, token)
        try:
            yield fj, do
        finally:
            runner.run(fj.close())


CLIENTS = pytest.mark.parametrize("client", [blocking, awaiting])
# For walks over all operations: one client takes the steps, the other calls each by its name.
BLOCKING_FIRST = pytest.mark.parametrize(
    "client", [blocking, pytest.param(awaiting, marks=pytest.mark.long)]
)
AWAITING_FIRST = pytest.mark.parametrize(
    "client", [pytest.param(blocking, marks=pytest.mark.long), awaiting]
)


def pairs(n):
    for number in range(n):
        yield {
            "external_id": f"e{number}", "question": f"Q{number}?", "response_1": "One.",
            "response_2": "Two.", "model_1": "maple-7b", "model_2": "birch-3b",
        }  # fmt: skip


def judged(slug):
    """A finished run, as a judge would have left it."""
    project = Project.objects.get(slug=slug)
    run = make_run(project)
    for example in project.examples.all():
        make_verdict(run, example, 0.5, rank=example.number + 1)
    Project.objects.filter(pk=project.pk).update(primary_run=run)
    return run


def operation_of(seen):
    path = seen.path.partition("?")[0]
    found = [
        name
        for name, (method, template) in OPERATIONS.items()
        if method == seen.method
        and re.fullmatch(re.sub(r"\\\{\w+\\\}", r"[^/]+?", re.escape(template)), path)
    ]
    # `/projects/x/report` could be a table, but for its full stop.
    return min(found, key=lambda name: OPERATIONS[name][1].count("{"))


class AtOnce:
    """A worker that has decided before the client asks again."""

    class objects:
        @staticmethod
        def take_long_work():
            return True


@pytest.fixture(autouse=True)
def work_is_done(monkeypatch):
    """Decide gates when a worker is woken for them: no worker runs here."""
    real = waking.wake

    def wake(task, *values):
        return jobs.work_on(*values) is None if task == waking.WORK_ON_JOB else real(task, *values)

    monkeypatch.setattr(waking, "wake", wake)


@BLOCKING_FIRST
def test_every_operation_has_a_method(proxy, token, media, tmp_path, client, monkeypatch):
    with client(proxy.url, token) as (fj, do):
        do(fj.me())
        project = do(fj.create_project("Walk", description="All of it."))
        assert [one.slug for one in do(fj.projects())] == ["walk"]
        upload = do(project.examples.upsert(pairs(4), columns=["question=question"]))
        assert upload.state == "writing"
        writing.write(Import.objects.get().pk)
        assert do(upload.wait()).info.written == 4
        refused = import_with_refused_rows(Project.objects.get(slug="walk"), media)
        checked = do(project.examples.get_import(refused.number))
        saved = do(checked.save_refused(tmp_path / "refused.csv"))
        assert saved.read_text() == "question\n"
        assert do(checked.begin(skip_invalid=True)).state == "writing"
        assert do(checked.undo()).state == "undone"
        assert do(project.models()).endpoint == "local"
        more = {"question": "Q?", "responses": [{"model": m, "response": m} for m in "abc"]}
        price = do(project.examples.estimate([more], design="random=1", seed=7))
        assert (price.new, price.questions, price.calls) == (2, 1, None)
        assert do(do(project.examples.get_import(1)).refresh()).state == "done"
        assert [one.number for one in do(project.imports())] == [1, 2]
        assert do(project.info()).examples == 4
        assert len(do(project.examples.list(model="maple-7b"))) == 4
        tagged = do(project.examples.tag(tag="hard", sample=2))
        assert len(do(project.examples.list(tag="hard"))) == tagged.examples == 2
        assert do(project.examples.undo_tags(tagged.change)).added is False
        Example.objects.filter(external_id="e3").update(is_check=True)
        told = {"external_id": "e3", "gold_label": "lose", "explanation": "It is wrong."}
        assert do(project.examples.change_check(**told)).explanation == "It is wrong."
        assert Example.objects.get(external_id="e3").gold_label == "lose"
        Example.objects.filter(external_id="e3").update(is_check=False, gold_label=None)
        chosen = {"tag": "hard", "examples": ["e1", "e2"]}
        assert do(project.examples.tag(**chosen)).examples == 2
        removed = do(project.examples.untag(**chosen))
        assert (removed.added, removed.examples) == (False, 2)

        assert do(project.settings()).scale == "three"
        assert [one.what for one in do(project.retention())]
        assert do(project.retention(comments=None)) == do(project.retention())
        assert do(fj.sizes(win_rate=0.75)).goals[0].labels == 28
        planned = do(project.preregister(goal="Which is better?", beta="20", study={"ties": 0.2}))
        assert [one.number for one in do(project.preregistrations())] == [planned.number]
        assert do(project.preregistration(planned.number)).sha256 == planned.sha256
        file = tmp_path / "plan.json"
        kept = {"preregistration": planned.preregistration, "sha256": planned.sha256}
        file.write_text(json.dumps(kept))
        assert do(project.check_preregistration(file)).number == planned.number
        assert do(project.sizes(votes=1)).study.votes == 1
        assert do(project.update(wage_usd="20.5")).wage_usd == Decimal("20.5")

        assert do(project.runs.estimate(**JUDGE)).calls == 8
        run = do(project.runs.start(name="walked", **JUDGE))
        assert isinstance(run, Run)
        assert (run.name, do(run.pause()).state) == ("walked", "paused")
        with pytest.raises(NotFinished, match="paused") as other_end:
            do(run.wait())
        assert other_end.value.state == "paused"
        assert do(run.resume()).state == "queued"
        assert do(run.raise_budget(budget_usd="2.5")).info.budget_usd == Decimal("2.5")
        assert do(run.cancel()).state == "cancelled"
        assert do(run.reparse()).number == 1
        assert do(run.stop_reparsing()).number == 1
        assert do(run.progress()).expected == 8
        number = judged("walk").number
        assert [one.number for one in do(project.runs.list())] == [1, number]
        ranked = do(project.runs.get(number))
        assert do(ranked.report())["run"]
        assert do(project.report()) == do(project.report(ranked)) == do(ranked.report())
        assert do(project.certificate()) == do(ranked.certificate())
        assert do(ranked.choose_primary()).number == do(project.info()).primary_run
        recorded = [{"external_id": "e0", "order": "original", "outcome": "win"}]
        elsewhere = do(project.judgments.import_(recorded, name="elsewhere"))
        assert (elsewhere.name, elsewhere.state) == ("elsewhere", "done")
        gated = do(project.gate("coverage>=0.3", "accuracy>=0.5", votes=1))
        assert (gated.verdict, gated.requirements[1].bound) == ("inconclusive", Decimal("0.5"))
        assert do(ranked.gate("accuracy>=0.5", votes=1)).needed == gated.needed
        assert gated.needed.votes == len(gated.needed.examples) == 4
        compared = do(project.compare(ranked, elsewhere.number, margin="0.1"))
        assert (compared.other, compared.run, compared.judged_by_both) == (2, 3, 1)
        scored = do(project.scores.import_([SCORE], rater="rita"))
        assert (scored.items, scored.added) == (1, 1)
        *_, last = do(project.imports())
        assert (last.info.kind, do(last.undo()).state) == ("points", "undone")
        assert do(ranked.save_report(tmp_path / "report.html")).read_text().endswith("</html>\n")
        with pytest.raises(Problem, match="no such plot") as none:
            do(ranked.save_plot("none", tmp_path / "plot.svg"))
        first = none.value.detail.partition("Plots: ")[2].split(",")[0].rstrip(".")
        assert "<svg" in do(ranked.save_plot(first, tmp_path / "plot.svg")).read_text()
        with pytest.raises(Problem, match="No label of people"):
            do(project.escalate(agreement="0.9"))
        searched = do(project.cheapest(goal="accuracy", value="0.9"))
        assert (searched.best, searched.value, searched.rows) == (None, 0.9, [])
        assert do(project.gates()) == []
        monkeypatch.setattr("fairjudge_site.api.jobs.MOST_AT_ONCE", 0)
        monkeypatch.setattr("fairjudge_site.api.jobs.Worker", AtOnce)
        again = do(ranked.gate("accuracy>=0.5", votes=1))
        assert do(project.gate("accuracy>=0.5", votes=1)) == again
        assert do(project.compare(ranked, elsewhere.number, margin="0.1")) == compared
        assert {one.state for one in do(project.gates())} == {"done"}
        saved = do(ranked.save_report(tmp_path / "late.zip"))
        assert zipfile.ZipFile(saved).testzip() is None
        (report,) = do(project.jobs())
        assert report.kind == "report"
        with pytest.raises(Problem, match="isn't written yet"):
            do(project.cancel_job(report.id))
        monkeypatch.undo()
        kept = do(project.templates.add(**TEMPLATE))
        assert do(project.templates.retire(kept.id)).retired_at is not None
        assert do(project.templates.restore(kept.id)) == kept
        assert do(project.templates.list()) == [kept]
        make_lesson(Project.objects.get(slug="walk").runs.get(number=ranked.number))
        assert [one.rubric for one in do(project.lessons.list())] == ["- Be brief."]
        lesson = do(project.lessons.approve(1, rubric="- Be exact."))
        assert (lesson.state, do(project.lessons.get(1))) == ("approved", lesson)
        with pytest.raises(Invalid, match="No run has judged with the template of lesson 1"):
            do(project.lessons.compare(1))
        for asked in (project.lessons.estimate, project.lessons.teach):
            with pytest.raises(Invalid, match=r"can teach|disagreements are needed"):
                do(asked(way="examples"))

        assert do(project.rounds.plan(everything=True, votes=2)).new_votes == 8
        round_ = do(project.rounds.open(everything=True, votes=1, seed=1))
        with pytest.raises(WaitTimeout, match="still open"):
            do(round_.wait(timeout=0))
        assert do(round_.pause()).state == "paused"
        with pytest.raises(NotFinished, match="paused"):
            do(round_.wait())
        assert do(round_.resume()).state == "open"
        assert do(round_.raise_votes(votes=2)).info.votes_per_item == 2
        assert do(round_.assign(annotators=[])).info.votes_per_item == 2
        with pytest.raises(Problem):
            do(round_.extend(beta=50))
        assert do(round_.progress()).votes_asked == 8
        assert do(round_.practice()).people == []
        two = [{"external_id": "e0", "label": "win", "annotator": "zoe"}]
        assert do(project.import_votes(two)).added == 1
        Item.objects.filter(example__external_id="e1").update(state=Item.State.ADJUDICATE)
        assert do(round_.decide(external_id="e1", label="tie", reason="So.")).label == "tie"
        assert do(round_.undecided()) == []
        (decision,) = do(round_.decisions())
        assert (decision.external_id, do(round_.undo_decision(decision.id))) == ("e1", decision)
        assert do(round_.decisions()) == []
        Item.objects.filter(example__external_id="e1").update(state=Item.State.ADJUDICATE)
        assert [one.external_id for one in do(round_.undecided())] == ["e1"]
        assert do(round_.decide(external_id="e1", label="tie", reason="So.")).label == "tie"
        voter = next(one for one in do(project.people.list()) if one.name == "zoe").number
        imported = do(project.rounds.get(2))
        assert do(imported.put_aside(voter, reason="A test.")).votes_aside == 1
        assert do(imported.count_again(voter)).votes == 1
        with pytest.raises(Problem, match="not stopped"):
            do(imported.release(voter))
        flagged = Item.objects.filter(round__number=2).first()
        Flag.objects.create(
            item=flagged, annotator=flagged.round.project.annotators.first(), reason="odd"
        )
        (flag,) = do(imported.flags())
        assert (flag.reason, do(imported.settle_flag(flag.id)).id) == ("odd", flag.id)
        with pytest.raises(Problem, match="can be cancelled"):
            do(round_.cancel())
        crowd = do(round_.set_crowd(consent="So.", completion_code="C1"))
        assert (do(round_.crowd()).version, do(round_.submissions())) == (crowd.version, [])
        saved = do(round_.save_submissions(tmp_path / "pay.csv"))
        assert saved.read_text().startswith("worker_id,")
        (tmp_path / "panel.csv").write_text("worker_id,status\nw1,approved\n")
        assert do(round_.mark_submissions(tmp_path / "panel.csv")).unknown == 1
        assert do(round_.put_rejected_aside()).votes == 0
        assert do(round_.withdraw_crowd()).link is None
        assert do(round_.close()).state == "closed"
        assert do(round_.wait()).state == "closed"
        assert do(round_.reopen()).state == "open"
        assert [one.number for one in do(project.rounds.list())] == [1, 2]
        assert do(project.rounds.get(1)).number == 1
        assert do(project.people_report())

        assert {one.name for one in do(project.people.list())} >= {"zoe"}
        link = do(project.people.invite(role="annotator", days=2))
        assert [one.id for one in do(project.people.invitations())] == [link.id]
        assert do(project.people.withdraw(link.id)).id == link.id
        assert do(project.people.invitations()) == []
        member = make_member(Project.objects.get(slug="walk"), "researcher")
        *_, joined = do(project.people.members())
        assert (joined.user, joined.role) == (member.get_username(), "researcher")
        assert do(project.people.password_link(joined.id)).user == joined.user
        assert do(project.people.change_role(joined.id, role="annotator")).role == "annotator"
        assert do(project.people.remove(joined.id)).id == joined.id
        someone = make_member(Project.objects.get(slug="walk"))
        people = [{"user": someone.get_username(), "tags": ["German"]}]
        team = do(project.people.set_team(name="Berlin", people=people))
        assert (team.name, team.people[0].tags) == ("Berlin", ["german"])
        assert [one.id for one in do(project.people.teams())] == [team.id]
        assert do(project.people.add_team("Berlin")).already == 1
        do(round_.assign(teams=["Berlin"], tags=["german"], limit=40))
        shared = do(project.people.list())[-1].number
        with pytest.raises(Problem, match="can give"):
            do(round_.assign(teams=["Berlin"], shares=[{"annotator": shared, "percent": 30}]))
        asked = {"teams": ["Berlin"], "limit": 3}
        assert do(project.rounds.open(everything=True, votes=1, people=asked)).number == 3
        assert do(project.people.rename_team(team.id, "Bonn")).name == "Bonn"
        assert do(project.people.delete_team(team.id)).deleted == "Bonn"
        assert list(do(project.people.teams())) == []
        assert {one.action for one in do(project.trail())} >= {"role changed", "flag settled"}

        assert list(do(project.labels(ranked)).external_id) == ["e0", "e1", "e2", "e3"]
        assert do(project.votes()).annotator.notna().all()
        assert list(do(project.preferences()).chosen) == ["One."] * 3
        assert do(project.samples(ranked, frame="pandas")).empty
        assert do(project.head("labels", 2)).shape[0] == 2
        assert [row["external_id"] for row in do(project.rows("votes"))] == ["e0"]
        assert len(do(project.tool_file("argilla"))) == 4
        saved = do(project.save("labels", tmp_path / "labels.csv"))
        assert saved.read_text().startswith("external_id,")
        assert do(project.labels(format="parquet")).shape[0] == 4
        assert do(project.table("people", frame="pandas")).imported_votes.sum() == 1
        assert {one.format for one in do(project.exports())} == {"jsonl", "csv", "parquet", "json"}

        hook = do(project.webhooks.add(url="https://example.org/hook", events=["run.done"]))
        first_secret = hook.secret
        assert first_secret.startswith("whsec_")
        assert first_secret not in f"{hook!r} {hook.info!r}"
        assert do(hook.rotate()).secret not in (None, first_secret)
        assert do(hook.pause()).state == "paused"
        assert do(hook.resume()).state == "on"
        sent = do(hook.test())
        assert [one.id for one in do(hook.deliveries())] == [sent.id]
        assert do(hook.send_again(sent.id)).message == sent.message
        assert [one.number for one in do(project.webhooks.list())] == [hook.number]
        assert do(do(project.webhooks.get(hook.number)).refresh()).secret is None
        do(hook.delete())
        assert do(project.webhooks.list()) == []
        with pytest.raises(Problem, match="owner"):
            do(project.leave())
        with pytest.raises(Problem, match="Nothing was deleted"):
            do(project.delete(confirm="another"))
        # A run that was cancelled before a worker took it keeps its lease for a while.
        Project.objects.get(slug="walk").runs.update(lease_until=None)
        gone = do(project.delete(confirm="walk"))
        assert do(fj.deletions()) == [gone]
    used = {operation_of(seen) for seen in proxy.log}
    assert set(OPERATIONS) - used == BY_NAME_ONLY


@pytest.fixture
def world(proxy, token, media):
    with FairJudge(proxy.url, token) as fj:
        project = fj.create_project("World")
        project.examples.upsert(pairs(3))
        writing.write(Import.objects.get().pk)
        annotator_named(Project.objects.get(slug="world"), "zoe")
        judged("world")
        project.rounds.open(everything=True, votes=1)
        project.people.invite()
        project.people.set_team(name="Rome")
        project.webhooks.add(url="https://example.org/hook").test()
        project.templates.add(**TEMPLATE | {"name": "kept"})
        there = Project.objects.get(slug="world")
        make_member(there, "researcher")
        import_with_refused_rows(there, media)
        Job.objects.create(project=there, kind="gate", asked={})
        make_lesson(there.runs.first())
        register(there, None, Plan(goal="Which is better?", beta=Decimal(20)))
        folder = Path(media, "imports", "j")
        folder.mkdir(parents=True)
        (folder / "r").write_text("A report.")
        made = {"file": "imports/j/r"}
        Job.objects.create(project=there, kind="report", asked={}, result=made)
        project.rounds.get(1).set_crowd(consent="So.", completion_code="C1")
        item = Item.objects.first()
        Adjudication.objects.create(item=item, label="win")
        Flag.objects.create(item=item, annotator=there.annotators.first(), reason="odd")
    return project


@CLIENTS
def test_long_work_is_waited_for(world, proxy, token, client, tmp_path, monkeypatch):
    monkeypatch.setattr("fairjudge_site.api.jobs.MOST_AT_ONCE", 0)
    monkeypatch.setattr("fairjudge_site.api.tables.LARGE_BODY", 0)
    monkeypatch.setattr("fairjudge_site.api.jobs.Worker", AtOnce)
    vote = {"external_id": "e0", "label": "win", "annotator": "ann"}
    late = [{"external_id": "e1", "order": "original", "outcome": "win"}]
    Job.objects.all().delete()
    with client(proxy.url, token) as (fj, do):
        project = fj.project("world")
        with pytest.raises(Invalid, match="line 2") as wrong:
            do(project.import_votes([vote, vote | {"label": "best"}]))
        assert wrong.value.code == "refused"
        assert do(project.import_votes([vote])).annotators == ["ann"]
        assert do(project.judgments.import_(late, name="late")).state == "done"
        assert do(project.scores.import_([SCORE], rater="rita")).added == 1
        saved = do(project.save("labels", tmp_path / "late.parquet"))
        assert saved.read_bytes()[-4:] == b"PAR1"
        assert len(do(project.table("votes", format="parquet", frame="arrow"))) == 1
        kinds = [one.kind for one in do(project.jobs())]
    assert kinds == ["votes", "votes", "judgments", "scores", "table", "table"]


VALUES = TEMPLATE | {
    "role": "annotator", "team": "Berlin",
    "slug": "world", "number": 1, "what": "labels", "kind": "jsonl", "name": "Another",
    "beta": 50, "votes": 3, "external_id": "e0", "label": "win", "reason": "So.", "tag": "hard",
    "annotators": [], "budget_usd": 5, "require": ["coverage>=0.5"], "before": 1, "after": 1,
    "consent": "So.", "completion_code": "C1", "confirm": "another", "index": 0, "agreement": "0.9",
    "way": "examples", "tool": "argilla", "annotator": 1, "gold_label": "win", "url": "https://example.org/another",
    "preregistration": {}, "sha256": "0" * 64, "goal": "accuracy>=0.8",
    "rows": [{"external_id": "e0", "label": "win", "annotator": "ana",
              "question": "Q", "response_1": "a", "response_2": "b"}],
}  # fmt: skip
ROWS = {
    "new_judgments": [{"external_id": "e0", "order": "original", "outcome": "win"}],
    "new_scores": [SCORE | {"rater": "rita"}],
}


@AWAITING_FIRST
def test_each_operation_is_reached_by_its_name(world, proxy, token, client):
    values = VALUES | {
        "invitation": Project.objects.get(slug="world").invitations.get().pk,
        "delivery": Delivery.objects.get().pk,
        "decision": Adjudication.objects.get().pk,
        "flag": Flag.objects.get().pk,
    }
    with client(proxy.url, token) as (fj, do):
        # What others need is deleted last.
        for name in sorted(OPERATIONS, key=lambda name: (name == "delete_webhook", name)):
            proxy.log.clear()
            now = dict(values)
            if name == "undo_tags":
                now["number"] = TagChange.objects.latest("pk").pk
            if name in ("retire_template", "restore_template"):
                now["number"] = Project.objects.get(slug="world").templates.first().pk
            if name == "get_refused":
                now["number"] = 2
            if name in ("change_name_of_team", "remove_team"):
                now["number"] = Team.objects.get().pk
            if name in ("get_gate", "get_job", "get_job_file", "cancel_job"):
                kind = "gate" if name == "get_gate" else "report"
                now["number"] = Job.objects.get(kind=kind).pk
            if name in ("change_member", "remove_member", "new_password_link"):
                now["number"] = Membership.objects.exclude(role="owner").get().pk
            if name in ("get_report_file", "get_plot"):
                now["kind"] = "html" if name == "get_report_file" else "svg"
            try:
                do(getattr(fj.api, name)(**arguments_of(name, now)))
            except Invalid as refusal:
                # The moment doesn't allow it. What was asked for was understood.
                codes = {refusal.code}
            else:
                codes = {"done"}
            (seen,) = proxy.log
            assert operation_of(seen) == name
            assert codes <= {"done", "refused"}, name


def arguments_of(name, values):
    required = [
        parameter.name
        for parameter in signature_of(getattr(calls, name), has_self=False).parameters.values()
        if parameter.default is parameter.empty
    ]
    given = {one: values[one] for one in required}
    if name in ROWS:
        given["rows"] = ROWS[name]
    if name in ("new_round", "plan_round"):
        given["everything"] = True
    if name == "withdraw_invitation":
        given["number"] = values["invitation"]
    return given


@CLIENTS
def test_a_misspelt_setting_is_refused_before_anything_is_sent(proxy, token, client):
    with client(proxy.url, token) as (fj, do):
        with pytest.raises(TypeError, match="budget"):
            do(fj.project("x").runs.start(budget=5))
        with pytest.raises(TypeError, match="reason"):
            do(fj.api.new_decision("x", 1, external_id="a", label="win"))
    assert proxy.log == []


@CLIENTS
def test_pages_follow_each_other(proxy, token, media, client, monkeypatch):
    monkeypatch.setattr("fairjudge_client.resources.MOST_ROWS", 2)
    with client(proxy.url, token) as (fj, do):
        project = do(fj.create_project("Pages"))
        do(project.examples.upsert(pairs(5)))
        writing.write(Import.objects.get().pk)
        proxy.log.clear()
        found = do(project.examples.list())
    assert [one.external_id for one in found] == [f"e{n}" for n in range(5)]
    assert len(proxy.log) == 3


@CLIENTS
def test_nothing_is_asked_before_the_first_row_and_no_page_too_many(
    proxy, token, media, client, monkeypatch
):
    monkeypatch.setattr("fairjudge_client.client.MOST_ROWS", 1)
    with client(proxy.url, token) as (fj, do):
        do(fj.create_project("One"))
        do(fj.create_project("Two"))
        proxy.log.clear()
        rows = fj.projects()
        assert proxy.log == []
        first = next(rows) if hasattr(rows, "__next__") else do(_first(rows))
        assert first.slug == "one"
        assert len(proxy.log) == 1


async def _first(rows):
    try:
        return await anext(rows)
    finally:
        await rows.aclose()


@CLIENTS
def test_a_report_that_is_being_computed_is_waited_for(world, proxy, token, client):
    with client(proxy.url, token) as (fj, do):
        run = do(fj.project("world").runs.get(1))
        being_computed = status(202, b"{}", Retry_After=1)
        proxy.faults = [being_computed]
        assert do(run.report())["run"]
        assert proxy.statuses[-2:] == [202, 200]
        proxy.faults = [being_computed] * 3
        with pytest.raises(WaitTimeout):
            do(run.report(timeout=1.5))
    proxy.faults.clear()


STANDING = {
    "number": 1, "kind": "routed", "state": "open", "stage": "only", "run": 1,
    "votes_per_item": 3, "frame_size": 9, "frame": None, "after": None,
    "opened_at": "2026-01-02T03:04:05Z", "closed_at": None,
    "items": 4, "done": 3, "undecided": 1, "in_work": 0, "votes_asked": 12, "votes_given": 12,
    "usd": "1.5", "usd_left": "0", "can_vote": 3, "out_of_reach": 0, "flags": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("change", "is_over"),
    [
        ({}, True),
        ({"done": 2}, False),
        # The site selects more once it has learned.
        ({"stage": "learn"}, False),
        ({"state": "opening", "items": None, "done": None, "undecided": None}, False),
        ({"state": "closed", "done": 0}, True),
        ({"state": "paused"}, True),
    ],
)
def test_a_round_is_over_when_people_have_nothing_more_to_do(proxy, token, change, is_over):
    body = json.dumps(STANDING | change).encode()
    proxy.faults = [status(200, body)] * 3
    with FairJudge(proxy.url, token) as fj:
        round_ = fj.project("x").rounds.get(1)
        if is_over:
            assert round_.wait(timeout=0).number == 1
        else:
            with pytest.raises(WaitTimeout):
                round_.wait(timeout=0)


@CLIENTS
def test_a_project_without_a_run_says_so(proxy, token, client):
    with client(proxy.url, token) as (fj, do):
        project = do(fj.create_project("Empty"))
        with pytest.raises(FairJudgeError, match="no run") as error:
            do(project.report())
        assert error.value.code == "no_run"
