"""The votes export: one row a vote, with why it was asked for and how it was shown."""

from collections.abc import Iterator
from typing import Any

from django.db.models import OuterRef, QuerySet

from annotation.models import Annotation, Protocol
from judging.counted import count_of
from judging.models.projects import Project

COLUMNS = (
    "external_id", "annotator", "label", "raw_answer", "left_response", "comment",
    "active_seconds", "submitted_at", "round", "protocol", "example_votes_n", "selection",
    "probability", "source",
)  # fmt: skip
# The last of all, behind the criteria: whoever reads columns by their place finds them there.
UNBLINDED = "unblinded"


def vote_columns(project: Project) -> tuple[str, ...]:
    """The fixed columns, one for each criterion that any protocol asked, and the mark."""
    fixed = (*COLUMNS, UNBLINDED)
    criteria: dict[str, None] = {}
    for asked in Protocol.objects.filter(project=project).order_by("number"):
        criteria |= dict.fromkeys(str(name) for name in asked.criteria if name not in fixed)
    return (*COLUMNS, *criteria, UNBLINDED)


def vote_rows(project: Project, *, names: bool) -> Iterator[dict[str, Any]]:
    """Every vote, by example in import order."""
    for vote in _votes(project).iterator(chunk_size=500):
        person = vote.annotator
        row = {
            "external_id": vote.example.external_id,
            "annotator": person.name if names else person.pseudonym,
            "label": vote.label,
            "raw_answer": vote.answer.get("overall"),
            "left_response": vote.left_response,
            "comment": vote.comment,
            "active_seconds": vote.active_seconds,
            "submitted_at": vote.submitted_at,
            "round": vote.item.round.number,
            "protocol": vote.protocol.name,
            "example_votes_n": vote.n_votes,
            "selection": vote.item.selection.kind,
            "probability": vote.item.probability,
            "source": vote.source,
            UNBLINDED: vote.unblinded,
        }
        yield row | {
            name: value
            for name, value in (vote.answer.get("criteria") or {}).items()
            if name not in row
        }


def _votes(project: Project) -> QuerySet[Annotation]:
    same = Annotation.objects.filter(example=OuterRef("example"), protocol=OuterRef("protocol"))
    return (
        Annotation.objects.filter(example__project=project)
        .select_related("example", "annotator", "protocol", "item__round", "item__selection")
        .annotate(n_votes=count_of(same, "example"))
        .defer("example__question", "example__response_1", "example__response_2")
        .order_by("example__number", "example", "pk")
    )
