import pytest
from django.urls import reverse

from judging.dataset.models import Import
from judging.projects.models import Membership
from tests.factories import make_examples, make_import, make_run, make_verdict

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

HOSTILE = "<script>window.fired = 1</script>"


@pytest.fixture
def page(as_researcher, project):
    def page(**query):
        response = as_researcher.get(reverse("examples", args=[project.slug]), query)
        assert response.status_code == 200
        return response

    return page


def shown(response):
    return [example.external_id for example in response.context["page"]]


@pytest.fixture
def judged(project):
    """e0 to e4, of which e4 has no verdict; by rank e2, e1, e0, e3."""
    examples = make_examples(project, 5)
    run = make_run(project)
    verdicts = [(0, 0.1, "win", 3), (1, 0.6, "lose", 2), (2, None, None, 1), (3, 0.0, "tie", 4)]
    for place, bpde, label, rank in verdicts:
        make_verdict(
            run, examples[place], bpde, label=label, rank=rank, conflict=place == 1 or None
        )
    return run


def test_strangers_see_no_project_and_annotators_no_list(client, project, outsider, annotator):
    url = reverse("examples", args=[project.slug])
    client.force_login(outsider)
    assert client.get(url).status_code == 404
    client.force_login(annotator)
    assert client.get(url).status_code == 403


def test_texts_alone_unblind_nobody_and_a_run_does(page, judged, researcher):
    response = page()
    assert "BPDE" not in response.content.decode()
    assert Membership.objects.get(user=researcher).unblinded_at is None
    page(run="1")
    assert Membership.objects.get(user=researcher).unblinded_at is not None


def test_whoever_has_seen_the_judge_gets_the_primary_run_unless_they_say_none(
    page, judged, project
):
    project.primary_run = judged
    project.save()
    assert page().context["run"] is None
    page(run="1")
    assert page().context["run"] == judged
    assert page(run="").context["run"] is None


def test_a_run_of_another_project_is_none(page, judged):
    assert page(run="2").context["run"] is None


def test_half_an_import_is_never_seen(page, project):
    make_examples(project, 1)
    unfinished = make_import(project, state=Import.State.WRITING)
    (hidden,) = make_examples(project, 1)
    hidden.source = unfinished
    hidden.save()
    assert shown(page()) == ["e0"]


@pytest.mark.parametrize(
    ("query", "found"),
    [
        ({"q": "question 3"}, ["e3"]),
        ({"q": "E1"}, ["e1"]),
        ({"label": "lose"}, ["e1"]),
        ({"state": "unjudged"}, ["e2"]),
        ({"state": "conflict"}, ["e1"]),
        ({"category": "generic", "label": "tie"}, ["e3"]),
        ({"q": "nothing is like that"}, []),
        ({"category": "no such"}, ["e0", "e1", "e2", "e3", "e4"]),
        ({"q": "a\x00b"}, ["e0", "e1", "e2", "e3", "e4"]),
    ],
)
def test_filters(page, judged, query, found):
    assert shown(page(run="1", **query)) == found


@pytest.mark.parametrize(
    ("sort", "found"),
    [
        ("number", ["e0", "e1", "e2", "e3", "e4"]),
        ("-number", ["e4", "e3", "e2", "e1", "e0"]),
        ("rank", ["e2", "e1", "e0", "e3", "e4"]),
        ("bpde", ["e3", "e0", "e1", "e2", "e4"]),
        ("-bpde", ["e1", "e0", "e3", "e2", "e4"]),
        ("response_1", ["e0", "e1", "e2", "e3", "e4"]),
    ],
)
def test_sorting_puts_what_has_no_value_last(page, judged, sort, found):
    assert shown(page(run="1", sort=sort)) == found


def test_a_rank_sorts_nothing_without_a_run(page, judged):
    assert shown(page(sort="-rank")) == ["e4", "e3", "e2", "e1", "e0"]


def test_verdicts_of_another_run_are_not_mixed_in(page, judged, project):
    other = make_run(project)
    for example in project.examples.all():
        make_verdict(other, example, 0.9, label="tie", rank=1)
    assert shown(page(run="1")) == ["e0", "e1", "e2", "e3", "e4"]
    assert shown(page(run="1", label="tie")) == ["e3"]


def test_hostile_texts_are_text(page, project):
    make_examples(project, 1, question=HOSTILE, model_1=HOSTILE, category=HOSTILE)
    html = page(q=HOSTILE).content.decode()
    assert HOSTILE not in html
    assert "&lt;script&gt;window.fired" in html


@pytest.mark.parametrize("n", [1, 50])
def test_as_many_queries_for_fifty_rows_as_for_one(
    as_researcher, project, django_assert_num_queries, n
):
    run = make_run(project)
    for example in make_examples(project, n):
        make_verdict(run, example, 0.5)
    url = reverse("examples", args=[project.slug]) + "?run=1"
    as_researcher.get(url)
    with django_assert_num_queries(8):
        as_researcher.get(url)


def test_pages_hold_fifty(page, project):
    make_examples(project, 51)
    assert len(shown(page())) == 50
    assert shown(page(page="2")) == ["e50"]


def test_an_empty_project_says_what_to_do(page):
    assert "No examples yet." in page().content.decode()
    assert "No example matches these filters." in page(q="x").content.decode()
