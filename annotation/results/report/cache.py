"""Reports, kept until the state of their project's data changes.

The state is a hash of few aggregates. Each row counts with a weight of its own, so that two that
change against each other are seen, and so is an update of many at once, which leaves no time
behind. Imported texts alone never change.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, Max, Sum, Value
from django.db.models.expressions import Combinable
from django.db.models.functions import Coalesce, Length, Ord
from django.db.models.query import QuerySet

from annotation.models import Adjudication, Intervention, Item, Round, Slot, Vote
from annotation.results.data.sheet import Disagreements, disagreements, label_sign
from annotation.results.report.report import PeopleAlone, Report, people_alone, report
from annotation.results.sections.analysis import Analysis
from judging.core import waking
from judging.core.caching import CACHED_SECONDS, cache_key, cached, kept_a_while, report_cache
from judging.core.models import Worker
from judging.dataset.models import frame_of, import_states, n_judged
from judging.methods.intervals.estimates import Figure
from judging.projects.models import Project
from judging.runs.models import Run, Verdict

# A prime: sums of a million rows stay far below what a database can add.
_WEIGHTS = 9973
_RUN = (
    "pk", "name", "state", "ranked_at", "spent_usd", "price", "seed", "parameters__calibration",
)  # fmt: skip
_ROUND = (
    "pk", "run", "state", "stage", "closed_at", "certificate_plan", "votes_per_item",
    "no_majority", "wage_usd", "minutes_per_vote", "cost_basis",
)  # fmt: skip
_PROJECT = (
    "name", "slug", "wage_usd", "minutes_per_vote", "cost_basis", "leave_out_unblinded",
    "label_rule",
)  # fmt: skip


def fingerprint(project: Project) -> str:
    """Return a text that changes with every vote, decision, import, label, round and setting."""
    return _fingerprint(_settled_state(project), _voted_state(project), _judged_state(project))


def _fingerprint(*states: list[Any]) -> str:
    # Times and decimals have no JSON of their own, and their text changes with them.
    return hashlib.sha256(json.dumps(states, default=str).encode()).hexdigest()


def _judged_state(project: Project) -> list[dict[str, int]]:
    """Return what changes with an example or a verdict. It reads them all."""
    verdicts = Verdict.objects.filter(run__project=project)
    return [
        _size(frame_of(project).order_by(), each=_weighed(*_of_example())),
        _size(verdicts, each=_weighed(*_of_verdict())),
    ]


def _voted_state(project: Project) -> list[Any]:
    """Return what changes with a vote. It reads all votes and items."""
    items = Item.objects.filter(round__project=project).order_by("round", "state")
    slots = Slot.objects.filter(round__project=project, vote__isnull=False)
    votes = Vote.every.filter(protocol__project=project)
    sizes = {"last_at": Max("updated_at"), "aside": Count("aside_at")}
    return [
        list(items.values_list("round", "state").annotate(n=Count("pk"), last=Max("pk"))),
        _size(slots, votes=Sum("vote")),
        _size(votes, each=_weighed(*_of_vote()), **sizes),
    ]


def _settled_state(project: Project) -> list[Any]:
    """Return what a researcher, a reviewer or the end of a run changes. It reads few rows."""
    return [
        list(project.runs.order_by("pk").values_list(*_RUN)),
        list(Round.objects.filter(project=project).order_by("pk").values_list(*_ROUND)),
        import_states(project),
        _size(project.likelihoods.all()),
        _size(project.preregistrations.all()),
        _size(Adjudication.objects.filter(item__round__project=project)),
        _size(Intervention.objects.filter(round__project=project), ended=Count("ended_at")),
        [getattr(project, name) for name in _PROJECT],
    ]


def _state_for_page(project: Project) -> str:
    """The fingerprint. Of a large project, not all rows are read again for each page.

    Labels of examples that change with no import and no run are then seen after some minutes, and
    votes after a minute at most.
    """
    if not is_large(project):
        return fingerprint(project)
    settled = _settled_state(project)
    runs, _, imports, *_ = settled
    changes = [(pk, state, ranked_at) for pk, _, state, ranked_at, *_ in runs], imports
    judged = cached("state", project, changes, lambda: _judged_state(project), STATE_SECONDS)
    make = partial(_voted_state, project)
    voted = kept_a_while("voted", project, settled, make, is_large=True)
    return _fingerprint(settled, voted, judged)


def is_large(project: Project) -> bool:
    """Return True if pages don't wait for figures."""
    return n_judged(project.pk) > MOST_AT_ONCE


def _size(rows: QuerySet, **more: Combinable) -> dict[str, int]:
    return rows.aggregate(n=Count("pk"), last=Max("pk"), **more)


def _weighed(*numbers: Combinable) -> Sum:
    """numbers: the numeric columns of each row that can change."""
    total: Combinable = Value(0, output_field=BigIntegerField())
    for place, number in enumerate(numbers):
        # Columns have different weights, so that two columns that exchange their values change the
        # sum.
        total = total + number * Value(2 * place + 1)
    weight = ExpressionWrapper(F("pk") % _WEIGHTS + 1, output_field=BigIntegerField())
    return Sum(weight * ExpressionWrapper(total, output_field=BigIntegerField()))


