"""Rows by SQL that is made once, read back as the ORM would have written them."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest
from django.db import IntegrityError, transaction
from django.utils import timezone

from annotation.models import Draft
from annotation.rounds.opening import RoundSettings, open_round
from judging.core.sql import statements
from judging.projects.models import AuditEvent
from judging.runs.models import Call, Parse, Sample, Verdict
from tests.factories import (
    make_annotator,
    make_examples,
    make_project,
    make_run,
    make_verdict,
)

pytestmark = [pytest.mark.django_db, pytest.mark.databases]

AWKWARD = [
    None,
    "",
    "null",
    "50 % of %s, %(name)s",
    "it's \"quoted\" \\ \\u0041 {a,b} 'x'",
    "two\nlines\tand \x01 é 漢字 🙂",
]
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678901, tzinfo=UTC)


@pytest.fixture
def calls(project):
    """More than one statement of SQLite takes."""
    run, examples = make_run(project), make_examples(project, 120)
    calls = [
        Call(run=run, example=example, part="original", slots=[0, 1], claimed_at=MOMENT)
        for example in examples
    ]
    statements.insert(Call, calls)
    return calls


@pytest.mark.parametrize("model", [Call, Sample, Parse, Verdict])
def test_a_new_row_is_what_the_model_makes(model):
    def columns(row):
        return {name: value for name, value in vars(row).items() if name != "_state"}

    row = statements.new(model)
    assert columns(row) == columns(model())
    assert row._state.adding
    mutable = [name for name, value in vars(row).items() if isinstance(value, (list, dict))]
    assert all(vars(row)[name] is not vars(statements.new(model))[name] for name in mutable)


def test_rows_get_their_keys_in_order(calls):
    found = Call.objects.order_by("example__number").values_list("pk", "slots", "claimed_at")
    assert list(found) == [(call.pk, [0, 1], MOMENT) for call in calls]


@pytest.mark.parametrize("times", [1, statements.COPIED // len(AWKWARD) + 1])
def test_texts_and_what_is_missing_are_kept_as_they_are(calls, times):
    logprobs = [None, [{"token": "A", "logprob": -0.1, "top": [["B", -1e-17]]}]]
    samples = [
        Sample(call=calls[0], index=index, slot=0, raw_text=text, logprobs=logprobs[index % 2])
        for index, text in enumerate(AWKWARD * times)
    ]
    statements.insert(Sample, samples)
    found = Sample.objects.order_by("index").values_list("pk", "raw_text", "logprobs")
    assert list(found) == [(s.pk, s.raw_text, s.logprobs) for s in samples]
    assert Sample.objects.filter(logprobs__isnull=True).count() == 3 * times


def test_equal_values_of_other_types_are_converted_each_and_shared_ones_once():
    shared, seen = [1], []
    values = (1, True, Decimal(1), shared, shared)
    ids, made = statements.converted_once(values, lambda value: seen.append(value) or str(value))
    assert [made[place] for place in ids] == ["1", "True", "1", "[1]", "[1]"]
    assert seen == [1, True, Decimal(1), shared]


@pytest.mark.parametrize("times", [1, statements.COPIED // len(AWKWARD) + 1])
def test_rows_given_by_column_are_what_the_same_objects_would_be(calls, times):
    texts, now = tuple(AWKWARD * times), timezone.now()
    given = {"raw_text": texts, "index": tuple(range(len(texts))), "completion_tokens": 7}
    keys = statements.insert_columns(Sample, len(texts), call_id=calls[0].pk, slot=0, **given)
    found = Sample.objects.order_by("index")
    assert [(one.pk, one.raw_text) for one in found] == list(zip(keys, texts, strict=True))
    expected = Sample(call=calls[0], slot=0, completion_tokens=7)
    for name in ("call_id", "attempt", "reasoning", "finish_reason", "logprobs"):
        assert {getattr(one, name) for one in found} == {getattr(expected, name)}, name
    lists = tuple([[number], {"a": "\t"}][number % 2] for number in range(len(texts)))
    read = {"sample_id": tuple(keys), "criteria": lists, "score_1": Decimal("0.1000000001")}
    statements.insert_columns(Parse, len(keys), version=0, status="valid", p_first=5e-324, **read)
    parses = list(Parse.objects.order_by("sample__index"))
    assert [parse.criteria for parse in parses] == list(lists)
    assert {(p.score_1, p.p_first, p.current) for p in parses} == {(read["score_1"], 5e-324, True)}
    assert all(now <= parse.at <= timezone.now() for parse in parses)


def test_numbers_are_kept_to_their_last_place(calls):
    sample = Sample.objects.create(call=calls[0], index=0, slot=0)
    parse = Parse(
        sample=sample,
        version=1,
        status="valid",
        score_1=Decimal("0.1234567891"),
        score_2=Decimal("1E+1"),
        p_first=0.1 + 0.2,
        mass=5e-324,
        bounded=True,
    )
    statements.insert(Parse, [parse])
    found = Parse.objects.get()
    for name in ("score_1", "score_2", "rating", "p_first", "mass", "bounded", "current", "at"):
        assert getattr(found, name) == getattr(parse, name), name


def test_nothing_to_write_writes_nothing(calls):
    statements.insert(Sample, [])
    assert statements.insert_columns(Sample, 0, call_id=1, raw_text=()) == []
    statements.update(Call, [], ("error",))
    statements.upsert(Verdict, [], ("run", "example"), ("state",))
    assert not Sample.objects.exists()


def test_only_the_fields_named_of_the_rows_given_change(calls):
    changed = calls[:2]
    for call in changed:
        call.usd, call.finished_at, call.part = Decimal("0.0000000001"), MOMENT, "swapped"
    statements.update(Call, changed, ("usd", "finished_at"))
    found = Call.objects.filter(usd=Decimal("0.0000000001"), finished_at=MOMENT, part="original")
    assert set(found) == set(changed)
    assert Call.objects.filter(usd=None).count() == len(calls) - 2


def test_a_row_that_exists_keeps_what_is_not_named(calls):
    call = calls[0]
    make_verdict(call.run, call.example, 0.5, rank=3)
    verdicts = [
        Verdict(run=c.run, example=c.example, state="judged", bpde=0.25, outcomes={"original": []})
        for c in calls[:2]
    ]
    statements.upsert(Verdict, verdicts, ("run", "example"), ("state", "bpde", "outcomes"))
    found = Verdict.objects.order_by("example__number").values_list("rank", "bpde", "outcomes")
    assert list(found) == [(3, 0.25, {"original": []}), (None, 0.25, {"original": []})]


@pytest.fixture
def draft(project) -> Draft:
    make_examples(project, 3)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=2))
    annotator, item = make_annotator(project, "ada"), round_.items.earliest("pk")
    return Draft(item=item, annotator=annotator, token="t" * 32, left_response=2, comment="Ä's %s")


def test_an_inserted_row_is_what_the_orm_would_have_saved(draft):
    draft.answer = {"overall": "left", "criteria": {"clear": None}}
    before = timezone.now()
    statements.insert_one(draft)
    found = Draft.objects.get(pk=draft.pk)
    names = [field.attname for field in Draft._meta.concrete_fields]
    assert [getattr(found, name) for name in names] == [getattr(draft, name) for name in names]
    assert found.answer == {"overall": "left", "criteria": {"clear": None}}
    assert before <= found.updated_at <= timezone.now()
    draft.comment = "other"
    draft.save()
    assert Draft.objects.get().comment == "other"


def test_a_second_row_with_the_same_key_is_refused_as_the_orm_refuses_it(draft):
    statements.insert_one(draft)
    again = Draft(item=draft.item, annotator=draft.annotator, token="u" * 32, left_response=1)
    with pytest.raises(IntegrityError), transaction.atomic():
        statements.insert_one(again)
    assert Draft.objects.count() == 1


def test_parts_of_the_audit_trail_may_be_missing(project):
    event = AuditEvent(project=None, project_slug="", user=None, actor="command line", action="x")
    statements.insert_one(event)
    found = AuditEvent.objects.get(pk=event.pk)
    assert (found.project, found.user, found.detail) == (None, None, {})
    assert make_project("other").pk != project.pk
