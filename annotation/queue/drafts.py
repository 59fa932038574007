"""Drafts: what a person has in hand, which response is on the left, and the answer entered so far.

An answer is kept by side, as it was chosen; `label_of` turns it into a label of response 1, and is
the only place that does. Which side a response is on is drawn for each annotator and item,
balanced within the annotator, and stays in the draft.
"""

import hashlib
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from django.conf import settings
from django.db.models import F, QuerySet
from django.utils import timezone, translation
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from annotation.models import Annotator, Draft, Item, Protocol, Seat
from annotation.rendering.spans import ShownText, places_in
from judging.core.errors import UserError
from judging.core.sql.statements import Changed, insert_one, prepared, prepared_update
from judging.dataset.models import Label
from judging.projects.models import Project


class SeatGone(Exception):
    """The person left the round, or was removed or held back, at this very moment."""


BOTH_BAD = "both_bad"
# Counts as received, and as no label: the other votes on the item decide.
CANT_JUDGE = "cant_judge"
FIVE = ("left_much", "left", "tie", "right", "right_much")
_LEFT = {"left", "left_much"}
_RIGHT = {"right", "right_much"}
MAX_COMMENT = 10_000


@dataclass(frozen=True)
class AnswerOption:
    """A button: what it sends, what it says, the keys that press it."""

    value: str
    text: str
    keys: tuple[str, ...]


_THREE_BUTTONS = (
    AnswerOption("left", _lazy("Left is better"), ("1", "A")),
    AnswerOption("tie", _lazy("Tie"), ("0", "T")),
    AnswerOption("right", _lazy("Right is better"), ("2", "B")),
)
_FIVE_BUTTONS = (
    AnswerOption("left_much", _lazy("Left is much better"), ("1",)),
    AnswerOption("left", _lazy("Left is better"), ("2",)),
    AnswerOption("tie", _lazy("Tie"), ("3", "T")),
    AnswerOption("right", _lazy("Right is better"), ("4",)),
    AnswerOption("right_much", _lazy("Right is much better"), ("5",)),
)
_BOTH_BAD_BUTTON = AnswerOption(BOTH_BAD, _lazy("Both are bad"), ("X",))
_CANT_JUDGE_BUTTON = AnswerOption(CANT_JUDGE, _lazy("Can't judge"), ("N",))
_CONFIDENCE_BUTTONS = (
    AnswerOption("low", _lazy("Unsure"), ("7",)),
    AnswerOption("medium", _lazy("Fairly sure"), ("8",)),
    AnswerOption("high", _lazy("Sure"), ("9",)),
)
# From the least to the most.
CONFIDENCE = {option.value: option.text for option in _CONFIDENCE_BUTTONS}


@dataclass(frozen=True)
class Wording:
    """What a person reads of a protocol, in one language.

    Answers are stored with the default's names of criteria and reasons, in each language.

    language: of these texts; "" if the project doesn't say it.
    names: how criteria and reasons are shown, by the default's names. Others are shown as they are.
    """

    language: str
    question_asked: str
    guidelines: str
    names: Mapping[str, str]

    def shown(self, name: str) -> str:
        return self.names.get(name, name)


def wording_of(protocol: Protocol, project_language: str = "") -> Wording:
    """Return what the protocol asks in the page's language, or by default.

    Args:
        project_language: of the default, if the protocol has no translations and says none.
    """
    # Protocols of earlier releases say no language. Theirs is the project's.
    default = protocol.language or project_language
    language = translation.get_language() or ""
    in_language = protocol.translations.get(language)
    if in_language is None or language == default:
        return Wording(default, protocol.question_asked, protocol.guidelines, {})
    return Wording(
        language,
        in_language["question_asked"],
        in_language.get("guidelines", ""),
        in_language.get("names", {}),
    )


def use_language(user: Any, of_project: str) -> None:
    """Speak the project's language from here on, unless the person chose their own."""
    if not getattr(user, "language", "") and of_project in dict(settings.LANGUAGES):
        translation.activate(of_project)


def criterion_options(protocol: Protocol) -> tuple[AnswerOption, ...]:
    """The buttons of each criterion, from left to right."""
    return _FIVE_BUTTONS if protocol.scale == Project.Scale.FIVE else _THREE_BUTTONS


def answer_options(protocol: Protocol) -> tuple[AnswerOption, ...]:
    """The buttons of the overall question, from left to right.

    If the overall answer is derived from the criteria, only "can't judge" is left of them.
    """
    buttons: tuple[AnswerOption, ...] = (
        () if protocol.criteria_rule else criterion_options(protocol)
    )
    if protocol.both_bad:
        buttons = (*buttons, _BOTH_BAD_BUTTON)
    return (*buttons, _CANT_JUDGE_BUTTON) if protocol.cant_judge else buttons


