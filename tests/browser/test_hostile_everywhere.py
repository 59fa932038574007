"""The hostile texts as file names, ids, models, comments and notes, before a manager."""

from copy import deepcopy
from pathlib import Path

import pytest
from django.urls import reverse

from annotation.models import Flag, Item
from annotation.people.invitations import Terms, invite
from annotation.rounds.opening import RoundSettings, open_round
from judging.dataset.models import Example
from tests.annotation.rendering.reading import CORPUS
from tests.factories import (
    make_annotator,
    make_examples,
    make_import,
    make_run,
    make_user,
    make_verdict,
    make_vote,
)

pytestmark = [pytest.mark.browser, pytest.mark.django_db(transaction=True)]
CHAPTERS = ("verdict", "trust", "judge", "review", "people", "models", "export")
TEXTS = [vector["text"].replace("\x00", "") for vector in CORPUS]


@pytest.fixture
def round_(project, owner):
    """Each text is the id, category, question and responses of one example, and a comment on it."""
    assert len(TEXTS) >= 60
    project.name = project.description = TEXTS[7][:100]
    run = make_run(project, name=TEXTS[0][:100])
    examples = make_examples(project, len(TEXTS), model_1=TEXTS[1][:200], model_2=TEXTS[9][:200])
    for number, (example, text) in enumerate(zip(examples, TEXTS, strict=True)):
        example.external_id = f"{number}{text}"[:200]
        example.category = text[:200]
        example.question = example.response_1 = example.response_2 = text
        make_verdict(run, example, number / len(TEXTS), rank=number + 1)
    fields = ["external_id", "category", "question", "response_1", "response_2"]
    Example.objects.bulk_update(examples, fields)
    project.primary_run = run
    project.save()
    make_import(project, file_names=TEXTS, reason="\n".join(TEXTS), summary={"read": TEXTS})
    invite(project, owner, Terms(note=TEXTS[3][:200]))
    round_ = open_round(project, None, run, RoundSettings(everything=True, votes=2, seed=1))
    people = [make_annotator(project, user=make_user(f"<b>{n}</b>{TEXTS[n][:90]}")) for n in (0, 7)]
    for item in Item.objects.select_related("example", "round__protocol"):
        text = item.example.question
        for person, label in zip(people, ("win", "lose"), strict=True):
            make_vote(item, person, label, comment=text)
        Flag.objects.create(item=item, annotator=people[0], reason=text)
    return round_


@pytest.mark.parametrize("every", [40, pytest.param(8, marks=pytest.mark.long)])
def test_what_is_hostile_in_names_and_notes_runs_nowhere(
    log_in, owner, project, round_, live_server, every
):
    """With the security policy switched off, so that nothing but the pages themselves protects."""
    page = log_in(owner, reverse("project", args=[project.slug]), bypass_csp=True)
    asked = []
    page.on("request", lambda request: asked.append(request.url))
    items = list(round_.items.order_by("position").values_list("pk", "example"))
    names = "project examples imports plan rounds people settings trail results runs run_start"
    pages = [
        *(reverse(name, args=[project.slug]) for name in names.split()),
        *(reverse("results_page", args=[project.slug, name]) for name in CHAPTERS),
        *(reverse("import_detail", args=[project.slug, n]) for n in (1, 2)),
        *(reverse(name, args=[project.slug, 1]) for name in ("run", "round", "adjudication")),
        *(reverse("example", args=[project.slug, example]) for _, example in items[::every]),
        *(reverse("round_item", args=[project.slug, 1, item]) for item, _ in items[::every]),
        "/",
    ]
    for address in pages:
        answer = page.goto(address)
        assert answer.status == 200, address
        page.wait_for_load_state("networkidle")
        assert page.evaluate("typeof window.__canary") == "undefined", address
    assert [url for url in asked if not url.startswith((live_server.url, "data:"))] == []


def test_a_text_that_is_marked_as_safe_would_run(
    log_in, owner, project, settings, tmp_path, live_server
):
    """The hole planted in a copy of one template, so that the test above can't pass for nothing."""
    name, shown = "results/overview.html", "{{ project.description }}"
    planted = tmp_path / name
    planted.parent.mkdir()
    text = (Path(settings.BASE_DIR) / "templates" / name).read_text()
    assert shown in text
    planted.write_text(text.replace(shown, "{{ project.description|safe }}"))
    templates = deepcopy(settings.TEMPLATES)
    templates[0]["DIRS"].insert(0, tmp_path)
    settings.TEMPLATES = templates
    project.description = "<img src=x onerror=window.__canary=1>"
    project.save()
    page = log_in(owner, reverse("project", args=[project.slug]), bypass_csp=True)
    page.wait_for_function("window.__canary === 1")
    page.goto("about:blank")
