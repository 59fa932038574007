"""Why people's labels are lacking, for the figures that cannot be had without them."""

from collections.abc import Mapping

from annotation.results.people import PeopleSay
from judging.figures import count

NO_LABELS = "no human labels: open a round, or import votes"
POLICY = "the judge's label by policy, which cannot measure the judge"


def why_unsettled(asked: Mapping[int, PeopleSay], elsewhere: int, n: int) -> str:
    """asked: what those say who were asked for a run, by example; elsewhere: how many of the n
    examples have a label that nobody asked for."""
    if not asked:
        return _some(elsewhere, n) if elsewhere else NO_LABELS
    without = [say for say in asked.values() if say.label is None]
    lapsed = sum(say.lapsed for say in without)
    judges = sum(say.source == "policy:judge" for say in without)
    waiting = len(without) - lapsed - judges
    said = (
        (waiting, f"still {_verb(waiting, 'wait')} for a label"),
        (lapsed, "got no vote before the round was closed"),
        (judges, f"without a majority {_verb(judges, 'keep')} {POLICY}"),
    )
    found = [f"{count(k)} of {count(len(asked))} items {words}" for k, words in said if k]
    return "; ".join(found)


def _some(elsewhere: int, n: int) -> str:
    return (
        f"{count(elsewhere)} of {count(n)} examples have a human label: bring those of all, or "
        "open a round with an audit, as it is not known whom the others are like"
    )


def _verb(k: int, word: str) -> str:
    return f"{word}s" if k == 1 else word
