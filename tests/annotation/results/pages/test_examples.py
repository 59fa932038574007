from urllib.parse import urlencode

import pytest
from django.urls import reverse
from django.utils import timezone

from annotation.models import Adjudication
from annotation.results.data import browsing
from annotation.results.merge.final_labels import merged
from annotation.rounds.opening import RoundSettings, open_round
from judging.dataset.models import Example, Import
from judging.projects.models import Membership, Project
from judging.runs.models import Run, Verdict
from tests.factories import (
    make_annotator,
    make_examples,
    make_import,
    make_run,
    make_verdict,
    make_vote,
)
from tests.rows_written import reads_of_cache

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
    return [row.example.external_id for row in response.context["page"].rows]


def key(external_id):
    return Example.objects.get(external_id=external_id).pk


@pytest.fixture
def reviewed(project, judged):
    """People voted on e0 (like the judge), e1 (unlike it), e2 (undecided), e3 (one vote of two)."""
    settings = RoundSettings(everything=True, votes=2, seed=1)
    items = {
        i.example.external_id: i for i in open_round(project, None, judged, settings).items.all()
    }
    people = [make_annotator(project, name) for name in ("ana", "ben")]
    given = {"e0": ["win", "win"], "e1": ["win", "win"], "e2": ["win", "lose"], "e3": ["tie"]}
    for external_id, labels in given.items():
        for annotator, label in zip(people, labels, strict=False):
            make_vote(items[external_id], annotator, label)
    return items


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


def test_the_number_of_many_is_counted_again_once_the_run_or_the_imports_change(
    page, judged, project, monkeypatch
):
    monkeypatch.setattr(browsing, "MANY", 1)
    Verdict.objects.filter(run=judged, rank__lte=2).update(label="win")

    def total(**query):
        return page(run="1", **query).context["page"].total

    assert (total(label="win"), total()) == (3, 5)
    Verdict.objects.filter(run=judged).update(label="win")
    assert total(label="win") == 3
    Run.objects.filter(pk=judged.pk).update(ranked_at=timezone.now())
    assert (total(label="win"), total()) == (4, 5)
    make_examples(project, 2)
    assert total() == 7


def test_a_rank_sorts_nothing_without_a_run(page, judged):
    assert shown(page(sort="-rank")) == ["e4", "e3", "e2", "e1", "e0"]


def test_verdicts_of_another_run_are_not_mixed_in(page, judged, project):
    other = make_run(project)
    for example in project.examples.all():
        make_verdict(other, example, 0.9, label="tie", rank=1)
    assert shown(page(run="1")) == ["e0", "e1", "e2", "e3", "e4"]
    assert shown(page(run="1", label="tie")) == ["e3"]


@pytest.mark.parametrize(
    ("people", "found"),
    [
        ("differs", ["e1"]),
        ("undecided", ["e2", "e4"]),
        ("reviewed", ["e0", "e1"]),
        ("unreviewed", ["e2", "e3", "e4"]),
    ],
)
def test_filters_on_people_are_those_of_the_final_labels(page, reviewed, people, found):
    assert shown(page(run="1", people=people)) == found


def test_a_decision_against_the_judge_differs_from_it(page, reviewed):
    Adjudication.objects.create(item=reviewed["e0"], label="lose")
    assert shown(page(run="1", people="differs")) == ["e0", "e1"]


def test_rows_are_as_the_export_merges_them(page, reviewed, judged, project):
    rows = page(run="1").context["page"].rows
    expected = [(row.example.pk, row.label, row.source) for row in merged(project, judged)]
    assert [(row.example.pk, row.label, row.source) for row in rows] == expected


def test_rows_show_votes_and_labels_by_the_names_of_the_models(page, reviewed):
    html = page(run="1", q="e1").content.decode()
    row = html.split("<tbody>")[1]
    assert "<bdi>birch-3b</bdi>" in row
    assert '<bdi>maple-7b</bdi></span>\n <span class="quiet">2</span>' in row
    assert "majority" in row


def test_people_alone_need_no_judge_and_unblind_nobody(page, reviewed, researcher):
    html = page(run="people").content.decode()
    assert "People’s votes" in html
    assert "BPDE" not in html
    assert Membership.objects.get(user=researcher).unblinded_at is None
    assert shown(page(run="people", people="reviewed")) == ["e0", "e1"]


def test_texts_alone_show_no_votes(page, reviewed):
    assert "People’s votes" not in page(run="").content.decode()


