"""Whether delivered votes are those that the figures of a report were computed on."""

from collections import defaultdict
from collections.abc import Iterator, Sequence

import numpy as np

from annotation.agreement import SIGN
from annotation.results.ballots import Ballots
from annotation.results.delivered_tables import rows
from annotation.results.sections import Data
from judging.methods.estimates import Undefined

COLUMNS = ("external_id", "annotator", "label", "left_response", "active_seconds", "source")
Counted = dict[tuple[str, str], tuple[int, int]]


def compare_votes(
    content: bytes, ids: Sequence[str], ballots: Ballots, n_others: int, pace: Data | Undefined
) -> Iterator[str]:
    """What votes.csv says otherwise than the arrays. ids: the examples in their order; n_others:
    votes that the figures do not count, such as those under an earlier protocol."""
    counted = _counted(ids, ballots)
    others, seconds = 0, defaultdict(list)
    for example, annotator, label, left, active, source in rows(content, COLUMNS):
        if counted.get((example, annotator)) == (SIGN.get(label), int(left or 0)):
            del counted[example, annotator]
        else:
            others += 1
        if source == "screen" and active:
            seconds[annotator].append(float(active))
    if counted:
        example, annotator = min(counted)
        yield (
            f"{len(counted)} votes that the figures rest on are not in votes.csv, or otherwise: "
            f"{annotator}'s on {example} is one"
        )
    elif others != n_others:
        yield (
            f"votes.csv has {others} votes beside those that the figures rest on, and {n_others} "
            "were delivered"
        )
    if _sorted(seconds) != _sorted(_timed(pace)):
        yield "active_seconds of votes.csv are not what the figures rest on"


def _counted(ids: Sequence[str], ballots: Ballots) -> Counted:
    places, people = np.nonzero(ballots.present)
    return {
        (ids[place], ballots.names[person]): (
            int(ballots.votes[place, person]),
            int(ballots.left[place, person]),
        )
        for place, person in zip(places.tolist(), people.tolist(), strict=True)
    }


def _timed(pace: Data | Undefined) -> dict[str, list[float]]:
    if isinstance(pace, Undefined):
        return {}
    people, seconds = pace.arrays["person"], pace.arrays["seconds"]
    names = enumerate(pace.plain["names"])
    return {name: seconds[people == place].tolist() for place, name in names}


def _sorted(seconds: dict[str, list[float]]) -> dict[str, list[float]]:
    return {name: sorted(values) for name, values in seconds.items() if values}
