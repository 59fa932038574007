"""The costs and expected results of a round before it opens, and a recommendation."""

from bisect import bisect_right
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import partial
from itertools import accumulate

import numpy as np
from django.db.models import Avg, Count, Q, QuerySet, Value
from django.db.models.functions import Least

from annotation.models import Vote
from annotation.people.annotators import members_who_may_vote
from annotation.results.data.figures import Number
from annotation.results.data.runs import judge_cost
from annotation.results.report.cache import is_large
from annotation.results.report.page import short
from annotation.results.report.report import Report
from annotation.results.sections.review import Expectation, Unforeseen
from annotation.results.sections.routing import RoutingFigures
from annotation.rounds.opening import (
    ALPHA,
    RoundSettings,
    check_plan,
    current_protocol,
    cut_size,
    impossible,
    rate_of,
)
from annotation.rounds.selecting import check_audit, check_learning, size_for_beta
from judging.core.caching import LONGEST_KEPT, cached, kept_a_while
from judging.core.errors import UserError
from judging.core.formatting import count, decimals, number_of, percent, usd
from judging.dataset.models import Example, Import, alike_questions, n_judged
from judging.methods.intervals.estimates import Figure, Undefined
from judging.methods.intervals.win_rate import expected_width
from judging.methods.review.certificate import (
    audit_needed,
    fewest_audited,
    upper_bound,
    wrong_allowed,
)
from judging.projects.models import Project
from judging.runs.models import Run, Verdict
from judging.runs.verdicts.judge_figures import alike_in

_DISPUTED = Q(bpde__gt=0) | Q(bpde=None)


@dataclass(frozen=True)
class KnownVotes:
    """Votes of the present protocol that count in a new round at once, and so cost nothing.

    up_to: of the first ones by rank; total: of all examples. More votes on an example than the
    round asks for are no saving.
    """

    ranks: tuple[int, ...]
    sums: tuple[int, ...]
    total: int

    def up_to(self, m: int) -> int:
        place = bisect_right(self.ranks, m)
        return self.sums[place - 1] if place else 0


def frame_rows(project: Project, run: Run | None, settings: RoundSettings) -> QuerySet[Example]:
    """Return the examples that a round would be about. Raises UserError if there are none."""
    return settings.subset.rows(project, run.frame_id if run else None)


def _frame(
    project: Project, run: Run | None, settings: RoundSettings
) -> tuple[QuerySet[Example], int]:
    """Return these examples and their number."""
    rows = frame_rows(project, run, settings)
    if not settings.subset.is_all or (run and run.frame_id):
        return rows, rows.count()
    return rows, n_judged(project.pk)


def known_votes(
    project: Project, run: Run | None, votes: int, frame: QuerySet[Example] | None = None
) -> KnownVotes:
    """Return the votes that are there already, by queries that read only examples with some.

    Args:
        frame: The examples that the round is about, if they are not all.
    """
    cast = everywhere = Vote.objects.filter(protocol=current_protocol(project)).order_by()
    if frame is not None:
        cast = cast.filter(example__in=(about := frame.order_by()).values("pk"))
    else:
        # Few are left out. To look for those that count would read every example with its texts.
        left_out = project.examples.filter(is_check=True)
        if project.imports.exclude(state=Import.State.DONE).exists():
            left_out = project.examples.not_judged()
        cast = cast.exclude(example__in=left_out.values("pk"))
    counted = cast.values_list("example").annotate(n=Least(Count("*"), Value(votes)))
    of_example: dict[int, int] = dict(counted)
    # Apart from the counts: joined to every vote, the verdicts take several times as long.
    ranked = Verdict.objects.filter(run=run, rank__isnull=False) if run else Verdict.objects.none()
    voted_on = ranked.filter(example__in=everywhere.values("example"))
    rows = sorted(
        (rank, of_example[example], example)
        for rank, example in voted_on.order_by().values_list("rank", "example")
        if example in of_example
    )
    if rows and frame is not None:
        # Among these examples alone, each has another place than among all.
        order = ranked.filter(example__in=about).order_by("rank").values_list("example", flat=True)
        place = {example: number for number, example in enumerate(order, start=1)}
        rows = [(place[example], n, example) for _, n, example in rows]
    sums = accumulate(n for _, n, _ in rows)
    return KnownVotes(tuple(rank for rank, *_ in rows), tuple(sums), sum(of_example.values()))


