"""The database side of a pump, and the circuit breaker that stops a run whose judge only fails.

Everything in RunStore is called from one thread, and never waits.
"""

import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from judging.core.formatting import usd
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.errors import CallFailure, FailureKind, sentence
from judging.llm.client.messages import Reply
from judging.llm.prices import PriceSnapshot
from judging.runs import endpoints, lifecycle
from judging.runs.engine import claims, recording
from judging.runs.engine.claims import Claim
from judging.runs.engine.recording import Arrival
from judging.runs.models import Batch, Call, Run, subjects_of
from judging.runs.planning.agenda import Questioner, agenda_of
from judging.runs.samples import Ask, asks_left
from judging.runs.verdicts.rebuild import rebuild_verdicts

# This many failures in a row are the endpoint's fault; fewer may be due to single examples.
IN_A_ROW = 5
SILENT_SECONDS = 60.0
FINAL = (FailureKind.TOO_LONG, FailureKind.FILTERED)

REFUSED = (
    "The first {n} calls were all refused, so the run was paused before the others were sent: "
    "{message} Nothing recorded is lost. Fix what the endpoint complains about, then resume. "
    "Refused calls are sent again."
)
UNREAD = (
    "The replies to the first {n} calls can't be read, so the run was paused before the others "
    "were sent: {message} Nothing recorded is lost. Check the endpoint's address and any proxy in "
    "front of it, then resume. These calls are sent again."
)
SILENT = (
    "{n} calls in a row failed, and the endpoint has answered none for {seconds:.0f} s: {message} "
    "Nothing recorded is lost. Check that the endpoint runs, then resume. Failed calls are sent "
    "again."
)


@dataclass
class CircuitBreaker:
    """Decides from the outcomes, in order of arrival, when to send nothing more.

    `answered`: the run has had an answer before, so refusals are about single examples.
    `reason`: a sentence for the run's page once nothing more should be sent.
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
        """Note an outcome as it arrives, and return the reason to send nothing more, if any."""
        reason = self.after(outcome)
        self.reason = self.reason or reason
        return self.reason

    def heard(self) -> None:
        """Note that the endpoint answers."""
        self.refused = self.failed = 0
        self.heard_at = self.clock()

    def after(self, outcome: Reply | CallFailure) -> str:
        if not isinstance(outcome, CallFailure) or outcome.kind in FINAL:
            # An endpoint that says what it won't judge is working.
            self.answered = True
            self.heard()
            return ""
        if outcome.kind.pauses_run:
            return f"{sentence(outcome.message)} {outcome.kind.advice}".strip()
        if outcome.kind in (FailureKind.BAD_REQUEST, FailureKind.BAD_REPLY):
            self.refused += 1
            if not self.answered and self.refused >= IN_A_ROW:
                text = REFUSED if outcome.kind is FailureKind.BAD_REQUEST else UNREAD
                return text.format(n=self.refused, message=sentence(outcome.message))
        if outcome.kind is FailureKind.BAD_REQUEST:
            return ""
        self.failed += 1
        silent = self.clock() - self.heard_at
        if self.failed >= IN_A_ROW and silent >= SILENT_SECONDS:
            message = sentence(outcome.message)
            return SILENT.format(n=self.failed, seconds=silent, message=message)
        return ""


State = Run.State

OVER_BUDGET = (
    "The budget of {budget} can't cover another call: {spent} are spent, {reserved} may still be "
    "billed, and the next call may cost {needed}. Nothing recorded is lost. Raise the budget and "
    "resume."
)


@dataclass(frozen=True, slots=True)
class PumpStatus:
    """How the pump is doing, for the run's page."""

    in_flight: int
    window: int
    paused_until: datetime | None
    paused_why: str = ""

    def to_json(self) -> dict[str, object]:
        until = self.paused_until.isoformat() if self.paused_until else None
        return {
            "in_flight": self.in_flight,
            "window": self.window,
            "paused_until": until,
            "paused_why": self.paused_why,
        }


