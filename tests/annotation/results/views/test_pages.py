"""The pages of a project: who sees them, what they say, and how many queries they take."""

import re
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from annotation.models import Round
from annotation.queue import claim_next
from annotation.results import report_cache
from annotation.results.verification import verify
from annotation.rounds import RoundSettings, open_round
from annotation.vote_imports import import_votes
from annotation.voting import record_vote
from judging.models import Membership, Project, Role, Worker
from tests.factories import make_annotator, make_examples, make_run, make_user, make_verdict

PAGES = ["/p/vicuna/", "/p/vicuna/plan", "/p/vicuna/plan/preview", "/p/vicuna/results"]


@pytest.fixture
def judged(project):
    run = make_run(project)
    for example in make_examples(project, 10):
        make_verdict(run, example, example.number / 10)
    return run


@pytest.mark.parametrize("url", PAGES)
def test_strangers_get_404_and_researchers_the_page(client, owner, outsider, judged, url):
    client.force_login(outsider)
    assert client.get(url).status_code == 404
    client.force_login(owner)
    assert client.get(url).status_code == 200


def test_an_annotator_is_led_to_their_work(client, annotator, judged):
    client.force_login(annotator)
    assert client.get("/p/vicuna/").url == "/annotate/"
    assert client.get("/p/vicuna/plan").status_code == 403
    assert b"vicuna" not in client.get("/").content


def test_a_plan_waits_for_figures_that_a_worker_computes(client, owner, judged, monkeypatch):
    monkeypatch.setattr(report_cache, "MOST_AT_ONCE", 9)
    monkeypatch.setattr(report_cache.current_app, "send_task", lambda *asked: None)
    now = timezone.now()
    Worker.objects.create(name="w", queues="quick", started_at=now, seen_at=now)
    client.force_login(owner)
    page = client.get("/p/vicuna/plan").content.decode()
    assert "The figures of this run are being computed." in page
    assert "before a judge has labelled" not in page
    assert 'hx-trigger="load delay:3s"' in page


def test_a_run_over_single_responses_leads_to_its_own_page(client, owner, project):
    make_run(project, form="pointwise", ranked_at=None)
    client.force_login(owner)
    page = client.get("/p/vicuna/results").content.decode()
    assert "It scored single responses" in page
    assert 'href="/p/vicuna/runs/1"' in page
    assert "still working" not in page
    page = client.post("/p/vicuna/report.zip", {"run": "1"}, follow=True).content.decode()
    assert "run-1 scored single responses." in page


def test_results_of_a_run_that_judged_nothing_have_no_empty_head(client, owner, project):
    make_examples(project, 2)
    make_run(project)
    client.force_login(owner)
    page = client.get("/p/vicuna/results").content.decode()
    assert "no human labels" in page
    assert "At a glance" not in page
    assert "People saw what the rounds" not in page


def test_a_new_project_is_told_what_to_do_first(client, owner, project):
    client.force_login(owner)
    page = client.get("/p/vicuna/").content.decode()
    assert "nothing imported yet" in page
    assert "/p/vicuna/imports/" in page
    assert "No worker is running" in page


def test_the_overview_takes_the_same_queries_for_10_and_for_60_examples(client, owner, judged):
    client.force_login(owner)

    def queries():
        with CaptureQueriesContext(connection) as found:
            assert client.get("/p/vicuna/").status_code == 200
        return len(found)

    client.get("/p/vicuna/")
    warm = queries()
    for example in make_examples(judged.project, 50):
        make_verdict(judged, example, 0.5)
    cold = queries()
    assert queries() == warm
    make_examples(judged.project, 50)
    assert queries() == cold


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
    beside = f"with k = {judged.k} has no accuracy yet, for want of labels, and an unknown cost."
    assert beside in preview


def test_the_plan_leads_to_the_invitations_where_nobody_can_vote(client, owner, researcher, judged):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "0"}
    preview = " ".join(client.get("/p/vicuna/plan/preview", sent).content.decode().split())
    assert "Nobody can vote yet.</strong> 1 vote an example needs 1 person." in preview
    assert 'href="/p/vicuna/people"' in preview
    client.force_login(researcher)
    preview = client.get("/p/vicuna/plan/preview", sent).content.decode()
    assert "Ask an owner to invite somebody" in preview


def test_looks_are_chosen_with_the_plan(client, owner, judged):
    client.force_login(owner)
    sent = {"run": judged.pk, "how": "beta", "beta": "20", "votes": "1", "audit": "4"}
    preview = client.get("/p/vicuna/plan/preview", sent | {"looks": "2, 4"}).content.decode()
    assert "over all looks" in preview
    for looks in ("4, 2", "two", "2, 5", "0, 2"):
        refused = client.post("/p/vicuna/plan", sent | {"looks": looks})
        assert refused.status_code == 422
        assert not Round.objects.exists()
    assert client.post("/p/vicuna/plan", sent | {"looks": "2, 4"}).status_code == 302
    assert Round.objects.get().certificate_plan["looks"] == [2, 4]


def test_a_researcher_makes_a_project_and_others_cannot(client, db):
    client.force_login(make_user("nina", researcher=True))
    assert client.post("/", {"name": "My pairs"}).url == "/p/my-pairs/"
    assert Membership.objects.get().role == Role.OWNER
    client.force_login(make_user("stranger"))
    refused = client.post("/", {"name": "Other pairs"})
    assert refused.status_code == 422
    assert Project.objects.count() == 1