def _of_example() -> list[Combinable]:
    names = ("category", "model_1", "model_2")
    # Names of the same length may differ in their first character.
    return [label_sign("gold_label"), *map(Length, names), *map(Ord, names)]


def _of_vote() -> list[Combinable]:
    return [label_sign(), Coalesce("left_response", Value(0)), F("annotator")]


def _of_verdict() -> list[Combinable]:
    return [label_sign(), Coalesce("rank", Value(0))]


# With more examples a page would wait for the figures: a worker renews them meanwhile.
MOST_AT_ONCE = 5_000
ASKED_SECONDS = 60
STATE_SECONDS = 300
WAITING = "reports-wanted-while-the-broker-was-away"


@dataclass(frozen=True)
class Shown:
    """report: the newest there is, None before the first. renewing: a worker is at a newer one.

    waiting: no worker could be woken yet, since the broker does not answer.
    missing: no worker runs, so none is at it.
    """

    report: Report | None
    renewing: bool = False
    waiting: bool = False
    missing: bool = False


def current_report(project: Project, run: Run) -> Report:
    """Return the report of the data as they are now. If nothing has changed, it takes a constant
    number of queries that count."""
    state = fingerprint(project)
    return cached("report", run, state, lambda: _computed(project, run, state))


def _computed(project: Project, run: Run, state: str) -> Report:
    """Compute the report, and keep the disagreements with it: both read the same sheet."""
    analysis = Analysis(project, run)
    cached("disagreements", run, state, lambda: disagreements(analysis.sheet))
    made = report(analysis)
    # The list of projects reads this figure of many runs at once, without their whole reports.
    cached("agreement", run, state, lambda: made.people.agreement)
    return made


def kept_disagreements(run: Run) -> Disagreements | None:
    """Return the disagreements of the newest report; None before the first one."""
    kept = report_cache.get(cache_key("disagreements", run))
    return kept[1] if kept else None


def kept_agreements(shown: Mapping[Project, Run | None]) -> dict[Project, Figure | None]:
    """Return how often two people agree, by project, from the newest reports there are.

    A list of projects reads all at once, so this is kept apart from the reports.
    """
    key_of = {
        project: cache_key("alone", project) if run is None else cache_key("agreement", run)
        for project, run in shown.items()
    }
    kept = report_cache.get_many(key_of.values())

    def agreement(project: Project) -> Figure | None:
        # An entry is the state of the data and what was made of it.
        _, figures = kept.get(key_of[project], (None, None))
        return figures.people.agreement if figures and shown[project] is None else figures

    return {project: agreement(project) for project in shown}


def shown_report(project: Project, run: Run, *, here: bool = False) -> Shown:
    """Return the report for a page, or the last one while a large project's is computed.

    here: compute a large report in this process if no worker runs. Somebody asked for that.
    """
    state = _state_for_page(project)
    if (ready := _kept(run, state)) is not None:
        return Shown(ready)
    large = is_large(project)
    missing = large and not Worker.objects.take_long_work()
    if not large or (missing and here):
        return Shown(current_report(project, run))
    # The last report, whatever the data were then: better than an empty page.
    before = report_cache.get(cache_key("report", run))
    last = before[1] if before else None
    if missing:
        return Shown(last, renewing=True, missing=True)
    asked = f"{cache_key('report', run)}:{state}"
    # `add` succeeds for one process alone, so that a state is asked for once in a minute.
    may_ask = report_cache.add(asked, True, ASKED_SECONDS)
    if may_ask and not waking.wake(waking.RENEW_REPORT, run.pk):
        # Asking again with each request would make each wait for the broker.
        report_cache.set(asked, False, ASKED_SECONDS)
        _wait_for_broker({run.pk})
    return Shown(last, renewing=True, waiting=report_cache.get(asked) is False)


def wake_for_reports() -> None:
    """Ask for the reports that pages wanted while the broker was away. The sweeper calls this."""
    # Taken out before waking, so that what is asked for meanwhile isn't lost with the rest.
    wanted = report_cache.get(WAITING, set())
    report_cache.delete(WAITING)
    _wait_for_broker({pk for pk in wanted if not waking.wake(waking.RENEW_REPORT, pk)})


def _wait_for_broker(runs: set[int]) -> None:
    """Remember these runs. Two processes at once may lose one, for which its page asks again."""
    if runs:
        report_cache.set(WAITING, report_cache.get(WAITING, set()) | runs, CACHED_SECONDS)


def ready_report(project: Project, run: Run) -> Report | None:
    """Return the report if it is already computed from the data as they are now."""
    return _kept(run, _state_for_page(project))


def kept_for(project: Project, name: str, make: Callable[[], Any]) -> Any:
    """Return what was made of this state of the data, or make it now."""
    return cached(name, project, _state_for_page(project), make)


def kept_people(project: Project) -> PeopleAlone | None:
    """Return what people say without a judge; None if nobody has voted."""
    alone: PeopleAlone | None = kept_for(project, "alone", lambda: people_alone(project))
    return alone


def _kept(run: Run, state: str) -> Report | None:
    kept = report_cache.get(cache_key("report", run))
    return kept[1] if kept and kept[0] == state else None
