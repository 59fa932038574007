import json

import pytest

from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.messages import Reply
from judging.llm.client.transport import read_completion
from tests.judging.llm.asking import make_request


def reply_of(text, token="a"):
    logprobs = {"content": [{"token": token, "logprob": -0.1, "top_logprobs": []}]}
    choice = {"message": {"content": text}, "finish_reason": "stop", "logprobs": logprobs}
    body = json.dumps({"choices": [choice], "model": "m"})
    reply = read_completion(body, {}, make_request(), EndpointCapabilities())
    assert isinstance(reply, Reply)
    return reply


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("cut \ud83d", "cut \ufffd"),
        ("\ude00 begun", "\ufffd begun"),
        ("a\0b", "a\ufffdb"),
        ("whole \U0001f600 é", "whole \U0001f600 é"),
    ],
)
def test_half_a_character_does_not_cost_the_answer(sent, kept):
    choice = reply_of(sent, token=sent).choices[0]
    assert choice.text == kept
    assert choice.logprobs is not None
    assert choice.logprobs[0].token == kept
