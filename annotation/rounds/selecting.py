"""Which examples a round asks people about: the cut by rank, an audit of the rest, or all."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from fractions import Fraction
from random import Random

from django.db.models.functions import Coalesce

from judging.core.errors import UserError
from judging.core.formatting import number_of, usd
from judging.dataset.models import frame_of
from judging.methods.intervals.estimates import Undefined
from judging.methods.review.cost import HumanRate, affordable
from judging.methods.verdicts.verdicts import Candidate, VerdictState, cut, rank
from judging.runs.models import Run, Verdict


@dataclass(frozen=True)
class Ranked:
    """An example in the order in which people should see it; rank 1 is the first."""

    example_id: int
    rank: int
    bpde: float | None
    routing_score: float | None = None


@dataclass(frozen=True)
class Drawn:
    """What was selected, and the audit drawn from the rest, in the order of the draw.

    learn: a random sample of all, where a round starts by learning from one.
    """

    top: list[Ranked]
    audit: list[Ranked]
    frame_size: int
    n_rest: int
    learn: list[Ranked] = field(default_factory=list)


def ranked_examples(
    run: Run, *, paper_mode: bool = False, scores: Mapping[int, float | None] | None = None
) -> list[Ranked]:
    """The run's examples, the most contested first. Pending ones are left out (SCIENCE: rank).

    An adaptive run is ranked by its smoothed entropy, which `routing_score` holds. scores: by
    example, what takes BPDE's place.
    """
    verdicts = list(
        Verdict.objects.filter(run=run, example__in=frame_of(run.project))
        .order_by("example__number", "example")
        .annotate(score=Coalesce("routing_score", "bpde"))
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
        for place, index in enumerate(order, start=1)
    ]


def size_for_budget(
    budget: Decimal, n_audit: int, votes: int, rate: HumanRate, n_frame: int
) -> int:
    """The largest m that a budget pays for beside the audit (SCIENCE: cost)."""
    price = votes * rate.vote_usd
    # What buys everything is not divided: exact fractions of 1e9999999 have ten million digits.
    if price <= 0 or budget >= price * n_frame:
        return n_frame - n_audit
    m = affordable(budget, votes, n_audit, rate, n_frame) if budget >= price else 0
    if isinstance(m, Undefined) or m < 1:
        raise UserError(
            f"{usd(budget)} leaves nothing to select beside an audit of {n_audit}: "
            f"{number_of(votes, 'vote')} an item cost {usd(price)}. Raise the budget, or ask for "
            "fewer votes or a smaller audit."
        )
    return min(m, n_frame - n_audit)


def draw(order: Sequence[Ranked], all_ids: Sequence[int], m: int, n_audit: int, seed: int) -> Drawn:
    """The first m by rank, and a simple random sample of n_audit from all the others."""
    top = list(order[:m])
    chosen = {ranked.example_id for ranked in top}
    rank_of = {ranked.example_id: ranked for ranked in order}
    rest = [example_id for example_id in all_ids if example_id not in chosen]
    check_audit(n_audit, len(rest))
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
    """A simple random sample of all, to learn from before the rest of the m is selected."""
    check_learning(len(all_ids), m, learn)
    rank_of = {ranked.example_id: ranked for ranked in order}
    drawn = Random(f"learn:{seed}").sample(list(all_ids), learn)
    sample = [rank_of.get(example_id, Ranked(example_id, 0, None)) for example_id in drawn]
    return Drawn([], [], len(all_ids), 0, sample)


def check_learning(n_frame: int, m: int, learn: int) -> None:
    if m <= learn:
        raise UserError(
            f"This selects {m} examples, and {learn} of them are for learning, so that none is "
            f"left to select. {_larger_cut(n_frame, learn)}"
        )


def _larger_cut(n_frame: int, learn: int) -> str:
    """The smallest β, in hundredths of a percent, whose cut is larger than the sample."""
    hundredths = next((b for b in _betas(n_frame, learn) if cut(n_frame, b) > learn), None)
    if hundredths is None:
        return f"Learn from fewer: there are {n_frame} examples."
    return f"The smallest β that works is {float(hundredths):g} %; or learn from fewer."


def _betas(n_frame: int, learn: int) -> Iterator[Decimal]:
    """Those near 100 (learn + ½)/N, up to 100."""
    nearest = int(Fraction(10_000 * (2 * learn + 1), 2 * n_frame))
    return (Decimal(b) / 100 for b in range(nearest, min(nearest + 3, 10_001)))


def size_for_beta(n_frame: int, beta: Decimal) -> int:
    """m = floor(β·N/100 + ½), unjudged examples counted in N."""
    try:
        return cut(n_frame, beta)
    except ValueError as error:
        raise UserError(f"β must lie between 0 and 100 percent, not {beta}.") from error