@dataclass(frozen=True)
class ReviewPlan:
    """m items by rank and `audit` at random of `n_frame`; hours and USD of the new votes.

    learn: how many of the m are drawn at random first; the rank of the others is learned then.

    disputed: share of the examples with a BPDE above 0 that the selection covers; None without
    a ranking. last_bpde: the BPDE at the cut.
    vote_usd: what a vote costs; known: the votes that exist.
    questions_of: gives `alike_questions`, which reads every question of a project at first.
    judge_usd: spent on the run; None where its price is not known.
    """

    m: int
    audit: int
    n_frame: int
    votes: int
    minutes: Decimal
    vote_usd: Decimal
    judge_usd: Decimal | None
    disputed: float | None
    last_bpde: float | None
    known: KnownVotes
    people: int
    pending: int
    questions_of: Callable[[], tuple[float, int]]
    learn: int = 0

    @property
    def items(self) -> int:
        return self.m + self.audit

    @property
    def unreviewed(self) -> int:
        return self.n_frame - self.items

    @property
    def beta(self) -> Decimal:
        return Decimal(100 * self.m) / self.n_frame if self.n_frame else Decimal(0)

    @property
    def known_votes(self) -> int:
        """Existing votes on the items, as far as it is known which those are (`is_exact`)."""
        return self._known_at(self.m)

    @property
    def is_exact(self) -> bool:
        """Return False if existing votes may or may not be among the examples drawn at random."""
        drawn = (self.audit or self.learn) and self.unreviewed
        return not drawn or self.known.total == (0 if self.learn else self.known.up_to(self.m))

    @property
    def new_votes(self) -> int:
        return self.items * self.votes - self.known_votes

    @property
    def hours(self) -> Decimal:
        return self.new_votes * self.minutes / 60

    @property
    def usd(self) -> Decimal:
        return self.new_votes * self.vote_usd

    @property
    def all_usd(self) -> Decimal:
        """Return what labelling everything costs, with as many votes on each example."""
        return (self.n_frame * self.votes - self.known.total) * self.vote_usd

    @property
    def total_usd(self) -> Decimal | None:
        return None if self.judge_usd is None else self.judge_usd + self.usd

    @property
    def leaves_little(self) -> bool:
        """Return True if fewer labels stay unreviewed than people label to check those."""
        return 0 < self.unreviewed < self.audit

    def usd_at(self, beta: float) -> Decimal:
        """Return what people cost at another β, with the same audit."""
        # repr keeps 12.3 as 12.3, and the float itself has fifty digits.
        m = min(size_for_beta(self.n_frame, Decimal(repr(beta))), self.n_frame - self.audit)
        return ((m + self.audit) * self.votes - self._known_at(m)) * self.vote_usd

    def _known_at(self, m: int) -> int:
        """Random draws find existing votes as often as they are among what is drawn from."""
        if m == self.n_frame:
            return self.known.total
        by_rank = 0 if self.learn else self.known.up_to(m)
        # With a learning sample, the rank of the others is learned later, so any example may be
        # selected.
        drawn, drawn_from = (m if self.learn else 0) + self.audit, self.n_frame
        if not self.learn:
            drawn_from -= m
        return by_rank + (self.known.total - by_rank) * drawn // drawn_from


