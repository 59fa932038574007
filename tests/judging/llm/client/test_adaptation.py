"""Endpoints differ: what each refuses or ignores is learned once, and said."""

import asyncio
import json
from dataclasses import replace

import pytest

from judging.llm.client.adaptation import EndpointCapabilities, body, learn
from judging.llm.client.errors import AttemptFailure, FailureKind
from tests.judging.llm.asking import (
    MODEL,
    ask,
    ask_all,
    client_of,
    failed,
    make_request,
    replied,
)
from tests.loopback import LoopbackServer, Quirks, completion, error
from tests.loopback.server import SCORES

SCHEMA = {
    "type": "object",
    "properties": {"evidence": {"type": "string", "maxLength": 240}},
    "required": ["evidence"],
}
WORDS = ["openai", "azure", "vllm", "llama.cpp", "ollama"]


def learned_from(quirks, *requests, **options):
    """Ask one after the other; the replies, what was learned, and how many requests it took."""
    with LoopbackServer(quirks=quirks) as server:

        async def main():
            async with client_of(server, **options) as client:
                outcomes = [await client.complete(request) for request in requests]
                return [replied(outcome) for outcome in outcomes], client.learned(MODEL)

        replies, learned = asyncio.run(main())
        return replies, learned, server


@pytest.mark.parametrize(
    ("words", "most"),
    [(words, most) for words in WORDS for most in (1, 2) if (words, most) != ("ollama", 2)],
)
def test_n_refused_above_a_cap_is_asked_up_to_it(words, most):
    quirks = Quirks(words=words, max_n=most)
    (first, second), learned, server = learned_from(
        quirks, make_request(n=3), make_request("again", n=3)
    )
    assert [len(reply.choices) for reply in (first, second)] == [most, most]
    assert learned == EndpointCapabilities(max_n=most)
    assert [entry.n for entry in server.log] == [3, most, most]
    assert first.asked == 3


def test_n_refused_without_a_reason_is_halved():
    def picky(asked):
        return error(400, "Unsupported parameter", param="n") if asked.n > 1 else None

    with LoopbackServer(picky) as server:
        reply = replied(ask(server, make_request(n=6)))
        assert [entry.n for entry in server.log] == [6, 3, 1]
    assert len(reply.choices) == 1


def test_n_ignored_is_noticed_so_that_the_caller_tops_up():
    (reply, _), learned, server = learned_from(
        Quirks(ignores_n=True), make_request(n=3), make_request(n=3)
    )
    assert (len(reply.choices), reply.asked) == (1, 3)
    assert learned.max_n == 1
    assert [entry.n for entry in server.log] == [3, 1]


def test_max_tokens_goes_by_the_name_that_the_server_takes():
    quirks = Quirks(tokens_field="max_completion_tokens")
    _, learned, server = learned_from(quirks, make_request(max_tokens=77), make_request("again"))
    assert learned.tokens_field == "max_completion_tokens"
    assert [("max_tokens" in e.body) for e in server.log] == [True, False, False]
    assert server.log[1].body["max_completion_tokens"] == 77


@pytest.mark.parametrize("words", ["openai", "vllm"])
def test_the_other_name_is_found_as_well(words):
    remembered = {MODEL: EndpointCapabilities(tokens_field="max_completion_tokens")}
    quirks = Quirks(words=words, tokens_field="max_tokens")
    _, learned, _ = learned_from(quirks, make_request(), learned=remembered)
    assert learned == EndpointCapabilities()


@pytest.mark.parametrize("words", ["openai", "vllm"])
@pytest.mark.parametrize("field", ["max_tokens", "max_completion_tokens"])
def test_more_tokens_than_the_model_writes_are_asked_for_once(words, field):
    quirks = Quirks(words=words, max_tokens=16384)
    long, short = make_request(max_tokens=200_000), make_request("short", max_tokens=99)
    remembered = {MODEL: EndpointCapabilities(tokens_field=field)}
    _, learned, server = learned_from(quirks, long, long, short, learned=remembered)
    assert learned == EndpointCapabilities(tokens_field=field, max_tokens=16384)
    assert [entry.body[field] for entry in server.log] == [200_000, 16384, 16384, 99]
    assert "at most 16384 tokens" in learned.notes()[-1]


