"""The recommendation: a β with its price, or the honest sentence why there is none."""

from decimal import Decimal

import pytest

from annotation.results.pages.plan import CHANCE, CHOSEN, CURVE, cost_curve
from annotation.results.planner.planning import advice, plan
from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.review import Unforeseen
from annotation.rounds.opening import RoundSettings
from annotation.votes.imports import import_votes
from judging.methods.review.cost import HumanRate
from tests.factories import make_examples, make_run, make_verdict

N = 80
SETTINGS = RoundSettings(beta=Decimal(10), votes=2, rate=HumanRate(Decimal(6), Decimal(10)))


@pytest.fixture
def judged(project):
    """Eighty judged a win, BPDE falling from 1."""
    run = make_run(project)
    for example in make_examples(project, N):
        make_verdict(run, example, (N - example.number) / N, rank=example.number + 1)
    return run


def with_votes(run, tmp_path, wrong):
    rows = "".join(
        f"e{n},{name},{'lose' if wrong(n) else 'win'}\n"
        for n in range(N)
        for name in ("kim", "lou")
    )
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\n" + rows)
    import_votes(run.project, None, path)


def advised(run, **asked):
    planned = plan(run.project, run, SETTINGS)
    given = {"target": None, "epsilon": 0.1, "budget": None} | asked
    return advice(report(Analysis(run.project, run)), planned, **given)


def test_without_labels_it_says_what_an_audit_would_need(judged):
    found = advised(judged)
    assert found.beta is None
    # ln .05 / ln .9 = 28.4
    assert "an audit of at least 29" in found.sentence
    assert "no human labels" in found.sentence


def test_no_audit_is_recommended_that_takes_more_examples_than_there_are(project):
    run = make_run(project)
    for example in make_examples(project, 11):
        make_verdict(run, example, example.number / 11, rank=11 - example.number)
    found = advised(run)
    assert "An audit of 29 is needed to certify" in found.sentence
    assert "only 10 would be unreviewed. Have people label everything" in found.sentence


def test_where_errors_do_not_come_first_no_rank_is_recommended(judged, tmp_path):
    # Right by rank, then wrong now and then: less than random at first, a little more near the end.
    with_votes(judged, tmp_path, lambda n: n in (15, 40, 45, 70, 72))
    found = advised(judged)
    assert found.beta is None
    assert found.warns
    assert found.sentence.startswith(
        "No β is recommended: on these labels, the highest-ranked examples hold"
    )


def test_where_nothing_is_judged_an_audit_is_no_advice(project):
    make_examples(project, 3)
    everything = RoundSettings(everything=True, votes=2, rate=SETTINGS.rate)
    found = advice(None, plan(project, None, everything), None, 0.1, None)
    assert "audit" not in found.sentence
    assert "Wait for a run to finish, start one" in found.sentence
    assert "3 examples" in found.rests_on


def test_it_recommends_up_to_where_the_ranking_beats_chance(judged, tmp_path):
    with_votes(judged, tmp_path, lambda n: n < 16)
    found = advised(judged)
    # All 16 errors are the first by rank: 20 % of 80. Their votes are there, so they cost nothing.
    assert found.beta == 20
    assert "$0 human cost" in found.sentence
    assert "80 known labels" in found.rests_on


def test_a_target_is_met_by_the_lower_band_alone(judged, tmp_path):
    with_votes(judged, tmp_path, lambda n: n < 16)
    easy, hard = advised(judged, target=Decimal(80)), advised(judged, target=Decimal("99.9"))
    assert 5 <= easy.beta <= 20
    assert hard.beta is None
    assert hard.warns
    assert "No β is sure to reach 99.9 %" in hard.sentence


def test_a_useless_ranking_is_called_that(judged, tmp_path):
    with_votes(judged, tmp_path, lambda n: n >= 60)
    found = advised(judged)
    assert found.warns
    assert "no better than chance" in found.sentence


def test_a_budget_is_told_what_it_buys(judged, tmp_path):
    with_votes(judged, tmp_path, lambda n: n < 16)
    found = advised(judged, budget=Decimal(16))
    assert found.beta == 10
    assert "$16.00 pays for β = 10.0 %" in found.sentence


def test_the_chosen_point_stands_on_the_curve(judged, tmp_path):
    with_votes(judged, tmp_path, lambda n: n < 16)
    known = report(Analysis(judged.project, judged)).expected
    rows = cost_curve(known, plan(judged.project, judged, SETTINGS)).table
    by = {line: [row for row in rows if row["line"] == line] for line in (CURVE, CHANCE, CHOSEN)}
    here = next(row for row in by[CURVE] if row["beta"] == 10)
    assert by[CHOSEN] == [here | {"line": CHOSEN}]
    # 8 of 80 reviewed are right now: 64 + 8; at random 64 + 8 · 16/80.
    assert here["value"] == pytest.approx(72 / 80)
    at_random = next(row for row in by[CHANCE] if row["beta"] == 10)
    assert at_random["value"] == pytest.approx((64 + 1.6) / 80)
    assert cost_curve(Unforeseen((), ""), plan(judged.project, judged, SETTINGS)).table == []
