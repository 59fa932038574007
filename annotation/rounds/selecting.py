"""Selecting examples for people: the cut by rank, an audit of the rest, a learning sample."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from random import Random
from typing import NamedTuple

from django.db.models.functions import Coalesce

from judging.core.errors import UserError
from judging.core.formatting import number_of, usd
from judging.dataset.models import frame_of
from judging.methods.intervals.estimates import Undefined
from judging.methods.review.cost import HumanRate, affordable
from judging.methods.verdicts.verdicts import Candidate, VerdictState, cut, rank
from judging.runs.models import Run, Verdict

# An adaptive run is ranked by its smoothed entropy.
_SCORE = Coalesce("routing_score", "bpde")


class Ranked(NamedTuple):
    """An example with its rank. Rank 1 is selected first; 0 means that it has no rank."""

    example_id: int
    rank: int
    bpde: float | None
    routing_score: float | None = None


@dataclass(frozen=True)
class Drawn:
    """The selected examples, and the audit drawn from the rest, in the order of the draw.

    learn: a random sample of all examples, if the round starts by learning from one.
    """

    top: list[Ranked]
    audit: list[Ranked]
    frame_size: int
    n_rest: int
    learn: list[Ranked] = field(default_factory=list)


def ranked_examples(
    run: Run,
    frame: int | None = None,
    *,
    first: int | None = None,
    paper_mode: bool = False,
    scores: Mapping[int, float | None] | None = None,
) -> list[Ranked]:
    """Return the run's examples, the most contested first (SCIENCE: rank).

    Pending ones are left out. An adaptive run is ranked by its smoothed entropy, held by
    `routing_score`.

    Args:
        frame: The key of the frame that they are in; None for all.
        first: How many are wanted; None for all.
        paper_mode: Break ties in import order, as the paper does.
        scores: By example, used instead of BPDE.
    """
    rows = Verdict.objects.filter(run=run, example__in=frame_of(run.project, frame).order_by())
    # Without a rank somewhere, the stored order isn't whole and the ranking is made again.
    unranked = rows.filter(rank=None).exclude(state=VerdictState.PENDING)
    if run.ranked_at and scores is None and not paper_mode and not unranked.exists():
        # The same order, as it was written when the run was ranked.
        ranked = rows.filter(rank__isnull=False).order_by("rank").annotate(score=_SCORE)
        first_rows = ranked.values_list("example", "bpde", "score")[:first]
        return [
            Ranked(pk, place, *values) for place, (pk, *values) in enumerate(first_rows, start=1)
        ]
    verdicts = list(
        rows.order_by("example__number", "example")
        .annotate(score=_SCORE)
        .values_list("example", "example__external_id", "state", "score", "n_valid", "gap", "bpde")
    )
    candidates = [
        Candidate(
            external_id=external_id,
            state=VerdictState(state),
            bpde=score if scores is None else scores.get(example),
            n_valid=n_valid,
            gap=None if gap is None else Fraction(gap),
        )
        for example, external_id, state, score, n_valid, gap, _ in verdicts
    ]
    order = rank(candidates, run.seed, paper_mode=paper_mode)
    return [
        Ranked(verdicts[index][0], place, verdicts[index][6], candidates[index].bpde)
        for place, index in enumerate(order[:first], start=1)
    ]


def size_for_budget(
    budget: Decimal, n_audit: int, votes: int, rate: HumanRate, n_frame: int
) -> int:
    """Return the largest m that the budget pays for after the audit (SCIENCE: cost)."""
    price = votes * rate.vote_usd
    # Not divided if it buys everything: exact fractions of 1e9999999 have ten million digits.
    if price <= 0 or budget >= price * n_frame:
        return n_frame - n_audit
    m = affordable(budget, votes, n_audit, rate, n_frame) if budget >= price else 0
    if isinstance(m, Undefined) or m < 1:
        raise UserError(
            f"{usd(budget)} leaves nothing to select after an audit of {n_audit}: "
            f"{number_of(votes, 'vote')} per item cost {usd(price)}. Raise the budget, or ask for "
            "fewer votes or a smaller audit."
        )
    return min(m, n_frame - n_audit)


def draw(order: Sequence[Ranked], all_ids: Sequence[int], m: int, n_audit: int, seed: int) -> Drawn:
    """Select the first m by rank, and draw a simple random sample of n_audit from all others."""
    top = list(order[:m])
    chosen = {ranked.example_id for ranked in top}
    rank_of = {ranked.example_id: ranked for ranked in order}
    # Unjudged examples are in the rest as well: the audit speaks for all that nobody reviews.
    rest = [example_id for example_id in all_ids if example_id not in chosen]
    check_audit(n_audit, len(rest))
    # A stream of its own, so that another size of the learning sample doesn't change the audit.
    drawn = Random(f"audit:{seed}").sample(rest, n_audit)
    audit = [rank_of.get(example_id, Ranked(example_id, 0, None)) for example_id in drawn]
    return Drawn(top, audit, len(all_ids), len(rest))


def check_audit(n_audit: int, n_rest: int) -> None:
    if n_audit > n_rest:
        raise UserError(
            f"An audit of {n_audit} is more than the {n_rest} examples that are not selected. "
            "Ask for a smaller audit or a smaller β."
        )


def draw_to_learn(
    order: Sequence[Ranked], all_ids: Sequence[int], m: int, learn: int, seed: int
) -> Drawn:
    """Draw a simple random sample of all, to learn from before the rest of the m is selected."""
    check_learning(len(all_ids), m, learn)
    rank_of = {ranked.example_id: ranked for ranked in order}
    drawn = Random(f"learn:{seed}").sample(list(all_ids), learn)
    sample = [rank_of.get(example_id, Ranked(example_id, 0, None)) for example_id in drawn]
    return Drawn([], [], len(all_ids), 0, sample)


def check_learning(n_frame: int, m: int, learn: int) -> None:
    if m <= learn:
        raise UserError(
            f"This selects {number_of(m, 'example')}, and {learn} are for learning, so none is "
            f"left to select. {_larger_cut(n_frame, learn)}"
        )


def _larger_cut(n_frame: int, learn: int) -> str:
    """Say which β, in hundredths of a percent, is the smallest whose cut exceeds the sample."""
    # The cut rounds half up, so that the β is near 100 (learn + ½) / N.
    nearest = int(Fraction(10_000 * (2 * learn + 1), 2 * n_frame))
    betas = (Decimal(hundredths) / 100 for hundredths in range(nearest, min(nearest + 3, 10_001)))
    beta = next((beta for beta in betas if cut(n_frame, beta) > learn), None)
    if beta is None:
        return f"Use a smaller learning sample: the round is about {number_of(n_frame, 'example')}."
    return f"The smallest β that works is {float(beta):g} %; or use a smaller learning sample."


def size_for_beta(n_frame: int, beta: Decimal) -> int:
    """Return m = floor(β·N/100 + ½). N counts unjudged examples too."""
    try:
        return cut(n_frame, beta)
    except ValueError as error:
        raise UserError(f"β must be between 0 and 100 percent, not {beta}.") from error
