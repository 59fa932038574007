"""The tables of annotation, one module for each noun."""

from annotation.models.adjudication import Adjudication
from annotation.models.people import Annotator, Invitation, Seat
from annotation.models.protocols import Protocol
from annotation.models.queue import Draft, Flag, Item, Skip, Slot
from annotation.models.rounds import Round, Selection
from annotation.models.routing import RoutingScores
from annotation.models.votes import Annotation, AnnotationRevision

__all__ = [
    "Adjudication",
    "Annotation",
    "AnnotationRevision",
    "Annotator",
    "Draft",
    "Flag",
    "Invitation",
    "Item",
    "Protocol",
    "Round",
    "RoutingScores",
    "Seat",
    "Selection",
    "Skip",
    "Slot",
]
