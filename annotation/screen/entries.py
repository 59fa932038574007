"""What was entered on the screen, as it is posted with a draft, a vote or a skip."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from annotation.answers import FIVE, THREE, choices
from annotation.drafts import save_draft
from annotation.models import Draft, Protocol
from judging.models import Project


@dataclass(frozen=True)
class Entry:
    """`seconds` is active time since the last entry."""

    answer: dict[str, Any]
    comment: str
    seconds: float


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
    return Entry(answer, comment, _seconds(posted.get("seconds", ""), draft, now))


def keep(draft: Draft, entry: Entry) -> None:
    save_draft(draft, entry.answer, entry.comment, entry.seconds)


def _seconds(text: str, draft: Draft, now: datetime) -> float:
    """Never more than has passed since the last entry: a post that is repeated adds nothing."""
    try:
        seconds = float(text)
    except ValueError:
        return 0.0
    passed = (now - draft.updated_at).total_seconds()
    return max(0.0, min(seconds, passed))