def test_a_fixed_temperature_is_left_out():
    quirks = Quirks(fixed_temperature=True)
    _, learned, server = learned_from(quirks, make_request(temperature=0.2), make_request("again"))
    assert not learned.temperature
    assert [("temperature" in e.body) for e in server.log] == [True, False, False]


@pytest.mark.parametrize("words", ["openai", "vllm"])
def test_a_refused_system_role_is_folded_in_and_never_dropped(words):
    quirks = Quirks(words=words, no_system=True)
    _, learned, server = learned_from(quirks, make_request("Q", system="Be fair."))
    assert not learned.system_role
    assert server.log[1].body["messages"] == [{"role": "user", "content": "Be fair.\n\nQ"}]


@pytest.mark.parametrize(
    ("takes", "words", "sent"),
    [
        ("json_object", "openai", ["json_schema", "json_object"]),
        ("json_object", "llama.cpp", ["json_schema", "json_object"]),
        ("none", "openai", ["json_schema", "json_object", None]),
    ],
)
def test_an_unknown_response_format_is_weakened_step_by_step(takes, words, sent):
    quirks = Quirks(words=words, schema=takes)
    _, learned, server = learned_from(quirks, make_request(schema=SCHEMA))
    formats = [(e.body.get("response_format") or {}).get("type") for e in server.log]
    assert formats == sent
    assert learned.schema == takes


def test_a_schema_whose_bounds_are_refused_keeps_its_structure():
    message = (
        "Invalid schema for response_format 'verdict': In context=('properties', 'evidence'), "
        "'maxLength' is not permitted."
    )

    def strict(asked):
        refused = "maxLength" in json.dumps(asked.body.get("response_format"))
        return error(400, message, param="response_format") if refused else None

    with LoopbackServer(strict) as server:
        replied(ask(server, make_request(schema=SCHEMA)))
        kept = server.log[1].body["response_format"]["json_schema"]["schema"]
    assert kept == {
        "type": "object",
        "properties": {"evidence": {"type": "string"}},
        "required": ["evidence"],
    }


@pytest.mark.parametrize("words", ["openai", "vllm"])
def test_top_logprobs_are_asked_up_to_the_cap(words):
    quirks = Quirks(words=words, max_top_logprobs=5)
    (reply,), learned, server = learned_from(quirks, make_request(top_logprobs=20))
    assert learned.max_top_logprobs == 5
    assert [e.body["top_logprobs"] for e in server.log] == [20, 5]
    assert reply.choices[0].logprobs is not None
    assert len(reply.choices[0].logprobs[0].top) == 5


def test_missing_logprobs_are_missing_and_not_made_up():
    (reply,), learned, _ = learned_from(Quirks(logprobs=False), make_request(top_logprobs=5))
    assert not learned.logprobs
    assert reply.choices[0].logprobs is None


def test_many_differences_at_once_are_all_learned_by_the_first_call():
    quirks = Quirks(
        max_n=1,
        tokens_field="max_completion_tokens",
        fixed_temperature=True,
        no_system=True,
        schema="none",
    )
    request = make_request("Q", system="S", n=3, temperature=0.0, schema=SCHEMA)
    with LoopbackServer(quirks=quirks) as server:
        outcomes = ask_all(server, [request] * 40, concurrency=40)
        assert server.completed == 40
        assert server.requests == 40 + 6
    assert sum(replied(outcome).requests for outcome in outcomes) == 46


