"""What a loopback server refuses or ignores, in the words of the real servers."""

import json
from dataclasses import dataclass
from typing import Any, Literal

from tests.loopback.answers import Answer, error, token_count
from tests.loopback.log import Asked, parts_of

Words = Literal["openai", "azure", "vllm", "llama.cpp", "ollama"]


@dataclass(frozen=True)
class Quirks:
    """`ignores_n` answers with one choice, `ignores_logprobs` without log-probabilities;
    `one_choice_usage` counts the tokens of one choice alone; `reply_in_context` refuses a prompt
    that leaves no room for as long a reply as is allowed.
    """

    words: Words = "openai"
    max_n: int | None = None
    ignores_n: bool = False
    tokens_field: Literal["max_tokens", "max_completion_tokens", "both"] = "both"
    max_tokens: int | None = None
    fixed_temperature: bool = False
    no_system: bool = False
    schema: Literal["json_schema", "json_object", "none"] = "json_schema"
    logprobs: bool = True
    ignores_logprobs: bool = False
    max_top_logprobs: int | None = None
    context_tokens: int | None = None
    reply_in_context: bool = False
    forbidden_text: str | None = None
    one_choice_usage: bool = False
    takes_images: bool = True

    def refusal(self, asked: Asked) -> Answer | None:
        """The first thing that this server does not take, or None."""
        body = asked.body
        return (
            self._about_tokens(body)
            or self._about_sampling(asked)
            or self._about_format(body)
            or self._about_texts(asked)
        )

    def _about_tokens(self, body: Any) -> Answer | None:
        if self.tokens_field == "max_completion_tokens" and "max_tokens" in body:
            return error(
                400,
                "Unsupported parameter: 'max_tokens' is not supported with this model. "
                "Use 'max_completion_tokens' instead.",
                code="unsupported_parameter",
                param="max_tokens",
            )
        if self.tokens_field == "max_tokens" and "max_completion_tokens" in body:
            return unknown_argument("max_completion_tokens", self.words)
        asked = body.get("max_tokens") or body.get("max_completion_tokens") or 0
        if self.max_tokens is not None and asked > self.max_tokens:
            return too_many_tokens(self.words, asked, self.max_tokens)
        return None

    def _about_sampling(self, asked: Asked) -> Answer | None:
        body = asked.body
        if self.max_n is not None and asked.n > self.max_n:
            return too_many_choices(self.words, asked.n, self.max_n)
        if self.fixed_temperature and body.get("temperature", 1) != 1:
            return error(
                400,
                "Unsupported value: 'temperature' does not support "
                f"{body['temperature']} with this model. Only the default (1) value is supported.",
                code="unsupported_value",
                param="temperature",
            )
        if not self.logprobs and body.get("logprobs"):
            return error(403, "You are not allowed to request logprobs from this model")
        most = self.max_top_logprobs
        if most is not None and (body.get("top_logprobs") or 0) > most:
            return too_many_logprobs(self.words, int(body["top_logprobs"]), most)
        return None

    def _about_format(self, body: Any) -> Answer | None:
        asked_for = (body.get("response_format") or {}).get("type")
        if asked_for is None or self.schema == "json_schema":
            return None
        if asked_for == "json_object" and self.schema == "json_object":
            return None
        if self.words == "llama.cpp":
            message = 'response_format type must be one of "text" or "json_object", but got: '
            return error(400, message + str(asked_for))
        return error(
            400,
            f"Invalid parameter: 'response_format' of type '{asked_for}' is not supported with "
            "this model.",
            param="response_format",
        )

    def _about_texts(self, asked: Asked) -> Answer | None:
        kinds = [part["type"] for one in asked.body["messages"] for part in parts_of(one)]
        if "image_url" in kinds and not self.takes_images:
            message = "Invalid content type. image_url is only supported by certain models."
            return error(400, message, param="messages.[0].content.[1].type")
        roles = [m.get("role") for m in asked.body.get("messages", [])]
        if self.no_system and "system" in roles:
            if self.words in ("vllm", "llama.cpp"):
                return error(400, "System role not supported")
            return error(
                400,
                "Unsupported value: 'messages[0].role' does not support 'system' with this model.",
                code="unsupported_value",
                param="messages[0].role",
            )
        tokens = token_count(asked.prompt)
        if self.context_tokens is not None and tokens > self.context_tokens:
            return too_long(self.words, tokens, self.context_tokens)
        reply = asked.body.get("max_tokens") or asked.body.get("max_completion_tokens") or 0
        if self.reply_in_context and tokens + reply > (self.context_tokens or 0):
            return no_room(self.words, tokens, reply, self.context_tokens or 0)
        if self.forbidden_text is not None and self.forbidden_text in asked.prompt:
            return filtered(self.words)
        return None


