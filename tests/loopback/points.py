"""A judge that scores one response by score tokens, with their log-probabilities."""

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tests.loopback.choice import entry
from tests.loopback.log import Asked

OUTPUT = re.compile(r"\[The Start of the Output\]\n(.*?)\n\[The End of the Output\]", re.DOTALL)


@dataclass(frozen=True)
class PointJudge:
    """`shares` by score; a score of two digits is two tokens. Otherwise drawn from the text."""

    shares: Mapping[int, float] | None = None
    low: int = 1
    high: int = 5
    seed: int = 0

    def probabilities(self, prompt: str) -> Mapping[int, float]:
        if self.shares is not None:
            return self.shares
        shown = OUTPUT.findall(prompt)
        text = shown[-1] if shown else ""
        digest = hashlib.sha256(f"{self.seed}:{text.strip()}".encode()).digest()
        weights = [1 + octet for octet in digest[: self.high - self.low + 1]]
        scores = range(self.low, self.high + 1)
        return {score: w / sum(weights) for score, w in zip(scores, weights, strict=True)}

    def likeliest(self, prompt: str) -> int:
        shares = self.probabilities(prompt)
        return max(shares, key=lambda score: shares[score])

    def __call__(self, asked: Asked, n: int) -> list[str]:
        return [str(self.likeliest(asked.prompt))] * n

    def logprobs(self, asked: Asked) -> list[dict[str, Any]]:
        most = int(asked.body.get("top_logprobs") or 0)
        shares = self.probabilities(asked.prompt)
        sampled = str(self.likeliest(asked.prompt))
        first: dict[str, float] = {}
        for score, share in shares.items():
            first[str(score)[0]] = first.get(str(score)[0], 0.0) + share
        entries = [entry(sampled[0], first, most)]
        following = {
            str(score)[1:] or "\n": share / first[sampled[0]]
            for score, share in shares.items()
            if str(score)[0] == sampled[0]
        }
        if len(following) > 1:
            entries.append(entry(sampled[1:] or "\n", following, most))
        return entries
