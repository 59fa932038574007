"""How many labels a study needs: from what is expected, and from what a run has measured."""

import json
from dataclasses import replace
from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from annotation.results.planner.sizes import GOALS, Study, needs, pilot_of
from annotation.results.report.report import report
from annotation.results.sections.analysis import Analysis
from annotation.votes.imports import import_votes
from judging.core.errors import UserError
from judging.methods.review.cost import HumanRate
from judging.methods.sample_sizes import size_for_accuracy
from judging.projects.access import project_for
from judging.projects.models import Role
from judging.projects.tokens import issue_token
from tests.factories import make_examples, make_run, make_verdict

N = 60


@pytest.fixture
def pilot(project, tmp_path):
    """The judge says win to all of sixty; people say win to 45, tie to 6 and lose to 9."""
    run = make_run(project)
    for example in make_examples(project, N):
        make_verdict(run, example, example.number / N, rank=N - example.number)
    labels = ["win"] * 45 + ["tie"] * 6 + ["lose"] * 9
    path = tmp_path / "votes.csv"
    rows = (f"e{n},kim,{label}\n" for n, label in enumerate(labels))
    path.write_text("external_id,annotator,label\n" + "".join(rows))
    import_votes(project, None, path)
    project.primary_run = run
    project.save()
    return run


def test_each_goal_has_its_labels_votes_hours_and_dollars():
    study = Study(votes=2, rate=HumanRate(Decimal(6), Decimal(10)), examples=2_000)
    found = {need.goal: need for need in needs(study)}
    assert tuple(found) == GOALS
    right = found["accuracy"]
    assert right.labels == size_for_accuracy(0.8, 0.05).n == 243
    assert (right.votes, right.hours, right.usd) == (486, Decimal("48.6"), Decimal(486))
    assert right.cautious is None
    assert needs(replace(study, examples=None))[1].reason.startswith("enter how many examples")
    small = needs(replace(study, examples=100))
    assert "there are 100" in small[2].reason
    assert small[2].usd is None


@pytest.mark.parametrize(
    ("changes", "named"),
    [({"power": 0.2}, "power"), ({"within": 0}, "within"), ({"votes": 0}, "votes"),
     ({"examples": 0}, "examples"), ({"win_rate": float("nan")}, "win_rate")],
)  # fmt: skip
def test_a_value_out_of_its_limits_is_named(changes, named):
    with pytest.raises(UserError, match=named):
        needs(Study(**changes))


def test_a_pilot_fills_in_what_it_measured_and_how_wrong_that_may_be(pilot):
    found = pilot_of(report(Analysis(pilot.project, pilot)), Study())
    assert found.study.accuracy == 0.75
    assert found.study.wrong == 0.25
    assert found.study.ties == 0.1
    assert found.study.examples is None
    assert 0.5 < found.worse.accuracy < 0.75
    assert found.worse.wrong > 0.25
    # The judge always says the same, which agrees no better than chance does.
    assert found.study.kappa == 0
    assert set(found.measured) == {"win_rate", "ties", "accuracy", "kappa", "wrong"}
    rows = needs(found.study, found)
    assert rows[2].cautious > rows[2].labels


def test_the_page_computes_what_is_entered_and_marks_what_cannot_be(client, outsider):
    client.force_login(outsider)
    page = client.get("/sizes")
    assert "people label about 176 pairs with 3 votes each, for $198.00" in page.content.decode()
    changed = client.get("/sizes", {"win_rate": "75"}).content.decode()
    assert "people label about 28 pairs" in changed
    wrong = client.get("/sizes", {"power": "10", "votes": "many", "ties": ""})
    assert wrong.status_code == 422
    assert "Enter a whole number." in wrong.content.decode()
    assert "Correct the values that are marked" in wrong.content.decode()


def test_the_page_of_a_project_starts_from_its_run_and_unblinds(client, owner, pilot):
    client.force_login(owner)
    page = " ".join(client.get("/p/vicuna/sizes").content.decode().split())
    assert 'name="accuracy" value="75"' in page
    assert "To be on the safe side" in page
    assert pilot.name in page
    assert project_for(owner, "vicuna", Role.OWNER).has_seen_judge
    other = client.get("/p/vicuna/sizes", {"examples": "90"}).content.decode()
    assert "To be on the safe side" not in other


def test_a_project_without_a_judge_has_common_values(client, owner):
    client.force_login(owner)
    assert "no figures of a judge yet" in client.get("/p/vicuna/sizes").content.decode()


def test_the_command_prints_what_the_api_answers(client, owner, pilot, capsys):
    call_command("sizes", project="vicuna", json=True)
    printed = json.loads(capsys.readouterr().out)
    _, text = issue_token(owner, "t", ["read"])
    asked = client.get("/api/v1/projects/vicuna/sizes", HTTP_AUTHORIZATION=f"Bearer {text}")
    assert asked.status_code == 200
    assert asked.json()["goals"][0]["labels"] == printed["goals"][0]["labels"]
    assert asked.json()["measured"] == printed["measured"]
    assert printed["study"]["accuracy"] == 0.75
    call_command("sizes", "--win-rate", "0.75", "--ties", "0.1")
    assert "people label about 28 pairs" in capsys.readouterr().out
    free = client.get("/api/v1/sizes?win_rate=0.75", HTTP_AUTHORIZATION=f"Bearer {text}").json()
    assert free["goals"][0]["labels"] == 28
    assert free["measured"] == []


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [(["--win-rate", "2"], "win_rate: Enter a share"), (["--run", "1"], "--run needs --project"),
     (["--wage", "0"], "more than 0"), (["--project", "none"], "no project")],
)  # fmt: skip
def test_the_command_refuses_in_a_sentence(arguments, sentence):
    with pytest.raises(CommandError, match=sentence):
        call_command("sizes", *arguments)
