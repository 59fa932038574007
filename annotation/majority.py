"""The majority of votes: more than half of those received (SCIENCE: people)."""

from collections import Counter
from collections.abc import Iterable

from judging.models import Label


def majority(labels: Iterable[str]) -> Label | None:
    """The label that more than half of the votes hold, or None."""
    counts = Counter(labels)
    if not counts:
        return None
    label, count = counts.most_common(1)[0]
    return Label(label) if 2 * count > counts.total() else None
