"""When a judge fails so steadily that asking on would only fill the run with errors."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from judging.llm.errors import CallFailure, FailureKind, sentence
from judging.llm.replies import Reply

# So many failures in a row say something of the endpoint; fewer may be the examples' own.
IN_A_ROW = 5
SILENT_SECONDS = 60.0
FINAL = (FailureKind.TOO_LONG, FailureKind.FILTERED)

REFUSED = (
    "The first {n} calls were all refused, so the run was paused before the others were sent: "
    "{message} Nothing recorded is lost. Correct what the endpoint names, then resume: refused "
    "calls are asked again."
)
UNREAD = (
    "Nothing that came for the first {n} calls can be read, so the run was paused before the "
    "others were sent: {message} Nothing recorded is lost. Check the endpoint's address and what "
    "stands in front of it, then resume: such calls are asked again."
)
SILENT = (
    "{n} calls in a row failed, and the endpoint has answered none for {seconds:.0f} s: {message} "
    "Nothing recorded is lost. Check that the endpoint runs, then resume: failed calls are asked "
    "again."
)


@dataclass
class Trouble:
    """What one holder of a run has seen of its endpoint, in the order of arrival.

    `answered`: the run has had an answer before, so that refusals are those of single examples.
    `reason`: a sentence for the run once nothing more should be sent.
    """

    clock: Callable[[], float] = time.monotonic
    answered: bool = False
    refused: int = 0
    failed: int = 0
    reason: str = ""
    heard_at: float = field(init=False)

    def __post_init__(self) -> None:
        self.heard_at = self.clock()

    def note(self, outcome: Reply | CallFailure) -> str:
        """See one more outcome, as it arrives; the reason to send nothing more, if there is one."""
        reason = self.after(outcome)
        self.reason = self.reason or reason
        return self.reason

    def heard(self) -> None:
        """The endpoint is there."""
        self.refused = self.failed = 0
        self.heard_at = self.clock()

    def after(self, outcome: Reply | CallFailure) -> str:
        if not isinstance(outcome, CallFailure) or outcome.kind in FINAL:
            # An endpoint that tells what it won't judge is at work.
            self.answered = True
            self.heard()
            return ""
        if outcome.kind.pauses_run:
            return f"{sentence(outcome.message)} {outcome.kind.advice}".strip()
        if outcome.kind in (FailureKind.BAD_REQUEST, FailureKind.BAD_REPLY):
            self.refused += 1
            if not self.answered and self.refused >= IN_A_ROW:
                said = REFUSED if outcome.kind is FailureKind.BAD_REQUEST else UNREAD
                return said.format(n=self.refused, message=sentence(outcome.message))
        if outcome.kind is FailureKind.BAD_REQUEST:
            return ""
        self.failed += 1
        silent = self.clock() - self.heard_at
        if self.failed >= IN_A_ROW and silent >= SILENT_SECONDS:
            message = sentence(outcome.message)
            return SILENT.format(n=self.failed, seconds=silent, message=message)
        return ""
