"""Runs of the form criteria: asked, read, kept, compared with people, and exported."""

import csv
import json
import random

import pytest
from django.core.management import call_command

from annotation.models import Item, Vote
from annotation.queue.drafts import checked_answer, label_of
from annotation.results.delivery.package import Unpacked, deliver, pack
from annotation.results.delivery.verify import verify
from annotation.results.report.report import report, report_json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.people import DERIVED
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from judging.core.errors import UserError
from judging.runs.models import Parse, Verdict
from judging.runs.planning.start import choose_judge
from judging.runs.templates import template_of
from tests.factories import (
    make_annotator,
    make_examples,
    make_project,
    make_run,
    make_verdict,
    make_vote,
)
from tests.judging.runs.judging import judged, loopback, make_judged_project
from tests.loopback.judges import criteria_judge
from tests.loopback.log import prompt_of

pytestmark = pytest.mark.django_db(transaction=True)
ASKED = ["accuracy", "tone"]


@pytest.fixture
def asked():
    project = make_judged_project(12)
    project.criteria = ASKED
    project.save()
    return project


@pytest.fixture
def scored(asked, settings):
    with loopback(settings, judge=criteria_judge) as server:
        run = judged(asked, form="criteria", k=2)
    run.prompts = [prompt_of(entry.body) for entry in server.log]
    return run


def test_the_criteria_of_the_protocol_are_asked_in_both_orders_and_kept(scored):
    assert "- accuracy\n- tone\n" in scored.prompts[0]
    assert template_of(scored).criteria == ("accuracy", "tone")
    assert scored.schema["properties"]["scores"]["required"] == ASKED
    parses = Parse.objects.filter(sample__call__run=scored)
    assert parses.count() == 12 * 2 * 2
    # Turned back: the accuracy belongs to response 1, the tone to the position.
    for order, tone in (("original", ["7", "5"]), ("swapped", ["5", "7"])):
        for parse in parses.filter(sample__call__part=order):
            assert parse.criteria == {"accuracy": ["9", "4"], "tone": tone}
    verdict = Verdict.objects.filter(run=scored).first()
    # ((9 + 7) / 2 + (9 + 5) / 2) / 2 and ((4 + 5) / 2 + (4 + 7) / 2) / 2
    assert (verdict.label, verdict.cs_1, verdict.cs_2) == ("win", 7.5, 5.0)


def test_the_names_are_a_snapshot(scored):
    scored.project.criteria = ["something else"]
    scored.project.save()
    scored.refresh_from_db()
    assert template_of(scored).criteria == ("accuracy", "tone")


def test_unparsed_replies_say_why_in_the_export(asked, settings, tmp_path):
    text = '{"evidence": "", "scores": {"accuracy": {"score_1": 9, "score_2": 4}}}'
    with loopback(settings, judge=lambda asked, n: [text] * n):
        run = judged(asked, form="criteria", k=1, unread_calls=0)
    path = tmp_path / "samples.csv"
    call_command("export", asked.slug, run=str(run.number), what="samples", output=path)
    row = next(csv.DictReader(path.read_text().splitlines()))
    assert (row["status"], row["why"]) == ("unparsed", "“tone” is missing")
    assert row["criteria"] == ""


def test_scores_are_in_the_export_as_json(scored, tmp_path):
    path = tmp_path / "samples.csv"
    call_command("export", scored.project.slug, what="samples", output=path)
    row = next(csv.DictReader(path.read_text().splitlines()))
    assert json.loads(row["criteria"])["accuracy"] == ["9", "4"]


@pytest.mark.system
def test_the_judge_is_compared_with_people_on_each_criterion(scored, client, owner, tmp_path):
    open_round(scored.project, None, scored, RoundSettings(everything=True, votes=1, seed=1))
    person, draw = make_annotator(scored.project), random.Random(1)
    for n, item in enumerate(Item.objects.order_by("example__number")):
        accuracy = "right" if n < 3 else "left"
        said = {"criteria": {"accuracy": accuracy, "tone": draw.choice(["left", "tie", "right"])}}
        make_vote(item, person, "win", left_response=1, answer=said)
    analysis = Analysis(scored.project, scored)
    accuracy, tone = report(analysis).judge_criteria
    assert (accuracy.criterion, accuracy.n) == ("accuracy", 12)
    assert (accuracy.conflict_rate.value, accuracy.conflict_rate.n) == (0.0, 12)
    # Of 12 pairs, people say of 3 that response 2 is more accurate.
    assert accuracy.accuracy.value == 0.75
    # Swapped, the other response has the better tone, so that both orders together are a tie.
    assert tone.conflict_rate.value == 1.0
    ties = [vote.answer["criteria"]["tone"] for vote in person.annotations.all()].count("tie")
    assert tone.accuracy.value == ties / 12
    # The judge always says the same, so that there is nothing to agree on beyond chance.
    assert accuracy.kappa.value == 0.0
    assert accuracy.p_kappa_holm == 1.0
    data, context = pack(analysis)
    unpacked = Unpacked(data, json.loads(json.dumps(context)))
    assert report_json(unpacked)["judge_criteria"] == report_json(analysis)["judge_criteria"]
    deliver(scored.project, scored, None, tmp_path / "report.zip")
    assert verify(tmp_path / "report.zip") == []


