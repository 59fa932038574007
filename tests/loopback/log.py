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
    def n(self) -> int:
        return int(self.body.get("n") or 1)


def prompt_of(body: Mapping[str, Any]) -> str:
    return "\n\n".join(str(m.get("content") or "") for m in body.get("messages", []))


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
