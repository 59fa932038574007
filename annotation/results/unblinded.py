"""How many of the votes behind a report were given by people who had seen what the judge says."""

from collections.abc import Iterator

from annotation.results.figures import Json
from annotation.results.people import PeopleSay
from annotation.results.sheet import Sheet


def unblinded(sheet: Sheet) -> Json:
    """A person's vote on an example is one vote, in however many rounds it counts."""
    given: set[tuple[int, int]] = set()
    left_out: set[tuple[int, int]] = set()
    counted: set[tuple[int, int]] = set()
    for pk, say in _says(sheet):
        given |= {(pk, vote.annotator_id) for vote in say.paid}
        left_out |= {(pk, vote.annotator_id) for vote in say.left_out}
        counted |= {(pk, vote.annotator_id) for vote in say.votes if vote.unblinded}
    return {"votes": len(given), "left_out": len(left_out), "counted": len(counted)}


def _says(sheet: Sheet) -> Iterator[tuple[int, PeopleSay]]:
    """Whose votes the figures rest on, and whose the final labels."""
    yield from sheet.asked.items()
    for pk, say in zip(sheet.ids.tolist(), sheet.people, strict=True):
        if say is not None:
            yield pk, say


def sentence(found: Json) -> str:
    """Empty where all votes are blind."""
    n, votes = found["left_out"] or found["counted"], found["votes"]
    if not n:
        return ""
    were = f"{n} of {votes} votes {'was' if n == 1 else 'were'} given unblinded"
    if found["left_out"]:
        return f"{were} and {'is' if n == 1 else 'are'} left out."
    return f"{were}, after a look at what the judge says, and {'counts' if n == 1 else 'count'}."
