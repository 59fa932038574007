"""Read the JSON of a chat completion: what servers send, and what they should not have sent."""

import json
from collections.abc import Mapping
from typing import Any

from judging.core.text import storable, storable_json
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.errors import AttemptFailure, FailureKind, classify_answer
from judging.llm.client.messages import Choice, JudgeRequest, Reply, TokenLogprobs
from judging.llm.prices import Usage, reported_usage

# Stands for a probability of zero, which JSON can't write as a logarithm. OpenAI's own value.
LEAST_LOGPROB = -9999.0
# Takes control characters in a text as they are.
LENIENT = json.JSONDecoder(strict=False)


def read_completion(
    body: str, headers: Mapping[str, str], request: JudgeRequest, learned: EndpointCapabilities
) -> Reply | AttemptFailure:
    """A reply, or why an answer with HTTP 200 is none."""
    try:
        data = LENIENT.decode(body.removeprefix("\ufeff"))
        if "\\u" in body or "\0" in body:
            # Half a character gets into a text by an escape only.
            data = storable_json(data)
    except (ValueError, RecursionError):
        kind = storable(headers.get("content-type", "").partition(";")[0].strip()[:80])
        said = f": it is {kind}" if kind and "json" not in kind else ""
        return _unread(f"The endpoint's answer was cut off or is not JSON{said}.", headers)
    if not isinstance(data, dict):
        return _unread("The endpoint's answer is not a chat completion.", headers)
    found = data.get("choices")
    raw = [c for c in found if isinstance(c, dict)] if isinstance(found, list) else []
    if raw and all(isinstance(c.get("error"), dict) for c in raw):
        # OpenRouter's way to say that the model failed while it wrote.
        return classify_answer(200, headers, json.dumps(raw[0]))
    if not raw:
        if data.get("error"):
            return classify_answer(200, headers, body)
        return _unread("The endpoint's answer holds no choices.", headers)
    raw.sort(key=lambda c: c["index"] if isinstance(c.get("index"), int) else 0)
    choices = tuple(_choice(c) for c in raw)
    usage = _usage(data.get("usage"), request, choices, learned)
    if len(choices) == 1 and choices[0].completion_tokens is None and not usage.estimated:
        choices = (_counted(choices[0], usage.completion_tokens),)
    return Reply(
        choices=choices[: request.n],
        usage=usage,
        model=str(data.get("model") or ""),
        request_id=storable(headers.get("x-request-id") or str(data.get("id") or "")),
        asked=request.n,
    )


def _unread(message: str, headers: Mapping[str, str]) -> AttemptFailure:
    return AttemptFailure(
        FailureKind.BAD_REPLY, message, 200, headers=headers, possibly_billed=True
    )


def _choice(raw: Mapping[str, Any]) -> Choice:
    found = raw.get("message")
    message = found if isinstance(found, dict) else {}
    # Some servers put the text of a completion where the older API had it.
    text, thought = _parts(message.get("content", raw.get("text")))
    for name in ("reasoning_content", "reasoning"):
        if isinstance(message.get(name), str) and message[name]:
            thought = message[name]
            break
    logprobs = _logprobs(raw.get("logprobs"))
    return Choice(
        text=text,
        finish_reason=str(raw.get("finish_reason") or ""),
        reasoning=thought,
        logprobs=logprobs,
        completion_tokens=len(logprobs) if logprobs else None,
        refusal=str(message.get("refusal") or ""),
    )


def _parts(content: object) -> tuple[str | None, str]:
    """The text and the reasoning of a content that is a string or a list of typed parts."""
    if content is None or isinstance(content, str):
        return content, ""
    given: list[Any] = content if isinstance(content, list) else [content]
    parts: list[dict[str, Any]] = [
        part if isinstance(part, dict) else {"text": part} for part in given
    ]
    texts = [p["text"] for p in parts if _says(p) and isinstance(p.get("text"), str)]
    thoughts = [_parts(p["thinking"])[0] or "" for p in parts if "thinking" in p]
    return ("".join(texts) if texts else None), "".join(thoughts)


def _says(part: Mapping[str, Any]) -> bool:
    """Whether a part is of the answer, and not of the reasoning."""
    return part.get("type", "text") in ("text", "output_text")


def _logprobs(raw: object) -> tuple[TokenLogprobs, ...] | None:
    content = raw.get("content") if isinstance(raw, dict) else None
    if not isinstance(content, list) or not all(isinstance(entry, dict) for entry in content):
        return None
    tokens = []
    for entry in content:
        found = entry.get("top_logprobs")
        top = [t for t in found if isinstance(t, dict)] if isinstance(found, list) else []
        pairs = [(str(t.get("token", "")), _logprob(t.get("logprob"))) for t in top]
        pairs.sort(key=lambda pair: -pair[1])
        token = TokenLogprobs(
            str(entry.get("token", "")), _logprob(entry.get("logprob")), tuple(pairs)
        )
        tokens.append(token)
    return tuple(tokens) or None


def _logprob(value: object) -> float:
    """A finite number: NaN compares as smaller than nothing and ends at the least one too."""
    if not isinstance(value, (int, float)) or not value >= LEAST_LOGPROB:
        return LEAST_LOGPROB
    return float(min(value, 0))


def _counted(choice: Choice, tokens: int) -> Choice:
    return Choice(
        choice.text,
        choice.finish_reason,
        choice.reasoning,
        choice.logprobs,
        tokens,
        choice.refusal,
    )


def _usage(
    report: object,
    request: JudgeRequest,
    choices: tuple[Choice, ...],
    learned: EndpointCapabilities,
) -> Usage:
    return reported_usage(
        report,
        messages=[message.content for message in request.messages],
        texts=[(c.text or "") + c.reasoning for c in choices],
        counted=[c.completion_tokens for c in choices],
        one_choice_only=learned.usage_of_one_choice,
    )