@pytest.mark.parametrize("sort", ["number", "-number", "id", "bpde", "-bpde", "rank", "-gap"])
@pytest.mark.parametrize(
    "query",
    [
        pytest.param({}, marks=pytest.mark.long),
        {"people": "unreviewed"},
        pytest.param({"q": "question"}, marks=pytest.mark.long),
    ],
)
def test_pages_cover_everything_once_in_both_directions(page, reviewed, monkeypatch, sort, query):
    everything = shown(page(run="1", sort=sort, **query))
    assert len(everything) == (3 if "people" in query else 5)
    monkeypatch.setattr(browsing, "PAGE", 2)
    monkeypatch.setattr(browsing, "_MERGED_AT_ONCE", 1)
    forwards, place = [], {}
    while True:
        response = page(run="1", sort=sort, **query, **place)
        forwards += shown(response)
        if not response.context["page"].has_after:
            break
        place = {"after": response.context["page"].last}
    assert forwards == everything
    backwards = shown(response)
    while response.context["page"].has_before:
        place = {"before": response.context["page"].first}
        response = page(run="1", sort=sort, **query, **place)
        backwards = shown(response) + backwards
    assert backwards == everything


@pytest.mark.parametrize(
    ("limit", "query"),
    [("SEARCHED_AT_ONCE", {"q": "question 4"}), ("MERGED_AT_MOST", {"people": "undecided"})],
)
def test_a_search_that_stops_early_says_where_it_goes_on(page, reviewed, monkeypatch, limit, query):
    monkeypatch.setattr(browsing, limit, 1)
    monkeypatch.setattr(browsing, "_MERGED_AT_ONCE", 1)
    found, place = [], {}
    for _ in range(9):
        response = page(run="1", **query, **place)
        found += shown(response)
        go_on = response.context["page"].go_on
        if go_on is None:
            break
        assert f"after={go_on}" in response.content.decode()
        place = {"after": go_on}
    assert found[-1] == "e4"
    assert go_on is None


@pytest.mark.parametrize("place", ["0", "x", "9" * 30, "٣", "\x00", "-1"])
def test_a_place_that_is_not_there_is_the_beginning(page, judged, place):
    assert shown(page(after=place)) == ["e0", "e1", "e2", "e3", "e4"]


def test_the_address_reproduces_the_filter(page, reviewed):
    html = page(run="1", people="differs", sort="-bpde").content.decode()
    assert f"{key('e1')}?run=1&amp;people=differs&amp;sort=-bpde" in html
    assert '<option value="differs" selected>' in html


@pytest.mark.parametrize(("model", "found"), [("oak", ["e5"]), ("maple-7b", 5), ("none", 6)])
def test_the_filter_by_model_looks_at_both_responses(page, project, judged, model, found):
    make_examples(project, 1, model_1="elm", model_2="oak")
    rows = shown(page(model=model))
    assert rows == found or len(rows) == found


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
    with django_assert_num_queries(20 + reads_of_cache(2)):
        as_researcher.get(url)


def test_pages_hold_fifty(page, project):
    make_examples(project, 51)
    assert len(shown(page())) == 50
    assert shown(page(after=key("e49"))) == ["e50"]


def test_an_empty_project_says_what_to_do(page):
    assert "No examples yet." in page().content.decode()
    assert "No example matches these filters." in page(q="x").content.decode()


def test_a_criterion_shows_the_examples_on_which_people_contradict_each_other(
    page, project, judged, as_researcher
):
    """Also with a filter on people's labels, and all that match can be given a tag."""
    Project.objects.filter(pk=project.pk).update(criteria=[HOSTILE, "Tone"])
    project.refresh_from_db()
    people = [make_annotator(project, name) for name in ("ada", "bob")]
    settings = RoundSettings(everything=True, votes=2, seed=2)
    # Response 1 stood on the left. Of e3, "left" and "right" are about different sides; a side that
    # isn't known tells nothing; "much" is the same direction.
    said = {
        "e0": [("left", 1), ("right", 1)],
        "e1": [("left", 1), ("left_much", 1)],
        "e2": [("tie", 1), ("left", 1)],
        "e3": [("left", 1), ("right", 2)],
        "e4": [("left", 1), ("right", None)],
    }
    for item in open_round(project, None, judged, settings).items.select_related("example"):
        pairs = zip(people, said[item.example.external_id], strict=True)
        for annotator, (side, left) in pairs:
            make_vote(
                item, annotator, "lose", left_response=left, answer={"criteria": {HOSTILE: side}}
            )
    shown_for = {"run": judged.number, "criterion": HOSTILE}
    first = page(**shown_for)
    assert shown(first) == ["e0", "e2"]
    text = first.content.decode()
    assert HOSTILE not in text
    assert "Contradicted on" in text
    assert shown(page(run="people", criterion=HOSTILE)) == ["e0", "e2"]
    assert shown(page(run=judged.number, criterion="Tone")) == []
    assert shown(page(**shown_for, people="differs")) == ["e0"]
    # Without labels on the page, or for a criterion that nobody asked about, nothing is filtered.
    assert len(shown(page(run="", criterion=HOSTILE))) == 5
    assert len(shown(page(run=judged.number, criterion="Other"))) == 5
    where = reverse("tag_examples", args=[project.slug])
    as_researcher.post(f"{where}?{urlencode(shown_for)}", {"name": "unclear"})
    tagged = Example.objects.filter(taggings__tag__name="unclear")
    assert sorted(tagged.values_list("external_id", flat=True)) == ["e0", "e2"]