def plan(project: Project, run: Run | None, settings: RoundSettings) -> ReviewPlan:
    """Plan a round by a few queries that count. Raises UserError if the settings make none."""
    frame, n = _frame(project, run, settings)
    if not n:
        raise UserError(_nothing(settings))
    if run is None and not settings.everything:
        raise UserError(
            "β needs a judge run to rank by. Start one first, or have everything labelled."
        )
    rate = rate_of(project, settings)
    if settings.everything:
        # Nothing is left that an audit or a learning sample could be drawn from.
        settings = replace(settings, audit=0, learn=0)
    m = n if settings.everything else cut_size(project, settings, n)
    check_audit(settings.audit, n - m)
    if settings.learn:
        check_learning(n, m, settings.learn)
    is_large = _is_large(run, settings, n)
    return ReviewPlan(
        m=m, audit=settings.audit, n_frame=n, votes=settings.votes, minutes=rate.minutes,
        vote_usd=rate.vote_usd, judge_usd=judge_cost(run) if run else Decimal(0),
        people=members_who_may_vote(project).count(),
        pending=_pending(run, n, None if is_large else frame),
        questions_of=partial(_alike, project, run, settings, frame, n), learn=settings.learn,
        known=_known(project, None if settings.learn else run, settings, frame, n),
        **_reach(None if settings.learn else run, m, None if is_large else frame),
    )  # fmt: skip


# In a larger project, what is read of all questions and votes is kept until they change.
_MANY = 10_000


def _is_large(run: Run | None, settings: RoundSettings, n: int) -> bool:
    """Return True for all examples of a large project: a part of them is always read again."""
    return n > _MANY and settings.subset.is_all and not (run and run.frame_id)


def _alike(
    project: Project, run: Run | None, settings: RoundSettings, frame: QuerySet[Example], n: int
) -> tuple[float, int]:
    """Return `alike_questions`. Each move of a slider would otherwise hash every question."""
    return alike_in(project) if _is_large(run, settings, n) else alike_questions(frame)


def _known(
    project: Project, run: Run | None, settings: RoundSettings, frame: QuerySet[Example], n: int
) -> KnownVotes:
    if not settings.subset.is_all:
        return known_votes(project, run, settings.votes, frame)
    if n <= _MANY:
        return known_votes(project, run, settings.votes)
    state = (n, run and (run.pk, run.ranked_at), settings.votes)
    make = partial(known_votes, project, run, settings.votes)
    known: KnownVotes = kept_a_while("known", project, state, make, is_large=True)
    return known


def _nothing(settings: RoundSettings) -> str:
    if settings.subset.is_all:
        return "There are no examples to label. Import some first."
    return f"There is no example {settings.subset.words}."


# The settings by which an example count is chosen, and without which nothing more can be checked.
_SIZES = {"beta", "budget", "how"}


def problems(
    project: Project, run: Run | None, settings: RoundSettings, unread: Collection[str] = ()
) -> list[tuple[str, str]]:
    """Return everything that keeps these settings from being a round, each with its setting.

    Args:
        unread: Settings that could not be read at all. What depends on them is not checked.
    """
    try:
        _, n = _frame(project, run, settings)
    except UserError as error:
        return [("subset", str(error))]
    if not n:
        return [("how" if settings.subset.is_all else "subset", _nothing(settings))]
    refused = [why for why in impossible(project, run, settings) if why[0] not in unread]
    if settings.everything or _SIZES & set(unread) or "how" in dict(refused):
        return refused
    size = "beta" if settings.beta is not None else "budget"
    # How many examples a budget pays for depends on the price of a vote and on the audit.
    needs = {"beta": set(), "budget": {"audit", "votes", "minutes", "wage"}}[size]
    if needs & (set(unread) | set(dict(refused))):
        return refused
    try:
        m = cut_size(project, settings, n)
    except UserError as error:
        return [*refused, (size, str(error))]
    if "audit" not in unread:
        if not m + settings.audit:
            refused.append((size, "This selects no example. Choose a larger share."))
        refused += _refused("audit", lambda: check_audit(settings.audit, n - m))
        if "looks" not in unread:
            planned = (settings.audit, settings.epsilon, settings.alpha, settings.looks)
            refused += _refused("looks", lambda: check_plan(*planned))
    if settings.learn and "learn" not in unread:
        refused += _refused("learn", lambda: check_learning(n, m, settings.learn))
    return refused


def _refused(setting: str, check: Callable[[], None]) -> list[tuple[str, str]]:
    try:
        check()
    except UserError as error:
        return [(setting, str(error))]
    return []


