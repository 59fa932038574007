"""What a round would ask of people before it is opened: items, hours, dollars, and who there is."""

from dataclasses import dataclass, replace
from decimal import Decimal

from annotation.models import Annotation, Annotator
from annotation.protocols import current_protocol
from annotation.rounds import RoundSettings, cut_size
from annotation.selecting import check_audit, check_learning, frame, ranked_examples
from judging.errors import UserError
from judging.methods.cost import Rate, human_usd
from judging.models import Project, Run, Verdict


@dataclass(frozen=True)
class Plan:
    """m items by rank and `audit` at random of `n_frame`; votes, hours and USD if all are new.

    learn: how many of the m are drawn at random first, to learn the rank of the others from.

    disputed: share of the examples with a BPDE above 0 that the selection covers; None without
    a ranking. known_votes: votes under the same protocol that would count at once.
    """

    m: int
    audit: int
    n_frame: int
    votes: int
    hours: Decimal
    usd: Decimal
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


def plan(project: Project, run: Run | None, settings: RoundSettings) -> Plan:
    """Raises UserError where the settings make no round."""
    n = frame(project).count()
    if not n:
        raise UserError("There are no examples to label. Import some first.")
    if run is None and not settings.everything:
        raise UserError("A cut needs a run to rank by. Judge first, or have everything labelled.")
    rate = Rate(project.minutes_per_vote, project.wage_usd)
    if settings.everything:
        settings = replace(settings, audit=0, learn=0)
    m = n if settings.everything else cut_size(project, settings, n)
    check_audit(settings.audit, n - m)
    if settings.learn:
        check_learning(n, m, settings.learn)
    order = ranked_examples(run) if run else []
    by_bpde = not settings.learn
    disputed = [one.bpde is None or one.bpde > 0 for one in order]
    votes = (m + settings.audit) * settings.votes
    people = Annotator.objects.filter(project=project, user__isnull=False, left_at=None)
    protocol = current_protocol(project)
    chosen = [one.example_id for one in order[:m]]
    known = Annotation.objects.filter(protocol=protocol, example__in=chosen).count()
    return Plan(
        m=m,
        audit=settings.audit,
        n_frame=n,
        votes=settings.votes,
        hours=votes * rate.minutes / 60,
        usd=human_usd(votes, rate),
        disputed=sum(disputed[:m]) / sum(disputed) if sum(disputed) and by_bpde else None,
        last_bpde=order[m - 1].bpde if 0 < m <= len(order) and by_bpde else None,
        known_votes=known,
        people=people.count(),
        pending=_pending(run, n),
        learn=settings.learn,
    )


def _pending(run: Run | None, n: int) -> int:
    if run is None:
        return 0
    return n - Verdict.objects.filter(run=run).exclude(state=Verdict.State.PENDING).count()