def test_examples_without_scores_are_left_out_of_kappa(scored):
    open_round(scored.project, None, scored, RoundSettings(everything=True, votes=1, seed=1))
    person = make_annotator(scored.project)
    for n, item in enumerate(Item.objects.order_by("example__number")):
        said = {"criteria": {"accuracy": "right" if n % 3 else "left", "tone": "tie"}}
        make_vote(item, person, "win", left_response=1, answer=said)
    unread = Verdict.objects.filter(run=scored).values("example").order_by("example__number")[:2]
    Parse.objects.filter(
        sample__call__example__in=list(unread.values_list("example", flat=True))
    ).update(status=Parse.Status.UNPARSED, criteria=None)
    accuracy, _ = report(Analysis(scored.project, scored)).judge_criteria
    assert (accuracy.n, accuracy.accuracy.n, accuracy.kappa.n) == (10, 10, 10)


def test_without_votes_there_is_a_reason_and_the_conflict_rate(scored):
    accuracy, _ = report(Analysis(scored.project, scored)).judge_criteria
    assert accuracy.accuracy.reason == "nobody voted on this criterion"
    assert accuracy.p_kappa_holm is None
    assert accuracy.conflict_rate.n == 12


def test_other_forms_have_no_such_rows(asked):
    run = make_run(asked)
    for example in asked.examples.all():
        make_verdict(run, example, 0.1, rank=example.number + 1)
    assert report(Analysis(asked, run)).judge_criteria == []


def test_criteria_can_be_given_with_the_run_and_must_differ(asked, settings):
    with loopback(settings, judge=criteria_judge):
        given = {"endpoint": "loop", "form": "criteria"}
        assert choose_judge(asked, criteria="wit, depth", **given).template.criteria == (
            "wit",
            "depth",
        )
        with pytest.raises(UserError, match="differ only in upper and lower case"):
            choose_judge(asked, criteria="wit, Wit", **given)
        asked.criteria = []
        with pytest.raises(UserError, match="there are none"):
            choose_judge(asked, **given)
        with pytest.raises(UserError, match="12 criteria at most"):
            choose_judge(asked, criteria=",".join("abcdefghijklm"), **given)


def weighted(project, accuracy, tone):
    project.overall_from = "weighted"
    project.criterion_weights = {"accuracy": accuracy, "tone": tone}
    project.save()


def test_the_judge_is_merged_by_the_rule_for_people(asked, settings):
    weighted(asked, "1", "2")
    with loopback(settings, judge=criteria_judge):
        run = judged(asked, form="criteria", k=1)
    parses = Parse.objects.filter(sample__call__run=run)
    # Accuracy belongs to response 1, the tone to what is shown first: with a weight of 2 it wins.
    # The means would give response 1 both times.
    for order, outcome in (("original", "win"), ("swapped", "lose")):
        found = parses.filter(sample__call__part=order)
        assert {(one.outcome, one.score_1) for one in found} == {(outcome, None)}
        assert all(one.criteria["accuracy"] == ["9", "4"] for one in found)
    verdict = Verdict.objects.filter(run=run).first()
    assert (verdict.label, verdict.cs_1, verdict.cs_2) == ("tie", 0.5, 0.5)
    # Kept with the run, whatever the project derives later.
    weighted(asked, "5", "1")
    run.refresh_from_db()
    assert str(run.rule) == ("the response with the larger sum of weights wins: accuracy 1, tone 2")
    assert template_of(run).rule == run.rule
    with loopback(settings, judge=criteria_judge):
        other = judged(asked, form="criteria", k=1)
    assert Verdict.objects.filter(run=other, label="win").count() == 12


def test_the_rule_is_for_its_own_criteria_alone(asked, settings):
    weighted(asked, "1", "2")
    with loopback(settings, judge=criteria_judge):
        given = {"endpoint": "loop", "form": "criteria"}
        assert choose_judge(asked, **given).template.rule is not None
        assert choose_judge(asked, criteria="accuracy, wit", **given).template.rule is None


def test_derived_votes_explain_nothing_about_the_criteria(asked, settings, tmp_path):
    weighted(asked, "1", "2")
    with loopback(settings, judge=criteria_judge):
        run = judged(asked, form="criteria", k=1)
    open_round(asked, None, run, RoundSettings(everything=True, votes=1, seed=1))
    person = make_annotator(asked)
    for n, item in enumerate(Item.objects.order_by("example__number")):
        answer = {"criteria": {"accuracy": "left", "tone": ("left", "right", "tie")[n % 3]}}
        checked = checked_answer(item.round.protocol, answer)
        label = label_of(checked["overall"], 1)
        make_vote(item, person, label, left_response=1, answer=checked)
    found = report(Analysis(asked, run)).criteria
    assert found.criteria[0].slope == DERIVED
    # Of 12 pairs, 4 are lost by their tone.
    assert found.criteria[0].same_as_overall.value == 8 / 12
    path = tmp_path / "votes.csv"
    call_command("export", asked.slug, what="votes", output=path)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert json.loads(rows[0]["overall_rule"]) == asked.criteria_rule.to_json()
    assert [row["label"] for row in rows[:3]] == ["win", "lose", "win"]
    # Into another project, with the rule that derived the labels.
    twin = make_project("twin")
    make_examples(twin, 12)
    done = import_votes(twin, None, path)
    assert done.added == 12
    assert Vote.objects.filter(example__project=twin).first().answer["rule"] == (
        asked.criteria_rule.to_json()
    )
    # A label that the rule doesn't derive is a mistake.
    path.write_text(path.read_text().replace(",lose,", ",win,", 1))
    third = make_project("third")
    make_examples(third, 12)
    with pytest.raises(UserError, match="The rule derives lose"):
        import_votes(third, None, path)
