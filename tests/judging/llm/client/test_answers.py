"""What a call's answer brings, over real HTTP."""

import json

import pytest

from judging.llm.client.errors import FailureKind
from tests.judging.llm.asking import (
    MODEL,
    ask,
    failed,
    make_request,
    replied,
)
from tests.loopback import (
    Answer,
    LoopbackServer,
    completion,
)
from tests.loopback.server import SCORES


def test_a_reply_brings_its_choices_and_what_it_used():
    with LoopbackServer([completion("one", "two", "three", prompt_tokens=40)]) as server:
        reply = replied(ask(server, make_request(n=3)))
    assert [choice.text for choice in reply.choices] == ["one", "two", "three"]
    assert (reply.usage.prompt_tokens, reply.usage.completion_tokens) == (40, 4)
    assert (reply.model, reply.request_id) == (MODEL, "loopback-0")
    assert (reply.requests, reply.possibly_billed, reply.asked) == (1, 0, 3)


@pytest.mark.parametrize("text", [None, ""])
def test_no_content_is_an_answer_and_not_a_failure(text):
    with LoopbackServer([completion(text, finish_reason="content_filter")]) as server:
        (choice,) = replied(ask(server)).choices
        assert server.requests == 1
    assert (choice.text, choice.finish_reason) == (text, "content_filter")


@pytest.mark.parametrize("name", ["reasoning_content", "reasoning"])
def test_reasoning_is_kept_apart_from_the_text(name):
    thought = "Assistant 1 deserves 10. The score of Assistant 1: 10"
    with LoopbackServer([completion("verdict", message={name: thought})]) as server:
        (choice,) = replied(ask(server)).choices
    assert (choice.text, choice.reasoning) == ("verdict", thought)


def test_content_in_typed_parts_is_read():
    parts = [
        {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]},
        {"type": "text", "text": "ver"},
        {"type": "text", "text": "dict"},
    ]
    with LoopbackServer([completion("", message={"content": parts})]) as server:
        (choice,) = replied(ask(server)).choices
    assert (choice.text, choice.reasoning) == ("verdict", "hm")


def test_a_refusal_field_is_kept():
    with LoopbackServer([completion(None, message={"refusal": "I can't"})]) as server:
        (choice,) = replied(ask(server)).choices
    assert (choice.text, choice.refusal) == (None, "I can't")


def test_choices_out_of_order_are_put_in_order_and_surplus_ones_left_out():
    data = json.loads(completion("a", "b", "c").body)
    data["choices"].reverse()
    with LoopbackServer([Answer(200, json.dumps(data))]) as server:
        reply = replied(ask(server, make_request(n=2)))
    assert [choice.text for choice in reply.choices] == ["a", "b"]


@pytest.mark.parametrize(
    "usage",
    [None, {}, {"prompt_tokens": 0, "completion_tokens": 0}, {"prompt_tokens": "many"}, [1, 2]],
)
def test_wrong_usage_never_breaks_a_reply_and_is_marked(usage):
    with LoopbackServer([completion(SCORES, usage=usage)]) as server:
        reply = replied(ask(server))
    assert reply.usage.estimated
    assert reply.usage.prompt_tokens > 0
    assert reply.usage.completion_tokens > 0


@pytest.mark.parametrize("before", ["", "event: error\n", ": keep alive\n\n"])
@pytest.mark.parametrize(
    ("event", "kind", "message"),
    [
        (
            '{"object": "error", "message": "The key is unknown", "code": 401}',
            FailureKind.AUTH,
            "The key is unknown",
        ),
        ('{"error": {"message": "bad n", "code": 400}}', FailureKind.BAD_REQUEST, "bad n"),
        (
            '{"choices": [{"delta": {"content": "8"}}]}',
            FailureKind.BAD_REPLY,
            "The endpoint's answer is a stream, which was not asked for.",
        ),
    ],
)
def test_an_error_in_a_stream_that_nobody_asked_for_is_the_error(before, event, kind, message):
    with LoopbackServer(lambda asked: Answer(200, f"{before}data: {event}\n\n")) as server:
        failure = failed(ask(server))
    assert (failure.kind, failure.message) == (kind, message)
