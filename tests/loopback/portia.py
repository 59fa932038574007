"""Judges that see whether the responses were shown whole or in parts, and decide by that."""

import random
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from tests.loopback.log import Asked

BLOCK = re.compile(
    r"\[The Start of Assistant (?P<side>[AB12])'s \w+(?: part (?P<part>\d+))?\]\n(?P<text>.*?)\n"
    r"\[The End of Assistant (?P=side)'s \w+(?: part (?P=part))?\]",
    re.DOTALL,
)
# What each form's templates want to read: the first is better, the second, or neither.
REPLIES = {
    "[[A]]": ("Fine. [[A]]", "Fine. [[B]]", "Fine. [[C]]"),
    '"score_1"': tuple(
        f'{{"evidence": "fine", "score_1": {a}, "score_2": {b}}}'
        for a, b in ((9, 3), (3, 9), (6, 6))
    ),
    "Same": ("Assistant 1", "Assistant 2", "Same"),
    "1, 2, 3, 4, 5, 6, or 7": ("7\nFine.", "1\nFine.", "4\nFine."),
    "only two values": ("9 3\nFine.", "3 9\nFine.", "6 6\nFine."),
    "": tuple(
        f"Evaluation evidence: fine.\nThe score of Assistant 1: {a}\nThe score of Assistant 2: {b}"
        for a, b in ((9, 3), (3, 9), (6, 6))
    ),
}


@dataclass(frozen=True)
class Shown:
    """The responses by position, each as its parts; one part where it is shown whole."""

    first: tuple[str, ...]
    second: tuple[str, ...]

    @property
    def in_parts(self) -> bool:
        return len(self.first) > 1

    @property
    def first_is_longer(self) -> bool:
        return len("".join(self.first)) > len("".join(self.second))


def shown(prompt: str) -> Shown:
    blocks = list(BLOCK.finditer(prompt))
    sides = [
        tuple(block["text"] for block in blocks if block["side"] in names) for names in ("A1", "B2")
    ]
    return Shown(*sides)


# 0: the first is better, 1: the second, 2: a tie.
Decision = Callable[[Shown, random.Random], int]


@dataclass(frozen=True)
class StagedJudge:
    """Says what `decide` decides, in the form that the prompt asks for."""

    decide: Decision
    seed: int = 0

    def __call__(self, asked: Asked, n: int) -> Sequence[str]:
        draw = random.Random(f"{self.seed}:{asked.repeat}:{asked.prompt}")
        replies = next(said for mark, said in REPLIES.items() if mark in asked.prompt)
        return [replies[self.decide(shown(asked.prompt), draw)] for _ in range(n)]


def always_first(seen: Shown, draw: random.Random) -> int:
    return 0


def always_tie(seen: Shown, draw: random.Random) -> int:
    return 2


def longer_wins(seen: Shown, draw: random.Random) -> int:
    return 0 if seen.first_is_longer else 1


def first_when_whole(seen: Shown, draw: random.Random) -> int:
    """Follows the position until it sees parts, and is right then."""
    return longer_wins(seen, draw) if seen.in_parts else 0


def coin(seen: Shown, draw: random.Random) -> int:
    return draw.randrange(2)


def undecided(seen: Shown, draw: random.Random) -> int:
    """Right where the responses differ much in length, and wavering elsewhere."""
    lengths = sorted((len("".join(seen.first)), len("".join(seen.second))))
    return longer_wins(seen, draw) if lengths[1] > 1.3 * lengths[0] else draw.randrange(3)
