"""What the planner promises: the lower band, what it rests on, and what an audit can certify."""

from decimal import Decimal

import pytest

from annotation.results.planner.planning import beta_for, expected_at, may_certify
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.review import expectation
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from judging.projects.models import Project
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote


@pytest.fixture
def known(project, tmp_path):
    """Forty judged a win; the ten with the largest BPDE are a lose. Two people always agree."""
    run = make_run(project)
    for example in make_examples(project, 40):
        make_verdict(run, example, (40 - example.number) / 40, rank=example.number + 1)
    rows = "".join(
        f"e{n},{name},{'lose' if n < 10 else 'win'}\n" for n in range(40) for name in ("kim", "lou")
    )
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\n" + rows)
    import_votes(project, None, path)
    analysis = Analysis(project, run)
    return expectation(analysis.sheet, analysis.review, analysis.rng)


def test_the_lower_band_is_promised_and_not_the_curve(known):
    found = expected_at(known, 25, 40, Decimal(30))
    assert found.accuracy == pytest.approx(1.0)
    assert found.at_least < 1.0
    assert found.reviewer == 1.0
    assert found.rests_on == 40
    # 30 of 40 were right; all ten errors are among the ten first.
    assert found.corrected == pytest.approx(10)
    assert found.usd_each == pytest.approx(Decimal(3))


def test_between_two_betas_the_lower_one_holds(known):
    low, high = (expected_at(known, beta, 40, Decimal(1)).at_least for beta in (20, 25))
    between = expected_at(known, 22.5, 40, Decimal(1))
    assert between.at_least == min(low, high)


def test_the_beta_for_a_target_is_the_first_whose_band_reaches_it(known):
    beta = beta_for(known, 0.8)
    at = known.beta.index(beta)
    assert known.lower_band[at] >= 0.8 > known.lower_band[at - 1]
    assert beta_for(known, 0.9999) is None or known.lower_band[-1] >= 0.9999


def test_what_an_audit_can_certify_is_the_published_table():
    # 5 %: 59 labels with none wrong, 93 with one, 124 with two. 10 %: 46 with one. 20 %: 50 with 5.
    found = may_certify([50])[0].wrong
    assert (found[1:], "59" in found[0].reason) == ((1, 5), True)
    assert [may_certify([n])[0].wrong[0] for n in (59, 92, 93, 124)] == [0, 0, 1, 2]


def test_looks_share_the_error_among_them():
    """Two looks at 97.5 %: at 10 %, ln .025 / ln .9 = 35.01, so that 36 are needed at least."""
    first, last = may_certify([35, 61], [0.1])
    assert "36" in first.wrong[0].reason
    assert last.wrong[0] < may_certify([61], [0.1])[0].wrong[0]


def test_a_reviewer_is_as_right_as_on_all_examples(project):
    """Two voters always differ on the selected fifth, and agree on an audit that stands for the
    rest: right four times in five, though they agree on half of what they saw."""
    Project.objects.filter(pk=project.pk).update(no_majority=Project.NoMajority.TIE)
    project.refresh_from_db()
    run = make_run(project)
    for example in make_examples(project, 100):
        make_verdict(run, example, (100 - example.number) / 100, rank=example.number + 1)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=2, audit=20))
    for place in range(2):
        person = make_annotator(project)
        for item in round_.items.select_related("selection", "round", "example"):
            differs = item.selection.kind == "top" and place
            make_vote(item, person, "lose" if differs else "win")
    analysis = Analysis(project, run)
    found = expectation(analysis.sheet, analysis.review, analysis.rng)
    # With one other vote its label is the majority: 0 where they differ.
    assert found.reviewer == pytest.approx(0.8)
