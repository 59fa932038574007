"""Claiming calls before they are sent, their money, and the journal of what their holder did.

Only those who have a share of the run claim, while the run is running. Every call reserves its
upper bound before it is sent, and holds its cost afterwards. Spent is the sum of the calls' known
costs, reserved the sum of their reservations and of the workers' slices. A request that was cut off
may have been billed, so its call keeps its upper bound reserved, even if a later request of the
same call brought the answer.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from decimal import ROUND_CEILING, Decimal
from itertools import count
from pathlib import Path
from typing import Any, Self

from django.conf import settings
from django.db import transaction
from django.db.models import Max, QuerySet, Sum
from django.utils import timezone

from judging.core.leases import boot, is_dead
from judging.core.sql import statements
from judging.core.sql.statements import prepared
from judging.llm.client.errors import CallFailure, FailureKind
from judging.llm.client.messages import Choice, JudgeRequest, Reply, stored_logprobs
from judging.llm.prices import PriceSnapshot, Usage
from judging.runs import lifecycle
from judging.runs.lifecycle import ZERO
from judging.runs.models import Batch, Call, Run, Share, place_of
from judging.runs.planning.agenda import Questioner
from judging.runs.samples import Ask

# What the columns hold, so that a sum of rounded amounts equals the sum of the rows.
SMALLEST = Decimal("1e-10")


def rounded_up(usd: Decimal) -> Decimal:
    return usd.quantize(SMALLEST, ROUND_CEILING)


def recount(run_id: int) -> None:
    """Set spent and reserved from the calls themselves. Only who is alone with the run may."""
    sums = Call.objects.filter(run_id=run_id).aggregate(
        spent=Sum("usd"), reserved=Sum("reserved_usd")
    )
    Run.objects.filter(pk=run_id).update(
        spent_usd=sums["spent"] or ZERO, reserved_usd=sums["reserved"] or ZERO
    )
    # The calls hold it all now, so what shares had not handed in would count twice.
    Share.objects.filter(run=run_id).update(spent_usd=ZERO, free_usd=ZERO)


NO_ANSWER = "The batch ended without this answer. It may have been billed."
Place = tuple[int | None, int | None, str]
PLACE = ("example_id", "point_item_id", "part")


@dataclass(frozen=True, slots=True)
class Claim:
    """A call that this holder may send, and what it reserves until it is recorded."""

    call: Call
    ask: Ask
    request: JudgeRequest
    reserved: Decimal | None


def claim(
    run_id: int,
    holder: str,
    asks: Sequence[Ask],
    questioner: Questioner,
    price: PriceSnapshot | None,
    batch: Batch | None = None,
) -> list[Claim]:
    """Claim as many of the first asks as the budget holds; none if the run was taken over.

    If another holder made a call in the meantime its `seq` is taken: the unique constraint on
    (run, example, part, seq) then refuses the whole transaction.
    """
    requests = [questioner.of_ask(ask) for ask in asks]
    upper_bounds = [upper_bound(request, price) for request in requests]
    n = len(asks)
    while n:
        total = sum((amount or ZERO for amount in upper_bounds[:n]), ZERO)
        if calls := claimed(run_id, holder, asks[:n], upper_bounds, total, batch):
            break
        # Half of the calls may still fit, so that a small rest of the budget is used as well.
        if not lifecycle.take_slice(run_id, holder, total):
            n //= 2
    return [
        Claim(call, ask, request, call.reserved_usd)
        for call, ask, request in zip(calls if n else (), asks, requests, strict=False)
    ]


def claimed(
    run_id: int,
    holder: str,
    asks: Sequence[Ask],
    upper_bounds: Sequence[Decimal | None],
    total: Decimal,
    batch: Batch | None,
) -> list[Call]:
    """Claim all of the asks, or none if the worker's slice doesn't hold them."""
    now = timezone.now()
    with transaction.atomic():
        if not lifecycle.reserve_usd(run_id, holder, total):
            return []
        seqs = next_seqs(run_id, asks)
        calls = [
            statements.new(
                Call,
                run_id=run_id,
                **place_of(ask.subject),
                part=ask.part,
                seq=next(seqs[*place(ask), ask.part]),
                slots=list(ask.slots),
                attempt=ask.attempt,
                holder=holder,
                claimed_at=now,
                reserved_usd=reserved,
                batch_id=batch.pk if batch else None,
            )
            for ask, reserved in zip(asks, upper_bounds, strict=False)
        ]
        # The ids must exist before anything is sent: the journal names calls by them.
        statements.insert(Call, calls)
    return calls


def next_seqs(run_id: int, asks: Sequence[Ask]) -> defaultdict[Place, Iterator[int]]:
    """Return for each part of a subject the numbers of its next calls."""
    seqs: defaultdict[Place, Iterator[int]] = defaultdict(count)
    places = {place(ask) for ask in asks}
    examples = [example for example, _ in places if example is not None]
    items = [item for _, item in places if item is not None]
    taken = _last_of_examples.all(run=run_id, ids=examples) if examples else []
    taken += _last_of_items.all(run=run_id, ids=items) if items else []
    taken += _last_of_inputs.all(run=run_id) if (None, None) in places else []
    for *of, seq in taken:
        seqs[tuple(of)] = count(seq + 1)
    return seqs


@prepared
def _last_of_examples(run: Any, ids: list[int]) -> QuerySet[Call, Any]:
    return _last(Call.objects.filter(run=run, example__pk__in=ids))


@prepared
def _last_of_items(run: Any, ids: list[int]) -> QuerySet[Call, Any]:
    return _last(Call.objects.filter(run=run, point_item__pk__in=ids))


@prepared
def _last_of_inputs(run: Any) -> QuerySet[Call, Any]:
    """Calls about content-free inputs, which belong to no example."""
    return _last(Call.objects.filter(run=run, example=None, point_item=None))


def _last(calls: QuerySet[Call]) -> QuerySet[Call, Any]:
    return calls.order_by().values(*PLACE).annotate(last=Max("seq")).values_list(*PLACE, "last")


def place(ask: Ask) -> tuple[int | None, int | None]:
    fields = place_of(ask.subject)
    return fields.get("example_id"), fields.get("point_item_id")


def upper_bound(request: JudgeRequest, price: PriceSnapshot | None) -> Decimal | None:
    if price is None:
        return None
    most = price.reserve(request.prompt_tokens, request.n, request.max_tokens)
    # Rounding down would let many small reservations pass the budget.
    return rounded_up(most)


def lose(run_id: int, holder: str, claims: Sequence[Claim]) -> None:
    """Mark claims lost whose answers never came. They may be billed, so they stay reserved."""
    with transaction.atomic():
        ids = [claim.call.pk for claim in claims]
        ours = Call.objects.filter(pk__in=ids, holder=holder, state=Call.State.CLAIMED)
        ours.update(state=Call.State.LOST, finished_at=timezone.now(), error=NO_ANSWER)


def give_back(run_id: int, holder: str, claims: Sequence[Claim]) -> None:
    """Delete claims that were never sent, or were refused each time."""
    with transaction.atomic():
        # A worker that takes this one for dead locks the share too, so that calls are freed once.
        lifecycle.lock_share(run_id, holder)
        ids = [claim.call.pk for claim in claims]
        free(run_id, holder, Call.objects.filter(pk__in=ids, state=Call.State.CLAIMED))


def free(run_id: int, holder: str, calls: QuerySet[Call]) -> None:
    """Delete the worker's calls, and put what they reserve back into its slice."""
    ours = calls.filter(run=run_id, holder=holder)
    reserved = ours.aggregate(usd=Sum("reserved_usd"))["usd"] or ZERO
    # A call that was never sent leaves no row, so its number is free for the next try.
    ours.delete()
    lifecycle.settle_usd(run_id, holder, reserved)


