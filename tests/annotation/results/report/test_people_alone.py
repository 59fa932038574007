"""A project with votes and no run: agreement, labels and exports by people alone need no judge."""

import csv
import json

import pytest
from django.core.management import CommandError, call_command

from annotation.queue.queue import claim_next
from annotation.results.report.report import people_alone, report
from annotation.results.sections.analysis import Analysis
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from annotation.votes.voting import record_vote
from judging.projects.models import Membership
from tests.factories import make_annotator, make_examples, make_run, make_verdict

pytestmark = pytest.mark.django_db


@pytest.fixture
def voted(project, tmp_path):
    """Twelve examples; two people agree on the first, and disagree on the second."""
    examples = make_examples(project, 12)
    first, second = (example.external_id for example in examples[:2])
    path = tmp_path / "votes.csv"
    rows = f"{first},ann,win\n{first},bob,win\n{second},ann,win\n{second},bob,lose\n"
    path.write_text(f"external_id,annotator,label\n{rows}")
    import_votes(project, None, path)
    return project


def test_figures_of_people_alone(voted):
    found = people_alone(voted)
    assert (found.examples, found.voted, found.undecided) == (12, 2, 1)
    assert found.labels == {"win": 1, "tie": 0, "lose": 0}
    assert found.sources == {"majority": 1}
    assert (found.people.agreement.value, found.people.agreement.n) == (0.5, 2)
    assert found.people.on == "the 2 of 12 examples that have votes"
    assert [one.n for one in found.people.annotators] == [2, 2]


def test_without_votes_there_is_nothing_to_report(project):
    make_examples(project, 3)
    assert people_alone(project) is None
    with pytest.raises(CommandError, match="no finished run and no votes that count"):
        call_command("report", project.slug)


def test_the_command_reports_on_people_alone(voted, capsys, tmp_path):
    call_command("report", voted.slug)
    out = capsys.readouterr().out
    assert "pairs of votes that agree" in out
    assert "0.5" in out or ".500" in out
    call_command("report", voted.slug, json=True)
    assert json.loads(capsys.readouterr().out)["people"]["agreement"]["n"] == 2
    call_command("report", voted.slug, output=tmp_path / "people.json")
    assert json.loads((tmp_path / "people.json").read_text())["run"] is None
    with pytest.raises(CommandError, match=r"written as \.json"):
        call_command("report", voted.slug, output=tmp_path / "people.zip")


@pytest.mark.parametrize("running", [True, False])
def test_the_page_shows_people_alone_and_unblinds_nobody(client, owner, voted, running):
    if running:
        make_run(voted, ranked_at=None)
    client.force_login(owner)
    verdict = client.get(f"/p/{voted.slug}/results", follow=True).text
    assert "2 of 12" in verdict
    assert " by people, maple-7b wins" in verdict
    overview = client.get(f"/p/{voted.slug}/figures").text
    assert " by people, maple-7b wins" in overview
    page = client.get(f"/p/{voted.slug}/results/people").text
    assert "Two people who label the same pair agree on" in page
    assert "the 2 of 12 examples that have votes" in page
    for shown in (verdict, page):
        assert "No run yet" not in shown
        assert "report.html" not in shown
    assert Membership.objects.get(user=owner).unblinded_at is None


def test_majority_labels_are_exported_without_a_judge(voted, tmp_path):
    call_command("export", voted.slug, output=tmp_path / "labels.csv")
    rows = list(csv.DictReader((tmp_path / "labels.csv").read_text().splitlines()))
    assert [row["final_label"] for row in rows[:3]] == ["win", "", ""]
    assert (rows[0]["source"], rows[0]["judge_label"]) == ("majority", "")
    call_command("export", voted.slug, what="preferences", output=tmp_path / "p.jsonl")
    assert len((tmp_path / "p.jsonl").read_text().splitlines()) == 1


def test_votes_of_a_round_without_a_judge_are_reported_and_paid(project):
    make_examples(project, 2)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1, seed=1))
    record_vote(claim_next(round_, make_annotator(project, "ana")), {"overall": "left"})
    found = people_alone(project)
    assert (found.voted, found.cost.n_votes) == (1, 1)
    assert found.cost.human_usd > 0


def test_a_run_that_asked_nobody_shows_how_people_agree_elsewhere(voted):
    run = make_run(voted)
    for example in voted.examples.all():
        make_verdict(run, example, 0.5)
    figures = report(Analysis(voted, run))
    assert figures.people.agreement.value == 0.5
    assert figures.people.on == "the 2 of 12 examples that have votes from elsewhere"
    # These examples were not drawn at random, so that the judge is not compared with them.
    assert figures.coverage.known.reason
