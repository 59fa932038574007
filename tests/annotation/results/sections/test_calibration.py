"""The calibration section and the judge's card, on a judge whose biases are known."""

import json

import numpy as np
import pytest
from django.core.management import CommandError, call_command

from annotation.results.data.figures import to_json
from annotation.results.delivery.package import Unpacked, pack
from annotation.results.delivery.verify import differences
from annotation.results.report.report import plots, report, report_json
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.calibration import calibration
from annotation.results.sections.judge_card import judge_card
from judging.methods.calibration.table import FEW_QUESTIONS
from judging.methods.intervals.estimates import Undefined
from judging.runs.engine.content_free import answers
from judging.runs.models import Call, Parse, Run
from tests.annotation.results.choosing import make_choice_run, make_graded_project
from tests.factories import make_run
from tests.judging.runs.judging import judged, loopback
from tests.loopback import ChoiceJudge

pytestmark = pytest.mark.django_db(transaction=True)

GAPS = [float(gap) for gap in np.random.default_rng(3).normal(0, 1.0, 120)]


@pytest.fixture
def examples(project):
    return make_graded_project(project, GAPS)


@pytest.fixture
def run(project, examples):
    return make_choice_run(project, examples, GAPS)


def row(found, method):
    return next(one for one in found.comparison.rows if one.method == method)


def test_the_mean_of_a_balanced_set_removes_both_biases_and_is_recommended(run, project):
    """Position and token add +-1.2 and +-0.8 in turn, so the mean's sign is the true gap's."""
    found = calibration(Analysis(project, run))
    assert row(found, "mean").mean.accuracy.value == 1.0
    assert row(found, "uncalibrated").average.accuracy.value < 0.85
    assert found.comparison.recommended == "mean"
    assert found.comparison.labelled == 120
    assert found.mass.value == pytest.approx(0.9)


@pytest.mark.system
def test_probabilities_without_their_mass_have_a_reason_in_its_place(run, project):
    Parse.objects.filter(sample__call__run=run).update(mass=None)
    found = calibration(Analysis(project, run))
    assert isinstance(found.mass, Undefined)
    assert "doesn't contain the total probability" in found.mass.reason
    json.dumps(to_json(found), allow_nan=False)


def test_figures_have_intervals_or_reasons_and_cc_says_what_it_lacks(run, project):
    found = calibration(Analysis(project, run))
    for name in ("kappa", "icc_2k", "icc_3k"):
        figure = getattr(row(found, "uncalibrated"), name)
        # Forty examples carry a kappa, and no ICC.
        if name == "kappa":
            assert figure.low <= figure.value <= figure.high
        else:
            assert (figure.low, figure.note) == (None, FEW_QUESTIONS)
    assert "not asked about content-free inputs" in row(found, "cc").calibration.reason
    assert [one.share for one in found.by_share] == [10, 25, 50, 75]
    assert found.runs == []


def test_labels_of_contested_examples_alone_are_not_averaged_over(run, project, examples):
    type(examples[0]).objects.update(gold_label=None)
    found = calibration(Analysis(project, run))
    assert "no human labels" in found.labels.reason
    assert isinstance(row(found, "mean").mean.accuracy, Undefined)


def test_other_runs_of_the_judge_stand_beside(run, project, examples):
    make_choice_run(project, examples, GAPS, position=0.1, token=0.1, name="xy")
    make_choice_run(project, examples, GAPS, model="another", name="other judge")
    found = calibration(Analysis(project, run))
    assert [one.run for one in found.runs] == [run.name, "xy"]
    first, second = (one.before.kappa.value for one in found.runs)
    assert first < second


def test_a_run_without_probabilities_has_the_reason(project, examples):
    found = calibration(Analysis(project, make_run(project)))
    assert "only runs of the form choice" in found.reason


def test_a_choice_is_compared_with_no_method_that_needs_evidence(run, project):
    names = [(row["name"], row["k"]) for row in report_json(Analysis(project, run))["methods"]]
    # Four permutations are two samples in each order.
    assert names[:4] == [("one order", 1), ("one order", 2), ("BPC", 1), ("BPC", 2)]
    assert all(name == "BPC+HITLC" for name, _ in names[4:])