def confidence_options(protocol: Protocol) -> tuple[AnswerOption, ...]:
    """The buttons of how sure a person is, if the protocol asks it."""
    return _CONFIDENCE_BUTTONS if protocol.ask_confidence else ()


def answer_words(protocol: Protocol) -> dict[str, str]:
    """What each overall answer says, chosen or derived."""
    options = (*criterion_options(protocol), *answer_options(protocol))
    return {option.value: str(option.text) for option in options}


def criterion_values(protocol: Protocol) -> tuple[str, ...]:
    """The values that each criterion can take, from left to right."""
    return tuple(option.value for option in criterion_options(protocol))


def checked_answer(protocol: Protocol, answer: Any, comment: str = "") -> dict[str, Any]:
    """Return the answer without anything that the protocol doesn't ask.

    Raises UserError that says what is missing. Who can't judge a pair says why in the comment, and
    answers no criterion. Otherwise every criterion is answered, so that a rule can always derive
    the overall answer. The rule is kept with it. Nobody has to give a reason or mark anything.
    """
    if not isinstance(answer, dict):
        raise UserError(_("The answer could not be read. Choose again; nothing was lost."))
    overall = answer.get("overall")
    offered = {option.value for option in answer_options(protocol)}
    if not protocol.criteria_rule and overall not in offered:
        raise UserError(_("Choose which response is better, or a tie, before you submit."))
    # Checked before the rows: who can't judge a pair can't be asked to judge its aspects.
    if overall == CANT_JUDGE and overall in offered:
        if not comment.strip():
            raise UserError(_("Say in the comment why you can't judge this pair, then submit."))
        return {"overall": overall} | _grounds(protocol, answer)
    scale = criterion_values(protocol)
    chosen = answer.get("criteria") or {}
    missing = [name for name in protocol.criteria if chosen.get(name) not in scale]
    if missing:
        raise UserError(
            _("Answer every row before you submit. Missing: %(rows)s.")
            % {"rows": ", ".join(map(wording_of(protocol).shown, missing))}
        )
    # In the protocol's order and without others, so that equal answers are stored alike.
    criteria = {name: chosen[name] for name in protocol.criteria}
    more = _grounds(protocol, answer)
    if protocol.ask_confidence:
        if answer.get("confidence") not in CONFIDENCE:
            raise UserError(_("Say how sure you are before you submit."))
        more = {"confidence": answer["confidence"]} | more
    if protocol.criteria_rule and (rule := protocol.rule):
        # As if response 1 were on the left: signs are by side, and so is the overall answer.
        derived = side_of(rule.overall(signs_of(criteria)), left_response=1)
        answered = {"overall": derived, "criteria": criteria, "rule": protocol.criteria_rule}
        return answered | more
    whole = {"overall": overall, "criteria": criteria} if criteria else {"overall": overall}
    return whole | more


def _grounds(protocol: Protocol, answer: Mapping[str, Any]) -> dict[str, Any]:
    """Return the reasons, in the protocol's order, and the spans, if there are any."""
    chosen = answer.get("reasons") or ()
    reasons = [name for name in protocol.reason_tags if name in chosen]
    extra: dict[str, Any] = {"reasons": reasons} if reasons else {}
    if protocol.ask_spans and (spans := answer.get("spans")):
        extra["spans"] = spans
    return extra


@dataclass(frozen=True)
class MoreSaid:
    """What a vote says besides its label, for people who read votes.

    quotes: what was marked, each with the number of its response.
    """

    confidence: str
    reasons: tuple[str, ...]
    quotes: tuple[tuple[int, str], ...]

    def __bool__(self) -> bool:
        return bool(self.confidence or self.reasons or self.quotes)


def more_said(answer: Mapping[str, Any], texts: Mapping[int, ShownText]) -> MoreSaid:
    """Return the rest of an answer in words. Of responses without a text, nothing is quoted.

    Args:
        texts: both responses as the reader sees them, by number.
    """
    quotes = (
        (number, shown.shown[slice(*place)])
        for number, shown in texts.items()
        for place in places_in(answer.get("spans", ()), number, shown)
    )
    confidence = CONFIDENCE.get(answer.get("confidence", ""), "")
    return MoreSaid(confidence, tuple(answer.get("reasons", ())), tuple(quotes))


def signs_of(criteria: Mapping[str, str]) -> dict[str, int]:
    """Return for each criterion 1 if the left response is better on it, 0 for a tie, else -1."""
    return {name: (value in _LEFT) - (value in _RIGHT) for name, value in criteria.items()}


