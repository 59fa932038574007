"""The client against llama.cpp's own server and the local model: its real words and numbers."""

import asyncio
import json
import urllib.request

import pytest

from judging.llm.client.errors import FailureKind
from judging.llm.client.judge_client import JudgeClient, list_models, only_model, probe_logprobs
from judging.llm.client.messages import JudgeRequest
from judging.llm.endpoint import Endpoint
from judging.local_judge.running import running_local_judge
from judging.local_judge.server import CONTEXT_TOKENS, PARALLEL
from tests.judging.llm.asking import failed, make_request, replied

pytestmark = pytest.mark.system


@pytest.fixture(scope="module")
def endpoint(tmp_path_factory, local_model):
    folder = tmp_path_factory.mktemp("local")
    (folder / "models").symlink_to(local_model.parent)
    with running_local_judge(folder) as base_url:
        yield Endpoint("local", base_url)


@pytest.fixture(scope="module")
def model(endpoint):
    return only_model(asyncio.run(list_models(endpoint, None)))


def asked(endpoint: Endpoint, *requests: JudgeRequest):
    async def main():
        async with JudgeClient(endpoint, None) as client:
            outcomes = [await client.complete(request) for request in requests]
            return outcomes, client.learned(requests[0].model)

    return asyncio.run(main())


def exact_tokens(endpoint: Endpoint, text: str) -> int:
    address = endpoint.base_url.removesuffix("/v1") + "/tokenize"
    content = json.dumps({"content": text}).encode()
    request = urllib.request.Request(address, content, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return len(json.load(answer)["tokens"])


def test_more_choices_than_it_has_slots_are_asked_up_to_their_number(endpoint, model):
    request = make_request("Say hello.", model=model, n=PARALLEL + 2, max_tokens=8)
    (outcome,), learned = asked(endpoint, request)
    assert len(replied(outcome).choices) == PARALLEL
    assert learned.max_n == PARALLEL


@pytest.mark.long
def test_tokens_of_one_choice_are_corrected_to_about_all_of_them(endpoint, model):
    request = make_request("Name three colours and say why.", model=model, n=3, max_tokens=40)
    (outcome,), learned = asked(endpoint, request)
    reply = replied(outcome)
    truth = sum(exact_tokens(endpoint, choice.text or "") for choice in reply.choices)
    assert reply.usage.estimated
    assert learned.usage_of_one_choice
    assert reply.usage.completion_tokens == pytest.approx(truth, rel=0.35)


def test_one_choice_is_counted_as_reported_and_the_cached_prompt_is_seen(endpoint, model):
    request = make_request("Which is larger, a cat or a house?", model=model, max_tokens=8)
    (first, second), _ = asked(endpoint, request, request)
    assert not replied(first).usage.estimated
    assert 0 < replied(second).usage.cached_tokens < replied(second).usage.prompt_tokens


def test_its_logprobs_are_found_by_the_probe(endpoint, model):
    async def main():
        async with JudgeClient(endpoint, None) as client:
            return await probe_logprobs(client, model)

    support = asyncio.run(main())
    assert support.supported
    assert support.top >= 20


def test_a_prompt_beyond_its_context_is_too_long_and_asked_once(endpoint, model):
    request = make_request("word " * (CONTEXT_TOKENS + 100), model=model, max_tokens=8)
    (outcome,), _ = asked(endpoint, request)
    failure = failed(outcome)
    assert (failure.kind, failure.requests) == (FailureKind.TOO_LONG, 1)


def test_a_schema_is_followed(endpoint, model):
    schema = {
        "type": "object",
        "properties": {
            "evidence": {"type": "string", "maxLength": 40},
            "score_1": {"type": "integer", "minimum": 1, "maximum": 10},
        },
        "required": ["evidence", "score_1"],
        "additionalProperties": False,
    }
    # The tokens of 40 characters that are all written as escapes, such as \u2f30, fit too.
    request = make_request("Rate this: good.", model=model, max_tokens=600, schema=schema)
    (outcome,), learned = asked(endpoint, request)
    verdict = json.loads(replied(outcome).choices[0].text or "")
    assert set(verdict) == {"evidence", "score_1"}
    assert learned.schema == "json_schema"
