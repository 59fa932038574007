"""The pages of a project: who sees them, what they say, and how many queries they take."""

import re
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from annotation.queue.queue import claim_next
from annotation.results.delivery.verify import verify
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from annotation.votes.voting import record_vote
from judging.projects.models import Membership
from tests.factories import make_annotator, make_examples, make_run, make_verdict

PAGES = ["/p/vicuna/", "/p/vicuna/plan", "/p/vicuna/plan/preview", "/p/vicuna/results"]


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
    assert "People labelled the examples in this run" not in page


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
    assert page.count('title="no human labels yet; open a round or import votes">–<') > 10
    assert '<a href="/p/vicuna/plan">plan a round</a>' in page
    open_round(judged.project, owner, judged, RoundSettings(beta=Decimal(20), votes=1))
    page = client.get("/p/vicuna/results").content.decode()
    assert "2 of 2 items still wait for a label" in page
    assert '<a href="/p/vicuna/rounds/">see the rounds</a>' in page


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
