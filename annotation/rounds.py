"""Opening a round: what it is opened with, and the examples that it selects."""

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

from django.contrib.auth.models import AbstractUser
from django.db import transaction

from annotation.certifying import ALPHA, EPSILON, check_plan, plan_to_store
from annotation.counting import count_all_earlier_votes
from annotation.filling import first_items
from annotation.models import Annotator, Item, Round, Seat
from annotation.protocols import current_protocol
from annotation.selecting import (
    Drawn,
    Ranked,
    check_audit,
    draw,
    draw_to_learn,
    frame,
    ranked_examples,
    size_for_beta,
    size_for_budget,
)
from judging import audit
from judging.errors import UserError
from judging.methods.cost import Rate
from judging.models.examples import Example
from judging.models.projects import Project
from judging.models.runs import Run
from judging.numbering import next_number

_MAX_VOTES = 99
# What a round learns from where nothing else is said.
LEARN = 60
_SEEDS = 2**62


@dataclass(frozen=True)
class RoundSettings:
    """What a round is opened with. Exactly one of `beta`, `budget` and `everything`.

    beta: percent of all examples; budget: human money in USD; audit: examples drawn at random
    from the rest; partial: the run need not be finished; paper_mode: ties as in the paper.
    epsilon, alpha, looks: what the audit may certify, with which error, at which of its sizes.
    learn: examples drawn at random that are labelled first; what they teach about the judge
    selects the rest of the cut, which counts them. 0 routes by BPDE at once.
    rate: what a vote costs in this round, where it is not what the project says.
    """

    beta: Decimal | None = None
    budget: Decimal | None = None
    everything: bool = False
    votes: int = 3
    audit: int = 0
    partial: bool = False
    paper_mode: bool = False
    seed: int | None = None
    annotators: Sequence[Annotator] = ()
    limit: int | None = None
    epsilon: float = EPSILON
    alpha: float = ALPHA
    looks: tuple[int, ...] = ()
    learn: int = 0
    rate: Rate | None = None


def open_round(
    project: Project, user: AbstractUser | None, run: Run | None, settings: RoundSettings
) -> Round:
    """Select, order and open. The same settings and seed select the same items.

    Raises UserError with what to change.
    """
    _check(project, run, settings)
    seed = settings.seed if settings.seed is not None else secrets.randbelow(_SEEDS)
    protocol = current_protocol(project)
    drawn, m = _select(project, run, settings, seed)
    check_plan(settings.audit, settings.epsilon, settings.alpha, settings.looks)
    planned = plan_to_store(run, drawn, settings.epsilon, settings.alpha, settings.looks)
    with transaction.atomic():
        round_ = Round.objects.create(
            project=project,
            number=next_number(project, Round),
            run=run,
            protocol=protocol,
            stage=Round.Stage.LEARN if drawn.learn else Round.Stage.ONLY,
            votes_per_item=settings.votes,
            seed=seed,
            open_to_all=not settings.annotators,
            no_majority=project.no_majority,
            frame_size=drawn.frame_size,
            paper_mode=settings.paper_mode,
            parameters=_parameters(settings, m),
            certificate_plan=planned,
            wage_usd=rate_of(project, settings).wage,
            minutes_per_vote=rate_of(project, settings).minutes,
            cost_basis=project.cost_basis,
            opened_by=user,
        )
        for person in dict.fromkeys(settings.annotators):
            Seat.objects.create(round=round_, annotator=person, limit=settings.limit)
        first_items(round_, drawn, _checks(project))
        audit.record(
            project,
            user,
            "round opened",
            f"round {round_.number}",
            items=Item.objects.filter(round=round_).count(),
            **_parameters(settings, m),
        )
    # Afterwards: a vote that is given while the round is being made does not see its items.
    count_all_earlier_votes(round_)
    return round_


def _checks(project: Project) -> list[Ranked]:
    """Every attention check of the project."""
    checks = Example.objects.filter(project=project, is_check=True).visible()
    return [Ranked(pk, 0, None) for pk in checks.values_list("pk", flat=True)]


