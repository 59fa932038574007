"""The database side of a pump. Everything here is called from one thread, and never waits."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from judging.figures import usd
from judging.llm.adaptation import Learned
from judging.llm.errors import CallFailure
from judging.llm.prices import PriceSnapshot
from judging.models.calls import Batch, Call
from judging.models.runs import Run
from judging.runs import claims, learned, recording, recovery, states
from judging.runs.agenda import agenda_of
from judging.runs.claims import Claim
from judging.runs.plan import Ask, asks_left
from judging.runs.questions import Questioner
from judging.runs.recording import Arrival
from judging.runs.subjects import subjects_of
from judging.runs.trouble import Trouble
from judging.runs.verdicts import rebuild_verdicts

State = Run.State

OVER_BUDGET = (
    "The budget of {budget} can't hold another call: {spent} are spent, {reserved} may still be "
    "billed, and the next call may cost {needed}. Nothing recorded is lost. Raise the budget and "
    "resume."
)


@dataclass(frozen=True, slots=True)
class Standing:
    """Where the pump is, for whoever watches the run."""

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


class Desk:
    """One run in the hands of one holder."""

    def __init__(self, run: Run, holder: str) -> None:
        self.run = run
        self.holder = holder
        self.questioner = Questioner.of(run)
        self.price = PriceSnapshot.from_json(run.price) if run.price else None
        self.known, self.known_good = learned.recall(run)
        self.trouble = Trouble(answered=run.calls.filter(state=Call.State.DONE).exists())
        self.settled = self.added = 0
        self.standing: Standing | None = None
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
        """Claim the next calls: none when none is left, the budget is short, or it isn't ours."""
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
        """Whether no ask is left.

        Examples that an import added meanwhile start another pass, and so does an agenda that
        looks at what came back.
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
        now_known: Learned,
        price: PriceSnapshot | None = None,
    ) -> None:
        """Record, and pause the run where its endpoint gave a reason to send nothing more.

        `price` is that of calls that don't have the run's own.
        """
        further = recording.record(
            self.run.pk, self.holder, arrivals, self.questioner, price or self.price
        )
        self.settled += sum(arrival.settled for arrival in arrivals)
        answered = any(not isinstance(arrival.outcome, CallFailure) for arrival in arrivals)
        if answered and (now_known != self.known or not self.known_good):
            learned.keep(self.run, now_known, self.known)
            self.known, self.known_good = now_known, True
        follow_up = self.agenda.follow_up([arrival.claim.ask for arrival in arrivals])
        self.added += sum(len(ask.slots) for ask in follow_up)
        further += follow_up
        pieces = [piece for ask in further for piece in ask.split(self.most_slots)]
        self.ready.extendleft(reversed(pieces))
        if self.trouble.reason:
            states.pause(self.run, reason=self.trouble.reason)

    def look(self, standing: Standing) -> str | None:
        """The run's state, and the pump's standing put beside it. None: another one holds it."""
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
        states.pause(self.run, reason=reason)

    def settle(self, unsent: Sequence[Claim], after_running: str) -> None:
        """Give back what was never sent, rank what there is, and give the run its next state.

        `after_running` is `queued` where another worker shall go on.
        """
        if self.look(Standing(0, 0, None)) is None:
            return
        claims.give_back(self.run.pk, self.holder, unsent)
        recovery.lose_claims(self.run.pk)
        if after_running == State.DONE:
            rebuild_verdicts(self.run)
        moves = {
            State.RUNNING: after_running,
            State.PAUSING: State.PAUSED,
            State.CANCELLING: State.CANCELLED,
        }
        states.settle(self.run.pk, self.holder, moves)
        states.make_primary(self.run)
