"""A shorter reply is requested if it doesn't fit after its prompt, but no prompt is cut."""

import asyncio

import pytest

from judging.llm.client.adaptation import EndpointCapabilities, body, fit, learn
from judging.llm.client.errors import FailureKind, classify_answer
from tests.judging.llm.asking import MODEL, ask, client_of, failed, make_request, replied
from tests.loopback import LoopbackServer, Quirks, error
from tests.loopback.answers import token_count

# As in bug reports: OpenAI and Azure, OpenAI's completions, OpenRouter, vLLM from 0.9 on, SGLang,
# Text Generation Inference, Anthropic. What is left is the context less the prompt.
NO_ROOM = [
    ("This model's maximum context length is 32768 tokens. However, you requested 35969 tokens "
     "(9969 in the messages, 26000 in the completion). Please reduce the length of the messages "
     "or completion.", 26000, 32768 - 9969),
    ("This model's maximum context length is 4097 tokens, however you requested 4322 tokens (4066 "
     "in your prompt; 256 for the completion). Please reduce your prompt; or completion length.",
     256, 4097 - 4066),
    ("This endpoint's maximum context length is 204800 tokens. However, you requested about "
     "205432 tokens (81684 of text input, 3748 of tool input, 120000 in the output). Please "
     "reduce the length of either one [...]", 120000, 204800 - 81684 - 3748),
    ("'max_tokens' or 'max_completion_tokens' is too large: 8000. This model's maximum context "
     "length is 32768 tokens and your request has 25201 input tokens (8000 > 32768 - 25201).",
     8000, 32768 - 25201),
    ("Requested token count exceeds the model's maximum context length of 4096 tokens. You "
     "requested a total of 5000 tokens: 1000 tokens from the input messages and 4000 tokens for "
     "the completion.", 4000, 4096 - 1000),
    ("Input validation error: `inputs` tokens + `max_new_tokens` must be <= 1512. Given: 1000 "
     "`inputs` tokens and 1024 `max_new_tokens`", 1024, 512),
    ("input length and `max_tokens` exceed context limit: 143653 + 64000 > 200000, decrease input "
     "length or `max_tokens` and try again", 64000, 200000 - 143653),
]  # fmt: skip

TOO_LONG = [
    "This model's maximum context length is 4097 tokens. However, you requested 4203 tokens (4090 "
    "in the messages, 113 in the completion). Please reduce the length of the messages.",
    "This model's maximum context length is 8192 tokens, however you requested 8977 tokens (8977 "
    "in your prompt; 0 for the completion). Please reduce your prompt; or completion length.",
    "This endpoint's maximum context length is 16384 tokens. However, you requested about 94307 "
    "tokens (94307 of text input). Please reduce the length of either one.",
    "'max_tokens' or 'max_completion_tokens' is too large: 64. This model's maximum context length "
    "is 4096 tokens and your request has 5000 input tokens (64 > 4096 - 5000).",
    "request (9000 tokens) exceeds the available context size (4096 tokens), try increasing it",
    "This model's maximum context length is 128000 tokens. However, your messages resulted in "
    "204308 tokens. Please reduce the length of the messages.",
]


def refused(message):
    return classify_answer(400, {}, error(400, message).body)


@pytest.mark.parametrize(("message", "sent", "left"), NO_ROOM)
def test_what_is_left_is_read_in_the_words_of_every_server(message, sent, left):
    request = make_request(max_tokens=sent)
    learned, fitting = fit(request, EndpointCapabilities(), refused(message))
    assert body(fitting, learned)["max_tokens"] == left
    assert str(learned.context) in learned.notes()[-1]


@pytest.mark.parametrize("message", TOO_LONG)
def test_a_prompt_that_leaves_no_room_is_too_long(message):
    failure = refused(message)
    assert failure.kind is FailureKind.TOO_LONG
    assert fit(make_request(max_tokens=113), EndpointCapabilities(), failure) is None


