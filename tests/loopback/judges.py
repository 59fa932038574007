"""Judges for the loopback server: a function of what was asked, deterministic by seed."""

import hashlib
import json
import random
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tests.loopback.log import Asked

# The texts of the choices for one request.
Judge = Callable[[Asked, int], Sequence[str]]

SHOWN = re.compile(
    r"\[The Start of Assistant (?:1|A)'s \w+\]\n(.*?)\n\[The End of Assistant (?:1|A)'s \w+\]"
    r".*?\[The Start of Assistant (?:2|B)'s \w+\]\n(.*?)\n\[The End of Assistant (?:2|B)'s \w+\]",
    re.DOTALL,
)


def fixed_judge(text: str) -> Judge:
    """Says the same of everything."""
    return lambda asked, n: [text] * n


@dataclass(frozen=True)
class BiasedJudge:
    """Scores each response by a quality of its own, favours a position, and wavers.

    `position_bias` is added to whatever is shown first; `noise` is the spread of one sample.
    Which format it answers in, it reads from the prompt: scores after evidence, JSON, scores
    first, `[[A]]`, or a rating from 1 to 7.
    """

    position_bias: float = 1.0
    noise: float = 0.8
    seed: int = 0

    def __call__(self, asked: Asked, n: int) -> list[str]:
        shown = SHOWN.search(asked.prompt)
        first, second = shown.groups() if shown else ("", "")
        draw = random.Random(f"{self.seed}:{asked.repeat}:{asked.prompt}")
        return [self._reply(asked, first, second, draw) for _ in range(n)]

    def quality(self, response: str) -> float:
        """Between 3 and 9, by the response's text alone, wherever it is shown."""
        digest = hashlib.sha256(f"{self.seed}:{response.strip()}".encode()).digest()
        return 3.0 + 6.0 * int.from_bytes(digest[:4], "big") / 2**32

    def _reply(self, asked: Asked, first: str, second: str, draw: random.Random) -> str:
        a = self._score(self.quality(first) + self.position_bias, draw)
        b = self._score(self.quality(second), draw)
        evidence = "Both responses address the question; they differ in detail and accuracy."
        prompt = asked.prompt
        held = asked.schema.get("properties", {})
        if "verdict" in held:
            verdict = held["verdict"]["enum"][2 if a == b else 0 if a > b else 1]
            return _in_order(held, evidence=evidence, verdict=verdict)
        if "rating" in held:
            return _in_order(held, evidence=evidence, rating=min(7, max(1, 4 + (a - b))))
        if "response_format" in asked.body or '"score_1"' in prompt:
            return json.dumps({"evidence": evidence, "score_1": a, "score_2": b})
        if "[[A]]" in prompt:
            return f"{evidence} [[{'C' if a == b else 'A' if a > b else 'B'}]]"
        if "1, 2, 3, 4, 5, 6, or 7" in prompt:
            return f"{min(7, max(1, 4 + (a - b)))}\n{evidence}"
        if "which answer is better" in prompt:
            return f"{'Same' if a == b else 'Assistant 1' if a > b else 'Assistant 2'}\n{evidence}"
        if "single line containing only two values" in prompt:
            return f"{a} {b}\n{evidence}"
        return (
            f"Evaluation evidence: {evidence}\n"
            f"The score of Assistant 1: {a}\nThe score of Assistant 2: {b}"
        )

    def _score(self, quality: float, draw: random.Random) -> int:
        return min(10, max(1, round(quality + draw.gauss(0.0, self.noise))))


def _in_order(schema: Iterable[str], **values: object) -> str:
    """As a grammar holds a reply to the order of a schema's properties."""
    return json.dumps({name: values[name] for name in schema})


def criteria_judge(asked: Asked, n: int) -> list[str]:
    """Says that whatever begins with "First" is more accurate, and what is shown first has the
    better tone."""
    shown = SHOWN.search(asked.prompt)
    accuracy = (9, 4) if shown and shown[1].startswith("First") else (4, 9)
    scores = {
        name: {"score_1": one, "score_2": other}
        for name, (one, other) in (("accuracy", accuracy), ("tone", (7, 5)))
    }
    return [json.dumps({"evidence": "so", "scores": scores})] * n
