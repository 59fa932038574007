"""Changing a round: pause, close, reopen, ask for more votes, extend the cut, open stage two.

A manager does all but the last. A round that learns opens its second stage by itself, once its
random sample is labelled: the rest is selected by what the sample showed about the judge. That is
computed in `annotation.results`, where judge and people meet; this module decides when it is due
and what the round becomes.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from random import Random
from typing import Any

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, QuerySet
from django.utils import timezone

from annotation.models import Item, Round, RoundWork, RoutingScores, Selection
from annotation.queue.settling import Advance, no_news
from annotation.rounds import growing
from annotation.rounds.opening import MAX_VOTES, plan_to_store, rows_of_selections
from annotation.rounds.selecting import Drawn, Ranked, draw, ranked_examples, size_for_beta
from judging.core import leases, waking
from judging.core.errors import UserError
from judging.core.leases import collecting_later
from judging.dataset.models import Example, frame_of, n_judged
from judging.projects import access
from judging.projects.models import AuditEvent
from judging.runs.models import Run

# Key in a selection's parameters: the audit items that an extended cut counts as selected.
COVERS = "covers_audit_items"


# What managers do to a round, as the audit trail names it.
_CHANGES = {
    "round paused": "paused this round",
    "round resumed": "resumed this round",
    "round closed": "closed this round",
    "round reopened": "reopened this round",
    "votes raised": "asked for more votes",
    "cut extended": "extended the cut",
    "assigned": "chose who labels",
    "change cancelled": "cancelled a change of this round",
}


def last_change(round_: Round) -> AuditEvent | None:
    """Return the last thing that a manager did to the round after it was opened."""
    events = AuditEvent.objects.filter(project=round_.project_id, action__in=_CHANGES)
    return events.filter(subject=f"round {round_.number}").order_by("-pk").first()


def round_version(round_: Round) -> str:
    """Return what the forms of a round's page carry (see `refuse_overtaken`)."""
    last = last_change(round_)
    return access.version_of(last and last.pk)


def refuse_overtaken(round_: Round, user: AbstractUser | None, made_for: str | None) -> None:
    """Raise Overtaken if somebody changed the round after the form of a change was made."""
    last = last_change(round_)
    if last is not None and made_for not in (None, access.version_of(last.pk)):
        raise access.overtaken(last.actor, user, _CHANGES[last.action], last.at)


def pause(round_: Round, user: AbstractUser | None) -> None:
    """Hand out no new items. A vote on an item in hand is still taken."""
    _move(round_, user, Round.State.OPEN, Round.State.PAUSED, "round paused")


def resume(round_: Round, user: AbstractUser | None) -> None:
    _move(round_, user, Round.State.PAUSED, Round.State.OPEN, "round resumed")


def close(
    round_: Round,
    user: AbstractUser | None,
    *,
    advance: Advance = no_news,
    background: bool = False,
) -> None:
    """End the round and settle its items. Its votes can no longer be changed.

    While the items are being settled, `growing.cancel` brings the round back.
    """
    states = [Round.State.OPEN, Round.State.PAUSED]
    n_items = Item.objects.filter(round=round_).exclude(state=Item.State.COMPLETE).count()
    with transaction.atomic():
        for before in states:
            if _change(round_, [before], Round.State.CLOSED, closed_at=timezone.now()):
                break
        else:
            raise UserError(f"Round {round_.number} is closed already.")
        settling = {"n_total": n_items, "state": RoundWork.State.SETTLING, "before": before}
        work = growing.begin(round_, RoundWork.Kind.CLOSE, user, **settling)
        access.record_event(round_.project, user, "round closed", f"round {round_.number}")
    growing.do(work, advance, background=background)


