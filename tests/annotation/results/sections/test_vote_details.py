"""Strength, confidence, reasons and marked text: in the report, on the page and from the ZIP."""

import random

import numpy as np
import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse

from annotation.models import Item, Vote
from annotation.results.data.figures import to_json
from annotation.results.delivery.package import Unpacked, deliver, pack
from annotation.results.delivery.verify import verify
from annotation.results.report.report import people_alone, report, report_json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.people import NOT_ASKED
from annotation.results.sections.vote_details import details_in
from annotation.rounds.opening import RoundSettings, open_round
from judging.methods.intervals.estimates import Undefined
from judging.projects.models import Project
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
LEVELS = ("low", "medium", "high")
FIVE = ("right_much", "right", "tie", "left", "left_much")


@pytest.fixture
def asked(project):
    """A run of 24 examples, on the last 6 of which the judge is wrong."""
    project.scale, project.ask_confidence, project.ask_spans = Project.Scale.FIVE, True, True
    project.reason_tags = ["wrong", "long"]
    project.save()
    run = make_run(project)
    texts = {"response_1": "x" * 60, "response_2": "y" * 40}
    for example in make_examples(project, 24, **texts):
        label = "win" if example.number < 18 else "lose"
        make_verdict(run, example, 0.5, rank=example.number + 1, label=label)
    return run


@pytest.fixture
def voted(asked):
    """Two people, both for response 1: sure where the judge is right, unsure where it is wrong.

    They mark characters 0 to 10 and 5 to 15 of response 1. Both give the first reason on every
    third example; the second one is by chance.
    """
    open_round(asked.project, None, asked, RoundSettings(everything=True, votes=2, seed=1))
    people, draws = [make_annotator(asked.project) for _ in range(2)], random.Random(5)
    for item in Item.objects.filter(round__run=asked).order_by("example__number"):
        number = item.example.number
        for place, person in enumerate(people):
            left = draws.choice([1, 2])
            strength = 1 + (number % 2)
            side = FIVE[2 + strength] if left == 1 else FIVE[2 - strength]
            reasons = ["wrong"] if number % 3 == 0 else []
            reasons += ["long"] if draws.random() < 0.5 else []
            start = 5 * place
            answer = {
                "overall": side,
                "confidence": "high" if number < 18 else LEVELS[place],
                "reasons": reasons,
                "spans": [{"response": 1, "start": start, "end": start + 10, "text": "x" * 10}],
            }
            make_vote(item, person, "win", left_response=left, answer=answer)
    return asked


def test_each_is_reported_with_its_agreement(voted):
    found = report(Analysis(voted.project, voted)).vote_details
    assert found.strength.counts == {
        "much_worse": 0, "worse": 0, "tie": 0, "better": 24, "much_better": 24,
    }  # fmt: skip
    assert found.strength.krippendorff_alpha.value == 1
    assert (found.confidence.n, found.confidence.votes) == (24, 48)
    assert found.confidence.counts == {"low": 6, "medium": 6, "high": 36}
    # Ordinal: unsure and fairly sure are neighbours.
    assert 0.5 < found.confidence.krippendorff_alpha.value < 1
    wrong, long = found.reasons
    assert (wrong.reason, wrong.votes, wrong.chosen) == ("wrong", 48, 16)
    assert wrong.krippendorff_alpha.value == 1
    assert wrong.p_agreement_holm < 0.01
    assert long.p_agreement_holm > 0.05
    spans = found.spans
    assert (spans.votes, spans.marked, spans.pairs, spans.unmarked) == (48, 48, 24, 0)
    # Ten characters each, five of them the same, of a hundred.
    assert spans.f1.value == pytest.approx(0.5)
    assert spans.by_chance == pytest.approx(0.1)


def test_people_are_less_sure_where_the_judge_is_wrong(voted):
    found = report(Analysis(voted.project, voted)).vote_details.confidence
    assert (found.mean_judge_right.value, found.mean_judge_right.n) == (1, 18)
    assert (found.mean_judge_wrong.value, found.mean_judge_wrong.n) == (0.25, 6)
    assert found.mean_judge_wrong.high < found.mean_judge_right.low


def test_people_alone_have_them_too(voted):
    found = people_alone(voted.project).vote_details
    assert found.spans.f1.value == pytest.approx(0.5)
    assert isinstance(found.confidence.mean_judge_right, Undefined)


def test_the_page_says_it(voted, as_owner):
    Vote.objects.update(unblinded=False)
    page = as_owner.get(reverse("results_page", args=[voted.project.slug, "people"])).text
    assert "How sure are people, and why?" in page
    assert "Do people mark the same words?" in page


@pytest.mark.system
def test_a_zip_gives_the_same_and_is_verified(voted, tmp_path):
    figures = to_json(report(Analysis(voted.project, voted)))
    unpacked = Unpacked(*pack(Analysis(voted.project, voted)))
    assert report_json(unpacked)["vote_details"] == figures["vote_details"]
    path = tmp_path / "run.zip"
    deliver(voted.project, voted, None, path)
    assert verify(path) == []


def test_a_project_that_asks_none_of_it_says_so_in_two_queries(project):
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.5, rank=example.number + 1, label="win")
    open_round(project, None, run, RoundSettings(everything=True, votes=1))
    person = make_annotator(project)
    for item in Item.objects.all():
        make_vote(item, person, "win", answer={"overall": "left"}, left_response=1)
    analysis = Analysis(project, run)
    sheet = analysis.sheet
    with CaptureQueriesContext(
        connection,
    ) as queries:
        assert details_in(project, sheet) == NOT_ASKED
    assert len(queries) == 2
    assert to_json(report(analysis))["vote_details"] == NOT_ASKED.as_json()


def test_agreement_is_over_the_audit_where_others_were_selected(asked):
    open_round(asked.project, None, asked, RoundSettings(beta=25, votes=2, audit=10, seed=1))
    people = [make_annotator(asked.project) for _ in range(2)]
    for item in Item.objects.select_related("selection"):
        for place, person in enumerate(people):
            level = "high" if item.selection.kind == "audit" else LEVELS[2 * place]
            make_vote(item, person, "win", answer={"overall": "left", "confidence": level})
    found = report(Analysis(asked.project, asked)).vote_details
    assert found.agreement_on == "the audited examples, which were chosen at random"
    assert "one category" in found.confidence.krippendorff_alpha.reason
    assert np.isfinite(found.confidence.mean_judge_right.value)
