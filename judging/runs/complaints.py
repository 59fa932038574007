"""What an endpoint said to the calls of a run that ended as errors, the most frequent first."""

from dataclasses import dataclass

from django.db.models import Count

from judging.llm.errors import FailureKind
from judging.models.calls import Call
from judging.models.runs import Run

MOST = 3
# These have a status of their own, or stop the run and are its reason.
TOLD_ELSEWHERE = [kind.value for kind in FailureKind if kind.pauses_run or kind.status != "error"]


@dataclass(frozen=True, slots=True)
class Complaint:
    message: str
    calls: int


def complaints_of(run: Run) -> tuple[Complaint, ...]:
    failed = run.calls.filter(state=Call.State.FAILED).exclude(error_kind__in=TOLD_ELSEWHERE)
    counted = failed.order_by().values_list("error").annotate(n=Count("pk"))
    return tuple(Complaint(*row) for row in counted.order_by("-n", "error")[:MOST])
