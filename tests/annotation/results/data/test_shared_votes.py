"""A vote that counts in several rounds is paid once, where it was cast."""

from decimal import Decimal

import pytest
from django.urls import reverse

from annotation.models import Vote
from annotation.queue.queue import claim_next
from annotation.results.data.runs import project_costs, run_totals, totals_of
from annotation.results.merge.final_labels import human_labels_for_run, merged
from annotation.results.report.report import people_alone, report
from annotation.results.sections.analysis import Analysis
from annotation.rounds.opening import RoundSettings, open_round
from annotation.rounds.progress import round_progress
from annotation.votes.imports import import_votes
from annotation.votes.voting import record_vote
from judging.projects.models import Project
from tests.factories import make_annotator, make_examples, make_run, make_verdict

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

# FairEval's 3 minutes at 7.50 USD an hour; and 36 seconds of it.
ASSUMED, MEASURED = Decimal("0.375"), Decimal("0.075")


def make_judged(project, examples, name):
    run = make_run(project, name=name)
    for rank, example in enumerate(examples, 1):
        make_verdict(run, example, 0.5, rank=rank)
    return run


def open_on(project, run, votes):
    return open_round(project, None, run, RoundSettings(everything=True, votes=votes, seed=1))


def cast(round_, person, n):
    for _ in range(n):
        record_vote(claim_next(round_, person), {"overall": "left"})
    Vote.objects.update(active_seconds=36)


@pytest.fixture
def shared(project):
    """Ana's two votes of round 1 count in round 2, where Ben casts one vote; a run each."""
    examples = make_examples(project, 2)
    runs = [make_judged(project, examples, name) for name in ("one", "two")]
    first = open_on(project, runs[0], 1)
    cast(first, make_annotator(project, "ana"), 2)
    second = open_on(project, runs[1], 2)
    cast(second, make_annotator(project, "ben"), 1)
    return runs, [first, second]


def test_the_costs_of_two_runs_add_up_to_what_was_paid(project, shared):
    runs, _ = shared
    costs = [project_costs(project, run) for run in runs]
    assert [(one.n_votes, one.human_usd) for one in costs] == [(2, 2 * ASSUMED), (1, ASSUMED)]
    for run, cost in zip(runs, costs, strict=True):
        rows = [one.human_usd for one in merged(project, run)]
        assert sum(rows) == cost.human_usd
        assert report(Analysis(project, run)).cost.human_usd == cost.human_usd


def test_a_round_shows_which_votes_another_round_paid(client, owner, project, shared):
    _, (first, second) = shared
    found = round_progress(second)
    assert (found.votes_given, found.votes_asked, found.given_elsewhere) == (3, 4, ((1, 2),))
    assert (found.cost, found.seconds) == (ASSUMED, 36)
    people = {one.annotator.name: one for one in found.people}
    assert (people["ana"].n_votes, people["ana"].cost, people["ana"].seconds) == (2, 0, None)
    assert (people["ben"].n_votes, people["ben"].cost) == (1, ASSUMED)
    assert round_progress(first).given_elsewhere == ()
    assert round_progress(first).cost == 2 * ASSUMED
    client.force_login(owner)
    page = client.get(reverse("round", args=[project.slug, second.number])).text
    assert "Of these, 2 were given in round 1" in page


def test_measured_time_is_paid_once(project):
    Project.objects.filter(pk=project.pk).update(cost_basis=Project.CostBasis.MEASURED)
    project.refresh_from_db()
    examples = make_examples(project, 2)
    runs = [make_judged(project, examples, name) for name in ("one", "two")]
    cast(open_on(project, runs[0], 1), make_annotator(project, "ana"), 2)
    second = open_on(project, runs[1], 2)
    assert [run_totals(project, run).usd for run in runs] == [2 * MEASURED, 0]
    assert round_progress(second).cost == 0


def test_two_rounds_of_one_run_cost_what_both_cast(project):
    """The label is that of the newer round, and the votes of the older one were paid too."""
    run = make_judged(project, make_examples(project, 1), "one")
    ana, ben = make_annotator(project, "ana"), make_annotator(project, "ben")
    cast(open_on(project, run, 1), ana, 1)
    Project.objects.filter(pk=project.pk).update(question_asked="Which is safer?")
    project.refresh_from_db()
    cast(open_on(project, run, 1), ben, 1)
    totals = run_totals(project, run)
    assert (totals.n_votes, totals.usd, totals.selected) == (2, 2 * ASSUMED, 1)
    assert totals == totals_of(human_labels_for_run(run).values())


def test_votes_from_elsewhere_are_never_paid(project, tmp_path):
    (example,) = make_examples(project, 1)
    path = tmp_path / "votes.csv"
    path.write_text(f"external_id,annotator,label\n{example.external_id},ann,win\n")
    import_votes(project, None, path)
    round_ = open_on(project, None, 2)
    found = round_progress(round_)
    assert (found.votes_given, found.given_elsewhere) == (1, ((1, 1),))
    assert round_progress(round_).cost == 0
    assert people_alone(project).cost.human_usd == 0
