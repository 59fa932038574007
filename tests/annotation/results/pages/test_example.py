from decimal import Decimal

import pytest
from django.test import Client
from django.urls import reverse

from annotation.models import Adjudication
from annotation.results.tables.exports import label_rows
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.aside import put_aside
from judging.projects.models import Membership
from judging.runs.models import Call, Parse, Sample
from tests.factories import (
    make_annotator,
    make_examples,
    make_project,
    make_run,
    make_verdict,
    make_vote,
)
from tests.judging.runs.verdicts.test_judge_figures import record

pytestmark = pytest.mark.django_db

HOSTILE = "<script>window.fired = 1</script>"


@pytest.fixture
def example(project):
    return make_examples(project, 3)[1]


@pytest.fixture
def page(as_researcher, project, example):
    def page(**query):
        url = reverse("example", args=[project.slug, example.pk])
        response = as_researcher.get(url, query)
        assert response.status_code == 200
        return response.content.decode()

    return page


def test_strangers_and_annotators_see_no_example(client, project, example, outsider, annotator):
    url = reverse("example", args=[project.slug, example.pk])
    client.force_login(outsider)
    assert client.get(url).status_code == 404
    client.force_login(annotator)
    assert client.get(url).status_code == 403


def test_that_nobody_voted_is_said_only_if_nobody_did(page, project, example):
    nobody = "Nobody has voted on this example."
    make_verdict(make_run(project), example, 0.1)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    assert nobody in page(run="1")
    others = round_.items.exclude(example=example)
    make_vote(others[0], make_annotator(project, "ann"), "win")
    assert nobody in page(run="1")
    # An annotator who can't judge the pair has voted too, and so has one whose vote was put aside.
    bob = make_annotator(project, "bob")
    make_vote(round_.items.get(example=example), bob, "")
    assert nobody not in page(run="1")
    put_aside(round_, bob, None, "Too fast.")
    assert nobody not in page(run="1")


def test_an_example_of_another_project_is_not_found(as_researcher, project):
    (other,) = make_examples(make_project(), 1)
    assert as_researcher.get(reverse("example", args=[project.slug, other.pk])).status_code == 404


@pytest.mark.parametrize("named", [True, False])
def test_without_a_run_the_judge_is_not_shown_and_only_names_of_models_unblind(
    page, project, example, researcher, named
):
    if not named:
        project.examples.update(model_1="", model_2="")
    run = make_run(project)
    record(run, example, "original", 0, evidence="It is the better one.", outcome="win")
    html = page(run="")
    assert "First response to 1." in html
    assert "It is the better one." not in html
    assert ("This page names the models" in html) == named
    assert (Membership.objects.get(user=researcher).unblinded_at is not None) == named
    assert "It is the better one." in page(run="1")
    assert Membership.objects.get(user=researcher).unblinded_at is not None


def test_samples_stand_by_order_with_their_scores_and_failures(page, project, example):
    run = make_run(project, k=2)
    make_verdict(run, example, 0.451, cs_1=8.25, rank=7)
    record(run, example, "original", 0, score_1=9, score_2="7.5", outcome="win", evidence="why")
    record(run, example, "original", 1, status=Parse.Status.UNPARSED)
    record(run, example, "swapped", 0, score_1=4, score_2=6, outcome="lose")
    Call.objects.create(
        run=run,
        example=example,
        part="swapped",
        seq=1,
        state=Call.State.LOST,
        claimed_at=run.created_at,
    )
    html = page(run="1")
    first, second = html.split("Response 2 shown first")
    assert "9 : 7.5" in first
    assert "unparsed" in first
    assert "4 : 6" in second
    assert "lost (may have been billed)" in second
    assert "8.25" in first
    assert ".451" in first


def test_a_reply_that_was_asked_again_no_longer_counts(page, project, example):
    run = make_run(project)
    record(run, example, "original", 0, status=Parse.Status.TRUNCATED)
    call = Call.objects.create(
        run=run, example=example, part="original", seq=1, claimed_at=run.created_at, state="done"
    )
    sample = Sample.objects.create(call=call, index=0, slot=0, attempt=1, raw_text="new")
    Parse.objects.create(sample=sample, version=1, status="valid", outcome="tie")
    html = page(run="1")
    assert html.count("replaced by a later sample") == 1
    assert html.index("truncated") < html.index("replaced by a later sample")


