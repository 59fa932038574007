"""A judge that answers with one option ID and its log-probability, biased by known amounts."""

import hashlib
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.loopback.log import Asked

SHOWN = re.compile(r"\[The Start of Answer (.+?)\]\n(.*?)\n\[The End of Answer \1\]", re.DOTALL)
# The two IDs in the order of the template's last line: t1, then t2.
IDS = re.compile(r"\[Better Answer, (.+?) or (.+?)\]\s*$")
# What neither ID has of the probability goes to a token that says nothing.
OTHER = "The"


@dataclass(frozen=True)
class ChoiceJudge:
    """Its logit for the response shown first is quality + `position` + `token` where that bears t1.

    `spread` is the standard deviation of a response's own quality in logits, `mass` what both IDs
    have together. An ID of `missing` is never among the likeliest tokens; `split` says by which
    tokens an ID is written.
    """

    position: float = 1.2
    token: float = 0.8
    spread: float = 1.5
    mass: float = 0.9
    seed: int = 0
    missing: frozenset[str] = frozenset()
    split: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def quality(self, response: str) -> float:
        digest = hashlib.sha256(f"{self.seed}:{response.strip()}".encode()).digest()
        uniform = int.from_bytes(digest[:4], "big") / 2**32
        return self.spread * math.sqrt(12) * (uniform - 0.5) / math.sqrt(2)

    def p_first(self, prompt: str) -> float:
        """Of the response shown first, whatever it is called."""
        (first_id, first), (_, second) = SHOWN.findall(prompt)[-2:]
        t1 = IDS.findall(prompt)[-1][0]
        bears = 1 if first_id == t1 else -1
        logit = self.quality(first) - self.quality(second) + self.position + bears * self.token
        return 1 / (1 + math.exp(-logit))

    def shown_ids(self, prompt: str) -> tuple[str, str]:
        (first_id, _), (second_id, _) = SHOWN.findall(prompt)[-2:]
        return first_id, second_id

    def __call__(self, asked: Asked, n: int) -> list[str]:
        if not SHOWN.search(asked.prompt):
            return ["A"] * n
        first, second = self.shown_ids(asked.prompt)
        return [first if self.p_first(asked.prompt) >= 0.5 else second] * n

    def logprobs(self, asked: Asked) -> list[dict[str, Any]]:
        most = int(asked.body.get("top_logprobs") or 0)
        if not SHOWN.search(asked.prompt):
            return [entry("A", {"A": 0.6, "B": 0.3}, most)]
        p = self.p_first(asked.prompt)
        first, second = self.shown_ids(asked.prompt)
        shares = {first: self.mass * p, second: self.mass * (1 - p)}
        tokens = {self.tokens(name)[0]: share for name, share in shares.items()}
        likelier = first if p >= 0.5 else second
        if len(tokens) == 1:
            return self.after_what_both_share(shares, likelier, most)
        kept = {t: s for t, s in tokens.items() if t.strip() not in self.missing}
        kept[OTHER] = 1 - self.mass
        sampled = self.tokens(likelier)[0]
        return [entry(sampled if sampled in kept else OTHER, kept, most)]

    def after_what_both_share(
        self, shares: dict[str, float], likelier: str, most: int
    ) -> list[dict[str, Any]]:
        shared = self.tokens(likelier)[0]
        following = {self.tokens(name)[1]: share / self.mass for name, share in shares.items()}
        return [
            entry(shared, {shared: self.mass, OTHER: 1 - self.mass}, most),
            entry(self.tokens(likelier)[1], following, most),
        ]

    def tokens(self, name: str) -> tuple[str, ...]:
        return tuple(self.split.get(name, (name,)))


def entry(sampled: str, shares: Mapping[str, float], most: int) -> dict[str, Any]:
    """One token as OpenAI writes it, with as many alternatives as were asked for, at most."""
    ranked = sorted(shares.items(), key=lambda item: -item[1])
    top = [{"token": token, "logprob": math.log(share)} for token, share in ranked if share > 0]
    return {
        "token": sampled,
        "logprob": math.log(shares[sampled]),
        "top_logprobs": top[:most],
    }
