"""Tags on the data browser: given to all that a filter matches, undone, and safe to show."""

from urllib.parse import urlencode

import pytest
from django.urls import reverse

from annotation.models import Round
from annotation.rounds.opening import RoundSettings, open_round
from judging.dataset.models import TagChange, Tagging
from judging.dataset.subsets import Subset, change_tag, freeze
from judging.runs.models import Run
from tests.factories import (
    make_annotator,
    make_examples,
    make_project,
    make_run,
    make_verdict,
    make_vote,
)
from tests.rows_written import reads_of_cache

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
HOSTILE = ["<img src=x onerror=alert(1)>", "\u202eright to left", "x" * 200]


@pytest.fixture
def examples(project):
    return [
        *make_examples(project, 4, category="math"),
        *make_examples(project, 3, category="code", question="How to sort?"),
    ]


@pytest.fixture
def tag(as_researcher, project, examples):
    def tag(name, action="add", **query):
        url = reverse("tag_examples", args=[project.slug])
        sent = {"name": name, "action": action}
        return as_researcher.post(f"{url}?{urlencode(query)}", sent, follow=True)

    return tag


def tagged(name):
    rows = Tagging.objects.filter(tag__name=name).order_by("example__number")
    return list(rows.values_list("example__external_id", flat=True))


def test_all_that_match_get_the_tag_and_the_list_stays_as_it_was(tag, project):
    response = tag("hard", category="math")
    assert tagged("hard") == ["e0", "e1", "e2", "e3"]
    page = response.content.decode()
    assert "4 examples now have this tag." in page
    assert response.request["QUERY_STRING"] == "category=math&run="
    assert tag("hard", q="SORT").status_code == 200
    assert len(tagged("hard")) == 7
    tag("hard", "remove", tag="hard", category="code")
    assert tagged("hard") == ["e0", "e1", "e2", "e3"]
    assert "No example changed." in tag("hard", category="math").content.decode()
    assert TagChange.objects.count() == 3


def test_what_people_and_the_judge_say_can_be_tagged(tag, project, examples):
    run = make_run(project)
    for example in examples:
        make_verdict(run, example, 0.5, label="win")
    round_ = open_round(project, None, run, RoundSettings(everything=True, votes=1))
    person = make_annotator(project, "ana")
    for item in round_.items.filter(example__external_id__in=["e1", "e5"]):
        make_vote(item, person, "lose")
    tag("apart", run="1", people="differs")
    assert tagged("apart") == ["e1", "e5"]
    tag("tied", run="1", label="tie")
    assert tagged("tied") == []


def test_the_last_change_is_undone_once(as_researcher, tag, project, researcher):
    assert "Undo" in tag("hard", category="math").content.decode()
    change = TagChange.objects.get()
    assert change.made_by == researcher
    url = reverse("untag_examples", args=[project.slug, change.pk])
    page = as_researcher.post(url, follow=True).content.decode()
    assert "The last change of tags was taken back." in page
    assert ">Undo<" not in page
    assert tagged("hard") == []
    assert (
        "That change was already undone." in as_researcher.post(url, follow=True).content.decode()
    )


def test_a_wrong_name_is_one_sentence(tag):
    page = tag("a;b").content.decode()
    assert "A tag is one line of at most 200 characters, without comma and semicolon." in page
    assert not TagChange.objects.exists()


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_tag_is_shown_and_found_as_text(as_researcher, project, tag, name):
    tag(name, category="math")
    url = reverse("examples", args=[project.slug])
    response = as_researcher.get(url, {"tag": name})
    page = response.content.decode()
    assert [row.example.external_id for row in response.context["page"].rows] == [
        "e0", "e1", "e2", "e3",
    ]  # fmt: skip
    assert response.context["page"].total == 4
    assert "<img src=x" not in page
    assert "x" * 60 not in page.replace("x" * 200, "")
    start = as_researcher.get(reverse("run_start", args=[project.slug]), {"tag": name})
    assert "<img src=x" not in start.content.decode()