def measured_minutes(project: Project) -> tuple[float | None, int]:
    """Return the mean active minutes of a vote on the screen, and over how many votes."""
    votes = Vote.objects.filter(
        # The items would be read for their rounds, and tell the same project.
        protocol__project=project,
        source=Vote.Source.SCREEN,
        active_seconds__isnull=False,
    )
    sums = {"mean": Avg("active_seconds"), "n": Count("*")}
    make = partial(votes.aggregate, **sums)
    times = kept_a_while("minutes", project, "", make, is_large=is_large(project))
    return (None if times["mean"] is None else times["mean"] / 60), times["n"]


def _reach(run: Run | None, m: int, frame: QuerySet[Example] | None) -> dict[str, float | None]:
    """What the first m by rank are: the disputed ones they cover, and the BPDE of the last.

    Args:
        frame: None for all examples of a large project, whose disputed ones are counted once.
    """
    nothing = {"disputed": None, "last_bpde": None}
    if run is None:
        return nothing
    ranked = Verdict.objects.filter(run=run, rank__isnull=False)
    if frame is not None:
        ranked = ranked.filter(example__in=frame.order_by())
    disputed = ranked.filter(_DISPUTED)
    if frame is None:
        everywhere = cached("disputed", run, run.ranked_at, disputed.count)
    else:
        everywhere = disputed.count()
    last = ranked.order_by("rank").values_list("rank", "bpde")[max(m - 1, 0) : max(m, 1)]
    if not m or not last:
        return nothing | {"disputed": 0.0 if everywhere else None}
    place, bpde = last[0]
    count_them, name = disputed.filter(rank__lte=place).count, f"disputed-to-{place}"
    if frame is None:
        # The page asks twice, and for each place of its slider.
        covered = cached(name, run, run.ranked_at, count_them, LONGEST_KEPT)
    else:
        covered = count_them()
    return {"disputed": covered / everywhere if everywhere else None, "last_bpde": bpde}


def _pending(run: Run | None, n: int, frame: QuerySet[Example] | None) -> int:
    if run is None:
        return 0
    asked = Verdict.objects.filter(run=run).exclude(state=Verdict.State.PENDING)
    if frame is not None:
        asked = asked.filter(example__in=frame.order_by())
    elif run.state == Run.State.DONE:
        # A finished run's verdicts change only if it is ranked or finished again, and then the key
        # does.
        done: int = cached("asked", run, (run.ranked_at, run.finished_at), asked.count)
        return n - done
    return n - asked.count()


EPSILONS = (0.05, 0.1, 0.2)


@dataclass(frozen=True)
class Expected:
    """accuracy: the curve at this β; at_least: its simultaneous lower band.

    corrected: labels that become right; usd_each: dollars of people for each of them.
    rests_on: known labels; reviewer: how often a person is right, None where only assumed.
    """

    accuracy: float
    at_least: float
    corrected: float
    usd_each: Decimal | None
    rests_on: int
    reviewer: float | None


def expected_at(
    expectation: Expectation | Unforeseen, beta: float, n: int, usd: Decimal
) -> Expected | None:
    """Return what to expect at a β. Between two β of the band, the lower of both holds."""
    if isinstance(expectation, Unforeseen):
        return None
    betas = np.array(expectation.beta, dtype=np.float64)
    accuracy = float(np.interp(beta, betas, expectation.accuracy))
    lower = np.array(expectation.lower_band)
    above = int(np.searchsorted(betas, beta))
    at_least = float(lower[max(0, above - (betas[above] != beta)) : above + 1].min())
    corrected = max(0.0, n * (accuracy - expectation.accuracy[0]))
    # If less than one label is corrected, a price for each says nothing.
    usd_each = usd / Decimal(corrected) if corrected >= 1 else None
    return Expected(
        accuracy, at_least, corrected, usd_each, expectation.known, expectation.reviewer
    )


@dataclass(frozen=True)
class Width:
    """How wide the interval of people's win rate is after the round.

    most: if people alone are believed, half of the examples are won, and those of a question have
    the same label. expected: with the judge calibrated by as many labels as the last audit had, and
    questions that are as alike; None before one, and if every label will be known.
    """

    most: float
    expected: float | None


