"""How far a run is, for its page and for the command: one value from a few queries."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal

from django.db.models import Count, Max, Min, Q
from django.utils import timezone

from judging.llm.adaptation import Learned
from judging.models.calls import Call, Parse, Sample
from judging.models.runs import Run
from judging.models.workers import Worker
from judging.runs.batches import BatchStanding, standing_of
from judging.runs.complaints import Complaint, complaints_of
from judging.runs.notes import notes_of
from judging.runs.portia.calls import slots_expected
from judging.runs.subjects import subject_field, subjects_of

RATE_WINDOW = timedelta(seconds=60)
EVIDENCES = 3
EVIDENCE_LETTERS = 400


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """One order's slots by status, so that a failure of one order alone is seen."""

    expected: int
    statuses: dict[str, int]

    @property
    def settled(self) -> int:
        return sum(self.statuses.values())

    @property
    def valid(self) -> int:
        return self.statuses.get(Parse.Status.VALID, 0)

    @property
    def failures(self) -> dict[str, int]:
        """What brought no verdict."""
        return {name: n for name, n in self.statuses.items() if name != Parse.Status.VALID}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the judge wrote lately, turned back to responses 1 and 2."""

    example_id: int
    external_id: str
    part: str
    score_1: Decimal | None
    score_2: Decimal | None
    outcome: str | None
    status: str
    text: str


@dataclass(frozen=True, slots=True)
class Progress:
    """Counts are of sample slots unless they say calls. Dollars are None for an unknown price."""

    state: str
    reason: str
    examples: int
    expected: int
    settled: int
    statuses: dict[str, int]
    by_order: dict[str, OrderCounts]
    calls_done: int
    calls_failed: int
    calls_lost: int
    in_flight: int
    calls_per_minute: float | None
    eta_seconds: float | None
    spent_usd: Decimal | None
    reserved_usd: Decimal | None
    budget_usd: Decimal | None
    concurrency: int
    paused_for: float
    paused_why: str
    learned: tuple[str, ...]
    recent: tuple[Evidence, ...]
    worker_missing: bool
    batches: Sequence[BatchStanding] = ()
    notes: tuple[str, ...] = ()
    complaints: tuple[Complaint, ...] = ()

    @property
    def finished(self) -> bool:
        return self.state in (
            Run.State.DONE,
            Run.State.CANCELLED,
            Run.State.PAUSED,
            Run.State.FAILED,
        )

    @property
    def share(self) -> float:
        if self.state == Run.State.DONE:
            return 1.0
        return min(1.0, self.settled / self.expected) if self.expected else 1.0


def progress_of(run: Run) -> Progress:
    run.refresh_from_db()
    examples = subjects_of(run).count()
    counts = slot_counts(run)
    by_order = {
        part: OrderCounts(slots, status_counts(counts, part))
        for part, slots in expected_slots(run, examples).items()
    }
    expected = sum(order.expected for order in by_order.values())
    settled = sum(order.settled for order in by_order.values())
    calls = Counter(dict(run.calls.order_by().values_list("state").annotate(n=Count("pk"))))
    statuses, rate = status_counts(counts), calls_per_minute(run)
    priced = run.price is not None
    return Progress(
        state=run.state,
        reason=run.reason,
        examples=examples,
        expected=expected,
        settled=settled,
        statuses=statuses,
        by_order=by_order,
        calls_done=calls[Call.State.DONE],
        calls_failed=calls[Call.State.FAILED],
        calls_lost=calls[Call.State.LOST],
        in_flight=int(run.progress.get("in_flight", 0)),
        calls_per_minute=rate,
        eta_seconds=eta(run, expected - settled, rate),
        spent_usd=run.spent_usd if priced else None,
        reserved_usd=run.reserved_usd if priced else None,
        budget_usd=run.budget_usd,
        concurrency=int(run.progress.get("window") or run.concurrency),
        paused_for=pause_left(run),
        paused_why=str(run.progress.get("paused_why", "")),
        learned=Learned.from_json(run.learned).notes() if run.learned else (),
        recent=recent_evidence(run),
        worker_missing=worker_is_missing(run),
        batches=standing_of(run),
        notes=notes_of(run, expected - settled),
        complaints=complaints_of(run) if Parse.Status.ERROR in statuses else (),
    )


def expected_slots(run: Run, examples: int) -> dict[str, int]:
    """By part; what PORTIA asks depends on what comes back."""
    if run.stages:
        return slots_expected(run, examples)
    return dict.fromkeys(run.parts, examples * run.k)


def slot_counts(run: Run) -> Counter[tuple[str, str]]:
    """Slots by order and status, the last attempt of each only."""
    about_nothing = Q(sample__call__example=None, sample__call__point_item=None)
    parses = Parse.objects.filter(~about_nothing, sample__call__run=run, current=True)
    retried = Sample.objects.filter(call__run=run, attempt__gt=0).exists()
    rows = parses.order_by().values_list("sample__call__part", "status").annotate(n=Count("pk"))
    counts = Counter({(part, status): n for part, status, n in rows})
    if retried:
        counts.subtract(superseded(run))
    return counts


def superseded(run: Run) -> Counter[tuple[str, str]]:
    """Attempts that a later one replaced. Few, since only failures are asked again."""
    later = Sample.objects.filter(call__run=run, attempt__gt=0)
    subject = f"call__{subject_field(run)}"
    places = set(later.exclude(**{subject: None}).values_list(subject, "call__part", "slot"))
    rows = Parse.objects.filter(
        sample__call__run=run,
        current=True,
        **{f"sample__{subject}__in": {subject_id for subject_id, _, _ in places}},
    ).order_by("sample__attempt")
    last: dict[tuple[int, str, int], str] = {}
    replaced: Counter[tuple[str, str]] = Counter()
    for *place, status in rows.values_list(
        f"sample__{subject}", "sample__call__part", "sample__slot", "status"
    ):
        example_id, part, slot = place
        if (earlier := last.get((example_id, part, slot))) is not None:
            replaced[part, earlier] += 1
        last[example_id, part, slot] = status
    return replaced


def status_counts(counts: Counter[tuple[str, str]], part: str | None = None) -> dict[str, int]:
    """Of one order, or of all."""
    totals: Counter[str] = Counter()
    for (order, status), n in counts.items():
        totals[status] += n if part in (None, order) else 0
    return {status: totals[status] for status in Parse.Status.values if totals[status]}


def calls_per_minute(run: Run) -> float | None:
    """Over the last minute, or since the first call when that is shorter."""
    now = timezone.now()
    recent = run.calls.filter(finished_at__gt=now - RATE_WINDOW)
    found = recent.aggregate(
        n=Count("pk", filter=~Q(state=Call.State.LOST)),
        first=Min("claimed_at"),
        last=Max("finished_at"),
    )
    if not found["n"] or run.state != Run.State.RUNNING:
        return None
    span = min(RATE_WINDOW, now - found["first"]).total_seconds()
    return found["n"] / max(span, 1.0) * 60


def eta(run: Run, slots_left: int, rate: float | None) -> float | None:
    if not rate:
        return None
    most = (run.learned or {}).get("max_n") or run.k
    return max(0, slots_left) / min(most, run.k) / rate * 60 + pause_left(run)


def pause_left(run: Run) -> float:
    until = run.progress.get("paused_until")
    if not until or run.state != Run.State.RUNNING:
        return 0.0
    return max(0.0, (datetime.fromisoformat(until) - timezone.now()).total_seconds())


def recent_evidence(run: Run) -> tuple[Evidence, ...]:
    parses = Parse.objects.filter(sample__call__run=run, current=True).exclude(evidence="")
    rows = parses.order_by("-pk").values_list(
        "sample__call__example_id",
        "sample__call__example__external_id",
        "sample__call__part",
        "score_1",
        "score_2",
        "outcome",
        "status",
        "evidence",
    )
    return tuple(Evidence(*values, text[:EVIDENCE_LETTERS]) for *values, text in rows[:EVIDENCES])


def worker_is_missing(run: Run) -> bool:
    """Whether a run that waits for a worker, or lost its own, has nobody to take it."""
    held = run.lease_until is not None and run.lease_until > timezone.now() and run.holder
    if run.state not in (Run.State.QUEUED, Run.State.RUNNING) or held:
        return False
    return not Worker.objects.alive().filter(queues__contains="runs").exists()