def reopen(
    round_: Round,
    user: AbstractUser | None,
    *,
    advance: Advance = no_news,
    background: bool = False,
) -> None:
    """Go on with the items that didn't get all their votes."""
    if round_.kind == Round.Kind.IMPORT:
        raise UserError(
            "A round of imported votes can't be opened for labelling. Open a new round instead."
        )
    access.need_texts(round_.project, "People can't label pairs without them.")
    n_items = Item.objects.filter(round=round_).count()
    with transaction.atomic():
        if not _change(round_, [Round.State.CLOSED], Round.State.OPEN, closed_at=None):
            raise UserError(f"Round {round_.number} is not closed.")
        settling = {"n_total": n_items, "state": RoundWork.State.SETTLING}
        work = growing.begin(round_, RoundWork.Kind.REOPEN, user, **settling)
        access.record_event(round_.project, user, "round reopened", f"round {round_.number}")
    growing.do(work, advance, background=background)


def raise_votes(
    round_: Round,
    user: AbstractUser | None,
    votes: int,
    *,
    advance: Advance = no_news,
    background: bool = False,
) -> bool:
    """Ask for more votes per item: slots are added, and complete items open again.

    Returns False if that is left to a worker.
    """
    if round_.is_practice:
        raise UserError(
            "Each person answers each pair of this round once, so you can't ask for more votes."
        )
    if not round_.votes_per_item < votes <= MAX_VOTES:
        raise UserError(
            f"Choose a number above {round_.votes_per_item} and up to {MAX_VOTES}. Votes already "
            "given are never removed."
        )
    n_items = Item.objects.filter(round=round_).count()
    with transaction.atomic():
        before = round_.votes_per_item
        # The caller read the round before the lock, so it may have changed since then.
        if _not_closed(round_, "ask for more votes").votes_per_item != before:
            raise UserError("Another person changed this round at the same moment. Reload it.")
        work = growing.begin(
            round_, RoundWork.Kind.VOTES, user, n_total=n_items, before=before, votes=votes,
            round={"votes_per_item": votes}, event={"before": before, "now": votes},
        )  # fmt: skip
    done = growing.do(work, advance, background=background)
    round_.refresh_from_db(fields=["votes_per_item"])
    return done


def extend(
    round_: Round,
    user: AbstractUser | None,
    beta: Decimal,
    *,
    advance: Advance = no_news,
    background: bool = False,
) -> int:
    """Select up to a larger cut. Returns how many items join the round.

    New items get random places among those still open. An audit item within the new cut keeps its
    place, and the analysis counts it as selected (SCIENCE: win rate).
    """
    if round_.run is None or round_.kind == Round.Kind.IMPORT:
        raise UserError("Only a round that was selected by a run's ranking can be extended.")
    m = size_for_beta(n_judged(round_.project_id, round_.frame_id), beta)
    if round_.stage == Round.Stage.LEARN:
        raise UserError(
            "This round is still learning. You can extend it once the rest is selected."
        )
    wanted = ranking_of(round_, round_.run)[:m]
    with collecting_later(), transaction.atomic():
        # Two extensions at once take different examples.
        round_ = _not_closed(round_, "extend it")
        if growing.current_work(round_) is not None:
            raise growing.still_at_work(round_)
        items = Item.objects.filter(round=round_)
        here = set(items.values_list("example_id", flat=True))
        new = [ranked for ranked in wanted if ranked.example_id not in here]
        if not new:
            why = "these examples are in the round already" if wanted else "it selects no example"
            raise UserError(f"β = {beta} % adds nothing: {why}.")
        selection = Selection.every.create(
            round=round_,
            kind=Selection.Kind.TOP,
            seed=round_.seed,
            frame_size=round_.frame_size,
            ready=False,
            parameters={
                "beta": str(beta),
                "extends": round_.parameters.get("beta"),
                COVERS: _audited_within(items, wanted),
            },
        )
        places = _places_among_open(round_, len(new), selection.pk)
        work = growing.begin(
            round_,
            RoundWork.Kind.EXTEND,
            user,
            growing.rows_of(selection, new, places),
            round={"parameters": round_.parameters | {"beta": str(beta)}},
            event={"beta": str(beta), "items": len(new)},
        )
    growing.do(work, advance, background=background)
    return len(new)


