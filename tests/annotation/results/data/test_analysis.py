"""The analysis of a run: figures by hand on ten examples, and the reasons where there are none."""

from decimal import Decimal

import numpy as np
import pytest

from annotation.models import Draft
from annotation.queue.queue import claim_next
from annotation.results.data.runs import project_costs
from annotation.results.pages.overview import facts_of
from annotation.results.report.report import report_json
from annotation.results.report.text import figure, report_lines
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.review import Review
from annotation.results.tables.exports import label_rows
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from annotation.votes.voting import record_vote
from judging.methods.intervals.estimates import Estimate, Undefined
from judging.projects.models import Role
from tests.factories import make_annotator, make_examples, make_lesson, make_run, make_verdict


@pytest.fixture
def run(project):
    """Ten examples judged a win, BPDE rising with the number."""
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, example.number / 10, rank=10 - example.number)
    return run


@pytest.fixture
def gold(project, tmp_path):
    """People: e0 to e5 a win, e6 a tie, e7 to e9 a lose. So the judge is right on six."""

    def vote():
        labels = ["win"] * 6 + ["tie"] + ["lose"] * 3
        rows = "".join(f"e{n},kim,{label}\n" for n, label in enumerate(labels))
        path = tmp_path / "votes.csv"
        path.write_text("external_id,annotator,label\n" + rows)
        import_votes(project, None, path)

    return vote


def test_before_and_after_a_review_of_the_top_fifth(project, run, gold):
    gold()
    open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1))
    analysis = Analysis(project, run)
    assert analysis.before().accuracy.value == pytest.approx(0.6, abs=1e-12)
    assert analysis.after().accuracy.value == pytest.approx(0.8, abs=1e-12)
    assert analysis.shares == {"win": 10, "tie": 0, "lose": 0}
    assert analysis.final_shares == {"win": 8, "tie": 0, "lose": 2}
    lines = analysis.lines()
    assert lines.m == 2
    assert lines.accuracy.value == pytest.approx(0.8, abs=1e-12)
    # Of the eight that nobody reviewed six are right.
    assert lines.unreviewed.value == pytest.approx(6 / 8, abs=1e-12)
    # Both reviewed were wrong; by chance 2 of 10 find 0.8 of the 4 errors: C(4,2)/C(10,2) = 6/45.
    assert (lines.errors.found, lines.errors.expected) == (2, pytest.approx(0.8, abs=1e-12))
    assert lines.errors.p == pytest.approx(6 / 45, abs=1e-12)
    assert lines.random.value == pytest.approx(0.6 + 0.2 * 0.4, abs=1e-12)
    assert lines.gain.value == pytest.approx(0.12, abs=1e-12)
    # Every error has a larger BPDE than every right one.
    assert analysis.finds_errors.value == pytest.approx(1.0, abs=1e-12)


def test_a_routed_round_without_an_audit_says_why_there_is_no_figure(project, run):
    person = make_annotator(project)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1))
    assert "still wait" in Analysis(project, run).before().accuracy.reason
    while isinstance(draft := claim_next(round_, person), Draft):
        record_vote(draft, {"overall": "tie"})
    found = Analysis(project, run)
    assert "only the contested" in found.before().accuracy.reason
    assert isinstance(found.lines(), Undefined)


def test_an_audit_weighs_what_it_stands_for(project, run):
    person = make_annotator(project)
    settings = RoundSettings(beta=Decimal(20), votes=1, audit=4, seed=3)
    round_ = open_round(project, None, run, settings)
    while isinstance(draft := claim_next(round_, person), Draft):
        wrong = draft.item.selection.kind == "top"
        left_is_1 = draft.left_response == 1
        record_vote(draft, {"overall": "left" if left_is_1 != wrong else "right"})
    # The two selected are wrong, the four audited right: (0 + 4·8/4) / 10.
    accuracy = Analysis(project, run).before().accuracy
    assert accuracy.value == pytest.approx(0.8, abs=1e-12)
    # Of the four that nobody saw three may be wrong: 5 of 70 audits draw the five right ones then.
    # With four wrong, 1 of 70 does, which is less than .025.
    assert (accuracy.low, accuracy.high) == pytest.approx((0.5, 0.8))


