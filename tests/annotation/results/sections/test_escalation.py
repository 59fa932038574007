"""Which labels judges may keep: the section, the page's part, the package, and the command."""

import io
import json
from decimal import Decimal

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client
from django.utils import timezone
from django.utils.html import escape

from annotation.models import Item
from annotation.results.delivery import jobs
from annotation.results.delivery.verify import verify
from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.models import Worker
from judging.dataset.models import Example
from judging.methods.intervals.estimates import Undefined
from judging.projects.tokens import issue_token
from judging.runs.models import Verdict
from tests.annotation.results.learning import biased_run, gold, label_all
from tests.factories import make_annotator, make_run, make_verdict
from tests.fairjudge_site.api.test_verdicts import validated

AUDITED = RoundSettings(beta=Decimal(0), votes=1, audit=100, seed=4)


@pytest.fixture
def run(project, tmp_path):
    """A judge whose BPDE finds few of its errors, and another that is always right and sure."""
    found = biased_run(project, tmp_path)
    wise = make_run(project, name="wise")
    for example in project.examples.all():
        make_verdict(wise, example, 0.0, label=gold(example), rank=1)
    return found


@pytest.fixture
def audited(project, run):
    round_ = open_round(project, None, run, AUDITED)
    label_all(round_, [make_annotator(project)])
    return round_


def plans_of(project, run):
    found = report(Analysis(project, run)).escalation
    return {(plan.score, len(plan.judges)): plan for plan in found.plans}


def escalate(*arguments):
    out = io.StringIO()
    call_command("escalate", *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


def test_without_labels_by_people_there_is_a_reason(project, run):
    found = report(Analysis(project, run)).escalation
    assert isinstance(found, Undefined)
    with pytest.raises(CommandError, match="No label of people can choose a threshold: no audit"):
        escalate(project.slug, "--agreement", "0.8")


def test_an_audit_chooses_the_threshold(project, run, audited):
    plans = plans_of(project, run)
    assert set(plans) == {("bpde", 1), ("learned", 1), ("bpde", 2)}
    alone = plans["bpde", 1]
    assert (alone.labels, alone.taught) == (100, 0)
    for row in alone.rows:
        assert sum(row.kept) + row.people == 20
    # Half of the audit teaches the score, and the other half tests it.
    learned = plans["learned", 1]
    assert (learned.labels, learned.taught) == (50, 50)
    # The judge is wrong in a third, which BPDE doesn't find; the learned score does.
    assert alone.rows[2].kept == [0]
    assert "most certain audited labels are wrong" in alone.rows[2].reason
    assert learned.rows[2].kept[0] >= 10, learned


def test_a_judge_that_is_right_keeps_what_the_first_may_not(project, run, audited):
    wise = project.runs.get(name="wise")
    Verdict.objects.filter(run=run, bpde=0).update(bpde=0.5)
    plan = plans_of(project, run)["bpde", 2]
    assert plan.judges == (run.name, "wise")
    row = plan.rows[-1]
    assert (row.kept[0], row.kept[1], row.people, row.wrong) == (0, 20, 0, 0)
    # The other way round, the first one keeps all by itself.
    again = json.loads(
        escalate(
            *(project.slug, "--run", "wise", "--run", run.name, "--agreement", "0.9", "--json")
        )
    )
    assert (again["judges"], again["rows"][0]["kept"]) == ([wise.name, run.name], [20, 0])
    assert again["confidence"] == 0.9


def test_where_all_is_known_a_draw_stands_for_people_and_the_truth_is_shown(project, run):
    for example in project.examples.all():
        Example.objects.filter(pk=example.pk).update(gold_label=gold(example))
    analysis = Analysis(project, project.runs.get(name="wise"))
    found = report(analysis).escalation
    assert found.trial
    plan = found.plans[0]
    assert plan.labels == 60
    assert [row.agreed for row in plan.rows] == [1.0] * len(plan.rows)


def test_the_command_writes_who_labels_what(project, run, audited, tmp_path):
    Verdict.objects.filter(run=run, bpde=0).update(bpde=0.5)
    Verdict.objects.filter(run__name="wise", example__number__gt=60).update(bpde=0.9)
    table, people = tmp_path / "table.jsonl", tmp_path / "people.txt"
    said = escalate(
        project.slug,
        *("--run", run.name, "--run", "wise", "--agreement", "0.9"),
        *("-o", str(table), "--people", str(people)),
    )
    rows = [json.loads(line) for line in table.read_text().splitlines()]
    assert len(rows) == 120
    asked = set(Item.objects.values_list("example__external_id", flat=True))
    right = {example.external_id: gold(example) for example in project.examples.all()}
    for row in rows:
        if row["external_id"] in asked:
            assert (row["label_from"], row["label"]) == ("people", right[row["external_id"]])
        elif row["label_from"] is None:
            assert row["label"] is None
        else:
            assert (row["label_from"], row["label"]) == ("wise", right[row["external_id"]])
    left = [row["external_id"] for row in rows if row["label_from"] is None]
    assert left
    assert people.read_text().splitlines() == ["external_id", *left]
    assert f"left to people: {len(left)}" in said
    # The list is one that a round takes.
    call_command(
        "open_round", project.slug, "--all", "--votes", "1", "--examples", str(people),
        stdout=io.StringIO(),
    )  # fmt: skip
    assert project.rounds.latest("number").items.count() == len(left)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--run", "wise", "--run", "wise"), "named twice"),
        (("--run", "nobody"), "has no run nobody"),
        (("--score", "learned", "--run", "latest", "--run", "1"), "learned for one judge alone"),
    ],
)
def test_a_mistake_is_named(project, run, audited, arguments, said):
    with pytest.raises(CommandError, match=said):
        escalate(project.slug, "--agreement", "0.9", *arguments)


