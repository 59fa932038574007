"""How far a run is, for its page and for the command: one value from a few queries.

Besides the counts it has notes on what the run does differently, and the endpoint's complaints.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from itertools import pairwise
from statistics import median

from django.conf import settings
from django.db.models import Count, Max, Min, Q, Value
from django.db.models.functions import Coalesce, NullIf
from django.utils import timezone

from judging.core.caching import cached, kept_a_while
from judging.core.formatting import count, number_of
from judging.core.models import Worker
from judging.core.text import printable
from judging.llm.client.adaptation import EndpointCapabilities
from judging.llm.client.errors import FailureKind
from judging.methods.portia.stages import Stage
from judging.runs.engine.batches import BatchStanding, standing_of
from judging.runs.engine.rereading import rereading_of
from judging.runs.forms.portia import PortiaSettings, slots_expected
from judging.runs.lifecycle import is_lost, money_of
from judging.runs.models import BUSY, Call, Parse, Run, Share, n_subjects

MOST = 3
# These have a status of their own, or stop the run and become its reason.
TOLD_ELSEWHERE = [kind.value for kind in FailureKind if kind.pauses_run or kind.status != "error"]


@dataclass(frozen=True, slots=True)
class Complaint:
    message: str
    calls: int


def complaints_of(run: Run) -> tuple[Complaint, ...]:
    """Return what the endpoint said to failed calls, the most frequent first."""
    # One row of a page for each failed call would hide what most of them have in common.
    failed = run.calls.filter(state=Call.State.FAILED).exclude(error_kind__in=TOLD_ELSEWHERE)
    counted = failed.order_by().values_list("error").annotate(n=Count("pk"))
    return tuple(Complaint(*row) for row in counted.order_by("-n", "error")[:MOST])


def notes_of(run: Run, samples_left: int) -> tuple[str, ...]:
    """Return sentences on what this run does differently from the usual one."""
    kept = run.parameters.get("adaptive")
    notes = [portia_note(run)] if run.stages else []
    if run.parameters.get("batch"):
        notes.append("Calls are sent as batches: half the price, and each is done within 24 hours.")
    if kept is not None:
        notes += [
            "Adaptive: sampling of an example stops when its label can no longer change, or when "
            f"it is, with {kept['confidence']:.0%} confidence, the label that all samples would "
            "give. This concerns the judge's verdict, not its accuracy. Examples are ranked by "
            "smoothed entropy.",
            rules_note(kept),
        ]
        if run.state == Run.State.DONE:
            notes.append(f"Samples of the full run that were not needed: {count(samples_left)}.")
    return tuple(notes)


def notices_of(run: Run, noticed: Mapping[str, int]) -> tuple[str, ...]:
    """Return sentences on replies that came and yet say less than they seem to.

    Args:
        noticed: The calls with each notice.
    """
    sentences = []
    if n := noticed.get(Call.Notice.CUT):
        sentences.append(
            f"The server cut the prompt of {number_of(n, 'call')}: it reports clearly fewer prompt "
            "tokens than the prompt has words. What the judge said is not about the whole text, so "
            "these samples have the status too long. Give the model a larger context at the "
            "endpoint, then resume and repeat that status."
        )
    if n := noticed.get(Call.Notice.REPEATED):
        sentences.append(repeated_note(run, n))
    if n := noticed.get(Call.Notice.IDENTICAL):
        sentences.append(
            f"In {number_of(n, 'call')} all samples came as identical replies with the same id, "
            f"although the temperature is {run.temperature.normalize():f}. A cache may have copied "
            "them. They count as independent samples, so BPDE may be too low."
        )
    return tuple(sentences)


def repeated_note(run: Run, n: int) -> str:
    """Say how often a reply came again, with the largest group."""
    again = run.calls.filter(noticed=Call.Notice.REPEATED).order_by()
    # Older calls have the reply's id in place of the request's.
    of_reply = Coalesce(NullIf("reply_id", Value("")), "request_id")
    groups = again.annotate(group=of_reply).values_list("group").annotate(n=Count("pk"))
    groups = groups.order_by("-n", "group")
    reply_id, most = groups[0]
    return (
        f"{number_of(n, 'call')} got an earlier reply again, for example {most + 1} identical "
        f"replies with the same id ({printable(reply_id)}). Most likely a cache or proxy in front "
        "of the endpoint answers them, so they are not independent samples and BPDE may be too "
        "low. Turn the cache off, then start a new run."
    )


def portia_note(run: Run) -> str:
    words = {
        Stage.UNSPLIT: "as a whole",
        Stage.LENGTH: "by length",
        Stage.SEMANTIC: "by similarity",
    }
    # The whole responses come last only if nothing else can be shown.
    asked = [stage for stage in run.stages if stage != Stage.UNSPLIT or stage == run.stages[0]]
    stages = ", then ".join(words[Stage(stage)] for stage in asked)
    split = PortiaSettings.of(run)
    parts = f", in {split.parts} parts, tokens {split.tokens}" if split else ""
    return (
        f"PORTIA{parts}: responses are compared {stages}, until both orders agree. If a response "
        "is too short to split, or the two have nothing in common, they are shown as a whole."
    )


def rules_note(kept: dict[str, object]) -> str:
    pilot, rules = kept.get("pilot"), kept.get("rules")
    if not isinstance(pilot, list) or rules is None:
        return "A pilot of examples gets all samples first, to learn when others may stop early."
    if not isinstance(rules, list) or not rules:
        why = f": {kept['why']}" if kept.get("why") else ""
        return (
            f"The pilot of {len(pilot)} examples gave no rule for stopping early{why}. Sampling "
            "stops only when a label can no longer change."
        )
    stated = "; ".join(
        f"after round {rule['rounds']} if the score differences sum to {rule['lead']:g} or more "
        f"(same label as the full run in at least {rule['lower']:.1%})"
        for rule in rules
    )
    return f"Rules for stopping early, from a pilot of {len(pilot)} examples: {stated}."


RATE_WINDOW = timedelta(seconds=60)
EVIDENCES = 3
EVIDENCE_LETTERS = 400


@dataclass(frozen=True, slots=True)
class OrderCounts:
    """One part's slots by status, so that you see if only one order fails."""

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
        """Return the statuses without a verdict."""
        return {name: n for name, n in self.statuses.items() if name != Parse.Status.VALID}


