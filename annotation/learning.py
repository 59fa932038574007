"""Rounds that learn: once the random sample is labelled, the rest is selected by what it taught.

What it taught is computed where the judge is known; here is when, and what the round becomes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from celery import current_app
from django.db import transaction
from django.db.models import Exists, Max, OuterRef, QuerySet

from annotation.certifying import plan_to_store
from annotation.counting import count_all_earlier_votes
from annotation.filling import fill
from annotation.models import Item, Round, RoutingScores, Selection
from annotation.selecting import Drawn, Ranked, draw, frame, ranked_examples
from annotation.waking import GO_ON
from judging import audit
from judging.kept import shelf
from judging.models.examples import Example
from judging.models.runs import Run

ONE_WAKE_SECONDS = 60


@dataclass(frozen=True)
class Learned:
    """used: whether the scores rank better than BPDE, which ranks otherwise; fit: what was
    learned, as it is shown; scores: by example, of what ranks, without those that have none."""

    used: bool
    fit: dict[str, Any]
    scores: Mapping[int, float]


def due() -> QuerySet[Round]:
    """Rounds whose learning sample is settled and whose second stage is not open yet."""
    waiting = Item.objects.filter(round=OuterRef("pk"), selection__kind=Selection.Kind.LEARN)
    waiting = waiting.exclude(state=Item.State.COMPLETE)
    rounds = Round.objects.filter(stage=Round.Stage.LEARN).exclude(state=Round.State.CLOSED)
    return rounds.filter(~Exists(waiting))


def wake_due() -> None:
    """Make up for lost wakes. A worker that is busy finds one message a minute and not hundreds."""
    for pk in due().values_list("pk", flat=True):
        if shelf.add(f"go-on:{pk}", True, ONE_WAKE_SECONDS):
            current_app.send_task(GO_ON, [pk])


def open_second_stage(round_: Round, learned: Learned) -> bool:
    """Select, draw the audit from what is left, and fix what it may certify, all at once.

    False where another process was faster, or a learning label was reopened meanwhile.
    """
    with transaction.atomic():
        if due().filter(pk=round_.pk).update(stage=Round.Stage.SELECT) != 1:
            return False
        round_.refresh_from_db()
        run = round_.run
        if run is None:
            raise ValueError("a round that learns has a run")
        RoutingScores.objects.create(
            round=round_,
            fit=learned.fit,
            examples=list(learned.scores),
            scores=list(learned.scores.values()),
        )
        drawn = _drawn(round_, run, learned)
        settings = round_.parameters
        plan = plan_to_store(
            run,
            drawn,
            settings["epsilon"],
            settings["alpha"],
            _looks(settings["looks"], len(drawn.audit)),
            learned.scores if learned.used else None,
        )
        Round.objects.filter(pk=round_.pk).update(certificate_plan=plan)
        last = Item.objects.filter(round=round_).aggregate(last=Max("position"))["last"]
        parts = [("top", drawn.top), ("audit", drawn.audit), ("check", _late_checks(round_))]
        fill(round_, parts, drawn, start=last + 1)
        round_.selections.filter(items=None).delete()
        audit.record(
            round_.project,
            None,
            "round selected by what it learned",
            f"round {round_.number}",
            used=learned.used,
            items=len(drawn.top) + len(drawn.audit),
        )
    count_all_earlier_votes(round_)
    return True


def ranking_of(round_: Round, run: Run) -> list[Ranked]:
    """What a larger cut of this round takes first: what it learned from, then by its scores."""
    kept = RoutingScores.objects.filter(round=round_).first()
    if kept is None:
        return ranked_examples(run, paper_mode=round_.paper_mode)
    order = ranked_examples(run, scores=dict(zip(kept.examples, kept.scores, strict=True)))
    sample = _sample(round_)
    return [one for one in order if one.example_id in sample] + [
        one for one in order if one.example_id not in sample
    ]


def _drawn(round_: Round, run: Run, learned: Learned) -> Drawn:
    """The rest of the cut by rank, and the audit from all that neither stage selected. Examples
    may have come or gone since the round was opened."""
    sample = _sample(round_)
    order = ranked_examples(
        run, paper_mode=round_.paper_mode, scores=learned.scores if learned.used else None
    )
    order = [one for one in order if one.example_id not in sample]
    ids = [pk for pk in frame(round_.project).values_list("pk", flat=True) if pk not in sample]
    m = min(round_.parameters["m"] - len(sample), len(order))
    n_audit = min(round_.parameters["audit"], len(ids) - m)
    found = draw(order, ids, m, n_audit, round_.seed)
    learning = [Ranked(pk, 0, None) for pk in sample]
    return Drawn(found.top, found.audit, len(ids) + len(sample), found.n_rest, learning)


def _sample(round_: Round) -> set[int]:
    items = Item.objects.filter(round=round_, selection__kind=Selection.Kind.LEARN)
    return set(items.values_list("example_id", flat=True))


def _looks(planned: list[int], n_audit: int) -> tuple[int, ...]:
    """Those that the audit reaches."""
    return tuple(look for look in planned if look <= n_audit)


def _late_checks(round_: Round) -> list[Ranked]:
    """Attention checks that the first stage left for this one."""
    planned = round_.selections.filter(kind=Selection.Kind.CHECK, items=None).first()
    if planned is None:
        return []
    checks = Example.objects.filter(project=round_.project_id, is_check=True).visible()
    here = Item.objects.filter(round=round_).values("example")
    return [
        Ranked(pk, 0, None)
        for pk in checks.exclude(pk__in=here).values_list("pk", flat=True)[: planned.n_items]
    ]