def unknown_argument(name: str, words: Words) -> Answer:
    if words == "vllm":
        detail = [{"type": "extra_forbidden", "loc": ["body", name], "msg": "Extra inputs ..."}]
        return Answer(422, json.dumps({"detail": detail}))
    return error(400, f"Unrecognized request argument supplied: {name}")


def too_many_choices(words: Words, asked: int, most: int) -> Answer:
    messages = {
        "openai": f"Invalid 'n': integer above maximum value. Expected a value <= {most}.",
        "azure": f"Invalid 'n': integer above maximum value. Expected a value <= {most}.",
        "vllm": f"n must be at most {most}",
        "llama.cpp": f"Field 'n': Value must be between 1 <= value <= {most}, but got {asked}",
        "ollama": "multiple completions are not supported: n must be 1",
    }
    named = words in ("openai", "azure")
    return error(400, messages[words], param="n" if named else None)


def too_many_tokens(words: Words, asked: int, most: int) -> Answer:
    message = (
        f"max_tokens is too large: {asked}. This model supports at most {most} completion tokens, "
        f"whereas you provided {asked}."
    )
    if words in ("openai", "azure"):
        # Under this name whichever of the two was sent.
        return error(400, message, code="invalid_value", param="max_tokens")
    return error(400, f"Invalid max_tokens value, the valid range of max_tokens is [1, {most}]")


def too_many_logprobs(words: Words, asked: int, most: int) -> Answer:
    if words == "vllm":
        return error(
            400,
            f"Requested sample logprobs of {asked}, which is greater than max allowed: {most}",
        )
    message = f"Invalid value for 'top_logprobs': must be less than or equal to {most}."
    return error(400, message, param="top_logprobs")


def too_long(words: Words, tokens: int, most: int) -> Answer:
    messages = {
        "openai": f"This model's maximum context length is {most} tokens. However, your messages "
        f"resulted in {tokens} tokens. Please reduce the length of the messages.",
        "vllm": f"This model's maximum context length is {most} tokens. However, you requested "
        f"{tokens} tokens. Please reduce the length of the messages or completion.",
        "llama.cpp": f"request ({tokens} tokens) exceeds the available context size ({most} "
        "tokens), try increasing it",
        "ollama": "the input length exceeds the context length",
    }
    codes = {"openai": "context_length_exceeded", "llama.cpp": "exceed_context_size_error"}
    words = "openai" if words == "azure" else words
    return error(400, messages[words], code=codes.get(words))


def no_room(words: Words, prompt: int, reply: int, most: int) -> Answer:
    if words == "vllm":
        message = (
            f"'max_tokens' or 'max_completion_tokens' is too large: {reply}. This model's maximum "
            f"context length is {most} tokens and your request has {prompt} input tokens "
            f"({reply} > {most} - {prompt})."
        )
        return error(400, message, param="max_tokens", kind="BadRequestError")
    message = (
        f"This model's maximum context length is {most} tokens. However, you requested "
        f"{prompt + reply} tokens ({prompt} in the messages, {reply} in the completion). Please "
        "reduce the length of the messages or completion."
    )
    return error(400, message, code="context_length_exceeded", param="messages")


def filtered(words: Words) -> Answer:
    if words == "azure":
        return error(
            400,
            "The response was filtered due to the prompt triggering Azure OpenAI's content "
            "management policy. Please modify your prompt and retry.",
            code="content_filter",
            param="prompt",
        )
    message = "Invalid prompt: your prompt was flagged as potentially violating our usage policy."
    return error(400, message, code="invalid_prompt")
