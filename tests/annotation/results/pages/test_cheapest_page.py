"""The page of the cheapest plan: its answer, its worker, and the plan that it fills in."""

import re
from decimal import Decimal
from urllib.parse import parse_qs, urlsplit

import pytest
from django.utils import timezone

from annotation.models import Job, Round
from annotation.results.delivery.jobs import work_on
from annotation.results.pages.plan import PlanForm
from judging.core.models import Worker
from tests.annotation.results.learning import biased_run, gold
from tests.factories import make_examples, make_run, make_verdict

HOSTILE = "<script>alert(1)</script> שלום " + "long " * 12
GOAL = {"goal": "accuracy", "value": "80", "confidence": "95", "price_1": "0.01"}


@pytest.fixture
def run(project, tmp_path):
    """Every example's label is known, so that all of them are the learning sample."""
    run = biased_run(project, tmp_path, n=150)
    for example in project.examples.all():
        example.gold_label = gold(example)
        example.save()
    run.name = HOSTILE[:120]
    run.save()
    return run


@pytest.fixture
def page(client, researcher, project):
    client.force_login(researcher)
    client.post(f"/p/{project.slug}/look")
    return f"/p/{project.slug}/cheapest"


def text_of(answer):
    return " ".join(answer.content.decode().split())


def test_the_page_answers_and_fills_in_the_plan(client, page, project, run):
    before = text_of(client.get(page))
    assert "Press “Compare the plans”" in before
    assert "Price of “&lt;script&gt;alert(1)" in before
    answer = client.post(page, GOAL, follow=True)
    text = text_of(answer)
    assert answer.status_code == 200
    told = answer.context["told"]
    assert told["sentence"].startswith("For $")
    assert "<script>alert" not in text
    assert f"<h1>{told['sentence'][:9]}" in text
    assert "shown, recommended" in text
    (drawn,) = answer.context["plots"]
    assert {row["name"] for row in drawn.table} >= {"recommended", "people alone"}
    points = drawn.spec["layer"][3]["encoding"]
    assert points["y"]["scale"] == {"domain": [0, 1]}
    best = told["rows"][told["best"] - 1]
    address = next(
        row["address"] for row in answer.context["rows"] if row["number"] == told["best"]
    )
    fields = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
    assert fields["goal"] == "accuracy:0.8:0.95"
    form = PlanForm(project, fields)
    assert form.is_valid(), form.errors
    chosen_run, settings = form.settings()
    assert chosen_run == run
    assert settings.beta == Decimal(repr(100 * best["share"]))
    assert (settings.votes, settings.audit) == (best["votes"], best["check"] or 60)
    assert bool(settings.learn) == (best["route"] == "learned")
    opened = client.post(f"/p/{project.slug}/plan", fields)
    assert opened.status_code == 302, opened.context["form"].errors
    round_ = Round.objects.get()
    assert round_.parameters["goal"] == {"goal": "accuracy", "value": "0.8", "confidence": "0.95"}
    assert "Is the goal reached?" in text_of(client.get(page, GOAL))


def test_a_worker_computes_it_while_the_page_says_how_far_it_is(client, page, project, run):
    Worker.objects.create(
        name="one", queues="quick", started_at=timezone.now(), seen_at=timezone.now()
    )
    waiting = text_of(client.post(page, GOAL, follow=True))
    job = Job.objects.get(kind=Job.Kind.CHEAPEST)
    assert f'hx-get="{page}/{job.pk}"' in waiting
    assert "A worker begins as soon as one is free" in waiting
    # Asked again, it is the same job.
    client.post(page, GOAL)
    assert Job.objects.count() == 1
    assert "HX-Refresh" not in client.get(f"{page}/{job.pk}")
    work_on(job.pk)
    assert client.get(f"{page}/{job.pk}")["HX-Refresh"] == "true"
    assert text_of(client.get(page, GOAL)).count("<h1>For $") == 1
    assert client.get(f"{page}/99999")["HX-Refresh"] == "true"


def test_what_is_no_goal_is_said_at_its_field(client, page, run):
    answer = client.get(page, {"goal": "accuracy", "value": "20"})
    assert answer.status_code == 422
    assert "Enter a share from 50.0" in text_of(answer)
    answer = client.post(page, GOAL | {"confidence": "100"})
    assert answer.status_code == 422
    assert "Enter a confidence from 50" in text_of(answer)
    stale = client.post(page, GOAL | {"plan": "1"})
    assert stale.status_code == 422
    assert "Compare the plans again" in text_of(stale)
    assert not Job.objects.exists()


def test_without_a_sample_it_leads_to_the_round_that_draws_one(client, page, project):
    empty = text_of(client.get(page))
    assert "Import pairs" in empty
    examples = make_examples(project, 300)
    no_judge = text_of(client.post(page, GOAL, follow=True))
    assert "No judge has labelled the examples yet." in no_judge
    run = make_run(project)
    for example in examples:
        make_verdict(run, example, 0.0, label="win", rank=1)
    project.primary_run = run
    project.save()
    text = text_of(client.post(page, GOAL, follow=True))
    assert "A random sample of labels is needed first." in text
    address = re.search(r'href="(/p/[^"]+/plan\?[^"]+)"', text)[1].replace("&amp;", "&")
    fields = {name: value for name, (value,) in parse_qs(urlsplit(address).query).items()}
    form = PlanForm(project, {"run": run.pk, **fields})
    assert form.is_valid(), form.errors
    _, settings = form.settings()
    assert (settings.beta, settings.audit, settings.goal) == (0, 130, None)