@dataclass(frozen=True, slots=True)
class Evidence:
    """What the judge wrote lately, by responses 1 and 2."""

    example_id: int
    external_id: str
    part: str
    score_1: Decimal | None
    score_2: Decimal | None
    outcome: str | None
    status: str
    model_1: str | None
    model_2: str | None
    text: str


def workers_of(run: Run, shares: Sequence[Share]) -> tuple[tuple[str, ...], int, int]:
    """Return who works on the run, its holder first, their calls in flight, and the most of them.

    The most is 0 if that is not known.
    """
    working = [share for share in shares if run.holder and not is_lost(share)]
    working.sort(key=lambda share: share.holder != run.holder)
    names = (share.holder.split(":") for share in working)
    statuses = [share.progress for share in working if share.holder != run.holder]
    in_flight, window = (
        sum(int(status.get(name) or 0) for status in (run.progress, *statuses))
        for name in ("in_flight", "window")
    )
    return tuple(f"{host}, process {process}" for host, process, *_ in names), in_flight, window


@dataclass(frozen=True, slots=True)
class RunProgress:
    """How far a run is. Counts are of sample slots unless the name says calls.

    Dollars are None if the price is unknown.
    """

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
    workers: tuple[str, ...] = ()
    batches: Sequence[BatchStanding] = ()
    reused: int = 0
    notes: tuple[str, ...] = ()
    complaints: tuple[Complaint, ...] = ()
    notices: tuple[str, ...] = ()
    # While they are being ranked, once all samples are there.
    examples_ranked: int = 0
    examples_to_rank: int = 0

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
        # An import during the run adds examples, so more than all may be settled for a moment.
        return min(1.0, self.settled / self.expected) if self.expected else 1.0


# Runs with more calls are counted at intervals while they are at work, and once when they are done.
MANY_CALLS = 20_000
# The evidence that is shown comes from this many of the latest readings.
LATEST = 5_000