def test_the_card_tells_position_and_token_apart(run, project):
    entries = {one.key: one for one in judge_card(Analysis(project, run)).entries}
    assert set(entries) == {
        "position", "id_token", "length", "likelihood", "self_preference", "repetition",
        "unparsed", "cost",
    }  # fmt: skip
    expected = expected_advantages()
    for key, value in expected.items():
        figure = entries[key].value
        assert figure.value == pytest.approx(value, abs=1e-9)
        assert figure.low < figure.value < figure.high
    assert expected["position"] > expected["id_token"] > 0.1
    assert entries["unparsed"].value.value == 0.0
    assert "different option IDs" in entries["repetition"].value.reason
    assert all(one.meaning and one.remedy for one in entries.values())
    assert "likelihood" in entries["likelihood"].value.reason


def expected_advantages():
    """Response 1 is first in X0, X3 and bears t1 in X0, X1."""
    gaps = np.array(GAPS)
    first, bears = {"X0": 1, "X1": -1, "X2": -1, "X3": 1}, {"X0": 1, "X1": 1, "X2": -1, "X3": -1}
    p = {name: 1 / (1 + np.exp(-(gaps + 1.2 * first[name] + 0.8 * bears[name]))) for name in first}
    return {
        "position": np.mean((p["X0"] + p["X3"]) / 2 - (p["X1"] + p["X2"]) / 2),
        "id_token": np.mean((p["X0"] + p["X1"]) / 2 - (p["X2"] + p["X3"]) / 2),
    }


def test_two_permutations_confound_the_two_and_say_so(project, examples):
    run = make_choice_run(project, examples, GAPS, permutations=("X0", "X2"))
    entries = {one.key: one for one in judge_card(Analysis(project, run)).entries}
    assert entries["position"].value.note == "position bias and ID-token bias together"
    assert "3 or 4 permutations" in entries["id_token"].value.reason


def test_what_was_packed_says_the_same_without_a_database(run, project):
    analysis = Analysis(project, run)
    figures = report(analysis)
    found = json.loads(json.dumps(to_json(figures)))
    data, context = pack(analysis)
    again = json.loads(json.dumps(report_json(Unpacked(data, json.loads(json.dumps(context))))))
    assert list(differences(found, again, "")) == []
    assert {"calibration", "calibration-curve"} <= {plot.name for plot in plots(figures)}


def test_calibrate_asks_about_nothing_once_and_stores_its_answers(project, settings, capsys):
    make_graded_project(project, GAPS[:8])
    with loopback(settings, judge=ChoiceJudge()) as server:
        run = judged(project, form="choice", permutations=3, price=(1, 1))
        before, spent = server.requests, run.spent_usd
        call_command("calibrate", project.slug, "--method", "cc", "--method", "dc")
        assert server.requests - before == 21
        call_command("calibrate", project.slug, "--method", "all")
        assert server.requests - before == 21
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert run.spent_usd > spent
    about_nothing = Call.objects.filter(run=run, example=None, point_item=None)
    assert about_nothing.count() == 21
    assert about_nothing.get(part="cc:X0").state == Call.State.DONE
    printed = capsys.readouterr().out
    assert "21 answers about content-free texts" in printed
    assert "Recommended:" in printed
    assert "Contextual calibration (CC)" in printed
    # N/A against N/A: what is left is position and token, a logit of 2.
    assert list(run.parameters["content_free"]["cc:X0"]) == ["N/A"] * 3
    assert answers(run)["cc:X0"] == pytest.approx(1 / (1 + np.exp(-2.0)))


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--run", "7"], "has no run 7"),
        (["--estimation-share", "0"], "above 0 and up to 100"),
    ],
)
def test_what_cannot_be_calibrated_is_refused_in_a_sentence(project, examples, arguments, sentence):
    with pytest.raises(CommandError, match=sentence):
        call_command("calibrate", project.slug, *arguments)


def test_a_run_of_scores_is_refused(project, examples):
    make_run(project)
    with pytest.raises(CommandError, match="gives no probabilities"):
        call_command("calibrate", project.slug)


@pytest.mark.parametrize("labelled", [True, False])
def test_accuracy_is_shown_only_where_there_are_labels(
    run, project, client, owner, capsys, labelled
):
    if not labelled:
        project.examples.update(gold_label="")
    client.force_login(owner)
    page = client.get(f"/p/{project.slug}/results/calibration?run={run.number}").content.decode()
    assert "choice with permutations X0" in page
    assert "Fleiss’ kappa" in page
    assert ("Gain over the plain mean" in page) is labelled
    call_command("calibrate", project.slug, "--run", str(run.number), "--method", "uncalibrated")
    printed = capsys.readouterr().out
    assert "Fleiss' kappa" in printed
    assert ("gain over the plain mean" in printed) is labelled