@pytest.mark.parametrize("words", ["openai", "azure", "vllm"])
def test_a_reply_that_does_not_fit_is_asked_for_shorter_and_the_next_one_at_once(words):
    quirks = Quirks(words=words, context_tokens=1000, reply_in_context=True)
    long, short = "it is so " * 50, "it is so " * 25
    requests = [make_request(text, max_tokens=960) for text in (long, long, short)]
    with LoopbackServer(quirks=quirks) as server:

        async def main():
            async with client_of(server) as client:
                return [await client.complete(r) for r in requests], client.learned(MODEL)

        replies, learned = asyncio.run(main())
        assert [replied(reply).requests for reply in replies] == [2, 1, 1]
        allowed = [entry.body["max_tokens"] for entry in server.log]
    assert learned == EndpointCapabilities(context=1000)
    assert allowed[:2] == [960, 1000 - token_count(long)]
    assert 480 < allowed[2] <= allowed[1] < allowed[3] < 960


@pytest.mark.parametrize("words", ["openai", "azure", "vllm"])
def test_only_the_servers_own_count_takes_much_of_a_reply(words):
    """Of an estimate only as much is made as does little harm where it is wrong."""
    quirks = Quirks(words=words, context_tokens=500, reply_in_context=True)
    text = "it is so " * 110
    request, left = make_request(text, max_tokens=300), 500 - token_count(text)
    assert 500 - request.prompt_tokens < 150 < left < 300
    known = {MODEL: EndpointCapabilities(context=500)}
    with LoopbackServer(quirks=quirks) as server:
        assert replied(ask(server, request, learned=known)).requests == 2
        assert [entry.body["max_tokens"] for entry in server.log] == [300, left]


def test_a_prompt_too_long_for_the_context_is_asked_once():
    quirks = Quirks(words="llama.cpp", context_tokens=50)
    with LoopbackServer(quirks=quirks) as server:
        failure = failed(ask(server, make_request("long " * 200)))
        assert (failure.kind, server.requests) == (FailureKind.TOO_LONG, 1)


def vllm_counting_to_the_bound(context):
    """vLLM of 2026 cuts a prompt where it leaves no room, and then counts it."""

    def script(asked):
        reply, prompt = asked.body["max_tokens"], token_count(asked.prompt)
        if prompt + reply <= context:
            return None
        least = context - reply + 1
        return error(
            400,
            f"This model's maximum context length is {context} tokens. However, you requested "
            f"{reply} output tokens and your prompt contains at least {least} input tokens, for a "
            f"total of at least {context + 1} tokens. Please reduce the length of the input prompt "
            "or the number of requested output tokens.",
            param="input_tokens",
            kind="BadRequestError",
        )

    return script


@pytest.mark.parametrize("text", ["word " * 100, "0 1 2 3 4 5 6 7 8 9 " * 20, "Donau" * 200])
def test_a_prompt_that_was_not_counted_to_its_end_still_gets_its_reply(text):
    with LoopbackServer(vllm_counting_to_the_bound(1000)) as server:
        reply = replied(ask(server, make_request(text, max_tokens=990)))
        assert reply.requests <= 3
        assert server.log[-1].body["max_tokens"] + token_count(text) <= 1000


def test_a_prompt_surely_above_the_context_is_asked_once_though_it_was_not_counted():
    with LoopbackServer(vllm_counting_to_the_bound(1000)) as server:
        failure = failed(ask(server, make_request("word " * 2000, max_tokens=500)))
        assert (failure.kind, server.requests) == (FailureKind.TOO_LONG, 1)


def test_more_than_the_whole_context_is_learned_as_the_most():
    failure = refused(
        "max_tokens=9000cannot be greater than max_model_len=max_total_tokens=8192. Please "
        "request fewer output tokens."
    )
    learned = learn(EndpointCapabilities(), make_request(max_tokens=9000), failure)
    assert learned == EndpointCapabilities(max_tokens=8192)
