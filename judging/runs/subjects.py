"""What a call is about: an example, one response alone, or contents that say nothing.

A run asks about the examples of its project, a pointwise run about its single responses. Contents
that say nothing show which answer a judge prefers without regard to what it is asked; they belong
to no example, and their part (`cc:X0`, `dc:3:X0`) says which of the run's own they are.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from django.db.models import QuerySet

from judging.models.calls import Call
from judging.models.examples import Example
from judging.models.points import PointItem
from judging.models.runs import Form, Run

# Before a criterion, in the part of a call about a single response.
ITEM = "item:"


@dataclass(frozen=True, slots=True)
class ContentFree:
    """One of the inputs kept in the run's parameters, by its part."""

    question: str
    response_1: str
    response_2: str
    pk: ClassVar[None] = None
    reference: ClassVar[str] = ""


Subject = Example | PointItem | ContentFree


def subjects_of(run: Run) -> QuerySet[Any]:
    """What every part of the run is asked about."""
    if run.form == Form.POINTWISE:
        return PointItem.objects.filter(project_id=run.project_id).visible()
    return Example.objects.filter(project_id=run.project_id).judged()


def subject_field(run: Run) -> str:
    """The field of a Call that holds it."""
    return "point_item" if run.form == Form.POINTWISE else "example"


def content_free(run: Run) -> dict[str, ContentFree]:
    """By part; empty unless a calibration asked for them."""
    kept = run.parameters.get("content_free", {})
    return {part: ContentFree(*texts) for part, texts in kept.items()}


def place_of(subject: Subject) -> dict[str, int]:
    """The fields of a Call that say what it is about."""
    if isinstance(subject, ContentFree):
        return {}
    return {"point_item_id" if isinstance(subject, PointItem) else "example_id": subject.pk}


def subject_of(call: Call, inputs: dict[str, ContentFree]) -> Subject:
    """inputs: `content_free` of the call's run."""
    return call.example or call.point_item or inputs[call.part]


def shown_texts(subject: Subject) -> tuple[str, ...]:
    """What the judge is shown: a verdict that it repeats from there is not its own."""
    if isinstance(subject, PointItem):
        texts: tuple[str, ...] = (subject.input, subject.output)
    else:
        responses = subject.response_1, subject.response_2
        texts = (subject.question, *responses, subject.reference)
    return tuple(text for text in texts if text)
