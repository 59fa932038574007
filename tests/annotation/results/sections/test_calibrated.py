"""The calibrated judge in a project: its figures, the planned estimate, and the planner."""

from collections import Counter
from decimal import Decimal

import pytest
from django.core.management import call_command
from django.urls import reverse

from annotation.models import Round
from annotation.results.planner.planning import plan, width_of
from annotation.results.report.page import citation
from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.rounds.opening import RoundSettings, open_round
from judging.methods.intervals.estimates import Undefined
from judging.projects.models import Role
from tests.annotation.results.learning import biased_run, label_all
from tests.factories import make_annotator, make_member

SETTINGS = {"beta": Decimal(10), "votes": 1, "audit": 60, "seed": 3}


@pytest.fixture
def run(project, tmp_path):
    return biased_run(project, tmp_path, n=240)


def labelled(project, run, **more):
    round_ = open_round(project, None, run, RoundSettings(**SETTINGS, **more))
    label_all(round_, [make_annotator(project)])
    return report(Analysis(project, run))


def width(figure):
    return figure.high - figure.low


@pytest.mark.databases
def test_people_s_labels_teach_that_the_judge_likes_long_responses(project, run):
    found = labelled(project, run)
    rates = found.win_rate
    assert found.calibrated.learned
    assert found.calibrated.labels == 60
    assert width(rates.calibrated) < 0.95 * width(rates.judge_and_people)
    assert found.calibrated.width_ratio.value == pytest.approx(
        width(rates.calibrated) / width(rates.judge_and_people)
    )
    assert width(found.calibrated.accuracy) < width(found.ties.half.accuracy)
    assert found.calibrated.kappa.low < found.calibrated.kappa.high


def test_without_a_choice_the_narrower_of_the_others_is_cited(project, run):
    found = labelled(project, run)
    assert found.win_rate.planned == "narrower"
    assert "calibrated" not in citation(found).sentence


def test_the_choice_of_the_first_audited_round_decides(project, run):
    found = labelled(project, run, cite=Round.Cite.CALIBRATED)
    assert found.win_rate.planned == "calibrated"
    cited = citation(found)
    assert "calibrated by human labels with cross-fitting" in cited.sentence
    assert "Zrnic" in cited.bibtex
    open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1, audit=20, seed=4))
    again = report(Analysis(project, run))
    assert again.win_rate.planned == "calibrated"


@pytest.mark.system
def test_the_page_calls_no_other_estimate_the_planned_one(client, project, run):
    """Once every label is known, people alone are cited, which nobody chose beforehand."""
    project.examples.update(model_1="maple-7b", model_2="birch-3b")
    client.force_login(make_member(project, Role.RESEARCHER))
    address, planned = f"/p/{project.slug}/results/verdict", "chosen before the audit was drawn"
    labelled(project, run, cite=Round.Cite.CALIBRATED)
    assert client.get(address).content.decode().count(planned) == 2
    rest = open_round(project, None, run, RoundSettings(everything=True, votes=1, seed=5))
    label_all(rest, [make_annotator(project)])
    assert report(Analysis(project, run)).win_rate.planned == "calibrated"
    page = client.get(address).content.decode()
    assert "cite this" in page
    assert planned not in page


def test_a_small_audit_says_what_is_needed(project, run):
    round_ = open_round(
        project, None, run, RoundSettings(beta=Decimal(10), votes=1, audit=9, seed=3)
    )
    label_all(round_, [make_annotator(project)])
    found = report(Analysis(project, run))
    for figure in (found.win_rate.calibrated, found.calibrated.accuracy, found.calibrated.kappa):
        assert isinstance(figure, Undefined)
        assert "10 are needed" in figure.reason


def test_the_planner_says_how_wide_the_interval_will_be(project, run):
    settings = RoundSettings(beta=Decimal(10), votes=1, audit=60)
    planned = plan(project, run, settings)
    before = width_of(None, planned)
    assert before.expected is None
    found = labelled(project, run)
    after = width_of(found, planned)
    assert after.most == before.most
    assert after.expected == pytest.approx(width(found.win_rate.calibrated), rel=0.1)
    assert width_of(found, plan(project, run, RoundSettings(beta=Decimal(10), audit=5))) is None
    # Nothing is left for the judge to say.
    everything = width_of(found, plan(project, run, RoundSettings(everything=True, votes=1)))
    assert everything.most < before.most
    assert everything.expected is None


def test_the_planned_width_counts_examples_that_share_a_question(project, run):
    settings = RoundSettings(beta=Decimal(10), votes=1, audit=60)
    apart = width_of(None, plan(project, run, settings))
    # Of which the first is better is what their question says.
    for example in project.examples.all():
        example.question = f"{example.question[:25]} {example.number // 16}"
        example.save(update_fields=["question"])
    sizes = Counter(project.examples.values_list("question", flat=True)).values()
    found, planned = labelled(project, run), plan(project, run, settings)
    alike, questions = planned.questions_of()
    assert questions == len(sizes) < 60
    assert alike == pytest.approx(sum(size**2 for size in sizes) / 240)
    together = width_of(found, planned)
    # The most is that of examples that are decided by their question.
    assert together.most > 1.5 * apart.most
    assert together.expected == pytest.approx(width(found.win_rate.calibrated), rel=0.1)
    assert found.calibrated.design_effect.value > 1
    project.examples.update(question="The same question")
    assert width_of(None, plan(project, run, settings)) is None
    project.examples.update(question="")
    assert width_of(None, plan(project, run, settings)) == apart


def test_the_choice_is_made_on_the_page_and_by_the_command(client, project, run):
    client.force_login(make_member(project, Role.RESEARCHER))
    sent = {"how": "beta", "beta": "10", "votes": "1", "audited": "on", "asks_audit": "on",
            "audit": "20", "run": run.pk, "cite": "calibrated"}  # fmt: skip
    assert client.post(reverse("plan", args=[project.slug]), sent).status_code == 302
    assert Round.objects.get().parameters["cite"] == "calibrated"
    refused = client.post(reverse("plan", args=[project.slug]), sent | {"cite": "best"})
    assert refused.status_code == 422
    call_command("open_round", project.slug, "--beta=10", "--audit=20", "--cite=calibrated")
    assert Round.objects.order_by("-number").first().parameters["cite"] == "calibrated"


@pytest.mark.system
def test_what_is_delivered_holds(project, run, tmp_path):
    labelled(project, run, cite=Round.Cite.CALIBRATED)
    file = tmp_path / "report.zip"
    call_command("report", project.slug, "--output", str(file))
    call_command("verify", str(file))