# The variance of a win rate if every second example is won.
_WIDEST = 0.25


def width_of(report: Report | None, plan: ReviewPlan) -> Width | None:
    """Return None if the round can give no interval."""
    sizes = {"total": plan.n_frame, "n_rest": plan.n_frame - plan.m, "audit": plan.audit}
    alike, sizes["questions"] = plan.questions_of()
    # Before any label is known, only the widest that the interval can be is.
    most = expected_width(_WIDEST, _WIDEST, effect=alike, **sizes)
    if most is None:
        return None
    made = report.calibrated if report and plan.unreviewed else None
    left, effect = (made.residual_variance, made.design_effect) if made else (None, None)
    if not isinstance(left, Number) or not isinstance(effect, Number):
        return Width(most, None)
    return Width(most, expected_width(left.value, _WIDEST, effect=effect.value, **sizes))


def beta_for(expectation: Expectation, target: float) -> float | None:
    """Return the smallest β at which the lower band reaches the target; None if none does."""
    bands = zip(expectation.beta, expectation.lower_band, strict=True)
    return next((beta for beta, low in bands if low >= target), None)


@dataclass(frozen=True)
class PlannedLook:
    """One look at the audit: for each ε how many of its labels may be wrong, or why none may."""

    size: int
    wrong: tuple[int | Undefined, ...]


def may_certify(looks: Sequence[int], epsilons: Sequence[float] = EPSILONS) -> list[PlannedLook]:
    """Say how many errors each audit may find. The looks share the error.

    It holds for a large certified set that has all audited examples.
    """
    # A certificate may be issued at any look, so all looks together share the error.
    alpha = ALPHA / len(looks) if looks else ALPHA
    return [
        PlannedLook(size, tuple(wrong_allowed(epsilon, size, alpha) for epsilon in epsilons))
        for size in looks
    ]


def audit_for(epsilon: float, n_looks: int = 1) -> int:
    """Return the smallest audit that can certify anything, which is the one to recommend."""
    return audit_needed(epsilon, 0, ALPHA / max(1, n_looks))


def errors_allowed(plan: ReviewPlan, epsilon: float, n_looks: int = 1) -> int | None:
    """Return how many errors the audit may find and still certify all unreviewed labels.

    None if it is too small to certify anything. Of the whole rest, which has a label by the judge.
    """
    alpha = ALPHA / max(1, n_looks)
    if not plan.unreviewed or plan.audit < fewest_audited(epsilon, alpha):
        return None
    # The bound is over all that was not selected, with the audit in it.
    rest, wrong = plan.n_frame - plan.m, 0
    while wrong < plan.audit and upper_bound(rest, plan.audit, wrong + 1, alpha) <= epsilon:
        wrong += 1
    return wrong


EVEN = 0.5


@dataclass(frozen=True)
class Advice:
    """beta: what to take, None where no β can be told. warns: it speaks against a review."""

    sentence: str
    rests_on: str
    beta: float | None = None
    warns: bool = False


def advice(
    report: Report | None,
    plan: ReviewPlan,
    target: Decimal | None,
    epsilon: float,
    budget: Decimal | None,
) -> Advice:
    """Return the advice that binds most: no labels, a useless ranking, a target, a budget, or else
    the best gain."""
    judged = report and report.coverage.judged
    if not judged or not judged.value:
        return _without_judge(plan)
    expected = report.expected
    if isinstance(expected, Unforeseen):
        return _without_labels(expected.reason, plan, epsilon)
    labels = number_of(expected.known, "known label")
    if target is not None:
        return _for_target(expected, plan, target, labels)
    area = report.hitlc.auroc
    # A round that learns doesn't depend on BPDE.
    if report.hitlc.no_better_than_chance and not plan.learn:
        # What an earlier round or all known labels taught, if the report has that.
        learned = report.routing
        instead = (
            "Pay for an audit, let the round learn where the judge errs, or try another judge."
        )
        if isinstance(learned, RoutingFigures) and learned.used:
            reached = decimals(learned.auroc.learned.value)
            instead = f"Let the round learn where it errs (AUROC {reached} on these labels)."
        return Advice(
            "BPDE finds this judge's errors no better than chance (AUROC "
            f"{short(area)}). Reviewing by rank gains no more than reviewing at random. {instead}",
            labels,
            warns=True,
        )
    if budget is not None:
        return Advice(
            f"After the audit, {usd(budget)} pays for β = {decimals(float(plan.beta), 1)} %: "
            f"{number_of(plan.m, 'example')} by rank.",
            "the votes, minutes and wage above",
            float(plan.beta),
        )
    return _best_gain(expected, area, plan, labels)


