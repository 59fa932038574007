"""The parts of an example's responses, found again whenever they are needed: they are not stored.

Splitting and aligning are deterministic and take milliseconds. A few pairs are remembered, since
the orders and samples of an example are asked one behind the other.
"""

from dataclasses import dataclass
from functools import lru_cache

from judging.methods.portia.alignment import Alignment, length_aligned, semantically_aligned
from judging.methods.portia.splitting import boundaries
from judging.methods.portia.stages import Stage
from judging.models.examples import Example
from judging.runs.portia.sentence_model import sentence_model
from judging.runs.portia.settings import EMBEDDING, PortiaSettings

REMEMBERED = 64


def aligned(example: Example, stage: str, settings: PortiaSettings) -> Alignment | None:
    """None where a response is too short to split, or where nothing is alike."""
    texts = example.response_1, example.response_2
    if stage == Stage.LENGTH:
        return _by_length(*texts, settings.parts)
    return _by_meaning(*texts, settings.parts, settings.tokens)


@dataclass(frozen=True, slots=True)
class ExampleSplits:
    """Whether the responses can be split, and whether anything in them is alike."""

    example: Example
    settings: PortiaSettings

    @property
    def splittable(self) -> bool:
        return aligned(self.example, Stage.LENGTH, self.settings) is not None

    @property
    def overlapping(self) -> bool:
        return aligned(self.example, Stage.SEMANTIC, self.settings) is not None


@lru_cache(maxsize=2 * REMEMBERED)
def _boundaries(text: str) -> tuple[int, ...]:
    return boundaries(text)


@lru_cache(maxsize=REMEMBERED)
def _by_length(text_1: str, text_2: str, k: int) -> Alignment | None:
    return length_aligned(text_1, _boundaries(text_1), text_2, _boundaries(text_2), k)


@lru_cache(maxsize=REMEMBERED)
def _by_meaning(text_1: str, text_2: str, k: int, tokens: str) -> Alignment | None:
    given = text_1, _boundaries(text_1), text_2, _boundaries(text_2)
    by = sentence_model().similarity if tokens == EMBEDDING else tokens
    return semantically_aligned(*given, k, by)
