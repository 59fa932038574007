"""The report on learned routing: its figures, its sentences, and everything else under it."""

import csv
import io
import json
import zipfile
from dataclasses import replace
from decimal import Decimal

import numpy as np
import pytest
from django.core.management import call_command

from annotation.models import Item
from annotation.results.delivery.verify import verify
from annotation.results.report.report import report_json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.routing import sentence
from annotation.rounds.changes import close
from annotation.rounds.opening import RoundSettings, open_round
from judging.methods.intervals.estimates import Estimate
from judging.methods.review.routing import wrongness
from tests.annotation.results.learning import biased_run, go_on, gold, label_all
from tests.factories import make_annotator, make_run, make_verdict

SETTINGS = RoundSettings(
    beta=Decimal(65), votes=1, audit=30, learn=40, seed=3, epsilon=0.5, looks=(30,)
)


@pytest.fixture
def run(project, tmp_path):
    """With another run beside it that is always right."""
    found = biased_run(project, tmp_path)
    other = make_run(project, name="wise")
    for example in project.examples.all():
        make_verdict(other, example, 0.0, label=gold(example), rank=1)
    return found


@pytest.fixture
def learned(project, run):
    """A round that learned and is done."""
    person = make_annotator(project)
    round_ = open_round(project, None, run, SETTINGS)
    label_all(round_, [person])
    assert go_on() == 1
    label_all(round_, [person])
    round_.refresh_from_db()
    return round_


def routing_of(project, run):
    return report_json(Analysis(project, run))["routing"]


def test_the_section_says_what_was_learned_and_what_it_found(project, run, learned):
    found = routing_of(project, run)
    assert (found["source"], found["round"], found["used"]) == ("round", learned.number, True)
    assert found["auroc"]["learned"]["value"] > found["auroc"]["bpde"]["value"] + 0.2
    # The learned order left the audit hardly an error, so nothing can be held against it.
    held_out = [found["held_out"][name]["reason"] for name in ("bpde", "learned", "jury")]
    assert all(reason.startswith("the audit found ") for reason in held_out)
    # The other run is always right, so disagreeing with it is being wrong.
    assert found["auroc"]["jury"]["value"] > 0.9
    assert any(
        "Wrong less often the more the other runs agree with it" in one["sentence"]
        for one in found["coefficients"]
    )
    errors = found["errors_found"]
    assert errors["labels"] == 78
    chosen = Item.objects.filter(round=learned, selection__kind__in=["learn", "top"])
    verdicts = dict(run.verdicts.values_list("example", "label"))
    wrong = [verdicts[item.example_id] != gold(item.example) for item in chosen]
    assert errors["people"]["value"] == pytest.approx(sum(wrong))
    for other in ("bpde", "random"):
        assert errors[other]["low"] <= errors[other]["value"] <= errors[other]["high"]
        assert errors[other]["value"] < errors["people"]["value"]
    assert found["next"]["n"] == 20
    # It depends on the fit, whose range was never simulated.
    assert 0 < found["next"]["value"] <= 20
    assert (found["next"]["low"], found["next"]["high"]) == (None, None)


def test_no_learned_score_is_shown_elsewhere_where_the_round_kept_to_bpde(project, run):
    person = make_annotator(project)
    # Too few labels to beat BPDE by what is asked of so few.
    round_ = open_round(project, None, run, replace(SETTINGS, learn=5))
    label_all(round_, [person])
    assert go_on() == 1
    label_all(round_, [person])
    found = routing_of(project, run)
    assert found["used"] is False
    assert found["held_out"]["bpde"]["value"] is not None
    assert found["held_out"]["learned"].get("value") is None
    assert "selected by BPDE" in found["held_out"]["learned"]["reason"]


def test_other_figures_take_the_sample_and_the_selection_as_selected(project, run, learned):
    analysis = Analysis(project, run)
    sheet, known = analysis.sheet, analysis.sheet.known
    assert int(sheet.selected.sum()) == 78
    assert int((sheet.audited & ~sheet.selected).sum()) == 30
    # 78 stand for themselves, 30 for the other 42
    assert sorted(set(known.weight.tolist())) == [1.0, 1.4]
    truth = np.mean([sheet.judge[n] == sheet.human[n] for n in range(len(sheet))])
    figures = report_json(analysis)
    win_rate = figures["win_rate"]["people"]
    right = [gold(one) == "win" for one in project.examples.all()]
    assert win_rate["low"] <= np.mean(right) <= win_rate["high"]
    assert figures["review"]["m"] == 78
    assert truth < figures["review"]["unreviewed_accuracy"]["value"]


