"""What people may answer under a protocol, and the label that follows from an answer.

An answer is by side: `{"overall": "left", "criteria": {"accuracy": "tie"}}`. It is turned back
to responses 1 and 2 here and nowhere else.
"""

from dataclasses import dataclass
from typing import Any

from annotation.models import Protocol
from judging.errors import UserError
from judging.models.examples import Label
from judging.models.projects import Project

BOTH_BAD = "both_bad"
THREE = ("left", "tie", "right")
FIVE = ("left_much", "left", "tie", "right", "right_much")
_LEFT = {"left", "left_much"}
_RIGHT = {"right", "right_much"}
MAX_COMMENT = 10_000


@dataclass(frozen=True)
class Choice:
    """A button: what it sends, what it says, the keys that press it."""

    value: str
    text: str
    keys: tuple[str, ...]


_THREE_BUTTONS = (
    Choice("left", "Left is better", ("1", "A")),
    Choice("tie", "Tie", ("0", "T")),
    Choice("right", "Right is better", ("2", "B")),
)
_FIVE_BUTTONS = (
    Choice("left_much", "Left is much better", ("1",)),
    Choice("left", "Left is better", ("2",)),
    Choice("tie", "Tie", ("3", "T")),
    Choice("right", "Right is better", ("4",)),
    Choice("right_much", "Right is much better", ("5",)),
)
_BOTH_BAD_BUTTON = Choice(BOTH_BAD, "Both are bad", ("X",))


def choices(protocol: Protocol) -> tuple[Choice, ...]:
    """The buttons of the overall question, from left to right."""
    buttons = _FIVE_BUTTONS if protocol.scale == Project.Scale.FIVE else _THREE_BUTTONS
    return (*buttons, _BOTH_BAD_BUTTON) if protocol.both_bad else buttons


def checked(protocol: Protocol, answer: Any) -> dict[str, Any]:
    """The answer if it is one under this protocol. Raises UserError that says what is missing."""
    if not isinstance(answer, dict):
        raise UserError("The answer could not be read. Choose again; nothing was lost.")
    overall = answer.get("overall")
    if overall not in {choice.value for choice in choices(protocol)}:
        raise UserError("Choose which response is better, or a tie, before you submit.")
    scale = FIVE if protocol.scale == Project.Scale.FIVE else THREE
    given = answer.get("criteria") or {}
    missing = [name for name in protocol.criteria if given.get(name) not in scale]
    if missing:
        raise UserError(f"Answer every row before you submit. Missing: {', '.join(missing)}.")
    criteria = {name: given[name] for name in protocol.criteria}
    return {"overall": overall, "criteria": criteria} if criteria else {"overall": overall}


def label_of(value: str, left_response: int) -> Label:
    """Win, tie or lose of response 1, from a choice by side. "Both bad" derives to tie."""
    if value in _LEFT:
        return Label.WIN if left_response == 1 else Label.LOSE
    if value in _RIGHT:
        return Label.LOSE if left_response == 1 else Label.WIN
    return Label.TIE