def test_tokens_of_one_choice_are_noticed_and_corrected():
    (reply, _), learned, _ = learned_from(
        Quirks(one_choice_usage=True), make_request(n=3), make_request("again", n=3)
    )
    assert learned.usage_of_one_choice
    assert reply.usage.estimated
    exact = 3 * -(-len(SCORES) // 4)
    assert abs(reply.usage.completion_tokens - exact) <= 0.15 * exact


def test_what_a_refusal_seemed_to_teach_is_forgotten_when_it_did_not_help():
    def stubborn(asked):
        return error(400, "temperature is not supported") if "bad" in asked.prompt else None

    with LoopbackServer(stubborn) as server:

        async def main():
            async with client_of(server) as client:
                bad = await client.complete(make_request("bad"))
                good = await client.complete(make_request("good"))
                return bad, good, client.learned(MODEL)

        bad, good, learned = asyncio.run(main())
        assert server.log[-1].body["temperature"] == 1.0
    assert failed(bad).kind is FailureKind.BAD_REQUEST
    assert replied(good)
    assert learned == EndpointCapabilities()


@pytest.mark.parametrize(
    "message",
    [
        "Invalid 'messages[1].content': the string holds a NUL character",
        "The image could not be read",
        "Expected a value for the role of your message",
        "JSON parse error",
        "temperature must be between 0 and 2",
        "max_tokens is too large: 5000. This model supports at most 4096 completion tokens",
    ],
)
def test_a_refusal_that_names_no_parameter_teaches_nothing(message):
    failure = AttemptFailure(FailureKind.BAD_REQUEST, message, 400)
    assert (
        learn(EndpointCapabilities(), make_request(n=3, schema=SCHEMA, top_logprobs=5), failure)
        is None
    )


def test_a_json_object_that_needs_the_word_json_in_the_prompt_is_given_up():
    message = "'messages' must contain the word 'json' in some form, to use 'response_format'."
    failure = AttemptFailure(FailureKind.BAD_REQUEST, message, 400, "messages")
    learned = learn(
        EndpointCapabilities(schema="json_object"), make_request(schema=SCHEMA), failure
    )
    assert learned == EndpointCapabilities(schema="none")


def test_a_refusal_about_one_text_is_not_read_as_one_about_the_system_role():
    failure = AttemptFailure(
        FailureKind.BAD_REQUEST, "Invalid 'messages[0].content'", 400, "messages[0].content"
    )
    assert learn(EndpointCapabilities(), make_request(system="S"), failure) is None


def test_a_known_difference_is_used_from_the_first_request_on():
    remembered = {MODEL: EndpointCapabilities(max_n=2, temperature=False)}
    _, learned, server = learned_from(
        Quirks(max_n=2, fixed_temperature=True),
        make_request(n=3, temperature=0.0),
        learned=remembered,
    )
    assert server.requests == 1
    assert learned == remembered[MODEL]


@pytest.mark.parametrize(
    ("known", "alone"), [(None, True), ({MODEL: EndpointCapabilities()}, False)]
)
def test_an_unknown_model_is_asked_alone_first_and_a_known_one_is_not(known, alone):
    def held(number):
        return number == 0 and server.requests == 1 and not alone

    slow_first = [replace(completion(SCORES), delay=0.2)] if alone else []
    with LoopbackServer(slow_first, hold=held) as server:
        ask_all(server, [make_request(str(n)) for n in range(30)], learned=known)
        first, *others = server.log
    meanwhile = [entry for entry in others if entry.arrived < first.finished]
    assert (meanwhile == []) is alone


def test_what_was_learned_survives_the_database_and_says_itself():
    learned = EndpointCapabilities(
        max_n=1,
        tokens_field="max_completion_tokens",
        temperature=False,
        system_role=False,
        schema="none",
        logprobs=False,
        max_top_logprobs=5,
        usage_of_one_choice=True,
    )
    stored = json.loads(json.dumps(learned.to_json()))
    assert EndpointCapabilities.from_json({**stored, "of a later version": 1}) == learned
    assert len(learned.notes()) == 8
    assert EndpointCapabilities().notes() == ()


def test_system_messages_fold_into_a_user_message_even_without_one():
    request = make_request("Q", system="S")
    only_system = type(request)(request.messages[:1], MODEL)
    messages = body(only_system, EndpointCapabilities(system_role=False))["messages"]
    assert messages == [{"role": "user", "content": "S"}]