@dataclass(frozen=True, slots=True)
class Counted:
    """What is counted over all of a run's calls.

    slots: by part and status. calls, noticed: by state, and by notice.
    """

    examples: int
    slots: Counter[tuple[str, str]]
    calls: Counter[str]
    noticed: Counter[str]
    complaints: tuple[Complaint, ...]
    notices: tuple[str, ...]
    rate: float | None
    recent: tuple[Evidence, ...]


def has_many_calls(run: Run) -> bool:
    """Return True if counting them all takes longer than a page should. Reads few of them."""
    # One row after that many is enough to know, while COUNT would read them all.
    return bool(run.calls.order_by().values_list("run")[MANY_CALLS : MANY_CALLS + 1])


def counted(run: Run) -> Counted:
    """Return the counts: of many calls those of a moment ago, and of a run that is done the last.

    What is done changes by reading its replies again, which ranks it again.
    """
    if not has_many_calls(run):
        return _counted(run)
    reading = rereading_of(run)
    if run.state == Run.State.DONE and not (reading and reading.under_way):
        done = (run.ranked_at, run.finished_at, reading and reading.token)
        return cached("counted", run, done, lambda: _counted(run))
    state = (run.state, run.reason, run.ranked_at)
    # The page asks every two seconds, and a count of a million calls takes longer than that.
    return kept_a_while("standing", run, state, lambda: _counted(run), is_large=True)


def _counted(run: Run) -> Counted:
    slots = slot_counts(run)
    calls, noticed = Counter[str](), Counter[str]()
    rows = run.calls.order_by().values_list("state", "noticed").annotate(n=Count("pk"))
    for state, notice, n in rows:
        calls[state] += n
        noticed[notice] += n
    return Counted(
        n_subjects(run),
        slots,
        calls,
        noticed,
        # Most runs have no failed call, and then the scan for messages is not worth a query.
        complaints_of(run) if Parse.Status.ERROR in status_counts(slots) else (),
        notices_of(run, noticed),
        calls_per_minute(run),
        recent_evidence(run) if run.state in BUSY else (),
    )


def progress_of(run: Run) -> RunProgress:
    run.refresh_from_db()
    totals = counted(run)
    examples, counts, calls = totals.examples, totals.slots, totals.calls
    by_order = {
        part: OrderCounts(slots, status_counts(counts, part))
        for part, slots in expected_slots(run, examples).items()
    }
    expected = sum(order.expected for order in by_order.values())
    settled = sum(order.settled for order in by_order.values())
    statuses = status_counts(counts)
    shares = list(run.shares.order_by("pk"))
    workers, in_flight, window = workers_of(run, shares)
    at_once = window or run.concurrency
    spent, reserved = money_of(run, shares)
    priced = run.price is not None
    return RunProgress(
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
        in_flight=in_flight,
        calls_per_minute=totals.rate,
        eta_seconds=eta(run, expected - settled, at_once),
        spent_usd=spent if priced else None,
        reserved_usd=reserved if priced else None,
        budget_usd=run.budget_usd,
        concurrency=at_once,
        paused_for=pause_left(run),
        paused_why=str(run.progress.get("paused_why", "")),
        learned=EndpointCapabilities.from_json(run.learned).notes() if run.learned else (),
        recent=totals.recent,
        worker_missing=worker_is_missing(run),
        workers=workers,
        batches=standing_of(run) if run.in_batches else (),
        reused=run.n_reused,
        notes=notes_of(run, expected - settled),
        notices=totals.notices,
        complaints=totals.complaints,
        examples_ranked=run.progress.get("ranked", 0),
        examples_to_rank=run.progress.get("to_rank", 0),
    )


def expected_slots(run: Run, examples: int) -> dict[str, int]:
    """Return the slots by part; what PORTIA asks depends on what comes back."""
    if run.stages:
        return slots_expected(run, examples)
    return dict.fromkeys(run.parts, examples * run.k)


def slot_counts(run: Run) -> Counter[tuple[str, str]]:
    """Count the run's slots by part and status."""
    rows = Parse.objects.that_count(run).order_by().values_list("sample__call__part", "status")
    return Counter({(part, status): n for part, status, n in rows.annotate(n=Count("pk"))})


def status_counts(counts: Counter[tuple[str, str]], part: str | None = None) -> dict[str, int]:
    """Return the slots by status, of one part or of all."""
    totals: Counter[str] = Counter()
    for (order, status), n in counts.items():
        totals[status] += n if part in (None, order) else 0
    return {status: totals[status] for status in Parse.Status.values if totals[status]}


