"""What the judge and people cost so far, and the project's other runs for comparison."""

from collections.abc import Iterable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
from django.db.models import Count, Exists, OuterRef, QuerySet, Subquery, Sum

from annotation.models import Item, Lesson, Round, Selection, Vote
from annotation.results.data.figures import Json, usd
from annotation.results.data.sheet import Sheet, label_sign
from annotation.results.merge.final_labels import (
    CHUNK,
    ENTERING,
    HumanLabel,
    as_read,
    human_labels,
    human_labels_for_run,
    places_of,
)
from annotation.rounds.changes import COVERS
from annotation.rounds.progress import votes_usd
from judging.dataset.models import n_judged
from judging.methods.arrays import Booleans, Floats, Signs
from judging.methods.review.cost import HumanRate, human_usd, human_usd_of_active_time, paper_usd
from judging.projects.models import Project
from judging.runs.models import Run, Verdict

SELECTED = (Selection.Kind.TOP, Selection.Kind.LEARN, Selection.Kind.ALL)


@dataclass(frozen=True)
class RunCost:
    """A run's judge cost in USD; None where its price is not known (a local model costs 0).

    drafts_usd: what models were paid for drafts of rubrics that teach by the run's errors.
    """

    run: Run
    judge_usd: Decimal | None
    drafts_usd: Decimal | None = Decimal(0)

    @property
    def usd(self) -> Decimal | None:
        if self.judge_usd is None or self.drafts_usd is None:
            return None
        return self.judge_usd + self.drafts_usd


@dataclass(frozen=True)
class PeopleTotals:
    """What people did for a run: the votes cast for it, what these cost in USD, and how many
    examples were selected.

    assumed_usd: the cost at the minutes assumed. n_timed, seconds, timed_usd: the votes that were
    timed, their active time, and what it costs.
    """

    n_votes: int
    usd: Decimal
    selected: int
    assumed_usd: Decimal
    n_timed: int
    seconds: float
    timed_usd: Decimal


