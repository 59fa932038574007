"""What servers do to a call, over real HTTP, and what becomes of it."""

import asyncio

import pytest

from judging.llm.client.errors import FailureKind
from judging.llm.client.judge_client import JudgeClient
from judging.llm.client.limits import RetryPolicy
from judging.llm.client.messages import Reply
from judging.llm.endpoint import Endpoint
from tests.judging.llm.asking import (
    KNOWN,
    MODEL,
    QUICK,
    ask,
    ask_all,
    client_of,
    failed,
    make_request,
    replied,
    until,
)
from tests.loopback import (
    Answer,
    LoopbackServer,
    Quirks,
    completion,
    cut_in_body,
    error,
    fixed,
    hang,
    rate_limited,
    server_error,
)
from tests.loopback.server import SCORES


def test_the_request_says_what_was_asked_and_nothing_else():
    with LoopbackServer() as server:
        ask(server, make_request("Q", system="S", temperature=0.7, max_tokens=99))
        sent = server.log[0].body
    assert sent == {
        "model": MODEL,
        "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "Q"}],
        "max_tokens": 99,
        "temperature": 0.7,
    }


@pytest.mark.parametrize(
    ("fault", "billed"),
    [
        (server_error(500), 0),
        (server_error(502), 0),
        (error(503, "Loading model", kind="unavailable_error"), 0),
        (error(529, "Overloaded"), 0),
        (error(408, "Timeout"), 0),
        (cut_in_body(completion(SCORES)), 1),
        (cut_in_body(completion(SCORES), after=0), 1),
        (Answer(200, completion(SCORES).body[:60]), 1),
        (Answer(200, ""), 1),
        (Answer(200, "[]"), 1),
        (Answer(200, "[" * 100_000), 1),
        (Answer(200, '{"id": "x", "choices": null}'), 1),
        (Answer(200, '{"id": "x", "choices": []}'), 1),
        (Answer(200, '{"error": {"message": "Provider returned error", "code": 502}}'), 1),
        (Answer(200, '{"error": {"message": "upstream", "code": 429}}'), 0),
        (Answer(200, "not gzip", {"Content-Encoding": "gzip"}), 1),
        (rate_limited(), 0),
        (rate_limited(retry_after="0"), 0),
        (rate_limited(retry_after="Fri, 15 Jan 2021 08:00:30 GMT"), 0),
        (rate_limited(retry_after_ms="30"), 0),
        (rate_limited(x_ratelimit_reset_requests="20ms"), 0),
        (rate_limited(x_ratelimit_reset_tokens="0m0.01s"), 0),
    ],
)
def test_a_passing_trouble_costs_one_more_request_and_no_call(fault, billed):
    with LoopbackServer([fault]) as server:
        reply = replied(ask(server))
        assert server.requests == 2
    assert reply.choices[0].text == SCORES
    assert (reply.requests, reply.possibly_billed) == (2, billed)


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (error(400, "Invalid 'messages[0].content'"), FailureKind.BAD_REQUEST),
        (error(422, "Unprocessable"), FailureKind.BAD_REQUEST),
        (error(400, "x", code="context_length_exceeded"), FailureKind.TOO_LONG),
        (error(400, "x", code="content_filter"), FailureKind.FILTERED),
        (error(401, "Incorrect API key provided"), FailureKind.AUTH),
        (error(404, "The model does not exist"), FailureKind.NOT_FOUND),
        (error(429, "x", code="insufficient_quota"), FailureKind.QUOTA),
        (error(402, "Insufficient Balance"), FailureKind.QUOTA),
    ],
)
def test_what_repeating_can_not_mend_is_asked_once(fault, kind):
    with LoopbackServer([fault]) as server:
        failure = failed(ask(server))
        assert server.requests == 1
    assert failure.kind is kind
    assert failure.http_status == fault.status
    assert failure.request_id == "loopback-0"
    assert failure.possibly_billed == 0


def test_a_poisoned_example_costs_one_request_and_stops_nobody():
    poisoned = "\u0000 forbidden"
    quirks = Quirks(words="azure", forbidden_text="forbidden")
    requests = [make_request(f"pair {n}") for n in range(20)]
    requests.insert(7, make_request(poisoned))
    with LoopbackServer(quirks=quirks) as server:
        outcomes = ask_all(server, requests, learned=KNOWN)
        assert server.requests == 21
    assert failed(outcomes.pop(7)).kind is FailureKind.FILTERED
    assert [replied(outcome).requests for outcome in outcomes] == [1] * 20


def test_a_text_that_is_no_unicode_fails_alone_and_is_not_sent():
    with LoopbackServer() as server:
        outcomes = ask_all(server, [make_request("half \ud83d"), make_request("whole 😀")])
        assert server.requests == 1
    assert failed(outcomes[0]).kind is FailureKind.BAD_REQUEST
    assert replied(outcomes[1]).choices[0].text == SCORES


@pytest.mark.parametrize("words", ["openai", "azure", "vllm", "llama.cpp", "ollama"])
def test_an_over_long_context_is_known_in_every_servers_words(words):
    quirks = Quirks(words=words, context_tokens=50)
    with LoopbackServer(quirks=quirks) as server:
        failure = failed(ask(server, make_request("long " * 200)))
        assert server.requests == 1
    assert failure.kind is FailureKind.TOO_LONG
    assert failure.kind.status == "too_long"