def _not_closed(round_: Round, to_do: str) -> Round:
    """Return the round as it is now, locked, so that nobody closes it meanwhile."""
    # The weaker lock (`no_key`) doesn't hold up others who insert rows that point to the round.
    locked = Round.objects.select_for_update(of=("self",), no_key=True).get(pk=round_.pk)
    if locked.state == Round.State.CLOSED:
        raise UserError(f"Reopen the round before you {to_do}.")
    return locked


def _audited_within(items: QuerySet[Item], wanted: Sequence[Ranked]) -> list[int]:
    reached = {ranked.example_id for ranked in wanted}
    audited = items.filter(selection__kind=Selection.Kind.AUDIT).order_by("pk")
    return [pk for pk, example in audited.values_list("pk", "example") if example in reached]


def _places_among_open(round_: Round, n: int, salt: int) -> list[float]:
    """Return random places between the items still open, so that a place tells nothing."""
    random = Random(f"extend:{round_.seed}:{salt}")
    open_places = list(
        Item.objects.filter(round=round_, state=Item.State.OPEN)
        .order_by("position")
        .values_list("position", flat=True)
    )
    if not open_places:
        last = Item.objects.filter(round=round_).order_by("-position").first()
        start = last.position + 1 if last else 0.0
        places = [start + step for step in range(n)]
        random.shuffle(places)
        return places
    # Places are floats, so an item fits between two others without renumbering them. The places
    # before the first and after the last open item are gaps as well.
    ends = [open_places[0] - 1.0, *open_places, open_places[-1] + 1.0]
    gaps = [random.randrange(len(ends) - 1) for _ in range(n)]
    return [random.uniform(ends[gap], ends[gap + 1]) for gap in gaps]


def _move(round_: Round, user: AbstractUser | None, before: str, after: str, action: str) -> None:
    if not _change(round_, [before], after):
        round_.refresh_from_db(fields=["state"])
        raise UserError(f"Round {round_.number} is {round_.get_state_display()}.")
    access.record_event(round_.project, user, action, f"round {round_.number}")


def _change(round_: Round, before: list[str], after: str, **fields: object) -> bool:
    # The condition is part of the UPDATE, so of two managers at the same moment only one changes
    # the state, on SQLite too, which has no row locks.
    rows = Round.objects.filter(pk=round_.pk, state__in=before)
    if rows.update(state=after, **fields) != 1:
        return False
    round_.refresh_from_db(fields=["state", "closed_at"])
    return True


@dataclass(frozen=True)
class RoutingFit:
    """What a round learned from its sample.

    used: the scores rank better than BPDE, and replace it.
    fit: what was learned, as it is shown.
    scores: by example, the score that ranks it; examples without a score are left out.
    """

    used: bool
    fit: dict[str, Any]
    scores: Mapping[int, float]


def rounds_due() -> QuerySet[Round]:
    """Return rounds whose learning sample is settled and whose second stage is not open yet."""
    waiting = Item.objects.filter(round=OuterRef("pk"), selection__kind=Selection.Kind.LEARN)
    waiting = waiting.exclude(state=Item.State.COMPLETE)
    at_work = RoundWork.objects.filter(round=OuterRef("pk")).exclude(state=RoundWork.State.DONE)
    rounds = Round.objects.filter(stage=Round.Stage.LEARN).exclude(state=Round.State.CLOSED)
    return rounds.filter(~Exists(waiting), ~Exists(at_work))


def wake_due() -> None:
    """Make up for lost wakes. A busy worker finds one message a minute, not hundreds."""
    for pk in rounds_due().values_list("pk", flat=True):
        leases.wake_once(waking.GO_ON_WITH_ROUND, "go-on", pk)