@dataclass(frozen=True)
class Costs:
    """All in USD. None is unknown, and never 0.

    judge_usd: the run that the labels come from; all_runs_usd: every run of the project, with the
        drafts of lessons.
    human_usd, n_votes: votes cast in rounds of this run, those that do not enter its results among
        them. A vote that was cast elsewhere and counts here as well was paid there.
    paper_usd: judge and people as the paper's Table 4 counts them: the judge on the unreviewed
    part only. None before a round was opened.
    by_hand_one, by_hand_same: people label everything, with one vote or with the round's.
    assumed_usd: the votes at the minutes assumed. measured_usd, measured_minutes: those of the
        `measured_votes` that were timed, at their active time, and its mean; None if none was.
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
    assumed_usd: Decimal = Decimal(0)
    measured_usd: Decimal | None = None
    measured_votes: int = 0
    measured_minutes: float | None = None

    def as_json(self) -> Json:
        """The `cost` of the report, without the other runs."""
        names = {"by_hand_one": "by_hand_one_vote_usd", "by_hand_same": "by_hand_same_votes_usd"}
        amounts = ("judge_usd", "human_usd", "total_usd", "paper_usd", *names)
        figures: Json = {names.get(name, name): usd(getattr(self, name)) for name in amounts}
        return figures | {
            "votes": self.n_votes,
            "votes_an_example": self.votes_an_example,
            "human_assumed_usd": usd(self.assumed_usd),
            "human_measured_usd": usd(self.measured_usd),
            "measured_votes": self.measured_votes,
            "measured_minutes": self.measured_minutes,
        }

    @property
    def drafts_usd(self) -> Decimal | None:
        """USD of all drafts of lessons, as far as they are priced; None if none is."""
        drafts = [cost.drafts_usd for cost in self.runs if cost.drafts_usd != 0]
        return sum(filter(None, drafts), Decimal(0)) if drafts else None

    @property
    def total_usd(self) -> Decimal | None:
        return None if self.judge_usd is None else self.judge_usd + self.human_usd


def with_drafts(runs: QuerySet[Run]) -> QuerySet[Run]:
    """Return the runs with the cost of their lessons' drafts, for `drafts_cost`.

    A draft that was cut off may have been billed. It isn't counted, as a run's lost calls aren't.
    """
    answered = Lesson.objects.filter(run=OuterRef("pk"), prompt_tokens__isnull=False)
    paid = answered.order_by().values("run").annotate(usd_sum=Sum("usd")).values("usd_sum")
    return runs.annotate(drafts_usd=Subquery(paid), unpriced=Exists(answered.filter(usd=None)))


def drafts_cost(run: Any) -> Decimal | None:
    """USD of the drafts; None if a price was unknown."""
    return None if run.unpriced else run.drafts_usd or Decimal(0)


def judge_cost(run: Run) -> Decimal | None:
    """USD spent on a run. Unknown where no price was known, or for judgments recorded elsewhere."""
    return None if run.price is None else run.spent_usd


def totals_of(says: Iterable[HumanLabel]) -> PeopleTotals:
    says = list(says)
    selected = sum(say.selection in SELECTED for say in says)
    return PeopleTotals(
        n_votes=sum(say.n_paid for say in says),
        usd=sum((say.usd for say in says), Decimal(0)),
        selected=selected,
        assumed_usd=sum((say.assumed_usd for say in says), Decimal(0)),
        n_timed=sum(say.n_timed for say in says),
        seconds=sum(say.seconds for say in says),
        timed_usd=sum((say.timed_usd for say in says), Decimal(0)),
    )


def run_totals(project: Project, run: Run | None) -> PeopleTotals:
    """Sum up the rounds of this run; without a run, the rounds that no run ranked.

    The database sums up what the rounds of a run are by their selections alone: tens of thousands
    of votes are not read.
    """
    if run is None:
        rounds = {"round__run": None, "round__kind": Round.Kind.ROUTED}
        return totals_of(human_labels(project, None, **rounds)[1].values())
    rounds_of_run = Round.objects.filter(run=run, kind=Round.Kind.ROUTED)
    extended = Selection.objects.filter(round__in=rounds_of_run, parameters__has_key=COVERS)
    # Which votes such rounds share is for `merge` to say, so their votes are read one by one.
    if extended.exists() or rounds_of_run.exclude(frame=run.frame_id).exists():
        return totals_of(human_labels_for_run(run).values())
    entering = {"round__in": rounds_of_run, "selection__kind__in": ENTERING}
    selected = Item.objects.filter(**entering).exclude(selection__kind=Selection.Kind.AUDIT)
    # What was cast was paid, also if it is left out of the results: hence `every`.
    cast = Vote.every.filter(**{f"item__{name}": value for name, value in entering.items()})
    sums = {"n": Count("*"), "timed": Count("active_seconds"), "seconds": Sum("active_seconds")}
    by_round = cast.order_by().values_list("item__round").annotate(**sums)
    rounds = rounds_of_run.in_bulk()
    # Without a round, the sums are those of this row of zeros.
    rows = [(0, Decimal(0), Decimal(0), 0, 0.0, Decimal(0))]
    for key, n, timed, seconds in by_round:
        round_, took = rounds[key], seconds or 0.0
        usd, assumed = votes_usd(round_, n, n - timed, took), votes_usd(round_, n, n, 0.0)
        # A Decimal made from the float itself would carry its binary digits into the amount.
        timed_usd = human_usd_of_active_time(Decimal(repr(took)), round_.wage_usd)
        rows.append((n, usd, assumed, timed, took, timed_usd))
    n_votes, usd, assumed, n_timed, took, timed_usd = map(sum, zip(*rows, strict=True))
    n_selected = selected.values("example").distinct().count()
    return PeopleTotals(n_votes, usd, n_selected, assumed, n_timed, took, timed_usd)


def project_costs(project: Project, run: Run | None, people: PeopleTotals | None = None) -> Costs:
    """Costs of a run's labels. `people` spares reading the votes again."""
    runs = tuple(
        RunCost(priced, judge_cost(priced), drafts_cost(priced))
        for priced in with_drafts(project.runs.order_by("number"))
    )
    spent = [cost.usd for cost in runs]
    people = people or run_totals(project, run)
    round_ = _newest_round(project, run)
    rate = HumanRate(
        round_.minutes_per_vote if round_ else project.minutes_per_vote,
        round_.wage_usd if round_ else project.wage_usd,
    )
    votes = round_.votes_per_item if round_ else 3
    n = n_judged(project.pk, run.frame_id if run else None)
    judge_usd = judge_cost(run) if run else Decimal(0)
    return Costs(
        runs=runs,
        judge_usd=judge_usd,
        # With one unknown amount the sum is unknown. The sum of the others would look like all of
        # it.
        all_runs_usd=None if None in spent else sum(filter(None, spent), Decimal(0)),
        human_usd=people.usd,
        n_votes=people.n_votes,
        paper_usd=paper_usd(n, min(people.selected, n), people.usd, judge_usd)
        if round_ and n
        else None,
        by_hand_one=human_usd(n, rate),
        by_hand_same=human_usd(n * votes, rate),
        votes_an_example=votes,
        assumed_usd=people.assumed_usd,
        measured_usd=people.timed_usd if people.n_timed else None,
        measured_votes=people.n_timed,
        measured_minutes=people.seconds / people.n_timed / 60 if people.n_timed else None,
    )


