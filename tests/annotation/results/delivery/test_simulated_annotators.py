"""A judge that is asked in the place of each of several annotators, and how sure that makes it."""

import io
import json
from decimal import Decimal

import numpy as np
import pytest
from django.core.management import CommandError, call_command
from django.test import Client
from django.urls import reverse

from annotation.models import Lesson, Vote
from annotation.results.delivery.teaching import (
    approve,
    begin_lesson,
    compare_lesson,
    plan_lesson,
    pool_of,
)
from annotation.results.delivery.verify import verify
from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.routing import simulated_runs
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.errors import UserError
from judging.dataset.models import Example
from judging.projects.tokens import issue_token
from judging.runs.models import Call, Sample, Verdict
from judging.runs.planning.estimate import estimate_run
from tests.annotation.results.delivery.test_teaching import sound_pairs
from tests.annotation.results.learning import gold, label_all
from tests.factories import make_annotator
from tests.judging.runs.judging import ENDPOINT, judged, loopback
from tests.loopback import ChoiceJudge, ImitatingJudge

pytestmark = pytest.mark.django_db(transaction=True)
N, AUDIT, ANNOTATORS, VOTES = 60, 48, 3, 3
OPTIONS = {"annotators": ANNOTATORS, "shots": VOTES}


@pytest.fixture
def judge(settings):
    found = ImitatingJudge()
    with loopback(settings, judge=found):
        yield found


@pytest.fixture
def run(project, judge):
    """A judge that goes by length, and an audit: two people go by content, and one by length."""
    sound_pairs(project, N, misled=0.65)
    found = judged(project, k=1)
    people = [make_annotator(project, name=f"Ada {i} Lovelace") for i in range(ANNOTATORS)]

    def says(example, person):
        longer = "win" if len(example.response_1) > len(example.response_2) else "lose"
        return longer if person == people[2] else gold(example)

    audited_by(project, found, people, says)
    return found


def audited_by(project, found, people, says=lambda example, person: gold(example)):
    settings = RoundSettings(beta=Decimal(0), votes=ANNOTATORS, audit=AUDIT, seed=3)
    label_all(open_round(project, None, found, settings), people, says)


def simulated(project, run, form="score", **options):
    plan = plan_lesson(project, run, "annotators", **OPTIONS | options)
    lesson = approve(begin_lesson(project, None, plan), None)
    return lesson, judged(project, template=lesson.name, form=form)


def said_by(command, *arguments):
    out = io.StringIO()
    call_command(command, *arguments, stdout=out, stderr=io.StringIO())
    return out.getvalue()


@pytest.mark.system
@pytest.mark.databases
def test_each_annotator_is_asked_for_by_own_votes_and_agreement_is_the_confidence(
    project, run, judge
):
    before = len(judge.prompts)
    lesson, after = simulated(project, run)
    assert lesson.name == "faireval-table3-annotators"
    assert (after.k, after.annotators, after.method) == (ANNOTATORS, ANNOTATORS, "mec_bpc")
    # Drawn from half of the audit, one more than is shown, and every label is a vote of one person.
    pool = pool_of(Analysis(project, run))
    ids = Analysis(project, run).sheet.ids
    assert set(lesson.taught) <= set(ids[pool.taught].tolist())
    assert [len(own) for own in lesson.annotators] == [VOTES + 1] * ANNOTATORS
    assert set(lesson.taught) == {key for own in lesson.annotators for key, _ in own}
    of = {}
    for example, person, label in Vote.objects.values_list("example", "annotator", "label"):
        of.setdefault(person, {})[example] = label
    shown = [dict(own) for own in lesson.annotators]
    voters = [
        [person for person, votes in of.items() if own.items() <= votes.items()] for own in shown
    ]
    assert all(voters)

    # The run leaves these examples out, and asks once for each annotator and order.
    asked = Call.objects.filter(run=after)
    left = set(project.examples.values_list("pk", flat=True)) - set(lesson.taught)
    assert set(asked.values_list("example", flat=True)) == left
    assert asked.count() == len(left) * ANNOTATORS * 2
    assert sorted(asked.values_list("slots", flat=True).distinct()) == [[0], [1], [2]]
    prompts = judge.prompts[before:]
    assert len(prompts) == asked.count()
    assert not any("Ada" in one or "Lovelace" in one for one in prompts)
    texts = Example.objects.in_bulk(lesson.taught)
    for prompt in prompts:
        head = prompt.partition("Now it is your turn.")[0]
        found = {key for key, one in texts.items() if one.question in head}
        assert len(found) == VOTES
        assert any(found <= set(own) for own in shown)

    # By hand: an annotator is imitated by content if more of the votes shown went by it.
    by_content = [
        sum(gold(texts[key]) == label for key, label in own[:VOTES]) * 2 > VOTES
        for own in lesson.annotators
    ]
    data = simulated_runs(Analysis(project, after))
    sheet = Analysis(project, after).sheet
    (unsure,) = data.arrays["unsure"]
    expected = []
    for key in sheet.ids.tolist():
        example = Example.objects.get(pk=key)
        longer = "win" if len(example.response_1) > len(example.response_2) else "lose"
        labels = [gold(example) if content else longer for content in by_content]
        expected.append(1 - max(map(labels.count, labels)) / ANNOTATORS)
    assert unsure == pytest.approx(expected)
    assert len(set(np.round(unsure, 6))) == 2
    assert not data.arrays["taught"].any()
    # The slots of both orders are the annotators'.
    said = Sample.objects.filter(call__run=after).values_list("slot", flat=True)
    assert sorted(set(said)) == [0, 1, 2]


