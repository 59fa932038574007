"""Why a label of people is lacking: what still waits, what lapsed, and what only the judge says."""

from decimal import Decimal

import pytest

from annotation.models import Draft
from annotation.queue.queue import claim_next
from annotation.results.sections.analysis import Analysis
from annotation.rounds import changes
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from annotation.votes.voting import record_vote
from judging.dataset.models import Example
from judging.projects.models import Project
from tests.factories import make_annotator, make_examples, make_run, make_verdict


@pytest.fixture
def run(project):
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, example.number / 10, rank=10 - example.number)
    return run


def test_a_round_that_was_closed_early_does_not_wait(project, run):
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=1, audit=4))
    person = make_annotator(project)
    record_vote(claim_next(round_, person), {"overall": "tie"})
    assert reason(run) == "5 of 6 items still wait for a label"
    changes.close(round_, None)
    assert reason(run) == "5 of 6 items have no vote, and the round is closed"


def test_the_judges_label_by_policy_measures_no_judge(project, run):
    Project.objects.filter(pk=project.pk).update(no_majority=Project.NoMajority.JUDGE)
    project.refresh_from_db()
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(20), votes=2))
    for overall in ("left", "tie"):
        person = make_annotator(project)
        while isinstance(draft := claim_next(round_, person), Draft):
            record_vote(draft, {"overall": overall})
    assert reason(run) == (
        "2 of 2 items without a majority keep the judge's label by policy, which can't measure the "
        "judge"
    )
    assert Analysis(project, run).lines().reason == reason(run)


def test_votes_on_some_examples_are_not_called_none(project, run, tmp_path):
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\ne0,kim,win\ne1,kim,win\n")
    import_votes(project, None, path)
    assert reason(run).startswith("only 2 of 10 examples have a human label")


def test_examples_that_all_have_a_label_of_some_kind_are_not_called_only_some(
    project, run, tmp_path
):
    path = tmp_path / "votes.csv"
    path.write_text("external_id,annotator,label\ne0,kim,win\ne1,kim,win\n")
    import_votes(project, None, path)
    Example.objects.exclude(external_id__in=["e0", "e1"]).update(gold_label="win")
    assert reason(run).startswith("some examples have votes, and the others have an imported label")


def reason(run):
    return Analysis(run.project, run).sheet.known.reason