def test_a_download_goes_on_record_and_unblinds(client, owner, judged):
    client.force_login(owner)
    votes = client.post("/p/vicuna/export", {"what": "votes"})
    assert b"external_id" in b"".join(votes.streaming_content)
    assert Membership.objects.get(user=owner).unblinded_at is None
    labels = client.post("/p/vicuna/export", {"what": "labels", "run": "latest"})
    assert b"".join(labels.streaming_content).count(b"\n") == 11
    assert "vicuna-run1-labels.csv" in labels["Content-Disposition"]
    assert Membership.objects.get(user=owner).unblinded_at is not None
    assert judged.project.exports.count() == 2


def test_where_no_run_is_ranked_results_and_labels_unblind_nobody(client, owner, project):
    make_examples(project, 2)
    client.force_login(owner)
    assert "No run yet" in client.get("/p/vicuna/results").content.decode()
    labels = client.post("/p/vicuna/export", {"what": "labels"})
    assert b"".join(labels.streaming_content).count(b"\n") == 3
    make_run(project, ranked_at=None)
    assert "Not ranked yet" in client.get("/p/vicuna/results").content.decode()
    assert Membership.objects.get(user=owner).unblinded_at is None


def test_the_results_page_takes_the_same_queries_for_10_and_for_60_examples(client, owner, judged):
    client.force_login(owner)
    client.get("/p/vicuna/results")

    def queries():
        with CaptureQueriesContext(connection) as found:
            assert client.get("/p/vicuna/results").status_code == 200
        return len(found)

    warm = queries()
    for example in make_examples(judged.project, 50):
        make_verdict(judged, example, 0.5)
    cold = queries()
    assert queries() == warm
    make_examples(judged.project, 50)
    assert queries() == cold


def test_that_nobody_labelled_is_said_once_with_what_to_do_next(client, owner, judged):
    client.force_login(owner)
    page = client.get("/p/vicuna/results").content.decode()
    body = re.sub(r'title="[^"]*"', "", page[page.index('<dl class="facts">') :])
    cells = re.findall(r"<td[^>]*>.*?</td>", body, re.DOTALL)
    assert not [cell for cell in cells if "no human labels" in cell]
    assert page.count('title="no human labels: open a round, or import votes">–<') > 10
    assert '<a href="/p/vicuna/plan">plan a round</a>' in page
    open_round(judged.project, owner, judged, RoundSettings(beta=Decimal(20), votes=1))
    page = client.get("/p/vicuna/results").content.decode()
    assert "2 of 2 items still wait for a label" in page
    assert '<a href="/p/vicuna/rounds/">see the rounds</a>' in page


@pytest.mark.parametrize(
    ("n", "more", "shown"),
    [(40, {}, "What to expect"), (10, {"k": "3"}, "The judge with k = 3 has an accuracy")],
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


def test_a_vote_changes_what_the_results_page_says(client, owner, judged, tmp_path):
    client.force_login(owner)
    assert "no human labels" in client.get("/p/vicuna/results").content.decode()
    path = tmp_path / "votes.csv"
    votes = "".join(f"e{n},kim,win\n" for n in range(10))
    path.write_text("external_id,annotator,label\n" + votes)
    import_votes(judged.project, None, path)
    page = client.get("/p/vicuna/results").content.decode()
    assert "no human labels" not in page
    assert "People voted on every example" in page


def test_the_whole_report_is_downloaded_and_holds(client, owner, annotator, judged, tmp_path):
    client.force_login(owner)
    answer = client.post("/p/vicuna/report.zip", {"run": "1"})
    path = tmp_path / "report.zip"
    path.write_bytes(b"".join(answer.streaming_content))
    assert verify(path) == []
    page = client.post("/p/vicuna/report.html", {"run": "1"})
    assert b"".join(page.streaming_content).startswith(b"<!doctype html>")
    assert client.get("/p/vicuna/report.zip").status_code == 405
    client.force_login(annotator)
    assert client.post("/p/vicuna/report.zip", {"run": "1"}).status_code == 403


def test_the_results_name_every_section_that_they_show_and_no_other(client, owner, judged):
    client.force_login(owner)
    page = client.get("/p/vicuna/results").content.decode()
    contents = page[page.index('class="contents"') :].partition("</nav>")[0]
    named = re.findall(r'href="#([^"]+)"', contents)
    shown = re.findall(r'<section id="([^"]+)"', page)
    assert named == [one for one in shown if one != "plots"]
    assert "win-rate" in named
    assert "portia" not in named


def test_the_overview_asks_for_the_decisions_that_votes_leave_open(client, owner, judged):
    round_ = open_round(judged.project, owner, judged, RoundSettings(beta=Decimal(10), votes=2))
    for overall in ("left", "tie"):
        record_vote(claim_next(round_, make_annotator(judged.project)), {"overall": overall})
    client.force_login(owner)
    page = client.get("/p/vicuna/").content.decode()
    assert re.search(r'href="/p/vicuna/rounds/"[^>]*>Decide 1 item<', page)


def test_with_several_runs_the_overview_says_which_one_its_figures_are_about(client, owner, judged):
    client.force_login(owner)
    assert f"run; {judged.name}: done" in client.get("/p/vicuna/").content.decode()
    make_run(judged.project, model="another")
    judged.project.primary_run = judged
    judged.project.save()
    page = " ".join(client.get("/p/vicuna/").content.decode().split())
    assert f"runs; {judged.name}: done" in page
    assert f"labels by people, for {judged.name}" in page
    assert f'votes for <span dir="auto">{judged.name}</span>' in page