def lose_claims(run_id: int, holder: str | None = None) -> int:
    """Mark claims lost whose holder is gone. They may be billed, so they stay reserved.

    Calls in a batch are not lost: the endpoint keeps their answers until they are collected.

    Args:
        holder: whose claims; None for all of the run.
    """
    theirs = Call.objects.filter(run_id=run_id, state=Call.State.CLAIMED, batch=None)
    if holder is not None:
        theirs = theirs.filter(holder=holder)
    return theirs.update(
        state=Call.State.LOST,
        finished_at=timezone.now(),
        error="The worker stopped before the answer was recorded. It may have been billed.",
    )


FOLDER = "departures"
# A longer journal is written again, with what is not in the database yet.
LONG_JOURNAL = 2**20
ENDED = "."
UNCERTAIN = "-"


class Journal:
    """What one holder sent and what came back, in a file that a kill leaves behind.

    Its lines are, in the order of events: the machine's boot; `12` when a request of call 12
    leaves; `-12` when it was refused at no cost; `12 {…}` with what came back; `.` at the end of a
    holder that stopped for an error. Each is one write, since a transaction for each would cost
    more than the call. A crash of the machine may lose lines that a kill leaves, so only until the
    next boot does a missing line prove that nothing was sent.

    If a line can't be written, as on a full disk, the run goes on: the first line is then crossed
    out, and only the answers still count. The folder is private to the user who runs FairJudge.
    """

    def __init__(self, run_id: int, holder: str) -> None:
        self.path = path_of(run_id, holder)
        self.file: int | None = None
        self.certain = False
        self.size, self.long = 0, LONG_JOURNAL
        self.under_way: dict[int, int] = {}
        self.unrecorded: dict[int, bytes] = {}
        try:
            # The file holds what people's examples say, so nobody else on the machine may read it.
            self.path.parent.mkdir(mode=0o700, exist_ok=True)
        except OSError:
            return
        self.rewrite()

    def leaving(self, call_id: int) -> None:
        """Note that a request of the call is about to be sent."""
        self.under_way[call_id] = self.under_way.get(call_id, 0) + 1
        if self.certain and not self.append(f"{call_id}\n".encode()):
            self.cross_out()

    def cost_nothing(self, call_id: int) -> None:
        """Note that the request was refused, or never reached the server."""
        self.under_way[call_id] -= 1
        if not self.under_way[call_id]:
            del self.under_way[call_id]
        if self.certain:
            self.append(f"-{call_id}\n".encode())

    def arrived(self, call_id: int, outcome: Reply | CallFailure) -> None:
        content = json.dumps(outcome_json(outcome), ensure_ascii=False)
        line = f"{call_id} {content}\n".encode(errors="replace")
        self.unrecorded[call_id] = line
        self.append(line)

    def recorded(self, call_ids: Iterable[int]) -> None:
        """Forget what the database has now."""
        for call_id in call_ids:
            self.under_way.pop(call_id, None)
            self.unrecorded.pop(call_id, None)
        if self.size > self.long:
            self.rewrite()

    def append(self, line: bytes) -> bool:
        if self.file is None:
            return False
        try:
            written = os.write(self.file, line)
            if written != len(line):
                # Half a line would make the reader distrust all that follows it.
                os.ftruncate(self.file, self.size)
        except OSError:
            return False
        self.size += written if written == len(line) else 0
        return written == len(line)

    def rewrite(self) -> None:
        """Write the file again, with what is still needed. If that fails, the old file is kept."""
        sent = [str(call) for call, times in self.under_way.items() for _ in range(times)]
        head = "".join(f"{line}\n" for line in (boot() or UNCERTAIN, *sent)).encode()
        content = head + b"".join(self.unrecorded.values())
        # A kill between two writes must leave a whole journal, so the new one takes the old one's
        # place.
        fresh = self.path.with_name(f"{self.path.name}.new")
        file = None
        try:
            fresh.unlink(missing_ok=True)
            file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o600)
            if os.write(file, content) != len(content):
                raise OSError("no space left")
            fresh.replace(self.path)
        except OSError:
            if file is not None:
                os.close(file)
            forget(fresh)
            # On a full disk each attempt fails alike, so the next one waits until it could gain
            # something.
            self.long = 2 * max(self.size, LONG_JOURNAL)
            return
        self.close()
        self.file, self.size, self.certain = file, len(content), bool(boot())
        self.long = LONG_JOURNAL + 2 * self.size

    def cross_out(self) -> None:
        """Say in the file that calls may have been sent that it doesn't name."""
        self.certain = False
        try:
            file = os.open(self.path, os.O_WRONLY)
            try:
                # It overwrites the boot in place: on a full disk no longer file could be written.
                os.write(file, UNCERTAIN.encode() * len(boot()))
            finally:
                os.close(file)
        except OSError:
            self.close()
            forget(self.path)

    def close(self) -> None:
        if self.file is not None:
            os.close(self.file)
            self.file = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is not None:
            self.append(f"{ENDED}\n".encode())
        self.close()
        if kind is None:
            forget(self.path)