def test_an_estimate_counts_a_call_for_each_annotator(project, run, judge):
    lesson = approve(
        begin_lesson(project, None, plan_lesson(project, run, "annotators", **OPTIONS)), None
    )
    found = estimate_run(project, endpoint=ENDPOINT, template=lesson.name)
    n = N - len(lesson.taught)
    assert (found.n_examples, found.n_calls, found.n_calls_most) == (n, n * 6, n * 6)
    for choices in ({"k": 2}, {"method": "vanilla"}, {"adaptive": 0.9}, {"method": "portia"}):
        with pytest.raises(UserError, match="simulates 3 annotators"):
            estimate_run(project, endpoint=ENDPOINT, template=lesson.name, **choices)


@pytest.mark.system
def test_what_was_shown_never_chooses_the_threshold(project, run, judge, tmp_path, owner):
    lesson, after = simulated(project, run)
    file = tmp_path / "labels.jsonl"
    asked = (project.slug, "--agreement", "0.7", "--score", "simulated", "--run", after.name)
    plan = json.loads(said_by("escalate", *asked, "--json", "-o", str(file)))
    # The audit belongs to the run that the lesson learned from.
    assert (plan["score"], plan["judges"]) == ("simulated", [after.name])
    assert (plan["labels"], plan["taught"]) == (AUDIT - len(lesson.taught), len(lesson.taught))
    (row,) = plan["rows"]
    assert sum(row["kept"]) + row["people"] == N - AUDIT
    rows = [json.loads(line) for line in file.read_text().splitlines()]
    names = set(Example.objects.filter(pk__in=lesson.taught).values_list("external_id", flat=True))
    assert {one["label_from"] for one in rows if one["external_id"] in names} == {"people"}
    text = said_by("escalate", *asked)
    assert f"and {len(lesson.taught)} others are shown in prompts" in text
    with pytest.raises(CommandError, match=f"{run.name} has no simulated annotators"):
        said_by("escalate", *asked[:-1], run.name)

    # The report of either run shows it, and the package holds what it rests on.
    plans = {one.score: one for one in report(Analysis(project, run)).escalation.plans}
    assert plans["simulated"].judges == (after.name,)
    assert plans["simulated"].taught == len(lesson.taught)
    client = Client()
    client.force_login(owner)
    client.post(reverse("look", args=[project.slug]))
    trust = f"{reverse('results_page', args=[project.slug, 'trust'])}?run={run.number}"
    assert (
        f'href="{trust}"' in client.get(reverse("lesson", args=[project.slug, lesson.number])).text
    )
    asked = client.get(reverse("run", args=[project.slug, after.number])).text
    assert "k = 3 simulated annotators" in asked
    page = client.get(trust)
    assert f"votes on {len(lesson.taught)} others are shown in prompts" in page.text
    path = tmp_path / "report.zip"
    said_by("report", project.slug, "--run", run.name, "-o", str(path))
    assert verify(path) == []
    token = issue_token(owner, "test", ["read"])[1]
    sent = {"content_type": "application/json", "headers": {"Authorization": f"Bearer {token}"}}
    body = {"agreement": "0.7", "runs": [after.number], "score": "simulated"}
    answer = Client().post(f"/api/v1/projects/{project.slug}/escalate", body, **sent).json()
    assert answer["plan"] == {name: value for name, value in plan.items() if name != "confidence"}