def test_people_and_the_final_label_are_as_they_are_now(page, project, example):
    """As in the export, and not as they were when somebody last wrote them down."""
    run = make_run(project)
    make_verdict(run, example, 0.5, rank=1)
    assert '<span class="quiet">the judge&#x27;s label' in page(run="1")
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(100), votes=3))
    item = round_.items.get(example=example)
    for label in ("tie", "win", "tie"):
        make_vote(item, make_annotator(project), label)
    html = page(run="1")
    assert "from majority: more than half of 3 votes (1–2–0)" in html
    assert "tie 2<" in html
    row = next(row for row in label_rows(project, run, names=False) if row["votes_tie"])
    assert (row["final_label"], row["source"]) == ("tie", "majority")


def test_what_a_judge_or_a_file_wrote_runs_nowhere(as_researcher, project):
    (example,) = make_examples(
        project,
        1,
        question=HOSTILE,
        response_1=HOSTILE,
        response_2=f"[x](javascript:alert(1)) {HOSTILE}",
        model_1=HOSTILE,
        reference=HOSTILE,
    )
    run = make_run(project, name=HOSTILE)
    record(run, example, "original", 0, evidence=HOSTILE)
    Sample.objects.update(raw_text=HOSTILE, reasoning=HOSTILE)
    url = reverse("example", args=[project.slug, example.pk])
    html = as_researcher.get(url, {"run": "1"}).content.decode()
    assert HOSTILE not in html
    assert 'href="javascript' not in html


def test_neighbours_keep_the_run(page, project, example):
    make_run(project)
    html = page(run="1")
    for neighbour in (example.pk - 1, example.pk + 1):
        assert f"{reverse('example', args=[project.slug, neighbour])}?run=1" in html


def test_neighbours_keep_the_filter_and_its_order(page, project, example):
    run = make_run(project)
    for other, bpde in zip(project.examples.order_by("number"), (0.5, 0.1, 0.3), strict=True):
        make_verdict(run, other, bpde, label="win" if bpde < 0.4 else "lose")
    html = page(run="1", label="win", sort="-bpde")
    assert 'rel="next"' not in html
    (before,) = [line for line in html.splitlines() if 'rel="prev"' in line]
    address = reverse("example", args=[project.slug, example.pk + 1])
    assert f"{address}?run=1&amp;label=win&amp;sort=-bpde" in before


def test_names_in_the_evidence_say_which_response_they_mean_in_each_order(page, project, example):
    run = make_run(project)
    hostile = f"Assistant 1 wins. {HOSTILE}"
    record(run, example, "original", 0, outcome="win", evidence=hostile)
    record(run, example, "swapped", 0, outcome="lose", evidence=hostile)
    html = page(run="1")
    meant = '<span class="meant"> <span class="visually-hidden">means </span><bdi>{}</bdi></span>'
    first, second = html.split("Response 2 shown first")
    assert "Assistant 1" + meant.format("maple-7b") + " wins. &lt;script&gt;" in first
    assert "Assistant 1" + meant.format("birch-3b") + " wins. &lt;script&gt;" in second
    assert HOSTILE not in html


def test_votes_and_decisions_are_listed(page, project, example):
    run = make_run(project)
    make_verdict(run, example, 0.5, rank=1)
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(100), votes=2))
    item = round_.items.get(example=example)
    make_vote(item, make_annotator(project), "tie", comment=HOSTILE)
    make_vote(item, make_annotator(project), "win")
    Adjudication.objects.create(item=item, label="lose", decider="ada", reason="both are wrong")
    html = page(run="1")
    assert "from adjudicated" in html
    assert "both are wrong" in html
    assert HOSTILE not in html
    assert html.count("annotator-") == 2


@pytest.mark.parametrize("samples", [1, 50])
def test_as_many_queries_for_fifty_samples_as_for_one(
    as_researcher, project, example, django_assert_num_queries, samples
):
    run = make_run(project)
    make_verdict(run, example, 0.5)
    for slot in range(samples):
        record(run, example, "original", slot, outcome="win")
    url = reverse("example", args=[project.slug, example.pk]) + "?run=1"
    as_researcher.get(url)
    with django_assert_num_queries(26):
        as_researcher.get(url)


def test_who_has_seen_nothing_is_told_what_the_page_would_show(owner, project):
    """LookingClient confirms by itself, so this is Django's."""
    (example,) = make_examples(project, 1)
    make_verdict(make_run(project), example, 0.5)
    blind = Client()
    blind.force_login(owner)
    path = f"/p/{project.slug}/examples/{example.pk}"
    texts, judged = blind.get(path).text, blind.get(f"{path}?run=1").text
    assert "Do you want to see which model wrote what?" in texts
    assert "the judge" not in texts
    assert "Do you want to see what the judge said?" in judged
    assert not Membership.objects.filter(user=owner, unblinded_at__isnull=False).exists()
