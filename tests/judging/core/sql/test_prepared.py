"""Prepared queries: what the queryset would yield, from SQL that is made once."""

from datetime import timedelta

import pytest
from django.db.models import Count, F
from django.utils import timezone

from annotation.models import Round, Slot
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.sql.statements import prepared
from judging.dataset.models import Example
from judging.projects.models import Project
from tests.factories import make_annotator, make_examples, make_project

pytestmark = [pytest.mark.databases]


@pytest.fixture
def round_(project) -> Round:
    make_examples(project, 3)
    return open_round(project, None, None, RoundSettings(everything=True, votes=2))


def slots(round_, before):
    return Slot.objects.filter(round=round_, lease_until__lt=before).select_related("item__round")


@prepared
def slots_before(round_, before):
    return slots(round_, before).order_by("pk")


def test_models_come_as_the_queryset_would_yield_them(round_, django_assert_num_queries):
    now = timezone.now()
    Slot.objects.filter(index=0).update(lease_until=now, annotator=None)
    found = slots_before.all(round_=round_.pk, before=now + timedelta(seconds=1))
    assert found == list(slots(round_, now + timedelta(seconds=1)).order_by("pk"))
    assert len(found) == 3
    with django_assert_num_queries(0):
        assert {slot.item.round for slot in found} == {round_}
        assert found[0].lease_until == now
        assert found[0].item.round.parameters == round_.parameters
    assert slots_before.all(round_=round_.pk, before=now - timedelta(seconds=1)) == []


def test_each_call_asks_the_database_with_its_own_values(round_, project):
    @prepared
    def of_round(round_):
        return Slot.objects.filter(round=round_)

    other = make_project("other")
    make_examples(other, 1)
    second = open_round(other, None, None, RoundSettings(everything=True, votes=1))
    assert len(of_round.all(round_=round_.pk)) == 6
    assert len(of_round.all(round_=second.pk)) == 1
    Slot.objects.filter(round=second).delete()
    assert of_round.first(round_=second.pk) is None


def test_rows_have_the_names_asked_for_in_the_order_asked_for(project):
    make_examples(project, 2)

    @prepared
    def counted(slug):
        found = Project.objects.filter(slug=slug).annotate(n=Count("examples"))
        return found.values_list("n", "created_at", "slug")

    row = counted.first(slug=project.slug)
    assert (row.n, row.slug) == (2, project.slug)
    assert tuple(row) == (2, project.created_at, project.slug)


def test_annotations_and_deferred_fields_come_along(project, django_assert_num_queries):
    make_examples(project, 1)

    @prepared
    def named(external_id):
        found = Example.objects.annotate(slug=F("project__slug")).only("external_id")
        return found.filter(external_id=external_id)

    example = named.first(external_id="e0")
    assert example.slug == project.slug
    assert "question" in example.get_deferred_fields()
    with django_assert_num_queries(1):
        assert example.question == "Question 0?"


def test_lists_of_any_length_may_be_asked_for(project):
    made = make_examples(project, 20)

    @prepared
    def among(keys: list[int]):
        return Example.objects.filter(pk__in=keys).order_by("number")

    for length in (1, 2, 20, 1):
        wanted = made[:length]
        assert among.all(keys=[example.pk for example in wanted]) == wanted


def test_a_value_is_never_read_as_sql(project):
    make_annotator(project, "ana")

    @prepared
    def by_slug(slug):
        return Project.objects.filter(slug=slug)

    assert by_slug.first(slug="' OR 1=1 --") is None
    assert by_slug.first(slug=project.slug) == project


def test_a_parameter_that_is_not_given_is_an_error(project):
    @prepared
    def by_slug(slug):
        return Project.objects.filter(slug=slug)

    with pytest.raises(KeyError, match="slug"):
        by_slug.all()


def test_the_sql_is_made_once(project):
    built = []

    @prepared
    def by_slug(slug):
        built.append(slug)
        return Project.objects.filter(slug=slug)

    for _ in range(3):
        by_slug.all(slug=project.slug)
    assert len(built) == 1
