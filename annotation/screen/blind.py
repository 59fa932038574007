"""All that an annotator may see of an example: two texts by side, and never whose they are."""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, cast

from django.db.models import QuerySet
from django.utils.safestring import SafeString

from annotation.models import Draft
from annotation.rendering import differences, has_visible, render
from annotation.rendering.responses import How
from judging.core.sql.statements import prepared
from judging.dataset.models import Example

View = Literal["rendered", "raw", "differences"]
VIEWS: tuple[View, ...] = ("rendered", "raw", "differences")
# An item is rendered when it is fetched ahead and again when somebody else or a reload asks.
_KEPT = 512


@dataclass(frozen=True)
class BlindPair:
    """Safe HTML, "" for a text in which nothing can be seen.

    Which response stands on which side is known to the server alone.
    """

    question: SafeString
    left: SafeString
    right: SafeString
    view: View = "rendered"


@lru_cache(maxsize=_KEPT)
def _rendered(text: str, how: How) -> SafeString:
    return render(text, how) if has_visible(text) else SafeString()


def blind_pair(draft: Draft, view: View = "rendered") -> BlindPair:
    """The pair as it stands before this annotator; only the three texts are read."""
    question, first, second = _texts.first(example=draft.item.example_id)
    left, right = (first, second) if draft.left_response == 1 else (second, first)
    how = cast(How, draft.item.round.protocol.rendering)
    if view == "differences":
        marked = zip(differences(left, right), (left, right), strict=True)
        sides = [html if has_visible(text) else SafeString() for html, text in marked]
        return BlindPair(_rendered(question, how), *sides, view=view)
    if view == "raw":
        how = "plain"
    return BlindPair(_rendered(question, how), _rendered(left, how), _rendered(right, how), view)


@prepared
def _texts(example: Any) -> QuerySet[Example, Any]:
    texts = Example.objects.values_list("question", "response_1", "response_2")
    return texts.filter(pk=example)


def guidelines(draft: Draft) -> SafeString | None:
    """What the annotators of this round were told, or None where nothing was written."""
    text = draft.item.round.protocol.guidelines
    return _rendered(text, "markdown") if text.strip() else None
