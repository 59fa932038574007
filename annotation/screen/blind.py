"""All that an annotator may see of an example: a question and two responses, not whose they are.

A conversation is a chat: the messages that both responses share are the question, shown once. The
reference answer is shown as well if the protocol says so.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal, cast

from django.db.models import QuerySet
from django.utils import translation
from django.utils.safestring import SafeString

from annotation.models import Draft, Protocol, Round, Vote
from annotation.queue.drafts import answer_words, side_of, wording_of
from annotation.rendering import (
    differences,
    has_visible,
    render,
    render_shown,
    shown_of,
    text_shown,
    without_names,
)
from annotation.rendering.responses import How, Shown
from annotation.rendering.spans import ShownText, Span, marks_from, spans_from
from judging.core.sql.statements import prepared
from judging.dataset.models import Example

View = Literal["rendered", "raw", "differences"]
VIEWS: tuple[View, ...] = ("rendered", "raw", "differences")
# An item is rendered when it is fetched ahead, and again for other annotators and on reloads.
_KEPT = 512


@dataclass(frozen=True)
class BlindPair:
    """Safe HTML; "" for a text without anything visible.

    Only the server knows which response is on which side. `reference` is None unless the protocol
    shows the reference answer and the example has one. `markable` is empty unless annotators mark
    spans: then it has the text of each side as it was written, and what is marked in it.
    """

    question: SafeString
    left: SafeString
    right: SafeString
    view: View = "rendered"
    reference: SafeString | None = None
    markable: tuple["Markable", ...] = ()


@dataclass(frozen=True)
class Markable:
    """The text of a side, in which spans are counted, and its marks as forms have them."""

    side: str
    text: str
    marks: str

    @property
    def text_id(self) -> str:
        return f"text-{self.side}"


def _rendered(shown: Shown, how: How) -> SafeString:
    return _rendered_in(translation.get_language(), shown, how)


# The language belongs to the key, since the HTML has words of the page in it, such as “Image”.
@lru_cache(maxsize=_KEPT)
def _rendered_in(_language: str | None, shown: Shown, how: How) -> SafeString:
    if not isinstance(shown, str):
        return render_shown(shown, how)
    return render(shown, how) if has_visible(shown) else SafeString()


def blind_pair(draft: Draft, view: View = "rendered") -> BlindPair:
    """Return the pair with the sides of this draft. Only the texts that are shown are read.

    If the protocol hides models' names, both names are replaced in both responses, in each of
    their turns. The question and the reference answer stay as they are, since they may be about a
    model.
    """
    protocol = draft.item.round.protocol
    *texts, conversation = _texts.first(example=draft.item.example_id)
    question, first, second = shown_of(texts, conversation) if conversation else texts
    # Marks are counted in the text as it was imported, so this takes the texts before names are
    # hidden below. `ShownText` hides them itself, and keeps track of the places.
    markable = _markable(draft, texts[1:]) if protocol.ask_spans else ()
    reference = ""
    if protocol.show_reference:
        (reference,) = _references.first(example=draft.item.example_id)
    if protocol.hide_models:
        models = _models.first(example=draft.item.example_id)
        first, second = without_names(first, *models), without_names(second, *models)
    left, right = (first, second) if draft.left_response == 1 else (second, first)
    how = cast(How, protocol.rendering)
    if view == "differences":
        written = text_shown(left), text_shown(right)
        marked = zip(differences(*written), written, strict=True)
        sides = [html if has_visible(text) else SafeString() for html, text in marked]
        answer = _rendered(reference, how) or None
        pair = BlindPair(_rendered(question, how), *sides, view=view, reference=answer)
        return replace(pair, markable=markable)
    if view == "raw":
        how = "plain"
    shown = (_rendered(text, how) for text in (question, left, right))
    answer = _rendered(reference, how) or None
    return BlindPair(*shown, view=view, reference=answer, markable=markable)


def _sides(draft: Draft) -> dict[str, int]:
    return {"left": draft.left_response, "right": 3 - draft.left_response}


def _shown_texts(draft: Draft, responses: Sequence[str]) -> dict[int, ShownText]:
    """Return both responses as people see them, by number."""
    names: Sequence[str] = ()
    if draft.item.round.protocol.hide_models:
        names = _models.first(example=draft.item.example_id)
    return {number: ShownText(text, names) for number, text in enumerate(responses, start=1)}


def _markable(draft: Draft, responses: Sequence[str]) -> tuple[Markable, ...]:
    texts, spans = _shown_texts(draft, responses), draft.answer.get("spans", ())
    return tuple(
        Markable(side, texts[number].shown, marks_from(spans, number, texts[number]))
        for side, number in _sides(draft).items()
    )


def spans_marked(draft: Draft, marks: Mapping[str, list[tuple[int, int]]]) -> list[Span]:
    """Turn marks by side, as the screen sends them, into spans of responses 1 and 2.

    This is the only place that does.
    """
    _, *responses, _ = _texts.first(example=draft.item.example_id)
    texts, by_number = _shown_texts(draft, responses), _sides(draft)
    places = {
        number: spans_from(marks[side], number, texts[number]) for side, number in by_number.items()
    }
    return [*places[1], *places[2]]


@dataclass(frozen=True)
class Feedback:
    """What training says about a vote: what the person said, the known answer, and why.

    explanation: safe HTML; "" without one.
    """

    is_right: bool
    said: str
    known: str
    explanation: SafeString


def feedback_on(vote: Vote, round_: Round, protocol: Protocol) -> Feedback | None:
    """Return what training tells about a vote once it is stored; None in all other rounds."""
    if round_.kind != Round.Kind.TRAINING or not vote.is_practice:
        return None
    return feedback_from(vote, protocol, *_known.first(example=vote.example_id))


def feedback_from(vote: Vote, protocol: Protocol, label: str, explanation: str) -> Feedback:
    """Return what training tells about a vote, with the known label and its explanation at hand."""
    words = answer_words(protocol)
    # A label has no strength: "much better" is right if "better" is.
    return Feedback(
        vote.label == label,
        words.get(vote.answer.get("overall", ""), vote.label),
        words.get(side_of(label, vote.left_response or 1), label),
        _rendered(explanation, "markdown") if explanation.strip() else SafeString(),
    )


@prepared
def _known(example: Any) -> QuerySet[Example, Any]:
    """Read only after the person's vote on the example is stored."""
    return Example.objects.values_list("gold_label", "explanation").filter(pk=example)


@prepared
def _texts(example: Any) -> QuerySet[Example, Any]:
    texts = Example.objects.values_list("question", "response_1", "response_2", "conversation")
    return texts.filter(pk=example)


@prepared
def _references(example: Any) -> QuerySet[Example, Any]:
    return Example.objects.values_list("reference").filter(pk=example)


@prepared
def _models(example: Any) -> QuerySet[Example, Any]:
    """Read only to be hidden in the texts."""
    return Example.objects.values_list("model_1", "model_2").filter(pk=example)


def guidelines(draft: Draft) -> SafeString | None:
    """Return the round's guidelines for annotators, or None if there are none."""
    text = wording_of(draft.item.round.protocol).guidelines
    return _rendered(text, "markdown") if text.strip() else None