def _without_judge(plan: ReviewPlan) -> Advice:
    """Say that there is no label of a judge that a review could correct, or an audit certify."""
    return Advice(
        "No share (β) can be recommended before a judge has labelled the examples. Wait for "
        "a run to finish, start one, or have people label everything.",
        f"{number_of(plan.n_frame, 'example')}, none with a judge's label yet",
        warns=True,
    )


def _without_labels(reason: str, plan: ReviewPlan, epsilon: float) -> Advice:
    needed = audit_needed(epsilon, 0)
    # Even an audit of everything that is left would be too small.
    if needed > plan.n_frame - plan.m:
        return Advice(
            f"No share (β) can be recommended yet ({reason}). An audit of {needed} is needed to "
            f"certify that at most {percent(epsilon)} of the unreviewed labels are wrong, but only "
            f"{count(plan.n_frame - plan.m)} would be unreviewed. Have people label everything.",
            f"all {number_of(plan.n_frame, 'example')}",
            warns=True,
        )
    return Advice(
        f"No share (β) can be recommended yet ({reason}). Begin with an audit of at least "
        f"{needed}. If it finds no error, it certifies that at most {percent(epsilon)} of the "
        "unreviewed labels are wrong.",
        "the exact bound for a large set, at 95\u202f% confidence",
    )


def _for_target(expected: Expectation, plan: ReviewPlan, target: Decimal, labels: str) -> Advice:
    beta = beta_for(expected, float(target) / 100)
    rests_on = f"a lower bound from {labels}, valid whichever β you choose"
    if beta is None:
        best = percent(max(expected.lower_band), 1)
        return Advice(
            f"No β is sure to reach {decimals(float(target), 1)} %: the lower bound is at most "
            f"{best}. More known labels would raise it.",
            rests_on,
            warns=True,
        )
    return Advice(
        f"Recommended: review {beta:g} % to reach {decimals(float(target), 1)} %. Human cost: "
        f"{usd(plan.usd_at(beta))}.",
        rests_on,
        beta,
    )


def _best_gain(expected: Expectation, area: Figure, plan: ReviewPlan, labels: str) -> Advice:
    """Recommend the β at which the curve is farthest above a random choice.

    Beyond it, a label drawn at random corrects more. If the ranking finds no more errors than
    chance on the whole, a gain at one β is noise.
    """
    if area and area.value <= EVEN:
        return Advice(
            "No β is recommended: on these labels, the highest-ranked examples hold no more errors "
            f"than random ones (AUROC {short(area)}).",
            labels,
            warns=True,
        )
    # Two points of the curve give random choice: none reviewed, and all.
    beta, accuracy = np.array(expected.beta), np.array(expected.accuracy)
    chance = accuracy[0] + beta / 100 * (accuracy[-1] - accuracy[0])
    best = int((accuracy - chance).argmax())
    if not best or accuracy[best] - chance[best] < 1e-9:
        return Advice(
            "No β is recommended: reviewing by rank never corrects more labels than reviewing at "
            "random.",
            labels,
            warns=True,
        )
    return Advice(
        f"Recommended: review {beta[best]:g} % ({usd(plan.usd_at(float(beta[best])))} human cost). "
        "There, reviewing by rank beats reviewing at random by the most.",
        f"the curve over {labels}; it shows where to stop, not how accurate the labels become",
        float(beta[best]),
    )
