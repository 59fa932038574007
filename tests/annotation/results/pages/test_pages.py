"""The pages of a project: who sees them, what they say, and how many queries they take."""

import re
from decimal import Decimal

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from annotation.models import Item, Vote
from annotation.queue.queue import claim_next
from annotation.results.delivery.verify import verify
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from annotation.votes.voting import decide, record_vote
from judging.projects.models import Membership
from tests.factories import make_annotator, make_examples, make_run, make_verdict, make_vote

CHAPTERS = ["verdict", "trust", "judge", "review", "people", "models", "export"]
RESULTS = [f"/p/vicuna/results/{name}" for name in CHAPTERS]
PAGES = ["/p/vicuna/", "/p/vicuna/figures", "/p/vicuna/plan", "/p/vicuna/plan/preview", *RESULTS]


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
    page = client.get("/p/vicuna/results", follow=True).content.decode()
    assert "This run scored single responses" in page
    assert 'href="/p/vicuna/runs/1"' in page
    assert "still working" not in page
    page = client.post("/p/vicuna/report.zip", {"run": "1"}, follow=True).content.decode()
    assert "run-1 scored single responses." in page


def test_results_of_a_run_that_judged_nothing_have_no_empty_head(client, owner, project):
    make_examples(project, 2)
    make_run(project)
    client.force_login(owner)
    for url in RESULTS:
        page = client.get(url).content.decode()
        assert page.count("<h1") == 1
        assert "<figure" not in page
        assert "People labelled the examples in this run" not in page


def test_a_new_project_is_told_what_to_do_first(client, owner, project):
    client.force_login(owner)
    page = client.get("/p/vicuna/").content.decode()
    assert "Import pairs of responses to begin." in page
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


def test_where_no_run_is_ranked_results_unblind_nobody_and_labels_with_models_do(
    client, owner, project
):
    make_examples(project, 2)
    client.force_login(owner)
    for url in RESULTS[:-1]:
        assert "No judge has run yet" in client.get(url).content.decode()
    make_run(project, ranked_at=None)
    for url in RESULTS[:-1]:
        assert "not ranked yet" in client.get(url).content.decode()
    assert client.get(RESULTS[-1]).status_code == 200
    assert client.get("/p/vicuna/export").status_code == 405
    assert Membership.objects.get(user=owner).unblinded_at is None
    labels = client.post("/p/vicuna/export", {"what": "labels"})
    lines = b"".join(labels.streaming_content).splitlines()
    assert len(lines) == 3
    assert b"model_1" in lines[0]
    assert Membership.objects.get(user=owner).unblinded_at is not None


@pytest.mark.parametrize("url", [*RESULTS, "/p/vicuna/figures"])
def test_a_results_page_takes_the_same_queries_for_10_and_for_60_examples(
    client, owner, judged, url
):
    client.force_login(owner)
    client.get(url)

    def queries():
        with CaptureQueriesContext(connection) as found:
            assert client.get(url).status_code == 200
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
    for url in RESULTS[:-1]:
        page = client.get(url).content.decode()
        body = re.sub(r'title="[^"]*"', "", page[page.index("<main") :])
        assert body.count("no human labels yet") == 1, url
        assert '<a href="/p/vicuna/plan">plan a round</a>' in page
    open_round(judged.project, owner, judged, RoundSettings(beta=Decimal(20), votes=1))
    page = client.get("/p/vicuna/results/verdict").content.decode()
    assert "2 of 2 items still wait for a label" in page
    assert '<a href="/p/vicuna/rounds/">see the rounds</a>' in page


def voted_on(judged, tmp_path):
    path = tmp_path / "votes.csv"
    votes = "".join(f"e{n},kim,{'lose' if n < 3 else 'win'}\n" for n in range(10))
    path.write_text("external_id,annotator,label\n" + votes)
    import_votes(judged.project, None, path)


def test_a_vote_changes_what_the_results_page_says(client, owner, judged, tmp_path):
    client.force_login(owner)
    assert "no human labels" in client.get("/p/vicuna/results/trust").content.decode()
    voted_on(judged, tmp_path)
    page = client.get("/p/vicuna/results/trust").content.decode()
    assert "no human labels" not in page
    assert "People voted on every example" in page


def test_whose_labels_the_judge_is_compared_with_is_said_only_if_they_are_all_there(
    client, owner, judged, tmp_path
):
    def trust():
        return client.get("/p/vicuna/results/trust").content.decode()

    client.force_login(owner)
    judged.project.examples.exclude(external_id="e9").update(gold_label="win")
    assert "Every example has a known label" not in trust()
    judged.project.examples.update(gold_label="win")
    assert "Every example has a known label" in trust()
    voted_on(judged, tmp_path)
    assert "People voted on every example" in trust()
    Vote.objects.filter(example__external_id="e9").delete()
    assert "People voted on every example" not in trust()


