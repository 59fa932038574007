"""Before the first judge output, whoever may vote is told what it means, and asked once."""

import pytest
from django.test import Client

from judging.projects.models import Membership
from judging.runs.models import Run
from tests.factories import make_examples, make_run, make_user, make_verdict

pytestmark = pytest.mark.django_db
ASKS = "every vote that you cast here from then on is marked as unblinded"


@pytest.fixture
def run(project):
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.5, rank=example.number + 1)
    return run


@pytest.fixture(params=["owner", "researcher"])
def user(request):
    return request.getfixturevalue(request.param)


@pytest.fixture
def blind(run, user):
    """A client of somebody who may vote and has seen nothing of the judge."""
    client = Client()
    client.force_login(user)
    return client


def seen(user):
    return Membership.objects.get(user=user).unblinded_at is not None


@pytest.mark.parametrize(
    "address",
    ["runs/1", "results/verdict", "results/models?run=1", "examples?run=1", "runs/1?beta=30"],
)
def test_each_page_of_the_judge_asks_once_and_then_opens(blind, user, address):
    page = blind.get(f"/p/vicuna/{address}")
    assert page.status_code == 200
    assert ASKS in page.text
    assert f'name="next" value="/p/vicuna/{address}"' in page.text
    assert not seen(user)
    answer = blind.post("/p/vicuna/look", {"next": f"/p/vicuna/{address}"})
    assert answer["Location"] == f"/p/vicuna/{address}"
    assert seen(user)
    assert ASKS not in blind.get(f"/p/vicuna/{address}").text


@pytest.mark.parametrize("address", ["", "rounds/", "runs/", "plan", "examples"])
def test_pages_without_judge_output_ask_nothing(blind, user, address):
    assert ASKS not in blind.get(f"/p/vicuna/{address}").text
    assert not seen(user)


def test_a_download_is_not_made_before_the_answer(blind, user):
    page = blind.post("/p/vicuna/export", {"what": "labels"}, headers={
        "referer": "http://testserver/p/vicuna/results"})  # fmt: skip
    assert ASKS in page.text
    assert 'name="next" value="/p/vicuna/results"' in page.text
    assert not seen(user)


def test_a_fragment_is_asked_for_in_its_place(blind):
    page = blind.get("/p/vicuna/runs/1/progress", headers={"hx-request": "true"})
    assert ASKS in page.text
    assert "<html" not in page.text


def test_somebody_blind_can_stop_a_run(blind, user):
    Run.objects.update(state=Run.State.RUNNING)
    assert blind.post("/p/vicuna/runs/1/pause").status_code == 302
    assert Run.objects.get().state in (Run.State.PAUSING, Run.State.PAUSED)
    assert not seen(user)


def test_the_answer_leads_to_no_other_site(blind):
    answer = blind.post("/p/vicuna/look", {"next": "https://evil.example/p/vicuna/"})
    assert answer["Location"] == "/p/vicuna/"
    for address in ("//evil.example/", "http://testserver//evil.example/"):
        assert "evil.example" not in blind.get("/p/vicuna/look", {"next": address}).text


@pytest.mark.parametrize("left_out", [True, False])
def test_it_says_whether_unblinded_votes_count(blind, project, left_out):
    project.leave_out_unblinded = left_out
    project.save()
    page = blind.get("/p/vicuna/runs/1").text
    assert ("leaves unblinded votes out" in page) == left_out
    assert ("Unblinded votes count" in page) != left_out


def test_annotators_and_strangers_are_not_asked(run, annotator, outsider):
    for user, status in ((annotator, 403), (outsider, 404)):
        client = Client()
        client.force_login(user)
        for method in (client.get, client.post):
            assert method("/p/vicuna/look").status_code == status


def test_an_operator_without_a_membership_is_asked_by_the_judges_pages_alone(run, project):
    project.primary_run = run
    project.save()
    client = Client()
    client.force_login(make_user("sue", is_superuser=True))
    assert ASKS not in client.get("/p/vicuna/examples").text
    assert ASKS in client.get("/p/vicuna/examples?run=1").text
    client.post("/p/vicuna/look")
    assert ASKS not in client.get("/p/vicuna/examples?run=1").text