def _newest_round(project: Project, run: Run | None) -> Round | None:
    rounds = Round.objects.filter(project=project, run=run, kind=Round.Kind.ROUTED)
    return rounds.order_by("-number").first()


MOST_RUNS = 20
FIELDS = ("name", "method", "form", "endpoint", "model", "k", "temperature", "template_name")

_ROW = np.dtype([("run", "i8"), ("example", "i8"), ("sign", "i1"), ("bpde", "f8")])


@dataclass(frozen=True)
class OtherRun:
    """`settings` by name, as text where they can differ; labels as in `Sheet`."""

    settings: dict[str, str]
    judge: Signs
    judged: Booleans
    bpde: Floats
    judge_usd: Decimal | None

    @property
    def name(self) -> str:
        return self.settings["name"]


def settings_of(run: Run) -> dict[str, str]:
    return {name: str(getattr(run, name)) for name in FIELDS}


def other_runs(sheet: Sheet, compared: Run) -> tuple[OtherRun, ...]:
    """The newest ones that are ranked, the oldest of them first. Two queries."""
    ranked = compared.project.runs.filter(ranked_at__isnull=False).exclude(pk=compared.pk)
    runs = list(reversed(ranked.order_by("-number")[:MOST_RUNS]))
    labels = _labels(sheet, runs)
    return tuple(
        OtherRun(settings_of(run), *labels[run.pk], judge_usd=judge_cost(run)) for run in runs
    )


def _labels(sheet: Sheet, runs: list[Run]) -> dict[int, tuple[Signs, Booleans, Floats]]:
    rows = Verdict.objects.filter(run__in=runs, label__isnull=False).order_by()
    read = rows.annotate(sign=as_read(label_sign())).values_list("run", "example", "sign", "bpde")
    verdicts = np.fromiter(read.iterator(chunk_size=CHUNK), dtype=_ROW)
    places = places_of(sheet.ids, verdicts["example"])
    table = {}
    for run in runs:
        theirs = (verdicts["run"] == run.pk) & (places >= 0)
        judge, judged = np.zeros(len(sheet), np.int8), np.zeros(len(sheet), bool)
        judge[places[theirs]], judged[places[theirs]] = verdicts["sign"][theirs], True
        bpde = np.full(len(sheet), np.nan)
        bpde[places[theirs]] = verdicts["bpde"][theirs]
        table[run.pk] = judge, judged, bpde
    return table
