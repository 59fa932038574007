"""A judge that prefers long responses until people teach it, and drafts a rubric when asked."""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tests.loopback.judges import SHOWN
from tests.loopback.log import Asked

RUBRIC = "- Prefer sound responses, however short.\n- Length is no merit."


@dataclass(frozen=True)
class TeachableJudge:
    """Scores a response by its length; once it is taught, by the word “sound” in it.

    `learns`: False if teaching changes nothing. `drafts`: what it answers when asked for a rubric.
    """

    learns: bool = True
    drafts: str = RUBRIC

    def __call__(self, asked: Asked, n: int) -> Sequence[str]:
        if "Write a rubric" in asked.prompt:
            return [self.drafts] * n
        taught = "People compared" in asked.prompt and self.learns
        first, second = SHOWN.findall(asked.prompt)[-1]
        if taught:
            a, b = (9 if re.search("sound", one) else 3 for one in (first, second))
        else:
            a, b = (8, 4) if len(first) > len(second) else (4, 8)
        said = f"The score of Assistant 1: {a}\nThe score of Assistant 2: {b}"
        return [f"Evaluation evidence: as I see it.\n{said}"] * n


@dataclass(frozen=True)
class ImitatingJudge:
    """Judges as the person whose votes it is shown: by the word “sound”, or else by length.

    `prompts`: those that it has read, in the order of arrival.
    """

    prompts: list[str] = field(default_factory=list)

    def __call__(self, asked: Asked, n: int) -> Sequence[str]:
        self.prompts.append(asked.prompt)
        votes = VOTES.findall(asked.prompt)
        sound = sum("sound" in (one if place == "first" else two) for one, two, place in votes)
        by_content = 2 * sound > len(votes)
        first, second = SHOWN.findall(asked.prompt)[-1]
        if by_content:
            a, b = (9 if "sound" in one else 3 for one in (first, second))
        else:
            a, b = (8, 4) if len(first) > len(second) else (4, 8)
        said = f"The score of Assistant 1: {a}\nThe score of Assistant 2: {b}"
        return [f"Evaluation evidence: as I see it.\n{said}"] * n


VOTES = re.compile(
    r"\[The Start of example \d+'s first response\]\n(.*?)\n\[The End.*?"
    r"\[The Start of example \d+'s second response\]\n(.*?)\n\[The End.*?"
    r"In example \d+, the person prefers the (first|second) response\.",
    re.DOTALL,
)
