from decimal import Decimal

import pytest
from django.db import connections

from judging.runs import lifecycle
from judging.runs.engine.progress import progress_of
from judging.runs.engine.working import work_on
from judging.runs.models import Call, EndpointLearned, Parse, Run, Sample, Verdict
from tests.factories import make_examples
from tests.judging.runs.judging import (
    answered,
    every_slot_once,
    judged,
    loopback,
    make_judged_project,
    states_of,
)
from tests.loopback import (
    BiasedJudge,
    Quirks,
    completion,
    error,
)

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]
TOO_LONG = error(
    400,
    "This model's maximum context length is 4096 tokens.",
    code="context_length_exceeded",
)


def test_a_run_asks_each_pair_in_both_orders_and_ranks_all(settings):
    project = make_judged_project(12)
    with loopback(settings, judge=BiasedJudge()) as server:
        run = judged(project, price=(Decimal(1), Decimal(2)))
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert server.requests == 24
    assert {entry.n for entry in server.log} == {3}
    ranks = Verdict.objects.filter(run=run).values_list("rank", flat=True)
    assert sorted(ranks) == list(range(1, 13))
    project.refresh_from_db()
    assert project.primary_run == run


def test_what_was_spent_is_the_sum_of_the_calls_and_nothing_stays_reserved(settings):
    with loopback(settings):
        run = judged(make_judged_project(5), price=(Decimal("0.333"), Decimal("0.777")))
    costs = Call.objects.filter(run=run).values_list("usd", flat=True)
    assert run.spent_usd == sum(costs) > 0
    assert run.reserved_usd == 0
    assert sum(Verdict.objects.filter(run=run).values_list("usd", flat=True)) == run.spent_usd


def test_both_orders_of_an_example_are_asked_next_to_each_other(settings):
    with loopback(settings):
        run = judged(make_judged_project(6), concurrency=1)
    calls = Call.objects.filter(run=run).order_by("pk").values_list("example__number", "part")
    assert list(calls) == [(n, part) for n in range(6) for part in ("original", "swapped")]


def test_the_swapped_order_is_turned_back_to_responses_1_and_2(settings):
    """A judge that always prefers what it sees first contradicts itself on every pair."""
    with loopback(settings):
        run = judged(make_judged_project(3))
    outcomes = Parse.objects.filter(sample__call__run=run).values_list(
        "sample__call__part", "outcome", "score_1", "score_2"
    )
    assert set(outcomes) == {("original", "win", 8, 6), ("swapped", "lose", 6, 8)}
    verdicts = Verdict.objects.filter(run=run)
    assert {(v.label, v.conflict, v.cs_1, v.cs_2) for v in verdicts} == {("tie", True, 7.0, 7.0)}


def test_a_server_that_ignores_n_is_topped_up_in_the_same_run(settings):
    with loopback(settings, quirks=Quirks(ignores_n=True), judge=BiasedJudge()) as server:
        run = judged(make_judged_project(8), k=4)
    assert run.state == Run.State.DONE
    assert every_slot_once(run)
    assert set(answered(server.log).values()) == {4}
    assert EndpointLearned.objects.get().learned["max_n"] == 1
    assert run.learned["max_n"] == 1


def test_what_one_run_learned_the_next_one_knows(settings):
    with loopback(settings, quirks=Quirks(max_n=2)) as server:
        judged(make_judged_project(2), k=5)
        before = server.requests
        judged(make_judged_project(2), k=5, concurrency=1)
    assert {entry.status for entry in server.log[before:]} == {200}
    assert [entry.n for entry in server.log[before:]] == [2, 2, 1] * 4


def test_a_poisoned_example_costs_one_request_and_stops_nobody(settings):
    project = make_judged_project(5)
    make_examples(project, 1, question="POISON")

    def poisoned(asked):
        return TOO_LONG if "POISON" in asked.prompt else None

    with loopback(settings, poisoned) as server:
        run = judged(project)
    assert run.state == Run.State.DONE
    assert server.requests == 12
    statuses = Parse.objects.filter(sample__call__example__question="POISON")
    assert list(statuses.values_list("status", flat=True)) == ["too_long"] * 6
    verdict = Verdict.objects.get(run=run, example__question="POISON")
    assert (verdict.state, verdict.label, verdict.bpde, verdict.rank) == ("unjudged", None, None, 1)


def test_an_error_is_recorded_and_asked_again_only_by_a_resume(settings):
    broken = [True]
    bad = error(400, "Something in this request is wrong.")

    def script(asked):
        return bad if broken[0] and "Question 2?" in asked.prompt else None

    with loopback(settings, script) as server:
        run = judged(make_judged_project(4))
        assert run.state == Run.State.DONE
        assert states_of(run) == {"done": 6, "failed": 2}
        broken[0] = False
        lifecycle.resume(run, background=False)
        work_on(run)
        again = Sample.objects.filter(call__run=run, attempt=1)
        assert again.count() == 6
        lifecycle.resume(run, background=False)
        work_on(run)
    assert server.requests == 10
    run.refresh_from_db()
    assert run.state == Run.State.DONE
    assert not Verdict.objects.filter(run=run).exclude(state="judged").exists()


def test_a_run_says_what_its_errors_were_until_they_are_mended(settings):
    wrong = [error(400, f"Wrong {word}.") for word in ("a", "b", "b")]
    with loopback(settings, [completion("x", "x", "x"), *wrong, TOO_LONG]):
        run = judged(make_judged_project(3), concurrency=1)
        said = [(complaint.message, complaint.calls) for complaint in progress_of(run).complaints]
        assert said == [("Wrong b.", 2), ("Wrong a.", 1)]
        lifecycle.resume(run, background=False)
        assert work_on(run)
        assert progress_of(run).complaints == ()


def test_a_truncated_answer_is_final_until_a_person_asks_again(settings):
    cut = completion("Evaluation evidence: long", finish_reason="length")

    def script(asked):
        short = asked.body["max_tokens"] == 64
        return cut if short and "Question 1?" in asked.prompt else None

    with loopback(settings, script) as server:
        run = judged(make_judged_project(2), k=1, max_tokens=64)
        assert Parse.objects.filter(status="truncated").count() == 2
        lifecycle.resume(run, background=False)
        work_on(run)
        assert server.requests == 4
        lifecycle.resume(run, retry=["truncated"], max_tokens=900, background=False)
        work_on(run)
    assert server.requests == 6
    assert not Verdict.objects.filter(run=run).exclude(state="judged").exists()
    assert Sample.objects.filter(call__run=run).count() == 6


def test_examples_imported_while_the_run_works_are_judged_too(settings):
    project = make_judged_project(3)
    late = []

    def script(asked):
        if asked.number == 2 and not late:
            late.extend(make_examples(project, 2))
            connections.close_all()
        return None

    with loopback(settings, script):
        run = judged(project, concurrency=1)
    assert late
    assert run.state == Run.State.DONE
    assert every_slot_once(run)


def test_checks_are_never_shown_to_a_judge(settings):
    project = make_judged_project(2)
    make_examples(project, 1, is_check=True, gold_label="win", question="CHECK")
    with loopback(settings) as server:
        run = judged(project)
    assert server.requests == 4
    assert not Verdict.objects.filter(run=run, example__is_check=True).exists()


def test_an_answer_with_a_nul_is_stored(settings):
    with loopback(settings, [completion("a\0b", "c", "d")]):
        run = judged(make_judged_project(1))
    first = Sample.objects.filter(call__run=run).order_by("pk").first()
    assert first.raw_text == "a\ufffdb"
