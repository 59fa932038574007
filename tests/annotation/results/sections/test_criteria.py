"""Votes on criteria: in the report, on the page, from the ZIP and in the exports."""

import csv
import json
import random

import numpy as np
import pytest
from django.core.management import call_command

from annotation.models import Item, Protocol
from annotation.results.data.figures import to_json
from annotation.results.delivery.package import Unpacked, deliver, pack
from annotation.results.delivery.verify import verify
from annotation.results.report.report import people_alone, report, report_json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.people import NO_CRITERIA, NONE_WHOLE
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.agreement import strength_of
from annotation.votes.imports import import_votes
from judging.methods.intervals.estimates import Undefined
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote

SIDES = {1: "left", 0: "tie", -1: "right"}
ASKED = ["accuracy", "fluency"]


@pytest.fixture
def asked(project):
    """A run of 30 examples, of a project whose people answer two criteria."""
    project.criteria = ASKED
    project.save()
    run = make_run(project)
    for example in make_examples(project, 30):
        label = ("win", "lose")[example.number % 2]
        make_verdict(run, example, 0.5, rank=example.number + 1, label=label)
    return run


def answer(sign, left, **criteria):
    """By side, as the screen sends it: signs are of response 1."""
    turned = 1 if left == 1 else -1
    chosen = {name: SIDES[value * turned] for name, value in criteria.items()}
    return {"overall": SIDES[sign * turned], "criteria": chosen}


def vote_on_all(run, **settings):
    """Accuracy is nearly always what the overall vote says, fluency is drawn at random."""
    made = {"everything": True, "votes": 2, "seed": 1} | settings
    open_round(run.project, None, run, RoundSettings(**made))
    people, draws = [make_annotator(run.project) for _ in range(2)], random.Random(3)
    for item in Item.objects.filter(round__run=run).order_by("pk"):
        sign = 1 if item.example.number % 3 else -1
        for person in people:
            accuracy = -sign if draws.random() < 0.15 else sign
            left = draws.choice([1, 2])
            said = answer(sign, left, accuracy=accuracy, fluency=draws.choice([1, 0, -1]))
            label = "win" if sign == 1 else "lose"
            make_vote(item, person, label, left_response=left, answer=said)


@pytest.fixture
def voted(asked):
    vote_on_all(asked)
    return asked


def test_each_criterion_has_its_figures(voted):
    found = report(Analysis(voted.project, voted)).criteria
    accuracy, fluency = found.criteria
    assert (accuracy.criterion, accuracy.n, accuracy.votes) == ("accuracy", 30, 60)
    assert found.agreement_on == "all examples with votes on it"
    assert (found.explained, found.questions) == (60, 30)
    # Two of three examples are better in response 1, but for a few slips.
    assert 0.5 < accuracy.win_rate.value < 0.8
    assert accuracy.win_rate.n == 30
    assert accuracy.agreement.value > 0.6
    assert accuracy.p_agreement_holm < 0.05 < fluency.p_agreement_holm
    assert accuracy.same_as_overall.value > 0.8
    assert accuracy.slope.low > 0
    assert accuracy.p_slope_holm < 0.05
    assert fluency.slope.low < 0 < fluency.slope.high
    says = "accuracy explains the overall vote, even if all other answers stay the same"
    assert says in found.sentence


def test_the_side_is_turned_back_and_both_scales_end_at_two():
    assert strength_of("left", 1, five=False) == strength_of("right", 2, five=False) == 2
    assert strength_of("left", 1, five=True) == 1
    assert strength_of("right_much", 1, five=True) == -2
    assert strength_of("tie", None, five=True) == 0
    assert strength_of("lose", None, five=False) == -2
    assert strength_of("left", None, five=False) is None
    assert strength_of("excellent", 1, five=False) is None


def test_p_values_are_adjusted_over_the_criteria(voted):
    one, two = report(Analysis(voted.project, voted)).criteria.criteria
    for name in ("p_win_rate_holm", "p_agreement_holm", "p_slope_holm"):
        smaller, larger = sorted([getattr(one, name), getattr(two, name)])
        assert 0 < smaller <= larger <= 1


def test_without_answers_there_is_a_reason(project):
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.5, rank=example.number + 1)
    assert report(Analysis(project, run)).criteria == NO_CRITERIA
    assert to_json(NO_CRITERIA)["value"] is None


def test_few_votes_have_no_slope_but_a_reason(asked):
    open_round(asked.project, None, asked, RoundSettings(everything=True, votes=1, seed=1))
    person = make_annotator(asked.project)
    for item in Item.objects.order_by("pk")[:4]:
        make_vote(item, person, "win", answer=answer(1, 1, accuracy=1, fluency=0))
    found = report(Analysis(asked.project, asked)).criteria
    accuracy = found.criteria[0]
    assert accuracy.slope == Undefined("all overall votes say the same, so nothing explains them")
    assert accuracy.win_rate.reason == "26 of 30 items have no vote on this criterion yet"
    assert accuracy.agreement.reason == "none of these examples has two votes that count"
    assert accuracy.p_agreement_holm is None
    assert "isn't known: all overall votes say the same" in found.sentence