def test_after_a_review_an_audited_label_speaks_for_the_labels_that_nobody_checked(project, run):
    person = make_annotator(project)
    settings = RoundSettings(beta=Decimal(20), votes=1, audit=4, seed=3)
    round_ = open_round(project, None, run, settings)
    wrong = {round_.items.filter(selection__kind="audit").earliest("audit_order").pk}
    while isinstance(draft := claim_next(round_, person), Draft):
        left_is_1 = draft.left_response == 1
        record_vote(
            draft, {"overall": "left" if left_is_1 != (draft.item_id in wrong) else "right"}
        )
    found = Analysis(project, run)
    # The two selected and the four audited have people's labels. One of the four found the judge
    # wrong, and so he is on 1 of the 4 that nobody saw: (2 + 4 + 4·3/4) / 10.
    assert found.after().accuracy.value == pytest.approx(0.9, abs=1e-12)
    # Of the four that nobody saw all may be wrong, since 5 of 70 audits find one wrong at most
    # then, or right. What people reviewed is no chance.
    assert (found.after().accuracy.low, found.after().accuracy.high) == pytest.approx((0.6, 1.0))
    shown = report_json(found)
    as_done = shown["methods"][-1]
    assert (as_done["done"], as_done["m"], as_done["audited"]) == (True, 2, 4)
    assert as_done["kappa"] == found.after().kappa.as_json()
    assert (as_done["accuracy"]["n"], as_done["kappa"]["n"]) == (6, 6)
    assert as_done["accuracy"] == shown["review"]["final_accuracy"]
    # Without the audited: (2 + 8·3/4) / 10. Line (a) is the same in both places that show it.
    assert shown["review"]["accuracy"]["value"] == pytest.approx(0.8, abs=1e-12)
    unchecked = shown["certificate"]["unchecked_accuracy"]
    assert unchecked == shown["review"]["unreviewed_accuracy"]
    assert (unchecked["value"], unchecked["n"]) == (pytest.approx(0.75), 4)
    assert (unchecked["low"], unchecked["high"]) == pytest.approx((3 / 8, 7 / 8))


def test_the_unreviewed_are_those_that_were_not_selected_whatever_ties_with_the_cut(project):
    """Of ten with one BPDE the first by rank was selected, and eight of the others are audited."""
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, 0.5, rank=1 + example.number)
    person = make_annotator(project)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(10), votes=1, audit=8))
    while isinstance(draft := claim_next(round_, person), Draft):
        wrong = draft.item.selection.kind == "top"
        left_is_1 = draft.left_response == 1
        record_vote(draft, {"overall": "left" if left_is_1 != wrong else "right"})
    lines = Analysis(project, run).lines()
    assert (lines.unreviewed.value, lines.unreviewed.n) == (1.0, 8)
    assert lines.accuracy.value == pytest.approx(1.0, abs=1e-12)


def test_a_cut_among_equal_ranks_may_have_seen_any_of_them():
    """One selected example, wrong, and eight audited, right, that stand for nine: all of one BPDE.
    A review of one sees .1 of an error: (9 - .9 + 1)/10, and .9 of those left are right."""
    weight, alike, rows = np.array([1.0] + [9 / 8] * 8), np.full(9, 0.5), np.arange(9)
    earned, stratum = (rows > 0).astype(float), (rows > 0).astype(np.intp)
    lines = Review(earned, alike, weight, stratum, rows, rows, 10).lines(1)
    assert (lines.accuracy.value, lines.unreviewed.value) == pytest.approx((0.91, 0.9))