@pytest.mark.system
def test_with_log_probabilities_the_mean_probability_is_the_confidence(project, settings):
    sound_pairs(project, N)
    with loopback(settings, judge=ChoiceJudge()):
        found = judged(project, form="choice")
        audited_by(project, found, [make_annotator(project) for _ in range(ANNOTATORS)])
        _, after = simulated(project, found, form="choice")
    assert (after.k, after.parts) == (ANNOTATORS, ("X0", "X2"))
    verdicts = dict(Verdict.objects.filter(run=after).values_list("example", "cs_1"))
    analysis = Analysis(project, after)
    (unsure,) = simulated_runs(analysis).arrays["unsure"]
    p = np.array([verdicts[key] for key in analysis.sheet.ids.tolist()])
    assert unsure == pytest.approx(1 - np.maximum(p, 1 - p))
    assert 0 < unsure.min() < unsure.max() <= 0.5


def test_too_few_annotators_or_votes_say_what_to_do(project, run, judge):
    for options, said in (
        ({}, r"3 annotators voted on at least 6 questions .* 5 are needed\. .* Simulate 3"),
        ({"annotators": 3, "shots": 8}, None),
        ({"annotators": 1}, "2 to 20 annotators can be simulated, not 1"),
        ({"annotators": 3, "shots": 9}, "shows 1 to 8"),
    ):
        if said is None:
            assert plan_lesson(project, run, "annotators", **options).shown == 8
            continue
        with pytest.raises(UserError, match=said):
            plan_lesson(project, run, "annotators", **options)
    with pytest.raises(UserError, match="Annotators are simulated only if you teach by annotators"):
        plan_lesson(project, run, "examples", annotators=3)
    Vote.objects.exclude(annotator=Vote.objects.first().annotator).delete()
    with pytest.raises(UserError, match=r"1 annotator voted on .* Have more votes cast\."):
        plan_lesson(project, run, "annotators", annotators=2, shots=3)
    assert not Lesson.objects.exists()


def test_the_page_and_the_command_simulate_alike(project, run, judge, as_researcher):
    where = reverse("teach", args=[project.slug])
    asked = {"run": run.number, "way": "annotators", "shots": 3, "annotators": 3}
    page = as_researcher.post(where, asked | {"estimate": "1"})
    assert "3 annotators are simulated. Each prompt shows 3 votes of one person" in page.text
    assert as_researcher.post(where, asked | {"teach": "1"}).status_code == 302
    page = as_researcher.get(reverse("lesson", args=[project.slug, 1])).text
    assert "Simulated annotator 3" in page
    assert "this person says" in page
    assert "Lovelace" not in page
    by_page = approve(Lesson.objects.get(), None)
    text = said_by(
        "teach", project.slug, "--by", "annotators", "--annotators", "3", "--shots", "3",
        "--name", "again",
    )  # fmt: skip
    assert "simulated annotator 3: " in text
    # The run's seed draws, so that the same votes are shown.
    assert Lesson.objects.get(number=2).annotators == by_page.annotators
    said = said_by("teach", project.slug)
    assert "for the template faireval-table3-annotators: approved." in said
    assert "Compare with the old template" not in page
    with pytest.raises(UserError, match="neither kept nor retired by a test"):
        compare_lesson(by_page, None, run)
    start = reverse("run_start", args=[project.slug])
    page = as_researcher.get(f"{start}?like={run.number}&template={by_page.name}").text
    assert 'name="k" value="3"' in page
