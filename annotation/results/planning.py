"""What a round would ask of people before it is opened: items, hours, dollars, and who there is."""

from dataclasses import dataclass, replace
from decimal import Decimal

from django.db.models import Avg, Count, Q

from annotation.models import Annotation
from annotation.protocols import current_protocol
from annotation.results.costs import judge_cost
from annotation.rounds import RoundSettings, cut_size, rate_of
from annotation.selecting import check_audit, check_learning, frame, size_for_beta
from annotation.voters import members_who_may_vote
from judging.errors import UserError
from judging.methods.cost import human_usd
from judging.models.projects import Project
from judging.models.runs import Run
from judging.models.verdicts import Verdict

_DISPUTED = Q(bpde__gt=0) | Q(bpde=None)


@dataclass(frozen=True)
class Plan:
    """m items by rank and `audit` at random of `n_frame`; votes, hours and USD if all are new.

    learn: how many of the m are drawn at random first; the rank of the others is learned then.

    disputed: share of the examples with a BPDE above 0 that the selection covers; None without
    a ranking. known_votes: votes under the same protocol that would count at once.
    usd_an_item: what one more item costs; all_usd: everything, with as many votes each.
    judge_usd: spent on the run; None where its price is not known.
    """

    m: int
    audit: int
    n_frame: int
    votes: int
    hours: Decimal
    usd: Decimal
    usd_an_item: Decimal
    judge_usd: Decimal | None
    disputed: float | None
    last_bpde: float | None
    known_votes: int
    people: int
    pending: int
    learn: int = 0

    @property
    def items(self) -> int:
        return self.m + self.audit

    @property
    def beta(self) -> Decimal:
        return Decimal(100 * self.m) / self.n_frame if self.n_frame else Decimal(0)

    @property
    def all_usd(self) -> Decimal:
        return self.usd_an_item * self.n_frame

    @property
    def total_usd(self) -> Decimal | None:
        return None if self.judge_usd is None else self.judge_usd + self.usd

    def usd_at(self, beta: float) -> Decimal:
        """What people cost at another β, with the same audit."""
        m = size_for_beta(self.n_frame, Decimal(repr(beta)))
        return self.usd_an_item * min(m + self.audit, self.n_frame)


def plan(project: Project, run: Run | None, settings: RoundSettings) -> Plan:
    """Raises UserError where the settings make no round. A few queries that count."""
    n = frame(project).count()
    if not n:
        raise UserError("There are no examples to label. Import some first.")
    if run is None and not settings.everything:
        raise UserError("A cut needs a run to rank by. Judge first, or have everything labelled.")
    rate = rate_of(project, settings)
    if settings.everything:
        settings = replace(settings, audit=0, learn=0)
    m = n if settings.everything else cut_size(project, settings, n)
    check_audit(settings.audit, n - m)
    if settings.learn:
        check_learning(n, m, settings.learn)
    votes = (m + settings.audit) * settings.votes
    return Plan(
        m=m,
        audit=settings.audit,
        n_frame=n,
        votes=settings.votes,
        hours=votes * rate.minutes / 60,
        usd=human_usd(votes, rate),
        usd_an_item=human_usd(settings.votes, rate),
        judge_usd=judge_cost(run) if run else Decimal(0),
        people=members_who_may_vote(project).count(),
        pending=_pending(run, n),
        learn=settings.learn,
        **_reach(project, None if settings.learn else run, m),
    )


def measured_minutes(project: Project) -> tuple[float | None, int]:
    """Mean active minutes of a vote given on the screen, and over how many votes."""
    votes = Annotation.objects.filter(
        item__round__project=project, source=Annotation.Source.SCREEN, active_seconds__isnull=False
    )
    found = votes.aggregate(mean=Avg("active_seconds"), n=Count("pk"))
    return (None if found["mean"] is None else found["mean"] / 60), found["n"]


def _reach(project: Project, run: Run | None, m: int) -> dict[str, float | int | None]:
    """What the first m by rank are: the disputed ones they cover, and votes that are there."""
    nothing = {"disputed": None, "last_bpde": None, "known_votes": 0}
    if run is None:
        return nothing
    ranked = Verdict.objects.filter(run=run, rank__isnull=False, example__in=frame(project))
    disputed = ranked.filter(_DISPUTED)
    everywhere = disputed.count()
    last = ranked.order_by("rank").values_list("rank", "bpde")[max(m - 1, 0) : max(m, 1)]
    if not m or not last:
        return nothing | {"disputed": 0.0 if everywhere else None}
    place, bpde = last[0]
    known = Annotation.objects.filter(
        protocol=current_protocol(project),
        example__verdicts__run=run,
        example__verdicts__rank__lte=place,
    )
    covered = disputed.filter(rank__lte=place).count()
    return {
        "disputed": covered / everywhere if everywhere else None,
        "last_bpde": bpde,
        "known_votes": known.count(),
    }


def _pending(run: Run | None, n: int) -> int:
    if run is None:
        return 0
    return n - Verdict.objects.filter(run=run).exclude(state=Verdict.State.PENDING).count()
