"""What a reply means, in short."""

from judging.llm.parsing.parse import Status, parse
from judging.llm.prompts.templates import template

EVIDENCE = "Evaluation evidence: Both replies answer the question."
REFUSED, UNPARSED, TRUNCATED = Status.REFUSED, Status.UNPARSED, Status.TRUNCATED


def lines(one, other):
    return f"{EVIDENCE}\nThe score of Assistant 1: {one}\nThe score of Assistant 2: {other}"


def read(name, text, finish_reason="stop"):
    """Return the verdict, or the status if there is none."""
    parsed = parse(template(name), text, finish_reason)
    if parsed.status is not Status.VALID:
        assert (parsed.first, parsed.second, parsed.verdict, parsed.rating) == (None,) * 4
        return parsed.status
    if parsed.verdict is not None:
        return parsed.verdict.value
    if parsed.rating is not None:
        return parsed.rating
    return parsed.first, parsed.second
