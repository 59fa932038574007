"""The expected score of one reply, from the log-probabilities of its score tokens (Ohi, eq. 7)."""

from collections.abc import Sequence
from decimal import Decimal

from judging.llm.parsing.parsed import Parsed, Status
from judging.llm.parsing.token_scores import score_probabilities
from judging.llm.replies import TokenLogprobs
from judging.llm.templating import Scale
from judging.methods.estimates import Undefined
from judging.methods.likelihood.scores import expected_score

PLACES = Decimal("0.0000000001")


def parse_point(
    logprobs: Sequence[TokenLogprobs] | None, scale: Scale, sampled: Parsed | None
) -> Parsed | None:
    """The expected score; where the reply doesn't tell the shares of two scores that begin alike,
    as 1 and 10, the sampled one, marked `bounded`."""
    found = score_probabilities(logprobs, scale, sampled.rating if sampled else None)
    if found is None:
        return sampled
    if not found.whole:
        if sampled is None or sampled.rating is None:
            return None
        mass = min(found.mass, 1.0)
        return Parsed(Status.VALID, rating=sampled.rating, mass=mass, bounded=True)
    expected = expected_score(found.probabilities)
    if isinstance(expected, Undefined):
        return sampled
    rating = Decimal(str(expected)).quantize(PLACES)
    return Parsed(Status.VALID, rating=rating, mass=min(found.mass, 1.0))
