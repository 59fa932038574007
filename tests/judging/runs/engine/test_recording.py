from dataclasses import replace
from decimal import Decimal

import pytest
from django.db import IntegrityError

from judging.core import leases
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.errors import CallFailure, FailureKind
from judging.llm.client.messages import Choice, Reply
from judging.llm.prices import Usage
from judging.runs import lifecycle
from judging.runs.engine import claims, recording
from judging.runs.engine.claims import recount
from judging.runs.engine.recording import Arrival
from judging.runs.engine.store import RunStore
from judging.runs.models import Call, Run, Sample
from tests.judging.runs.judging import loopback, make_judged_project, started

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]

PRICE = (Decimal(1), Decimal(10))
TEXT = "Evaluation evidence: fine.\nThe score of Assistant 1: 8\nThe score of Assistant 2: 6"


@pytest.fixture
def run(settings):
    with loopback(settings):
        return started(make_judged_project(3), k=2, price=PRICE)


@pytest.fixture
def store(run):
    return taken(run)


def taken(run) -> RunStore:
    holder = leases.new_holder()
    assert recording.take_over(run, holder)
    run.refresh_from_db()
    return RunStore(run, holder)


def reply(*texts: str) -> Reply:
    choices = tuple(Choice(text, "stop") for text in texts)
    return Reply(choices, Usage(1000, 0, 100), "judge", "id", asked=2)


def money(run) -> tuple[Decimal, Decimal]:
    run.refresh_from_db()
    return lifecycle.money_of(run, run.shares.all())


def test_a_claim_reserves_its_upper_bound_and_a_result_turns_it_into_its_cost(run, store):
    (claim,) = store.next_claims(1)
    assert money(run) == (0, claim.call.reserved_usd)
    assert claim.call.reserved_usd > 0
    store.write([Arrival(claim, reply(TEXT, TEXT))], EndpointCapabilities())
    assert money(run) == (Decimal("0.002"), 0)
    assert Sample.objects.count() == 2


def test_an_answer_to_a_call_that_was_given_up_for_lost_is_dropped(run, store):
    (claim,) = store.next_claims(1)
    Run.objects.filter(pk=run.pk).update(lease_until=None)
    another = taken(run)
    assert another.next_claims(1)
    store.write([Arrival(claim, reply(TEXT, TEXT))], EndpointCapabilities())
    assert not Sample.objects.exists()
    assert Call.objects.get(pk=claim.call.pk).state == Call.State.LOST
    assert run.calls.filter(state=Call.State.CLAIMED).count() == 1


def test_who_lost_the_run_claims_nothing_more(run, store):
    Run.objects.filter(pk=run.pk).update(lease_until=None)
    another = taken(run)
    assert store.next_claims(5) == []
    assert len(another.next_claims(5)) == 5


def test_a_run_that_is_being_stopped_claims_nothing_more(run, store):
    assert lifecycle.pause(run)
    assert store.next_claims(5) == []
    assert not store.everything_asked()


def test_a_call_that_somebody_made_already_is_refused_by_the_database(run, store):
    (claim,) = store.next_claims(1)
    twin = Call(
        run=run,
        example=claim.ask.subject,
        part=claim.ask.part,
        seq=claim.call.seq,
        claimed_at=claim.call.claimed_at,
    )
    with pytest.raises(IntegrityError):
        twin.save()


def test_claims_that_were_never_sent_are_given_back_with_their_money(run, store):
    claimed = store.next_claims(4)
    claims.give_back(run.pk, store.holder, claimed[1:])
    assert run.calls.count() == 1
    assert money(run) == (0, claimed[0].call.reserved_usd)


@pytest.mark.parametrize("end", [claims.lose, claims.give_back])
def test_nobody_ends_the_claims_of_another_holder(run, store, end):
    claimed = store.next_claims(2)
    end(run.pk, "another", claimed)
    assert run.calls.filter(state=Call.State.CLAIMED).count() == 2
    end(run.pk, store.holder, claimed)
    assert not run.calls.filter(state=Call.State.CLAIMED).exists()


def test_the_answer_to_a_claim_of_another_holder_is_dropped(run, store):
    (claim,) = store.next_claims(1)
    Call.objects.filter(pk=claim.call.pk).update(holder="another")
    store.write([Arrival(claim, reply(TEXT, TEXT))], EndpointCapabilities())
    assert not Sample.objects.exists()
    assert Call.objects.get(pk=claim.call.pk).state == Call.State.CLAIMED


def test_missing_choices_are_asked_for_next_and_no_sooner(run, store):
    (claim,) = store.next_claims(1)
    store.write([Arrival(claim, reply(TEXT))], EndpointCapabilities(max_n=1))
    again, other = store.next_claims(2)
    assert (again.ask.subject, again.ask.part, again.ask.slots) == (
        claim.ask.subject,
        claim.ask.part,
        (1,),
    )
    assert (again.call.seq, again.call.attempt) == (1, 0)
    assert other.ask.part == "swapped"


@pytest.mark.parametrize(
    ("kind", "billed", "statuses"),
    [
        (FailureKind.TOO_LONG, 0, ["too_long"] * 2),
        (FailureKind.FILTERED, 0, ["filtered"] * 2),
        (FailureKind.BAD_REQUEST, 0, ["error"] * 2),
        (FailureKind.TIMEOUT, 3, ["error"] * 2),
        (FailureKind.QUOTA, 0, []),
    ],
)
def test_a_failure_is_a_status_and_what_may_be_billed_stays_held(
    run, store, kind, billed, statuses
):
    (claim,) = store.next_claims(1)
    bound = claim.call.reserved_usd
    failure = CallFailure(kind, "No.", possibly_billed=billed)
    assert bool(store.breaker.note(failure)) is not bool(statuses)
    store.write([Arrival(claim, failure)], EndpointCapabilities())
    run.refresh_from_db()
    assert (run.state == Run.State.PAUSING) is not bool(statuses)
    samples = Sample.objects.filter(call=claim.call)
    assert list(samples.values_list("parses__status", flat=True)) == statuses
    assert set(samples.values_list("raw_text", flat=True)) <= {None}
    # What it cost is not known where it may have been billed, and is then not called nothing.
    assert Call.objects.get(pk=claim.call.pk).usd == (None if billed else 0)
    assert money(run) == (0, billed * bound)
    recount(run.pk)
    assert money(run) == (0, billed * bound)


def test_an_answer_after_requests_that_may_be_billed_holds_what_they_can_have_cost(run, store):
    (claim,) = store.next_claims(1)
    bound = claim.call.reserved_usd
    late = replace(reply(TEXT, TEXT), requests=3, possibly_billed=2)
    store.write([Arrival(claim, late)], EndpointCapabilities())
    assert money(run) == (Decimal("0.002"), 2 * bound)
    recount(run.pk)
    assert money(run) == (Decimal("0.002"), 2 * bound)


def test_a_budget_is_reserved_up_to_its_last_call_and_no_further(run, store):
    one = store.next_claims(1)[0].call.reserved_usd
    Run.objects.filter(pk=run.pk).update(budget_usd=3 * one + one / 2)
    assert len(store.next_claims(4)) == 2
    assert store.next_claims(1) == []
    spent, reserved = money(run)
    assert spent + reserved <= run.budget_usd