def rate_of(project: Project, settings: RoundSettings) -> Rate:
    return settings.rate or Rate(project.minutes_per_vote, project.wage_usd)


def _check(project: Project, run: Run | None, settings: RoundSettings) -> None:
    asked = [settings.beta is not None, settings.budget is not None, settings.everything]
    if sum(asked) != 1:
        raise UserError("Say how much people shall label: a β, a budget, or everything.")
    if not 1 <= settings.votes <= _MAX_VOTES:
        raise UserError(f"Votes an example must lie between 1 and {_MAX_VOTES}.")
    if settings.audit < 0 or settings.learn < 0:
        raise UserError("An audit or a learning sample cannot be smaller than 0.")
    if settings.everything and settings.learn:
        raise UserError("Everything is labelled, so there is nothing to learn a selection for.")
    if settings.seed is not None and not 0 <= settings.seed < _SEEDS:
        raise UserError(f"A seed lies between 0 and {_SEEDS - 1}, not at {settings.seed}.")
    if not (0 < settings.epsilon < 1 and 0 < settings.alpha < 1):
        raise UserError("The error to certify and the confidence lie between 0 and 100 percent.")
    if settings.everything and settings.audit:
        raise UserError("Everything is labelled, so there is nothing left to audit.")
    if run is None and not settings.everything:
        raise UserError("A cut needs a run to rank by. Judge first, or have everything labelled.")
    if run is not None and run.ranked_at is None and not settings.everything:
        raise UserError(f"{run.name} is not ranked yet. Wait until it is done, or pause it first.")
    unfinished = run is not None and run.state != Run.State.DONE
    if unfinished and not settings.partial and not settings.everything:
        raise UserError(
            f"{run.name} is not finished ({run.get_state_display()}). Resume it, or open the round "
            "on what there is with --partial: pending examples are not ranked then."
        )


def _select(
    project: Project, run: Run | None, settings: RoundSettings, seed: int
) -> tuple[Drawn, int]:
    """What is drawn now, and how many examples are selected in all."""
    ids = list(frame(project).values_list("pk", flat=True))
    if not ids:
        raise UserError("There are no examples to label. Import some first.")
    order = ranked_examples(run, paper_mode=settings.paper_mode) if run else []
    if settings.everything:
        ranked = {one.example_id: one for one in order}
        return Drawn([ranked.get(i, Ranked(i, 0, None)) for i in ids], [], len(ids), 0), len(ids)
    m = cut_size(project, settings, len(ids))
    if m + settings.audit == 0:
        raise UserError(
            f"This selects no example: {settings.beta} % of {len(ids)} rounds to 0. Raise β."
        )
    if settings.learn:
        check_audit(settings.audit, len(ids) - m)
        return draw_to_learn(order, ids, m, settings.learn, seed), m
    return draw(order, ids, m, settings.audit, seed), m


def cut_size(project: Project, settings: RoundSettings, n_frame: int) -> int:
    """m, from a share of the examples or from a budget."""
    if settings.beta is not None:
        return size_for_beta(n_frame, settings.beta)
    return size_for_budget(
        settings.budget or Decimal(0),
        settings.audit,
        settings.votes,
        rate_of(project, settings),
        n_frame,
    )


def _parameters(settings: RoundSettings, m: int) -> dict[str, object]:
    return {
        "limit": settings.limit,
        "beta": str(settings.beta) if settings.beta is not None else None,
        "budget": str(settings.budget) if settings.budget is not None else None,
        "everything": settings.everything,
        "votes": settings.votes,
        "audit": settings.audit,
        "partial": settings.partial,
        "m": m,
        "route": "learned" if settings.learn else "bpde",
        "learn": settings.learn,
        "epsilon": settings.epsilon,
        "alpha": settings.alpha,
        "looks": list(settings.looks),
    }
