"""The answers that a script can give, each as a real server would send it or break off."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Answer:
    """`cut` bytes of the body are sent before the connection is reset; a `hang` sends nothing."""

    status: int = 200
    body: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    choices: int = 0
    cut: int | None = None
    hang: bool = False
    delay: float = 0.0


def completion(
    *texts: str | None,
    usage: object = "counted",
    finish_reason: str = "stop",
    prompt_tokens: int = 50,
    model: str = "loopback-judge",
    message: Mapping[str, Any] | None = None,
    logprobs: Sequence[object] | None = None,
    headers: Mapping[str, str] | None = None,
) -> Answer:
    """A chat completion with a choice for each text. `usage` replaces or, as None, omits it."""
    choices = [
        {
            "index": index,
            "message": {"role": "assistant", "content": text, **(message or {})},
            "finish_reason": finish_reason,
            **({"logprobs": {"content": logprobs}} if logprobs is not None else {}),
        }
        for index, text in enumerate(texts)
    ]
    data: dict[str, Any] = {
        "id": "chatcmpl-loopback",
        "object": "chat.completion",
        "created": 0,
        "model": model,
        "choices": choices,
    }
    if usage == "counted":
        tokens = sum(token_count(text or "") for text in texts)
        data["usage"] = usage_of(prompt_tokens, tokens)
    elif usage is not None:
        data["usage"] = usage
    return Answer(200, json.dumps(data), headers or {}, choices=len(choices))


def usage_of(prompt: int, completion_tokens: int, cached: int = 0) -> dict[str, object]:
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion_tokens,
        "total_tokens": prompt + completion_tokens,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def token_count(text: str) -> int:
    """The tokens that the loopback model counts in a text: about one in four characters."""
    return -(-len(text) // 4)


def error(
    status: int,
    message: str,
    *,
    code: str | None = None,
    param: str | None = None,
    kind: str = "invalid_request_error",
    headers: Mapping[str, str] | None = None,
) -> Answer:
    body = {"error": {"message": message, "type": kind, "param": param, "code": code}}
    return Answer(status, json.dumps(body), headers or {})


def rate_limited(headers: Mapping[str, str] | None = None, **named: str) -> Answer:
    """A 429 with the given headers; `retry_after="1"` writes Retry-After."""
    sent = {name.replace("_", "-"): value for name, value in named.items()} | dict(headers or {})
    message = "Rate limit reached for requests"
    return error(429, message, code="rate_limit_exceeded", kind="requests", headers=sent)


def server_error(status: int = 500) -> Answer:
    return Answer(status, "<html><body>Internal Server Error</body></html>")


def cut_in_body(answer: Answer, after: int = 20) -> Answer:
    return Answer(answer.status, answer.body, answer.headers, answer.choices, cut=after)


def hang() -> Answer:
    return Answer(hang=True)
