"""Many rows in one statement, read back as the ORM would have written them."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from judging.models import Call, Parse, Sample, Verdict
from judging.runs import rows
from tests.factories import make_examples, make_run, make_verdict

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
    rows.insert(Call, calls)
    return calls


@pytest.mark.parametrize("model", [Call, Sample, Parse, Verdict])
def test_a_new_row_is_what_the_model_makes(model):
    def columns(row):
        return {name: value for name, value in vars(row).items() if name != "_state"}

    row = rows.new(model)
    assert columns(row) == columns(model())
    assert row._state.adding
    mutable = [name for name, value in vars(row).items() if isinstance(value, (list, dict))]
    assert all(vars(row)[name] is not vars(rows.new(model))[name] for name in mutable)


def test_rows_get_their_keys_in_order(calls):
    found = Call.objects.order_by("example__number").values_list("pk", "slots", "claimed_at")
    assert list(found) == [(call.pk, [0, 1], MOMENT) for call in calls]


def test_texts_and_what_is_missing_are_kept_as_they_are(calls):
    logprobs = [None, [{"token": "A", "logprob": -0.1, "top": [["B", -1e-17]]}]]
    samples = [
        Sample(call=calls[0], index=index, slot=0, raw_text=text, logprobs=logprobs[index % 2])
        for index, text in enumerate(AWKWARD)
    ]
    rows.insert(Sample, samples)
    found = Sample.objects.order_by("index").values_list("pk", "raw_text", "logprobs")
    assert list(found) == [(s.pk, s.raw_text, s.logprobs) for s in samples]
    assert Sample.objects.filter(logprobs__isnull=True).count() == 3


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
    rows.insert(Parse, [parse])
    found = Parse.objects.get()
    for name in ("score_1", "score_2", "rating", "p_first", "mass", "bounded", "current", "at"):
        assert getattr(found, name) == getattr(parse, name), name


def test_nothing_to_write_writes_nothing(calls):
    rows.insert(Sample, [])
    rows.update(Call, [], ("error",))
    rows.upsert(Verdict, [], ("run", "example"), ("state",))
    assert not Sample.objects.exists()


def test_only_the_fields_named_of_the_rows_given_change(calls):
    changed = calls[:2]
    for call in changed:
        call.usd, call.finished_at, call.part = Decimal("0.0000000001"), MOMENT, "swapped"
    rows.update(Call, changed, ("usd", "finished_at"))
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
    rows.upsert(Verdict, verdicts, ("run", "example"), ("state", "bpde", "outcomes"))
    found = Verdict.objects.order_by("example__number").values_list("rank", "bpde", "outcomes")
    assert list(found) == [(3, 0.25, {"original": []}), (None, 0.25, {"original": []})]