def test_only_researchers_tag_and_only_in_their_project(client, project, examples, request):
    other = make_project("other")
    (theirs,) = make_examples(other, 1)
    change = change_tag(other, None, "hard", [theirs.pk], added=True)
    for who, status in (("outsider", 404), ("annotator", 403)):
        client.force_login(request.getfixturevalue(who))
        assert client.post(reverse("tag_examples", args=[project.slug])).status_code == status
    client.force_login(request.getfixturevalue("researcher"))
    url = reverse("untag_examples", args=[project.slug, change.pk])
    assert client.post(url).status_code == 404
    assert tagged("hard") == ["e0"]


@pytest.mark.parametrize("n", [1, 50])
def test_as_many_queries_for_fifty_tagged_rows_as_for_one(
    as_researcher, project, django_assert_num_queries, n
):
    made = make_examples(project, n, category="math")
    for name in ("a", "b", "c"):
        change_tag(project, None, name, [example.pk for example in made], added=True)
    url = reverse("examples", args=[project.slug])
    as_researcher.get(url)
    with django_assert_num_queries(15 + reads_of_cache(2)):
        as_researcher.get(url, {"tag": "b", "category": "math"})


def test_a_run_about_a_tag_starts_from_the_list(as_researcher, project, tag, settings, researcher):
    tag("hard", category="math")
    page = as_researcher.get(reverse("examples", args=[project.slug]), {"tag": "hard"})
    assert f"/p/{project.slug}/runs/start?tag=hard" in page.content.decode()
    url = reverse("run_start", args=[project.slug])
    start = as_researcher.get(url, {"tag": "hard"})
    assert start.context["form"]["tag"].value() == "hard"
    seed = start.context["form"]["sample_seed"].value()
    sent = {
        "endpoint": "local", "method": "mec_bpc", "form": "score", "tag": "hard", "sample": "2",
        "sample_seed": seed,
    }  # fmt: skip
    estimate = as_researcher.post(reverse("run_estimate", args=[project.slug]), sent)
    said = " ".join(estimate.content.decode().split())
    assert "on 2 examples <bdi>with tag hard, drawn at random" in said
    assert as_researcher.post(url, sent).status_code == 302
    run = Run.objects.get()
    assert run.frame.words == f"with tag hard, drawn at random (seed {seed})"
    assert run.frame.members.count() == 2
    assert (
        run.frame.words
        in as_researcher.get(reverse("run", args=[project.slug, run.number])).content.decode()
    )
    refused = as_researcher.post(url, sent | {"sample": "99"})
    assert refused.status_code == 422
    assert "A sample of 99 is more than the 4 examples" in refused.content.decode()


def test_the_plan_prices_a_part_and_opens_its_round(as_researcher, project, examples, researcher):
    run = make_run(project)
    for number, example in enumerate(examples):
        make_verdict(run, example, number / 10, rank=7 - number)
    sent = {"run": run.pk, "how": "beta", "beta": "50", "votes": "2", "audit": "1",
            "category": "math"}  # fmt: skip
    preview = as_researcher.get(reverse("plan_preview", args=[project.slug]), sent)
    said = " ".join(preview.content.decode().split())
    assert "2 by rank + 1 audit = 3 of 4 <bdi>with category math</bdi> · 6 new votes" in said
    shown = as_researcher.get(reverse("plan", args=[project.slug]), {"category": "code"})
    assert shown.context["plan"].n_frame == 3
    assert as_researcher.post(reverse("plan", args=[project.slug]), sent).status_code == 302
    round_ = Round.objects.get()
    assert (round_.frame_size, round_.frame.words) == (4, "with category math")
    page = as_researcher.get(reverse("round", args=[project.slug, round_.number]))
    assert "of 4 <bdi>with category math</bdi>" in " ".join(page.content.decode().split())
    wrong = as_researcher.get(
        reverse("plan_preview", args=[project.slug]), sent | {"sample": "9", "sample_seed": "1"}
    )
    assert "A sample of 9 is more than the 4 examples" in wrong.content.decode()


def test_results_say_which_examples_they_are_about(as_researcher, project, examples):
    run = make_run(project, frame=freeze(project, Subset.chosen(["category=math"])))
    for example in examples[:4]:
        make_verdict(run, example, 0.5, rank=example.number + 1)
    project.primary_run = run
    project.save()
    page = as_researcher.get(reverse("results_page", args=[project.slug, "verdict"]))
    said = " ".join(page.content.decode().split())
    assert "All figures are about the 4 examples <bdi>with category math</bdi>." in said
