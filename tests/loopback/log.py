"""What the loopback server saw: each request, and how its answer ended."""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Asked:
    """One request as it arrived; `number` counts the requests, `repeat` those of this prompt."""

    number: int
    repeat: int
    body: Mapping[str, Any]
    headers: Mapping[str, str]

    @property
    def prompt(self) -> str:
        return prompt_of(self.body)

    @property
    def schema(self) -> Mapping[str, Any]:
        """What the reply is held to; nothing if no JSON schema was sent."""
        held = (self.body.get("response_format") or {}).get("json_schema") or {}
        return held.get("schema") or {}

    @property
    def n(self) -> int:
        return int(self.body.get("n") or 1)


def prompt_of(body: Mapping[str, Any]) -> str:
    return "\n\n".join(
        "".join(part.get("text", "") for part in parts_of(m)) for m in body.get("messages", [])
    )


def parts_of(message: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """The parts of a message's content, which may be a text."""
    content = message.get("content")
    return content if isinstance(content, list) else [{"type": "text", "text": str(content or "")}]


@dataclass
class LogEntry:
    """`complete`: the whole answer was handed to a connection that was still open."""

    number: int
    prompt_sha256: str
    n: int
    arrived: float
    body: Mapping[str, Any] = field(repr=False)
    headers: Mapping[str, str] = field(repr=False)
    finished: float | None = None
    status: int | None = None
    complete: bool = False
    choices: int = 0

    @classmethod
    def of(cls, asked: Asked, arrived: float) -> "LogEntry":
        digest = hashlib.sha256(asked.prompt.encode()).hexdigest()
        return cls(asked.number, digest, asked.n, arrived, asked.body, asked.headers)

    def line(self) -> str:
        """Without the texts: a log of a hundred thousand calls stays small."""
        kept = {k: v for k, v in asdict(self).items() if k not in ("body", "headers")}
        return json.dumps(kept)
