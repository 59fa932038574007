"""The planner's page: what it says, what opens from it, and when it unblinds."""

import pytest
from django.utils import timezone

from annotation.models import Round
from annotation.results.report import cache
from annotation.votes.imports import import_votes
from judging.core.models import Worker
from judging.projects.models import Membership
from tests.factories import make_examples, make_run, make_verdict


def test_a_plan_waits_for_figures_that_a_worker_computes(client, owner, judged, monkeypatch):
    monkeypatch.setattr(cache, "MOST_AT_ONCE", 9)
    monkeypatch.setattr("judging.core.waking.wake", lambda *asked: True)
    now = timezone.now()
    Worker.objects.create(name="w", queues="quick", started_at=now, seen_at=now)
    client.force_login(owner)
    page = client.get("/p/vicuna/plan").content.decode()
    assert "The figures of this run are being computed." in page
    assert "before a judge has labelled" not in page
    assert 'hx-trigger="load delay:3s"' in page


def test_opening_a_round_from_the_plan(client, owner, judged):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "2", "audit": "1"}
    preview = client.get("/p/vicuna/plan/preview", sent).content.decode()
    assert "3 of 10" in preview
    assert client.post("/p/vicuna/plan", sent).status_code == 302
    opened = Round.objects.get()
    assert (opened.votes_per_item, opened.wage_usd) == (2, judged.project.wage_usd)
    refused = client.post("/p/vicuna/plan", sent | {"beta": "1", "audit": "0"})
    assert refused.status_code == 422
    assert "selects no example" in refused.content.decode()


def test_the_plan_says_of_k_what_is_known(client, owner, judged):
    client.force_login(owner)
    sent = {
        "run": judged.pk,
        "how": "beta",
        "beta": "20",
        "votes": "1",
        "audit": "0",
        "k": judged.k,
    }
    preview = " ".join(client.get("/p/vicuna/plan/preview", sent).content.decode().split())
    beside = (
        f"With k = {judged.k}, the judge has an unknown cost. The judge's accuracy isn't known yet"
    )
    assert beside in preview


def test_the_plan_leads_to_the_invitations_where_too_few_can_vote(
    client, owner, researcher, judged
):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "3", "audit": "0"}
    preview = " ".join(client.get("/p/vicuna/plan/preview", sent).content.decode().split())
    said = (
        "Only 2 people can vote.</strong> 3 votes per example need 3 people. Owners and researchers"
    )
    assert said in preview
    assert 'href="/p/vicuna/people"' in preview
    client.force_login(researcher)
    preview = client.get("/p/vicuna/plan/preview", sent).content.decode()
    assert "Ask an owner to invite more" in preview
    sent["votes"] = "2"
    assert "can vote" not in client.get("/p/vicuna/plan/preview", sent).content.decode()


def test_looks_are_chosen_with_the_plan(client, owner, judged):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "4"}
    preview = client.get("/p/vicuna/plan/preview", sent | {"looks": "2, 4"}).content.decode()
    assert "over all checks together" in preview
    for looks in ("4, 2", "two", "2, 5", "0, 2"):
        refused = client.post("/p/vicuna/plan", sent | {"looks": looks})
        assert refused.status_code == 422
        assert not Round.objects.exists()
    assert client.post("/p/vicuna/plan", sent | {"looks": "2, 4"}).status_code == 302
    assert Round.objects.get().certificate_plan["looks"] == [2, 4]


@pytest.mark.parametrize(
    ("n", "more", "shown"),
    [(40, {}, "What to expect"), (10, {"k": "3"}, "Its accuracy is")],
)
def test_the_planner_unblinds_once_it_says_how_often_the_judge_is_right(
    client, owner, project, tmp_path, n, more, shown
):
    """Before a label is known it shows counts, costs and the cut alone."""
    run = make_run(project)
    for example in make_examples(project, n):
        make_verdict(run, example, example.number / n, rank=n - example.number)
    client.force_login(owner)
    member = Membership.objects.filter(user=owner)
    sent = {"run": run.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "0"} | more
    for address in ("plan", "plan/preview"):
        assert client.get(f"/p/vicuna/{address}", sent).status_code == 200
    assert member.get().unblinded_at is None
    path = tmp_path / "votes.csv"
    votes = "".join(f"e{number},kim,win\n" for number in range(n))
    path.write_text("external_id,annotator,label\n" + votes)
    import_votes(project, None, path)
    assert shown in client.get("/p/vicuna/plan/preview", sent).content.decode()
    assert member.get().unblinded_at is not None