@pytest.mark.parametrize("share", ["0", "1", "90", "x"])
def test_a_share_is_between_0_and_1(project, share, capsys):
    with pytest.raises((SystemExit, CommandError)):
        escalate(project.slug, "--agreement", share)


@pytest.mark.system
def test_the_package_holds_what_the_section_rests_on(project, run, audited, tmp_path):
    path = tmp_path / "report.zip"
    call_command("report", project.slug, "-o", str(path), stdout=io.StringIO())
    assert verify(path) == []


def test_the_page_shows_each_line(project, run, audited, client, owner):
    client.force_login(owner)
    text = client.get(f"/p/{project.slug}/results/trust").text
    assert "Which labels may judges keep?" in text
    assert "Left to people" in text
    assert text.count("Agreement asked for") == 3
    failing = [row for row in plans_of(project, run)["bpde", 1].rows if row.reason]
    alone = text.split("Agreement asked for")[1]
    # A stricter demand fails as well, so the reason is given once for all of these rows.
    assert len(failing) > 1
    assert alone.count(escape(failing[0].reason)) == alone.count("No label is kept at") == 1


def test_a_program_gets_what_the_command_says(project, run, audited, owner, monkeypatch, tmp_path):
    _, text = issue_token(owner, "test", ["read"])
    sent = {"content_type": "application/json", "headers": {"Authorization": f"Bearer {text}"}}
    asked = {"agreement": "0.8", "labels": True, "runs": [run.number]}
    client, at = Client(), f"/api/v1/projects/{project.slug}/escalate"
    now = client.post(at, asked, **sent).json()
    validated("EscalationOut", now)
    file = tmp_path / "labels.jsonl"
    told = json.loads(escalate(project.slug, "--agreement", "0.8", "--json", "-o", str(file)))
    assert now["plan"] | {"confidence": now["confidence"]} == told
    assert now["labels"] == [json.loads(line) for line in file.read_text().splitlines()]
    monkeypatch.setattr("fairjudge_site.api.jobs.MOST_AT_ONCE", 0)
    now_alive = {"started_at": timezone.now(), "seen_at": timezone.now()}
    Worker.objects.create(name="w", queues="quick", **now_alive)
    sent["headers"]["Prefer"] = "respond-async"
    left = client.post(at, asked | {"labels": False}, **sent)
    assert left.status_code == 202
    jobs.work_on(left.json()["id"])
    done = client.get(left["Location"], headers=sent["headers"]).json()
    assert done["escalation"] == now | {"labels": None}
    twice = client.post(at, asked | {"runs": [run.number] * 2}, **sent | {"headers": {
        "Authorization": f"Bearer {text}"}})  # fmt: skip
    assert (twice.status_code, "named twice" in twice.json()["detail"]) == (422, True)
