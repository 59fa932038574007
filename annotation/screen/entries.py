"""What was entered on the screen, as it is posted with a draft, a vote or a skip."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from annotation.answers import FIVE, THREE, choices
from annotation.drafts import save_draft
from annotation.models import Draft, Protocol
from judging.models.projects import Project

# Longer than a browser keeps what waits.
_LONGEST = 30 * 24 * 3600.0


@dataclass(frozen=True)
class Entry:
    """`seconds` is active time since the last entry; `age`, in seconds, how long it waited in the
    browser for a connection."""

    answer: dict[str, Any]
    comment: str
    seconds: float
    age: float = 0.0


def criterion_values(protocol: Protocol) -> tuple[str, ...]:
    return FIVE if protocol.scale == Project.Scale.FIVE else THREE


def entry_of(posted: Mapping[str, str], draft: Draft, now: datetime) -> Entry:
    """Read a form. What is no answer under the protocol is left out, for the check to miss."""
    protocol = draft.item.round.protocol
    answer: dict[str, Any] = {}
    if posted.get("overall") in {choice.value for choice in choices(protocol)}:
        answer["overall"] = posted["overall"]
    given = {
        name: posted.get(f"criterion-{number}", "")
        for number, name in enumerate(protocol.criteria, start=1)
    }
    scale = criterion_values(protocol)
    if criteria := {name: value for name, value in given.items() if value in scale}:
        answer["criteria"] = criteria
    comment = posted.get("comment", "").replace("\r\n", "\n").replace("\x00", "")
    passed = (now - draft.updated_at).total_seconds()
    # Never more than has passed since the last entry: a post that is repeated adds nothing.
    seconds = _number(posted.get("seconds", ""), most=passed)
    return Entry(answer, comment, seconds, _number(posted.get("age", ""), most=_LONGEST))


def keep(draft: Draft, entry: Entry) -> None:
    save_draft(draft, entry.answer, entry.comment, entry.seconds)


def _number(text: str, most: float) -> float:
    """0 for what is none, NaN included."""
    try:
        return max(0.0, min(float(text), most))
    except ValueError:
        return 0.0