def calls_per_minute(run: Run) -> float | None:
    """Return the rate over the last minute, or since the first call if that is shorter."""
    now = timezone.now()
    recent = run.calls.filter(finished_at__gt=now - RATE_WINDOW, reused_from=None)
    calls = recent.aggregate(
        n=Count("pk", filter=~Q(state=Call.State.LOST)),
        first=Min("claimed_at"),
        last=Max("finished_at"),
    )
    # A paused run has no rate: the last minute's would promise an end that doesn't come.
    if not calls["n"] or run.state != Run.State.RUNNING:
        return None
    span = min(RATE_WINDOW, now - calls["first"]).total_seconds()
    return calls["n"] / max(span, 1.0) * 60


# Calls whose pace foretells the rest, and into how many stretches they are cut for the median.
PACED_CALLS = 240
STRETCHES = 12


def eta(run: Run, slots_left: int, at_once: int) -> float | None:
    """Return the seconds left at the median pace of the last calls, or None before that is known.

    The median of stretches holds against a slow call, a pause, and a burst, so that the figure
    shrinks steadily while the judge is steady.
    """
    if run.state != Run.State.RUNNING:
        return None
    ended = run.calls.filter(finished_at__isnull=False, reused_from=None).exclude(
        state=Call.State.LOST
    )
    times = list(ended.order_by("-pk").values_list("claimed_at", "finished_at")[:PACED_CALLS])
    pace = seconds_per_call([(a.timestamp(), b.timestamp()) for a, b in times if a], at_once)
    if pace is None:
        return None
    # A server that gives one choice a request needs k calls for what others do in one.
    most = (run.learned or {}).get("max_n") or run.k
    return max(0, slots_left) / min(most, run.k) * pace + pause_left(run)


def seconds_per_call(calls: Sequence[tuple[float, float]], at_once: int) -> float | None:
    """Return the median time in which one more call ends, or None before a first wave is back.

    Args:
        calls: When each call was claimed and ended, in seconds.
        at_once: How many calls are in flight together. A stretch is at least as long, since
            answers of one wave come back at nearly the same time.
    """
    if len(calls) < max(2, at_once):
        return None
    first = min(claimed for claimed, _ in calls)
    ends = sorted(ended for _, ended in calls)
    overall = (ends[-1] - first) / len(ends)
    size = max(at_once, len(ends) // STRETCHES)
    if len(ends) < 3 * size:
        return overall
    marks = [first, *ends[size - 1 :: size]]
    return median((after - before) / size for before, after in pairwise(marks))


def pause_left(run: Run) -> float:
    until = run.progress.get("paused_until")
    if not until or run.state != Run.State.RUNNING:
        return 0.0
    return max(0.0, (datetime.fromisoformat(until) - timezone.now()).total_seconds())


def recent_evidence(run: Run) -> tuple[Evidence, ...]:
    """Return what was written last, if it is among the latest readings of the site.

    A judge that writes no evidence would have all its readings looked through.
    """
    last = Parse.objects.order_by("-pk").values_list("pk", flat=True).first() or 0
    # A bound on the primary key keeps this fast on a site whose other runs write millions of rows.
    latest = Parse.objects.filter(pk__gt=last - LATEST)
    parses = latest.filter(sample__call__run=run, current=True).exclude(evidence="")
    rows = parses.order_by("-pk").values_list(
        "sample__call__example_id", "sample__call__example__external_id", "sample__call__part",
        "score_1", "score_2", "outcome", "status", "sample__call__example__model_1",
        "sample__call__example__model_2", "evidence",
    )  # fmt: skip
    return tuple(Evidence(*values, text[:EVIDENCE_LETTERS]) for *values, text in rows[:EVIDENCES])


def worker_is_missing(run: Run) -> bool:
    """Return True if the run needs a worker and none is alive to take it."""
    held = run.lease_until is not None and run.lease_until > timezone.now() and run.holder
    if run.state not in (Run.State.QUEUED, Run.State.RUNNING) or held:
        return False
    return not Worker.objects.alive().serve(settings.RUNS)