class RunStore:
    """One run as its holder sees it: what to send next, and writing what came back."""

    def __init__(self, run: Run, holder: str) -> None:
        self.run = run
        self.holder = holder
        self.questioner = Questioner.of(run)
        self.price = PriceSnapshot.from_json(run.price) if run.price else None
        self.known, self.known_good = endpoints.recall(run)
        self.breaker = CircuitBreaker(answered=run.calls.filter(state=Call.State.DONE).exists())
        self.settled = self.added = 0
        self.standing: PumpStatus | None = None
        self.start_plan()

    def start_plan(self) -> None:
        self.planned_for = self.example_count()
        self.agenda = agenda_of(self.run)
        self.asked_in_pass = False
        self.pages = asks_left(self.run, self.agenda)
        self.ready: deque[Ask] = deque()

    def example_count(self) -> int:
        return subjects_of(self.run).count()

    def next_claims(self, most: int, batch: Batch | None = None) -> list[Claim]:
        """Claim the next calls; none if nothing is left, money is short, or we lost the run."""
        while len(self.ready) < most and (page := next(self.pages, None)) is not None:
            self.ready.extend(piece for ask in page for piece in ask.split(self.most_slots))
        self.asked_in_pass |= bool(self.ready)
        asks = [self.ready.popleft() for _ in range(min(most, len(self.ready)))]
        claimed = claims.claim(self.run.pk, self.holder, asks, self.questioner, self.price, batch)
        self.ready.extendleft(reversed(asks[len(claimed) :]))
        return claimed

    @property
    def most_slots(self) -> int | None:
        return self.known.max_n if self.known else None

    def everything_asked(self) -> bool:
        """Return True if nothing is left to ask.

        Another pass starts if an import added examples meanwhile, or if the agenda depends on what
        came back.
        """
        if self.ready:
            return False
        another_pass = self.agenda.open_ended and self.asked_in_pass
        if self.planned_for == self.example_count() and not another_pass:
            return True
        self.start_plan()
        return False

    def write(
        self,
        arrivals: Sequence[Arrival],
        now_known: EndpointCapabilities,
        price: PriceSnapshot | None = None,
    ) -> None:
        """Record the arrivals, and pause the run if its circuit breaker has tripped.

        `price`: for calls whose price is not the run's own.
        """
        further = recording.record(
            self.run.pk, self.holder, arrivals, self.questioner, price or self.price
        )
        self.settled += sum(arrival.settled for arrival in arrivals)
        answered = any(not isinstance(arrival.outcome, CallFailure) for arrival in arrivals)
        if answered and (now_known != self.known or not self.known_good):
            endpoints.keep(self.run, now_known, self.known)
            self.known, self.known_good = now_known, True
        follow_up = self.agenda.follow_up([arrival.claim.ask for arrival in arrivals])
        self.added += sum(len(ask.slots) for ask in follow_up)
        further += follow_up
        pieces = [piece for ask in further for piece in ask.split(self.most_slots)]
        self.ready.extendleft(reversed(pieces))
        if self.breaker.reason:
            lifecycle.pause(self.run, reason=self.breaker.reason)

    def look(self, standing: PumpStatus) -> str | None:
        """Write the pump's status if it changed, and return the run's state; None if we lost it."""
        ours = Run.objects.filter(pk=self.run.pk, holder=self.holder)
        if standing != self.standing:
            ours.update(progress=standing.to_json())
            self.standing = standing
        return ours.values_list("state", flat=True).first()

    def pause_for_budget(self) -> None:
        self.run.refresh_from_db()
        ask = self.ready[0]
        request = self.questioner.request(ask.subject, ask.part, len(ask.slots))
        reason = OVER_BUDGET.format(
            budget=usd(self.run.budget_usd),
            spent=usd(self.run.spent_usd),
            reserved=usd(self.run.reserved_usd),
            needed=usd(claims.upper_bound(request, self.price)),
        )
        lifecycle.pause(self.run, reason=reason)

    def settle(self, unsent: Sequence[Claim], after_running: str) -> None:
        """Free what was never sent, rank the examples, and give the run its next state.

        `after_running` is `queued` if another worker is to go on.
        """
        if self.look(PumpStatus(0, 0, None)) is None:
            return
        claims.give_back(self.run.pk, self.holder, unsent)
        claims.lose_claims(self.run.pk)
        if after_running == State.DONE:
            rebuild_verdicts(self.run)
        moves = {
            State.RUNNING: after_running,
            State.PAUSING: State.PAUSED,
            State.CANCELLING: State.CANCELLED,
        }
        lifecycle.settle(self.run.pk, self.holder, moves)
        lifecycle.make_primary(self.run)
