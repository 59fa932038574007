"""What the real servers refuse, in their own words, and what is asked instead."""

import asyncio
import json
from dataclasses import replace

import pytest

from judging.llm.client.adaptation import EndpointCapabilities, learn
from judging.llm.client.errors import FailureKind, classify_answer
from tests.judging.llm.asking import (
    KNOWN,
    MODEL,
    ask,
    client_of,
    failed,
    make_request,
    replied,
)
from tests.loopback import LoopbackServer, completion, error
from tests.loopback.server import SCORES

SCHEMA = {"type": "object", "properties": {"evidence": {"type": "string", "maxLength": 20}}}
OTHER_FIELD = {"tokens_field": "max_completion_tokens"}

REFUSALS = [
    # An argument that is not known.
    ("Unrecognized request argument supplied: n", {"max_n": 1}),
    ("extra fields not permitted: n", {"max_n": 1}),
    ("Unrecognized request argument supplied: max_tokens", OTHER_FIELD),
    ("max_tokens is deprecated; use max_completion_tokens", OTHER_FIELD),
    ("Unrecognized request argument supplied: response_format", {"schema": "none"}),
    ("Unrecognized request argument supplied: top_logprobs", {"logprobs": False}),
    # One that this model or server does not offer.
    ("Invalid value for parameter n: 3. Must be 1", {"max_n": 1}),
    ("`n` should be 1 when using greedy sampling", {"max_n": 1}),
    ("Multiple candidates is not enabled for this model", {"max_n": 1}),
    ("`temperature` is deprecated for this model.", {"temperature": False}),
    ("invalid temperature: only 0.6 is allowed for this model", {"temperature": False}),
    ("`temperature` may only be set to 1 when thinking is enabled", {"temperature": False}),
    ("temperature must be 1", {"temperature": False}),
    ("Developer instruction is not enabled for models/gemma-3-27b-it", {"system_role": False}),
    ("This model does not support system messages", {"system_role": False}),
    ("'system' is not one of ['user','assistant'] - 'messages.0.role'", {"system_role": False}),
    ("This response_format type is unavailable now", {"schema": "json_object"}),
    ("JSON mode is not enabled for models/gemma-3-27b-it", {"schema": "json_object"}),
    ("JSON schema conversion failed: Unrecognized schema", {"schema": "json_object"}),
    ("failed to parse grammar", {"schema": "json_object"}),
    ("For 'string' type, property 'maxLength' is not supported", {"schema": "plain_schema"}),
    ("properties maximum, minimum are not supported", {"schema": "plain_schema"}),
    ("logprobs is not enabled for this model", {"logprobs": False}),
    ("`top_n_tokens` must be >= 0 and <= 5. Given: 20", {"max_top_logprobs": 5}),
]


def taught(message, status=400, **fields):
    body = json.dumps({"error": {"message": message, **fields}})
    request = make_request(n=3, system="S", schema=SCHEMA, top_logprobs=20)
    return learn(EndpointCapabilities(), request, classify_answer(status, {}, body))


@pytest.mark.parametrize(("message", "differs"), REFUSALS)
def test_a_refusal_that_names_a_parameter_is_met(message, differs):
    assert taught(message) == EndpointCapabilities(**differs)


def test_a_gateway_that_writes_out_that_there_is_no_parameter_is_understood():
    message = "litellm.BadRequestError: Unsupported parameter: 'max_tokens' is not supported"
    learned = taught(message, type="None", param="None", code="400")
    assert learned == EndpointCapabilities(**OTHER_FIELD)


@pytest.mark.parametrize("status", [500, 501])
def test_a_template_that_takes_no_system_message_is_known_by_its_failure(status):
    assert taught("Jinja Exception: System role not supported", status) == EndpointCapabilities(
        system_role=False
    )


def test_an_ordinary_failure_teaches_nothing():
    assert taught("The server had an error with temperature", 500) is None
    assert taught("This isn't valid, and we can't read it") is None


def test_parameters_that_are_refused_in_a_circle_are_asked_once_each():
    def circling(asked):
        field = "max_tokens" if "max_tokens" in asked.body else "max_completion_tokens"
        return error(400, f"Unknown parameter: '{field}'.", param=field)

    with LoopbackServer(circling) as server:
        assert failed(ask(server)).kind is FailureKind.BAD_REQUEST
        assert server.requests == 2


def test_the_other_name_of_an_unknown_argument_is_tried_at_once():
    refusal = error(400, "Unknown parameter: 'max_tokens'.", param="max_tokens")
    with LoopbackServer([refusal, completion(SCORES)]) as server:
        assert replied(ask(server)).requests == 2
        assert "max_completion_tokens" in server.log[1].body


def test_calls_that_learn_at_the_same_time_do_not_forget_each_others():
    def script(asked):
        if "slow" not in asked.prompt:
            return completion(SCORES)
        capped = asked.body.get("top_logprobs", 0) > 5
        refusal = error(400, "top_logprobs must be at most 5", param="top_logprobs")
        return replace(refusal if capped else completion(SCORES), delay=0.1)

    async def main(server):
        async with client_of(server, learned=KNOWN) as client:
            slow = make_request("slow", top_logprobs=20)
            await asyncio.gather(*map(client.complete, (slow, make_request("quick", n=3))))
            return client.learned(MODEL)

    with LoopbackServer(script) as server:
        learned = asyncio.run(main(server))
    assert learned == EndpointCapabilities(max_n=1, max_top_logprobs=5)