def test_that_no_vote_was_timed_is_said_only_if_none_was(client, owner, project):
    def pace():
        return client.get("/p/vicuna/results/people").text

    client.force_login(owner)
    make_examples(project, 2)
    items = open_round(project, None, None, RoundSettings(everything=True, votes=1)).items.all()
    ann = make_annotator(project, "ann")
    make_vote(items[0], ann, "win", active_seconds=None)
    assert "No vote on the annotators' screen that counts was timed" in pace()
    make_vote(items[1], ann, "win", active_seconds=4.0)
    assert "was timed" not in pace()


def test_the_old_address_leads_to_the_first_page(client, owner, outsider, judged):
    client.force_login(owner)
    assert client.get("/p/vicuna/results?run=1").url == "/p/vicuna/results/verdict?run=1"
    assert client.get("/p/vicuna/results/nothing").status_code == 404
    assert client.get("/p/vicuna/results/portia").status_code == 404
    client.force_login(outsider)
    assert client.get("/p/vicuna/results").status_code == 404


# The anchors of the one long page, and the page that has each now.
ANCHORS = {
    "win-rate": "verdict", "categories": "verdict", "trust": "trust", "methods": "trust",
    "cost": "trust", "position": "judge", "judge_card": "judge", "length": "judge",
    "ablation": "judge", "review": "review", "routing": "review", "people": "people",
    "pace": "people", "models": "models", "export": "export",
}  # fmt: skip


def test_the_rail_knows_every_anchor_of_the_one_long_page(client, owner, judged):
    client.force_login(owner)
    page = client.get("/p/vicuna/results/verdict").content.decode()
    found = re.findall(r'href="/p/vicuna/results/(\w+)" data-places="([^"]*)"', page)
    assert [name for name, _ in found] == CHAPTERS
    places = {place: name for name, held in found for place in held.split()}
    assert {anchor: places.get(anchor) for anchor in ANCHORS} == ANCHORS


def test_one_win_rate_is_marked_and_can_be_cited(client, owner, judged, tmp_path):
    client.force_login(owner)
    page = client.get("/p/vicuna/results/verdict").content.decode()
    assert "cite this" not in page
    assert 'id="cite"' not in page
    voted_on(judged, tmp_path)
    page = client.get("/p/vicuna/results/verdict").content.decode()
    assert page.count("cite this") == 1
    sentence = re.search(r'id="cite-sentence"[^>]*>([^<]*)<', page).group(1)
    assert sentence.startswith("maple-7b has a win rate of 70")
    assert "n = 10" in sentence
    methods = re.search(r'id="cite-methods"[^>]*>([^<]*)<', page).group(1)
    assert "The judge labelled every pair (mec_bpc" in methods
    bibtex = re.search(r'id="cite-bibtex"[^>]*>([^<]*)<', page).group(1)
    assert re.findall(r"@\w+\{(\w+),", bibtex)[0] == "fairjudge"


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


def test_the_overview_asks_for_the_decisions_that_votes_leave_open(client, owner, judged):
    round_ = open_round(judged.project, owner, judged, RoundSettings(beta=Decimal(10), votes=2))
    for overall in ("left", "tie"):
        record_vote(claim_next(round_, make_annotator(judged.project)), {"overall": overall})
    client.force_login(owner)
    page = client.get("/p/vicuna/").content.decode()
    assert "1 item needs a decision." in page
    assert re.search(r'href="/p/vicuna/rounds/1/adjudication"[^>]*>Decide 1<', page)


def test_with_several_runs_the_overview_says_which_one_its_figures_are_about(client, owner, judged):
    client.force_login(owner)
    make_run(judged.project, model="another")
    judged.project.primary_run = judged
    judged.project.save()
    page = " ".join(client.get("/p/vicuna/").content.decode().split())
    assert f'Judge, <span dir="auto">{judged.name}</span>' in page
    assert "All runs together" in page


def test_the_overview_shows_nothing_of_the_judge_to_who_has_seen_nothing(client, owner, judged):
    client.force_login(owner)
    page = client.get("/p/vicuna/").content.decode()
    assert "marked as unblinded" in page
    assert "win rate" not in page
    assert Membership.objects.get(user=owner).unblinded_at is None
    client.get("/p/vicuna/results/verdict")
    page = client.get("/p/vicuna/").content.decode()
    assert "The judge alone gives maple-7b a win rate" in page


def test_the_overview_shows_where_people_and_judge_disagree(client, owner, judged, tmp_path):
    voted_on(judged, tmp_path)
    client.force_login(owner)
    page = " ".join(client.get("/p/vicuna/figures").content.decode().split())
    assert "See all 3</a>" in page
    assert 'href="/p/vicuna/examples?run=1&amp;people=differs"' in page
    assert page.count("birch-3b</bdi> wins</span></td></tr>") == 3