def test_the_papers_way_of_counting_has_the_same_people_in_it(project, run):
    """Two rounds, of 6 examples by rank and 1 of them, with audits of 1 and 8."""
    run.price, run.spent_usd = {}, Decimal("1.00")
    run.save()
    person = make_annotator(project)
    for beta, audit in ((60, 1), (10, 8)):
        settings = RoundSettings(beta=Decimal(beta), votes=1, audit=audit, seed=3)
        round_ = open_round(project, None, run, settings)
        while isinstance(draft := claim_next(round_, person), Draft):
            record_vote(draft, {"overall": "tie"})
    costs = project_costs(project, run)
    assert costs.human_usd == costs.n_votes * Decimal("0.375") > 7 * Decimal("0.375")
    # The judge's dollar on the four that no round selected.
    assert costs.paper_usd == costs.human_usd + Decimal("0.4")


def test_drafts_of_lessons_are_part_of_the_projects_whole_cost(project, run):
    run.price, run.spent_usd = {}, Decimal("1.00")
    run.save()
    assert project_costs(project, run).drafts_usd is None
    answered = {"prompt_tokens": 100, "completion_tokens": 20}
    make_lesson(run, usd=Decimal("0.02"), **answered)
    make_lesson(run, usd=Decimal("0.03"), **answered)
    # Cut off: it may have been billed, and nobody knows what.
    make_lesson(run, reserved_usd=Decimal("0.50"), state="failed")
    costs = project_costs(project, run)
    assert (costs.judge_usd, costs.drafts_usd) == (Decimal("1.00"), Decimal("0.05"))
    assert costs.all_runs_usd == Decimal("1.05")
    facts = facts_of([project], {project.pk: Role.OWNER})[project.pk]
    assert facts.judge_usd == Decimal("1.05")
    # An answer whose price is unknown makes the whole unknown.
    make_lesson(run, **answered)
    assert project_costs(project, run).all_runs_usd is None
    assert facts_of([project], {project.pk: Role.OWNER})[project.pk].judge_usd is None


def test_an_audit_that_was_not_finished_gives_no_accuracy(project, run):
    """What came to a label are the easy ones; the missing are wrong for the certificate alone."""
    person = make_annotator(project)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(0), votes=1, audit=6))
    for _ in range(2):
        record_vote(claim_next(round_, person), {"overall": "tie"})
    changes.close(round_, None)
    assert Analysis(project, run).unchecked.reason == "4 of 6 audited examples got no label"


def test_what_one_round_selected_stays_selected_where_the_audit_of_another_draws_it(project, run):
    person = make_annotator(project)
    first = RoundSettings(beta=Decimal(60), votes=1, audit=2, seed=3)
    second = RoundSettings(beta=Decimal(10), votes=1, audit=8, seed=4)
    for settings in (first, second):
        round_ = open_round(project, None, run, settings)
        while isinstance(draft := claim_next(round_, person), Draft):
            record_vote(draft, {"overall": "tie"})
    by_rank = {f"e{number}" for number in range(4, 10)}
    drawn = set(round_.items.filter(selection__kind="audit").values_list("example__external_id"))
    assert by_rank & {name for (name,) in drawn}
    sheet = Analysis(project, run).sheet
    assert sheet.selected.tolist() == [number >= 4 for number in range(10)]
    for row in label_rows(project, run, names=False):
        if row["external_id"] in by_rank:
            assert (row["selection"], row["probability"]) == ("top", 1.0)


def test_without_people_every_figure_about_them_has_a_reason(project, run):
    analysis = Analysis(project, run)
    text = "\n".join(report_lines(analysis))
    assert "no human labels" in text
    assert "nan" not in text


def test_a_figure_reads_as_in_a_paper():
    assert figure(Estimate(0.5, 80, 0.39, 0.61)) == ".500 [.39–.61], n = 80"
    assert figure(Estimate(0.5, 1200)) == ".500, n = 1\u202f200"
    assert figure(Undefined("no votes")) == "– (no votes)"
