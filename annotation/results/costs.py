"""What judge and people cost so far, beside what labelling everything by hand would cost."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal

from annotation.models import Round, Selection
from annotation.results.people import PeopleSay, human_cost, people_for_run
from annotation.selecting import frame
from judging.methods.cost import Rate, human_usd, paper_usd
from judging.models.projects import Project
from judging.models.runs import Run

SELECTED = (Selection.Kind.TOP, Selection.Kind.LEARN, Selection.Kind.ALL)


@dataclass(frozen=True)
class RunCost:
    """A run's judge cost in USD; None where its price is not known (a local model costs 0)."""

    run: Run
    judge_usd: Decimal | None


@dataclass(frozen=True)
class PeopleTotals:
    """What people did for a run: their votes, what these cost in USD, the examples they settled,
    and how many were selected."""

    n_votes: int
    usd: Decimal
    settled: int
    selected: int


@dataclass(frozen=True)
class Costs:
    """All in USD. None is unknown, and never 0.

    judge_usd: the run that the labels come from; all_runs_usd: every run of the project.
    human_usd: the votes in rounds of this run, those that do not enter its results among them.
    paper_usd: judge and people as the paper's Table 4 counts them: the judge on the unreviewed
    part only. None before a round was opened.
    by_hand_one, by_hand_same: people label everything, with one vote or with the round's.
    """

    runs: tuple[RunCost, ...]
    judge_usd: Decimal | None
    all_runs_usd: Decimal | None
    human_usd: Decimal
    n_votes: int
    paper_usd: Decimal | None
    by_hand_one: Decimal
    by_hand_same: Decimal
    votes_an_example: int

    @property
    def total_usd(self) -> Decimal | None:
        return None if self.judge_usd is None else self.judge_usd + self.human_usd


def judge_cost(run: Run) -> Decimal | None:
    """USD spent on a run. Unknown where no price was known, or for judgments recorded elsewhere."""
    return None if run.price is None else run.spent_usd


def totals_of(says: Iterable[PeopleSay]) -> PeopleTotals:
    says = list(says)
    settled = sum(say.label is not None or bool(say.source) for say in says)
    selected = sum(say.selection in SELECTED for say in says)
    return PeopleTotals(sum(len(say.paid) for say in says), human_cost(says), settled, selected)


def run_totals(run: Run | None) -> PeopleTotals:
    return totals_of(people_for_run(run).values() if run else ())


def project_costs(project: Project, run: Run | None, people: PeopleTotals | None = None) -> Costs:
    """Costs of a run's labels. `people` spares reading the votes again."""
    runs = tuple(RunCost(one, judge_cost(one)) for one in project.runs.order_by("number"))
    spent = [one.judge_usd for one in runs]
    people = people or run_totals(run)
    round_ = _newest_round(project, run)
    rate = Rate(
        round_.minutes_per_vote if round_ else project.minutes_per_vote,
        round_.wage_usd if round_ else project.wage_usd,
    )
    votes = round_.votes_per_item if round_ else 3
    n = frame(project).count()
    judge_usd = judge_cost(run) if run else Decimal(0)
    return Costs(
        runs=runs,
        judge_usd=judge_usd,
        all_runs_usd=None if None in spent else sum(filter(None, spent), Decimal(0)),
        human_usd=people.usd,
        n_votes=people.n_votes,
        paper_usd=paper_usd(n, min(people.selected, n), people.usd, judge_usd)
        if round_ and n
        else None,
        by_hand_one=human_usd(n, rate),
        by_hand_same=human_usd(n * votes, rate),
        votes_an_example=votes,
    )


def _newest_round(project: Project, run: Run | None) -> Round | None:
    rounds = Round.objects.filter(project=project, run=run, kind=Round.Kind.ROUTED)
    return rounds.order_by("-number").first()