def open_second_stage(round_: Round, learned: RoutingFit) -> bool:
    """Select the rest, draw the audit, and fix what it may certify.

    Returns False if another process was faster, or a learning item was reopened meanwhile.
    """
    with transaction.atomic():
        rounds = Round.objects.select_for_update(of=("self",), no_key=True)
        locked = rounds.filter(pk=round_.pk).first()
        if locked is None or not rounds_due().filter(pk=round_.pk).exists():
            return False
        round_.refresh_from_db()
        run = round_.run
        if run is None:
            raise ValueError("a round that learns has a run")
        drawn = _drawn(round_, run, learned)
        settings = round_.parameters
        plan = plan_to_store(
            run,
            drawn,
            settings["epsilon"],
            settings["alpha"],
            # If examples were deleted meanwhile, the audit may be smaller than planned. A look
            # beyond its end would never come.
            tuple(look for look in settings["looks"] if look <= len(drawn.audit)),
            learned.scores if learned.used else None,
        )
        last = Item.objects.filter(round=round_).aggregate(last=Max("position"))["last"]
        parts = [("top", drawn.top), ("audit", drawn.audit), ("check", _late_checks(round_))]
        work = growing.begin(
            round_,
            RoundWork.Kind.SELECT,
            None,
            rows_of_selections(round_, parts, drawn, start=last + 1),
            learned={
                "fit": learned.fit,
                "examples": list(learned.scores),
                "scores": list(learned.scores.values()),
            },
            round={"stage": Round.Stage.SELECT, "certificate_plan": plan},
            event={"used": learned.used, "items": len(drawn.top) + len(drawn.audit)},
        )
    done = growing.do(work)
    round_.refresh_from_db()
    return done


def ranking_of(round_: Round, run: Run) -> list[Ranked]:
    """Return examples in the order in which a larger cut of this round takes them.

    The learning sample comes first, then the others by the round's learned scores.
    """
    learned = RoutingScores.objects.filter(round=round_).first()
    if learned is None:
        return ranked_examples(run, round_.frame_id, paper_mode=round_.paper_mode)
    scores = dict(zip(learned.examples, learned.scores, strict=True))
    order = ranked_examples(run, round_.frame_id, scores=scores)
    sample = _sample(round_)
    # Python's sort is stable, so both parts keep their order by score.
    return sorted(order, key=lambda ranked: ranked.example_id not in sample)


def _drawn(round_: Round, run: Run, learned: RoutingFit) -> Drawn:
    """Return the rest of the cut by rank, and an audit of what neither stage selected.

    Examples may have come or gone since the round was opened.
    """
    sample = _sample(round_)
    order = ranked_examples(
        run,
        round_.frame_id,
        paper_mode=round_.paper_mode,
        scores=learned.scores if learned.used else None,
    )
    order = [ranked for ranked in order if ranked.example_id not in sample]
    ids = frame_of(round_.project, round_.frame_id).values_list("pk", flat=True)
    ids = [pk for pk in ids if pk not in sample]
    m = min(round_.parameters["m"] - len(sample), len(order))
    n_audit = min(round_.parameters["audit"], len(ids) - m)
    drawn = draw(order, ids, m, n_audit, round_.seed)
    learning = [Ranked(pk, 0, None) for pk in sample]
    return Drawn(drawn.top, drawn.audit, len(ids) + len(sample), drawn.n_rest, learning)


def _sample(round_: Round) -> set[int]:
    items = Item.objects.filter(round=round_, selection__kind=Selection.Kind.LEARN)
    return set(items.values_list("example_id", flat=True))


def _late_checks(round_: Round) -> list[Ranked]:
    """Return the attention checks that the first stage left for the second."""
    planned = round_.selections.filter(kind=Selection.Kind.CHECK, items=None).first()
    if planned is None:
        return []
    checks = Example.objects.filter(project=round_.project_id).checks()
    here = Item.objects.filter(round=round_).values("example")
    return [
        Ranked(pk, 0, None)
        for pk in checks.exclude(pk__in=here).values_list("pk", flat=True)[: planned.n_items]
    ]