def label_of(value: str, left_response: int) -> str:
    """Return win, tie or lose of response 1 for a choice by side; "" for "can't judge".

    "Both are bad" is a tie.
    """
    if value == CANT_JUDGE:
        return ""
    if value in _LEFT:
        return Label.WIN if left_response == 1 else Label.LOSE
    if value in _RIGHT:
        return Label.LOSE if left_response == 1 else Label.WIN
    return Label.TIE


def side_of(label: str, left_response: int) -> str:
    """Return left, tie or right: where the response is that a label calls better; "" for none."""
    if not label:
        return ""
    if label == Label.TIE:
        return "tie"
    return "left" if (label == Label.WIN) == (left_response == 1) else "right"


_BLOCK = 4
# The six orders of two lefts and two rights: after every fourth item the sides are even.
_ARRANGEMENTS = sorted(set(permutations((1, 1, 2, 2))))


def left_response(seed: int, annotator_id: int, n_shown: int) -> int:
    """Return 1 or 2, the response on the left of the annotator's item number `n_shown` (from 0).

    The same seed gives the same sides. In each block of four, each response is on the left twice,
    so that the sides never differ by more than two.
    """
    block, place = divmod(n_shown, _BLOCK)
    # A hash rather than a generator: the side of any item is known without drawing those before it.
    digest = hashlib.sha256(f"{seed}:{annotator_id}:{block}".encode()).digest()
    arrangement = _ARRANGEMENTS[int.from_bytes(digest[:8]) % len(_ARRANGEMENTS)]
    return arrangement[place]


# Nobody works on an item for longer without a pause; a broken clock must not cost money.
MAX_ADDED_SECONDS = 3600.0


@prepared
def drafts(item: Any, annotator: Any) -> QuerySet[Draft]:
    """Find the draft that the person has of the item. There is one at most."""
    return Draft.objects.filter(item=item, annotator=annotator)


def draft_of(item: Item, annotator: Annotator, seat: Seat, cursor: float) -> Draft:
    """Return the draft of an item in hand. The first time, a side is drawn and the draft made.

    The seat's cursor moves to the item's place, which also locks the seat for the transaction.
    Raises IntegrityError if the draft is asked for twice at once, and SeatGone.
    """
    draft: Draft | None = drafts.first(item=item.pk, annotator=annotator.pk)
    if draft is not None:
        if not _moved.count(seat=seat.pk, cursor=cursor):
            raise SeatGone
    else:
        shown = _shown_one_more.row(seat=seat.pk, cursor=cursor)
        if shown is None:
            raise SeatGone
        draft = Draft(
            item=item,
            annotator=annotator,
            token=secrets.token_urlsafe(24),
            left_response=left_response(item.round.seed, annotator.pk, shown[0] - 1),
        )
        insert_one(draft)
    # The objects at hand, so that later steps ask the database for neither.
    draft.item, draft.annotator = item, annotator
    return draft


@prepared_update()
def _moved(seat: Any, cursor: Any) -> Changed:
    return Seat.objects.may_label().filter(pk=seat), {"cursor": cursor}


@prepared_update("n_shown")
def _shown_one_more(seat: Any, cursor: Any) -> Changed:
    mine = Seat.objects.may_label().filter(pk=seat)
    return mine, {"cursor": cursor, "n_shown": F("n_shown") + 1}


def save_draft(draft: Draft, answer: dict[str, Any], comment: str, added_seconds: float) -> None:
    """Keep what was entered so far, and add to the active time, which never decreases.

    Raises Draft.DoesNotExist if the project or the person was deleted meanwhile.
    """
    draft.answer, draft.comment = answer, comment[:MAX_COMMENT]
    kept = _kept.row(
        draft=draft.pk,
        answer=draft.answer,
        comment=draft.comment,
        added=clamp_seconds(added_seconds),
        now=timezone.now(),
    )
    if kept is None:
        raise Draft.DoesNotExist
    (draft.active_seconds,) = kept


@prepared_update("active_seconds")
def _kept(draft: Any, answer: Any, comment: Any, added: Any, now: Any) -> Changed:
    return Draft.every.filter(pk=draft), {
        "answer": answer,
        "comment": comment,
        "active_seconds": F("active_seconds") + added,
        "updated_at": now,
    }


def clamp_seconds(seconds: float) -> float:
    """Return the seconds within what may be added at once to an item's active time."""
    # A browser may send anything. Also NaN fails this comparison.
    if not 0 <= seconds < float("inf"):
        return 0.0
    return min(float(seconds), MAX_ADDED_SECONDS)