def test_criteria_that_no_vote_answers_together_are_not_compared(asked):
    """As after a protocol that asks for another criterion."""
    open_round(asked.project, None, asked, RoundSettings(everything=True, votes=1, seed=1))
    person = make_annotator(asked.project)
    for n, item in enumerate(Item.objects.order_by("pk")):
        said = {ASKED[n % 2]: 1}
        make_vote(item, person, ("win", "lose")[n % 3 == 0], answer=answer(1, 1, **said))
    found = report(Analysis(asked.project, asked)).criteria
    assert [one.slope for one in found.criteria] == [NONE_WHOLE] * 2
    assert found.explained == 0
    assert found.sentence.endswith("isn't known: no vote that counts answers every criterion.")


def test_after_a_routed_round_the_audit_stands_for_the_rest(asked):
    vote_on_all(asked, everything=False, beta=20, audit=12)
    found = report(Analysis(asked.project, asked)).criteria
    assert found.agreement_on == "the audited examples, which were chosen at random"
    accuracy = found.criteria[0]
    assert accuracy.n == 18
    assert accuracy.agreement.n == 12
    # Six selected examples count once, each of the twelve audited ones for two.
    item_mean = {}
    for vote in (vote for item in Item.objects.all() for vote in item.annotations.all()):
        sign = strength_of(vote.answer["criteria"]["accuracy"], vote.left_response, five=False) / 2
        item_mean.setdefault(vote.item, []).append((1 + sign) / 2)
    weight = {item: 1 if item.selection.kind == "top" else 2 for item in item_mean}
    expected = sum(weight[item] * np.mean(votes) for item, votes in item_mean.items()) / 30
    assert accuracy.win_rate.value == pytest.approx(expected)


def test_contested_examples_alone_have_no_win_rate(asked):
    vote_on_all(asked, everything=False, beta=20)
    accuracy = report(Analysis(asked.project, asked)).criteria.criteria[0]
    assert "people saw only the contested examples" in accuracy.win_rate.reason
    assert accuracy.p_win_rate_holm is None


def test_votes_that_are_left_out_enter_nothing(voted):
    voted.project.leave_out_unblinded = True
    voted.project.save()
    person = make_annotator(voted.project)
    item = Item.objects.first()
    item.annotations.filter(annotator__number=1).update(unblinded=True)
    assert person.number == 3
    found = report(Analysis(voted.project, voted)).criteria
    assert found.criteria[0].votes == 59


def test_imported_answers_count_by_side_or_by_label(project, tmp_path):
    make_examples(project, 2)
    first, second = project.examples.values_list("external_id", flat=True)
    path = tmp_path / "votes.csv"
    head = "external_id,annotator,label,left_response,criterion:tone"
    rows = [f"{first},ann,win,2,left", f"{second},ann,win,,win", f"{second},bob,win,,left"]
    path.write_text("\n".join([head, *rows]))
    import_votes(project, None, path)
    (tone,) = people_alone(project).criteria.criteria
    # Left was response 2 of the first example; nobody knows which one bob means.
    assert (tone.criterion, tone.n, tone.votes) == ("tone", 2, 2)
    assert tone.win_rate.value == 0.5


@pytest.mark.system
def test_what_is_read_is_packed_with_the_report_and_verified(voted, owner, tmp_path):
    analysis = Analysis(voted.project, voted)
    figures = report_json(analysis)
    data, context = pack(analysis)
    unpacked = Unpacked(data, json.loads(json.dumps(context)))
    assert report_json(unpacked)["criteria"] == figures["criteria"]
    path = tmp_path / "report.zip"
    deliver(voted.project, voted, owner, path)
    assert verify(path) == []


def test_pages_show_them_and_escape_their_names(client, owner, voted):
    Protocol.objects.update(criteria=["accuracy", "<b>fluency</b>"])
    for item in Item.objects.all():
        for vote in item.annotations.all():
            chosen = vote.answer["criteria"]
            chosen["<b>fluency</b>"] = chosen.pop("fluency")
            vote.save()
    client.force_login(owner)
    page = client.get(f"/p/{voted.project.slug}/results/people").content.decode()
    assert "What do people say on each criterion?" in page
    assert "&lt;b&gt;fluency&lt;/b&gt;" in page
    assert "<b>fluency" not in page
    assert "60 votes on 30 questions" in page


@pytest.mark.system
def test_people_alone_have_them_too(client, owner, voted):
    voted.project.runs.update(ranked_at=None)
    found = people_alone(voted.project)
    assert [one.criterion for one in found.criteria.criteria] == ASKED
    client.force_login(owner)
    page = client.get(f"/p/{voted.project.slug}/results/people").content.decode()
    assert "Which criteria explain the overall vote?" in page


def test_each_example_and_criterion_is_a_row_of_an_export(voted, tmp_path):
    path = tmp_path / "criteria.csv"
    call_command("export", voted.project.slug, what="criteria", output=path)
    rows = list(csv.DictReader(path.read_text().splitlines()))
    assert len(rows) == 60
    assert {row["criterion"] for row in rows} == set(ASKED)
    first = rows[0]
    assert int(first["win"]) + int(first["tie"]) + int(first["lose"]) == int(first["votes"]) == 2
    assert {row["label"] for row in rows} <= {"win", "tie", "lose", ""}
