"""The context of the screen's templates: the blind pair, the buttons, the draft, the addresses."""

from dataclasses import dataclass
from typing import Any

from django.urls import reverse
from django.utils import timezone

from annotation.answers import BOTH_BAD, Choice, choices
from annotation.models import Annotation, Draft
from annotation.screen.blind import View, blind_pair, guidelines
from annotation.screen.hand import address_of
from annotation.screen.progress import Progress


@dataclass(frozen=True)
class Criterion:
    """A row of the form, and what was chosen in it."""

    name: str
    chosen: str

    def __str__(self) -> str:
        return self.name


def item_context(
    draft: Draft,
    vote: Annotation | None,
    *,
    progress: Progress | None,
    view: View = "rendered",
    error: str = "",
) -> dict[str, Any]:
    """`vote` is the person's own earlier vote, which is then being edited.

    Without `progress` it is the item alone, fetched while there is one before it to go back to.
    """
    protocol = draft.item.round.protocol
    buttons = choices(protocol)
    chosen = draft.answer.get("criteria", {})
    base = reverse("annotate_item", args=[draft.token])
    can_go_back = progress is None or progress.done
    return (progress_context(progress) if progress else {}) | {
        "token": draft.token,
        "pair": blind_pair(draft, view),
        "guidelines": guidelines(draft),
        "question_asked": protocol.question_asked,
        "choices": buttons,
        "criteria": [Criterion(name, chosen.get(name, "")) for name in protocol.criteria],
        "criterion_choices": [button for button in buttons if button.value != BOTH_BAD],
        "draft": {"overall": draft.answer.get("overall", ""), "comment": draft.comment},
        "age": f"{(timezone.now() - draft.updated_at).total_seconds():.1f}",
        "voted": _words(buttons, vote) if vote else "",
        "error": error,
        "item_url": base,
        "submit_url": f"{base}/vote",
        "draft_url": f"{base}/draft",
        "skip_url": f"{base}/skip",
        "flag_url": f"{base}/flag",
        "back_url": f"{base}/back" if can_go_back else "",
        "next_url": address_of(draft.item.round),
    }


def progress_context(progress: Progress) -> dict[str, Any]:
    return {
        "where": progress.where,
        "done": progress.done,
        "total": progress.total,
        "pace": progress.pace,
    }


def _words(buttons: tuple[Choice, ...], vote: Annotation) -> str:
    texts = {button.value: button.text for button in buttons}
    return texts.get(vote.answer.get("overall"), vote.label)