def test_the_certificate_goes_by_the_routing_score(project, run, learned):
    found = report_json(Analysis(project, run))["certificate"]
    assert found["score"] == "routing"
    assert found["looks"] == [30]
    assert found["issued"] is True
    assert 0 < found["threshold"] < 1
    assert found["n_from_judge"] <= 12


@pytest.mark.system
def test_it_can_be_verified_from_the_file_alone(project, run, learned, tmp_path):
    path = tmp_path / "report.zip"
    call_command("report", project.slug, output=path)
    assert verify(path) == []
    with zipfile.ZipFile(path) as archive:
        figures = json.loads(archive.read("report.json"))
        page = archive.read("report.html").decode()
        methods = archive.read("methods.md").decode()
        labels = archive.read("labels.csv").decode()
    assert figures["routing"]["used"] is True
    assert "The learned score selected the rest." in page
    assert "a learned probability of an error of at" in methods
    rows = list(csv.DictReader(io.StringIO(labels)))
    assert sum(row["selection"] == "learn" for row in rows) == 40
    scores = {row["external_id"]: float(row["routing_score"]) for row in rows}
    assert len(scores) == 120
    for item in Item.objects.filter(round=learned, selection__kind="top"):
        assert scores[item.example.external_id] == item.routing_score


def test_while_it_learns_it_says_how_far_it_is(project, run):
    round_ = open_round(project, None, run, SETTINGS)
    first = Item.objects.filter(round=round_).first()
    Item.objects.filter(pk=first.pk).update(state="complete")
    assert (
        routing_of(project, run)["reason"] == "round 1 is still learning: 1 of 40 items are settled"
    )


def test_a_sample_that_led_to_no_selection_stands_for_all_examples(project, run):
    round_ = open_round(project, None, run, SETTINGS)
    label_all(round_, [make_annotator(project)])
    close(round_, None)
    sheet = Analysis(project, run).sheet
    assert not sheet.selected.any()
    assert set(sheet.known.weight.tolist()) == {3.0}
    accuracy = report_json(Analysis(project, run))["ties"]["half"]["accuracy"]
    people = [{"win": 1, "lose": -1}[gold(one)] for one in project.examples.order_by("number")]
    truth = 1 - wrongness(sheet.judge, np.array(people, np.int8)).mean()
    assert accuracy["low"] <= truth <= accuracy["high"]


def test_without_a_round_that_learned_there_is_a_reason(project, run):
    assert "no round of this run has learned" in routing_of(project, run)["reason"]


def test_with_every_label_known_it_says_what_learning_would_do(project, run):
    for example in project.examples.all():
        example.gold_label = gold(example)
        example.save()
    found = routing_of(project, run)
    assert (found["source"], found["n"], found["used"]) == ("known labels", 120, True)
    assert "every example is known" in found["next"]["reason"]


@pytest.mark.parametrize(
    ("name", "ratio", "expected"),
    [
        (
            "length in favour",
            (2.1, 1.4, 3.3),
            "Wrong more often when it prefers the longer response: ×2.1 [1.4–3.3] "
            "per standard deviation",
        ),
        (
            "jury agreement",
            (0.35, 0.13, 0.96),
            "Wrong less often the more the other runs agree with it: ×0.35 [0.13–0.96] "
            "per standard deviation",
        ),
        (
            "gap",
            (1.1, 0.8, 1.5),
            "No clear difference the larger the difference between its scores (|CS₁ − CS₂|): "
            "×1.1 [0.8–1.5] per standard deviation",
        ),
        (
            "length in favour",
            (2.6, 0.7, 10.1),
            "Possibly wrong more often when it prefers the longer response: ×2.6 [0.7–10.1] "
            "per standard deviation",
        ),
        (
            "category: coding",
            (3.0, 1.2, 120.0),
            "Wrong more often in “coding”: ×3.0 [1.2–1.2e+02] compared with the average category",
        ),
        (
            "category: شعر",
            (1.1, 0.6, 2.0),
            "No clear difference in “\u2068شعر\u2069”: ×1.1 [0.6–2.0] "
            "compared with the average category",
        ),
    ],
)
def test_each_feature_is_a_sentence(name, ratio, expected):
    value, low, high = ratio
    assert sentence(name, Estimate(value, 60, low, high)) == expected.replace("1.2e+02", "120")