def outcome_json(outcome: Reply | CallFailure) -> dict[str, Any]:
    if isinstance(outcome, CallFailure):
        return {"failure": asdict(outcome)}
    choices = [
        {
            "text": choice.text,
            "finish_reason": choice.finish_reason,
            "reasoning": choice.reasoning,
            "logprobs": choice.logprobs_json(),
            "completion_tokens": choice.completion_tokens,
            "refusal": choice.refusal,
            "elsewhere": choice.elsewhere,
        }
        for choice in outcome.choices
    ]
    names = "model", "request_id", "asked", "requests", "possibly_billed", "duration_ms", "reply_id"
    plain = {name: getattr(outcome, name) for name in names}
    return {"reply": plain | {"choices": choices, "usage": asdict(outcome.usage)}}


def outcome_from(data: Mapping[str, Any]) -> Reply | CallFailure:
    if "failure" in data:
        kept = data["failure"]
        return CallFailure(**{**kept, "kind": FailureKind(kept["kind"])})
    kept = data["reply"]
    choices = tuple(
        Choice(
            **{
                **choice,
                "logprobs": stored_logprobs(choice["logprobs"]),
                "elsewhere": tuple(choice["elsewhere"]),
            }
        )
        for choice in kept["choices"]
    )
    return Reply(**{**kept, "choices": choices, "usage": Usage(**kept["usage"])})


