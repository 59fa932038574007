"""A provider that keeps what is marked, as gateways do with Anthropic's models.

It reports tokens as OpenRouter does: those read and written are part of `prompt_tokens`.
"""

from tests.loopback.answers import Answer, completion, token_count
from tests.loopback.log import Asked, parts_of


class PromptCache:
    """A script that answers each request with one choice. `prefixes`: what it was told to keep."""

    def __init__(self, text: str) -> None:
        self._text = text
        self.prefixes: set[str] = set()

    def __call__(self, asked: Asked) -> Answer:
        seen, marked = "", []
        for message in asked.body["messages"]:
            seen += f"[{message['role']}]"
            for part in parts_of(message):
                seen += part["text"]
                if part.get("cache_control") == {"type": "ephemeral"}:
                    marked.append(seen)
        read = max((token_count(text) for text in marked if text in self.prefixes), default=0)
        written = max(map(token_count, marked), default=0) - read
        self.prefixes.update(marked)
        prompt, reply = token_count(seen), token_count(self._text)
        usage = {
            "prompt_tokens": prompt,
            "completion_tokens": reply,
            "total_tokens": prompt + reply,
            "prompt_tokens_details": {"cached_tokens": read, "cache_write_tokens": written},
        }
        return completion(self._text, usage=usage, model="loopback-judge")