STEPS = ("Data", "Judge", "Review", "Results")


def states(client):
    page = client.get("/p/vicuna/").content.decode()
    found = re.findall(r'<li data-state="(\w+)"[^>]*><a href="[^"]*"><b>(\w+)</b>', page)
    assert tuple(name for _, name in found) == STEPS
    assert [state for state, _ in found].count("now") == 1
    return [state for state, _ in found]


def test_a_step_is_done_when_nothing_in_it_waits(client, owner, project):
    client.force_login(owner)
    assert states(client) == ["now", "later", "later", "later"]
    examples = make_examples(project, 4)
    assert states(client) == ["done", "now", "later", "later"]
    run = make_run(project, state="running", ranked_at=None)
    assert states(client) == ["done", "now", "later", "later"]
    for example in examples:
        make_verdict(run, example, 0.5, rank=example.number + 1)
    run.state, run.ranked_at = "done", timezone.now()
    run.save()
    # Nothing by people is merged, so that the review is what is to be done.
    assert states(client) == ["done", "done", "now", "later"]
    round_ = open_round(project, owner, run, RoundSettings(beta=Decimal(25), votes=2))
    assert states(client) == ["done", "done", "now", "later"]
    people = [make_annotator(project), make_annotator(project)]
    for person, overall in zip(people, ("left", "tie"), strict=True):
        record_vote(claim_next(round_, person), {"overall": overall})
    assert states(client) == ["done", "done", "now", "later"]
    item = round_.items.get()
    decide(item, owner, label="win", reason="")
    assert states(client) == ["done", "done", "done", "now"]
    b"".join(client.post("/p/vicuna/export", {"what": "votes"}).streaming_content)
    assert states(client) == ["done", "done", "done", "now"]


def headings(client):
    pages = (
        client.get(f"/p/vicuna/{name}").content.decode()
        for name in ("examples", "runs/", "rounds/")
    )
    return [re.search(r"<h1>(.*?)</h1>", page)[1].replace("\u202f", " ") for page in pages]


def test_the_list_of_examples_counts_checks_apart(client, owner, project):
    client.force_login(owner)
    make_examples(project, 3)
    make_examples(project, 2, is_check=True, gold_label="win")
    page = client.get("/p/vicuna/examples").text
    assert "<h1>3 pairs, by 2 models, and 2 checks.</h1>" in page
    assert "5 examples" in page


def test_the_lists_say_first_what_is_in_them_and_what_waits(client, owner, project):
    client.force_login(owner)
    assert headings(client) == [
        "No pairs yet.",
        "No judge has been asked yet.",
        "No round has asked people yet.",
    ]
    make_examples(project, 3, category="math")
    make_examples(project, 1, category="code")
    make_run(project)
    round_ = open_round(project, owner, None, RoundSettings(everything=True, votes=2))
    assert headings(client) == [
        "4 pairs in 2 categories, by 2 models.",
        "1 run is done.",
        "4 items wait for votes.",
    ]
    make_run(project, state="paused")
    make_run(project, state="running")
    make_run(project)
    people = [make_annotator(project), make_annotator(project)]
    for person, overall in zip(people, ("left", "tie"), strict=True):
        record_vote(claim_next(round_, person), {"overall": overall})
    assert headings(client)[1:] == [
        "4 runs: 1 is paused, 1 is running, 2 are done.",
        "1 item needs a decision and 3 items wait for votes.",
    ]
    decide(round_.items.get(state=Item.State.ADJUDICATE), owner, label="win", reason="")
    round_.state = round_.State.CLOSED
    round_.save()
    assert headings(client)[2] == "Nothing waits: people are done with 4 items."


def test_a_skipped_vote_does_not_keep_the_review_open(client, owner, judged):
    """The item is settled by the votes that are left, so that nothing waits."""
    client.force_login(owner)
    round_ = open_round(judged.project, owner, judged, RoundSettings(beta=Decimal(10), votes=2))
    item = round_.items.get()
    make_vote(item, make_annotator(judged.project), "win")
    Item.objects.filter(pk=item.pk).update(state=Item.State.COMPLETE)
    assert states(client) == ["done", "done", "done", "now"]
    assert "1/1" in client.get("/p/vicuna/").content.decode()


def test_the_overview_shows_both_costs_of_people(client, owner, judged):
    client.force_login(owner)
    round_ = open_round(judged.project, owner, judged, RoundSettings(beta=Decimal(10), votes=1))
    make_vote(round_.items.get(), make_annotator(judged.project), "win", active_seconds=36.0)
    page = " ".join(client.get("/p/vicuna/").content.decode().split())
    assert "People, at the assumed 3 min per vote (1 vote)</dt><dd>$0.38<" in page
    assert "People, at the measured 0.60 min per vote (n = 1)</dt><dd>$0.075<" in page
