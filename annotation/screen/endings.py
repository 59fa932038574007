"""Why there is no pair on the screen, told honestly."""

from dataclasses import dataclass
from datetime import datetime

from annotation.models import Round
from annotation.queue import NoItem
from annotation.screen.hand import address_of, return_address_of


@dataclass(frozen=True)
class Ending:
    title: str
    text: str
    until: datetime | None = None
    next_url: str = ""
    next_text: str = ""
    return_url: str = ""
    goes_on: bool = False


_TEXTS = {
    "done": (
        "You are done",
        "There is nothing left for you in this round. What you voted is stored, and can be "
        "changed until the round is closed.",
    ),
    "left": (
        "You left this round",
        "What you voted is stored and counts. Nothing more is handed out to you.",
    ),
    "more_to_come": (
        "More pairs are coming",
        "The next pairs of this round are being put together, which waits for the last votes on "
        "the first ones. This page goes on by itself as soon as they are there.",
    ),
    "in_work": (
        "Nothing is free at the moment",
        "All pairs that are left for you are in work by others.",
    ),
    "not_assigned": (
        "No pair of this round is assigned to you",
        "If you expected some, ask the owner of the project.",
    ),
    "limit": (
        "You have done your share",
        "You labelled as many pairs as were assigned to you in this round. Your votes are stored, "
        "and can be changed until the round is closed.",
    ),
    "paused": (
        "This round is paused",
        "Its owner paused it. Your votes and your draft are stored; come back later.",
    ),
    "closed": (
        "This round is closed",
        "It takes no more votes. Yours are stored and can no longer be changed.",
    ),
}
_WITHOUT_VOTES = {
    "done": ("Nothing to label", "There is nothing left for you in this round."),
    "left": ("You left this round", "Nothing more is handed out to you."),
    "paused": ("This round is paused", "Its owner paused it. Come back later."),
    "closed": ("This round is closed", "It takes no more votes."),
}
_WAITING = ("in_work", "more_to_come", "paused")


def ending_of(nothing: NoItem, round_: Round, *, has_voted: bool) -> Ending:
    """The message for each reason the queue gives for handing out nothing."""
    texts = _TEXTS if has_voted else _TEXTS | _WITHOUT_VOTES
    title, text = texts[nothing.reason]
    again = address_of(round_) if nothing.reason in _WAITING else ""
    back = return_address_of(round_) if nothing.reason == "left" else ""
    look = "Look again" if again else ""
    goes_on = nothing.reason == "more_to_come"
    return Ending(title, text, nothing.until, again, look, back, goes_on)


def refusal(title: str, sentence: str, round_: Round) -> Ending:
    """An item or a vote that is not taken, with the way on."""
    return Ending(title, sentence, None, address_of(round_), "Go on")