@dataclass(frozen=True, slots=True)
class JournalContent:
    """What a journal tells: the calls that may be billed, None if unknown, and what came back."""

    sent: frozenset[int] | None = None
    outcomes: Mapping[int, Reply | CallFailure] = field(default_factory=dict)


def read_journal(run_id: int, holder: str) -> JournalContent:
    """Read what a holder left. Only its own machine can, or one that shares the folder."""
    try:
        first, *lines = path_of(run_id, holder).read_bytes().split(b"\n")
    except OSError:
        return JournalContent()
    # The last line is empty, or torn by a kill: what it would say hadn't happened yet.
    whole = lines[:-1]
    # After a restart of the machine, lines that were in memory are gone without a trace.
    certain = bool(lines) and bool(boot()) and first == boot().encode()
    sent: dict[int, int] = {}
    outcomes: dict[int, Reply | CallFailure] = {}
    ended = False
    for line in whole:
        try:
            number, _, content = line.decode().partition(" ")
            if number == ENDED:
                ended = True
            elif content:
                outcomes[int(number)] = outcome_from(json.loads(content))
            else:
                call = abs(int(number))
                sent[call] = sent.get(call, 0) + (-1 if int(number) < 0 else 1)
        except (ValueError, TypeError, KeyError, RecursionError):
            certain = False
    if not (certain and (ended or is_dead(holder))):
        return JournalContent(None, outcomes)
    return JournalContent(frozenset(call for call, n in sent.items() if n > 0), outcomes)


def forget(path: Path) -> None:
    try:
        path.unlink(missing_ok=True)
    except OSError:
        # A file that can't be removed can be emptied, and an empty file tells nothing.
        with suppress(OSError):
            os.truncate(path, 0)


def path_of(run_id: int, holder: str) -> Path:
    return settings.FAIRJUDGE_DATA / FOLDER / f"{run_id}-{holder.rpartition(':')[2]}"
