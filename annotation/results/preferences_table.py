"""The preferences export: the better and the worse response, as trainers such as TRL's DPO read.

Ties, both-bad, and pairs of equal texts hold no preference and are left out. Of pairs that occur
twice with opposite labels neither is kept, and both are named.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from annotation.results.merging import Merged, merged
from judging.models.examples import Label
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.verdicts import Verdict

COLUMNS = (
    "prompt", "chosen", "rejected", "source", "reviewed", "p_chosen", "bpde", "external_id",
)  # fmt: skip


@dataclass
class Preferences:
    """Rows, and in `contradictory` the external ids of what contradicts itself."""

    project: Project
    run: Run | None
    contradictory: list[str] = field(default_factory=list)

    def rows(self) -> Iterator[dict[str, Any]]:
        """Two passes, so that only a hash of each pair is held in memory."""
        refused = self._refused()
        for one in merged(self.project, self.run):
            if has_preference(one) and _pair(one) not in refused:
                yield _row(one)

    def _refused(self) -> set[bytes]:
        seen: dict[bytes, set[bytes]] = defaultdict(set)
        ids: dict[bytes, list[str]] = defaultdict(list)
        for one in merged(self.project, self.run):
            if has_preference(one):
                seen[_pair(one)].add(_digest(_texts(one)[1]))
                ids[_pair(one)].append(one.example.external_id)
        refused = {pair for pair, chosen in seen.items() if len(chosen) > 1}
        self.contradictory = [name for pair in refused for name in ids[pair]]
        return refused


def has_preference(one: Merged) -> bool:
    if one.label not in (Label.WIN, Label.LOSE) or one.example.response_1 == one.example.response_2:
        return False
    votes = one.people.votes if one.people and one.source != "judge" else ()
    return 2 * sum(vote.both_bad for vote in votes) <= len(votes) if votes else True


def _texts(one: Merged) -> tuple[str, str, str]:
    """Question, chosen, rejected."""
    example = one.example
    texts = (example.response_1, example.response_2)
    chosen, rejected = texts if one.label == Label.WIN else texts[::-1]
    return example.question, chosen, rejected


def _pair(one: Merged) -> bytes:
    """The same for a pair in either order."""
    question, chosen, rejected = _texts(one)
    return _digest(question, *sorted((chosen, rejected)))


def _digest(*texts: str) -> bytes:
    return hashlib.sha256("\0".join(texts).encode()).digest()


def _row(one: Merged) -> dict[str, Any]:
    prompt, chosen, rejected = _texts(one)
    reviewed = one.source not in ("judge", "policy:judge")
    return {
        "prompt": prompt,
        "chosen": chosen,
        "rejected": rejected,
        "source": one.source,
        "reviewed": reviewed,
        "p_chosen": _share_of_votes(one) if reviewed else share_of_samples(one.verdict, one.label),
        "bpde": one.verdict.bpde if one.verdict else None,
        "external_id": one.example.external_id,
    }


def _share_of_votes(one: Merged) -> float | None:
    votes = one.people.votes if one.people else ()
    return sum(vote.label == one.label for vote in votes) / len(votes) if votes else None


def share_of_samples(verdict: Verdict | None, label: str | None) -> float | None:
    """Share of this outcome within each order, averaged over the orders, as BPDE's shares are."""
    orders = verdict.outcomes.values() if verdict else ()
    valid = [[one for one in order if one] for order in orders]
    if not valid or not all(valid):
        return None
    return sum(order.count(label) / len(order) for order in valid) / len(valid)