def test_an_empty_account_costs_one_request_however_many_calls_wait():
    with LoopbackServer(lambda asked: error(429, "no", code="insufficient_quota")) as server:
        outcomes = ask_all(server, [make_request(str(n)) for n in range(50)], concurrency=50)
        assert server.requests == 1
    assert {failed(outcome).kind for outcome in outcomes} == {FailureKind.QUOTA}
    assert sorted(failed(outcome).requests for outcome in outcomes) == [0] * 49 + [1]


@pytest.mark.parametrize(
    "refusal",
    [
        error(403, "Forbidden"),
        error(400, "This text holds an invalid API key"),
        error(400, "The model `x` that the text names does not exist"),
        error(400, f"Can't be read: {'x' * 300} rate limit"),
    ],
)
def test_a_refusal_of_one_text_does_not_stop_a_model_that_answers(refusal):
    def firewall(asked):
        return refusal if "<script>" in asked.prompt else None

    with LoopbackServer(firewall) as server:

        async def main():
            async with client_of(server) as client:
                texts = ("before", "<script>", "after")
                return [await client.complete(make_request(text)) for text in texts]

        before, middle, after = asyncio.run(main())
    assert (failed(middle).kind, failed(middle).requests) == (FailureKind.BAD_REQUEST, 1)
    assert replied(before).choices == replied(after).choices


def test_an_account_that_runs_out_on_the_way_is_asked_once_whatever_the_status():
    empty = error(403, "Insufficient account balance")
    with LoopbackServer([completion(SCORES), empty]) as server:
        outcomes = ask_all(server, [make_request(str(n)) for n in range(9)], concurrency=1)
        assert server.requests == 2
    assert {failed(outcome).kind for outcome in outcomes[1:]} == {FailureKind.QUOTA}


def test_troubles_that_do_not_pass_end_after_the_tries_of_the_policy():
    with LoopbackServer(lambda asked: server_error()) as server:
        failure = failed(ask(server))
        assert server.requests == QUICK.tries
    assert (failure.kind, failure.requests) == (FailureKind.TRANSIENT, QUICK.tries)


def test_replies_that_can_not_be_read_are_paid_for_few_times_only():
    with LoopbackServer(lambda asked: Answer(200, '{"choices"')) as server:
        failure = failed(ask(server))
        assert server.requests == QUICK.unread_tries
    assert failure.kind is FailureKind.BAD_REPLY
    assert failure.possibly_billed == QUICK.unread_tries


def test_a_server_that_hangs_is_left_at_the_deadline():
    policy = RetryPolicy(deadline=1.5, request=0.2, tries=1000, first_wait=0.01, longest_wait=0.01)
    with LoopbackServer(lambda asked: hang()) as server:
        failure = failed(ask(server, retry=policy))
    assert failure.kind is FailureKind.TIMEOUT
    assert 2 <= failure.possibly_billed == failure.requests < 1000


def test_a_hang_is_left_and_asked_again():
    policy = RetryPolicy(deadline=60.0, request=1.0, first_wait=0.01)
    with LoopbackServer([hang()]) as server:
        reply = replied(ask(server, retry=policy))
    assert (reply.requests, reply.possibly_billed) == (2, 1)


def test_nobody_listening_is_a_passing_trouble_that_bills_nothing():
    async def main():
        endpoint = Endpoint("closed", "http://127.0.0.1:9")
        async with JudgeClient(endpoint, None, retry=QUICK) as client:
            return await client.complete(make_request())

    failure = failed(asyncio.run(main()))
    assert (failure.kind, failure.possibly_billed) == (FailureKind.TRANSIENT, 0)
    assert "127.0.0.1:9" in failure.message


def test_connections_that_went_stale_are_opened_again():
    with LoopbackServer() as server:

        async def main():
            async with client_of(server) as client:
                first = await client.complete(make_request("one"))
                server.drop_connections()
                return first, await client.complete(make_request("two"))

        for outcome in asyncio.run(main()):
            assert replied(outcome).choices[0].text == SCORES


def test_cancelling_frees_the_place_at_once():
    with LoopbackServer([hang()], latency=fixed(0.01)) as server:

        async def main():
            async with client_of(server, concurrency=1, learned=KNOWN) as client:
                stuck = asyncio.create_task(client.complete(make_request("stuck")))
                await until(lambda: server.requests)
                stuck.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await stuck
                async with asyncio.timeout(10):
                    return await client.complete(make_request("next"))

        assert replied(asyncio.run(main())).requests == 1


def test_under_many_faults_no_call_is_lost():
    """5 % 429s and 2 % 500s over 600 calls: the server's log and the replies agree."""
    with LoopbackServer(flaky=(0.05, 0.02)) as server:
        outcomes = ask_all(server, [make_request(str(n)) for n in range(600)], concurrency=32)
        assert server.completed == 600
        refused = [entry for entry in server.log if entry.status != 200]
    replies = [replied(outcome) for outcome in outcomes]
    assert len(refused) > 20
    assert sum(reply.requests for reply in replies) == 600 + len(refused)


def test_a_client_works_again_in_a_new_event_loop():
    with LoopbackServer() as server:
        for _ in range(2):
            assert replied(ask(server)).requests == 1


def test_an_account_that_runs_out_in_the_middle_costs_no_more_than_what_was_under_way():
    def runs_out(asked):
        empty = asked.number >= 10
        return error(429, "no", code="insufficient_quota") if empty else None

    with LoopbackServer(runs_out, latency=fixed(0.01)) as server:
        requests = [make_request(str(n)) for n in range(60)]
        outcomes = ask_all(server, requests, concurrency=4, learned=KNOWN)
        assert 11 <= server.requests <= 14
    kinds = [outcome.kind for outcome in outcomes if not isinstance(outcome, Reply)]
    assert kinds == [FailureKind.QUOTA] * 50
