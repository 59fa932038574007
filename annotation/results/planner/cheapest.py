"""The cheapest plan that is shown to reach a goal: search, answer, opening it, and the check.

A plan is chosen by labels of a random sample. Whether it reaches its goal is checked by an audit of
the round that it opens, of which no label has chosen anything.
"""

import hashlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import numpy as np
from django.contrib.auth.models import AbstractUser
from django.db.models import Q, QuerySet
from django.utils import timezone

from annotation.models import Item, Job, Round, Selection, Vote
from annotation.results.data.figures import SHARES, Json, Plot, plot, tooltip, usd, x_axis
from annotation.results.data.sheet import LABELS, Sheet, verdict_rows
from annotation.results.merge.final_labels import places_of
from annotation.results.planner.ways import (
    LearningSample,
    Tell,
    Way,
    labels_to_learn,
    learning_sample,
    ranked_runs,
    ways,
)
from annotation.results.report.cache import fingerprint
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.win_rates import EVEN
from annotation.rounds.opening import RoundSettings, open_round, rate_in
from annotation.rounds.selecting import size_for_beta
from judging.core.caching import CACHED_SECONDS, code_version, report_cache
from judging.core.errors import UserError
from judging.core.formatting import count, decimals, number_of, percent, set_apart
from judging.core.formatting import usd as dollars
from judging.dataset.models import frame_of, n_judged
from judging.dataset.subsets import Subset
from judging.methods.arrays import Codes
from judging.methods.intervals.bootstrap import design_effect
from judging.methods.intervals.estimates import Undefined, most_unseen, width
from judging.methods.intervals.win_rate import AuditedLabels, win_points, win_rate
from judging.methods.review.certificate import first_sure
from judging.methods.review.pipelines import (
    Asked,
    Goal,
    Plans,
    better_end,
    choose,
    frontier,
    needed_sample,
    search,
)
from judging.methods.sample_sizes import size_for_certificate
from judging.projects.models import Project
from judging.runs.models import Run

CONFIDENCE = Decimal("0.95")
DEFAULTS = {
    Goal.ACCURACY: Decimal("0.9"),
    Goal.WIN_RATE: Decimal("0.05"),
    Goal.CERTIFICATE: Decimal("0.1"),
}
LIMITS = {
    Goal.ACCURACY: (Decimal("0.5"), Decimal("0.999")),
    Goal.WIN_RATE: (Decimal("0.005"), Decimal("0.4")),
    Goal.CERTIFICATE: (Decimal("0.005"), Decimal("0.5")),
}
_CONFIDENCES = (Decimal("0.5"), Decimal("0.99"))
MOST_EXAMPLES = 10_000_000
MOST_ROWS = 24
# How likely the audit is to certify, if as many labels are wrong as the sample says.
_POWER = 0.8
# The audit of a plan that is unlikely to be shown to reach its goal.
_USUAL_AUDIT = 60
_CENT = Decimal("0.01")


@dataclass(frozen=True, kw_only=True)
class Wish:
    """What a plan has to reach, with which confidence, and for how many examples it is priced.

    value: shares between 0 and 1. examples: None for all of the project.
    prices: USD per example of runs by their number, where the price was not recorded.
    """

    goal: Goal = Goal.ACCURACY
    value: Decimal = DEFAULTS[Goal.ACCURACY]
    confidence: Decimal = CONFIDENCE
    examples: int | None = None
    prices: Mapping[int, Decimal] = field(default_factory=dict)

    def problems(self) -> list[tuple[str, str]]:
        """Return every value that is no goal, with its name."""
        low, high = LIMITS[self.goal]
        wrong = []
        if not low <= self.value <= high:
            wrong.append(("value", f"Enter a share from {percent(float(low), 1)} to "
                                   f"{percent(float(high), 1)}."))  # fmt: skip
        low, high = _CONFIDENCES
        if not low <= self.confidence <= high:
            wrong.append(("confidence", "Enter a confidence from 50 % to 99 %."))
        if self.examples is not None and not 1 <= self.examples <= MOST_EXAMPLES:
            wrong.append(("examples", f"Enter a number from 1 to {count(MOST_EXAMPLES)}."))
        if any(price < 0 or price > 1000 for price in self.prices.values()):
            wrong.append(("prices", "Enter prices from 0 to 1000 USD per example."))
        return wrong

    def to_json(self) -> Json:
        """Return what a job holds, and what a round stores as its goal but for the prices."""
        prices = {str(number): usd(price) for number, price in sorted(self.prices.items())}
        return {
            "goal": str(self.goal), "value": usd(self.value), "confidence": usd(self.confidence),
            "examples": self.examples, "prices": prices,
        }  # fmt: skip

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> "Wish":
        return cls(
            goal=Goal(stored["goal"]),
            value=Decimal(stored["value"]),
            confidence=Decimal(stored["confidence"]),
            examples=stored.get("examples"),
            prices={int(key): Decimal(price) for key, price in stored.get("prices", {}).items()},
        )

    @property
    def words(self) -> str:
        shares = {
            Goal.ACCURACY: "at least {} of the final labels are right",
            Goal.CERTIFICATE: "at most {} of the labels that nobody reviews are wrong",
        }
        if self.goal is Goal.WIN_RATE:
            return f"the win rate is known to ± {decimals(100 * float(self.value), 1)} points"
        return shares[self.goal].format(_share(float(self.value)))


def checked(wish: Wish) -> Wish:
    """Return the wish. Raises UserError with everything that is wrong in it."""
    if problems := wish.problems():
        raise UserError(" ".join(f"{name}: {why}" for name, why in problems))
    return wish


def find_cheapest(project: Project, wish: Wish, tell: Tell = lambda done, of: None) -> Json:
    """Return the answer, as the API gives it and a job keeps it. It takes seconds.

    Raises:
        UserError: A value is out of its limits, or there are no examples.
    """
    checked(wish)
    examples = wish.examples or n_judged(project.pk)
    if not examples:
        raise UserError("There are no examples to label. Import some first.")
    rate = rate_in(project)
    asked = Asked(
        wish.goal, float(wish.value), float(wish.confidence), examples, float(rate.vote_usd)
    )
    sample = learning_sample(project)
    told = wish.to_json() | {"examples": examples, "project": project.slug}
    if isinstance(sample, Undefined):
        return told | _without_sample(project, asked, wish, sample.reason)
    tried, left_out = ways(sample, asked, wish.prices, tell)
    # What an interval and a certificate say is about people's label by all votes of the sample.
    by_all = {sample.votes: sample.right[sample.votes]}
    right = sample.right if wish.goal is Goal.ACCURACY else by_all
    question = sample.analysis.sheet.question[sample.places]
    plans = search([way.chain for way in tried], right, asked, question, sample.analysis.rng)
    return told | _answer(sample, tried, plans, asked, wish, left_out)


def _without_sample(project: Project, asked: Asked, wish: Wish, reason: str) -> Json:
    labels = min(needed_sample(asked), asked.examples)
    cost = rate_in(project).vote_usd * 3 * labels
    has_run = bool(ranked_runs(project))
    does = (
        f"Have people label {number_of(labels, 'example')} drawn at random first "
        f"({dollars(cost)} with 3 votes each)."
        if has_run
        else "Judge the examples first, and then have people label a random sample."
    )
    return {
        "sentence": f"Plans can't be compared yet: {reason}. {does}",
        "labels": 0, "votes": None, "plans": 0, "level": None, "best": None, "second": None,
        "hoped": None, "labels_needed": labels, "rows": [], "left_out": [], "reason": reason,
        "has_run": has_run, "has_sample": False, "takes": "",
    }  # fmt: skip


def _answer(
    sample: LearningSample,
    tried: Sequence[Way],
    plans: Plans,
    asked: Asked,
    wish: Wish,
    left_out: list[str],
) -> Json:
    choice = choose(plans, asked)
    rising = asked.goal is Goal.ACCURACY
    line = frontier(plans, rising=rising)
    # A long frontier is thinned evenly; its first and its last plan stay.
    line = line[np.unique(np.linspace(0, len(line) - 1, MOST_ROWS).astype(int))]
    alone = _people_alone(tried, plans, sample.votes)
    chosen = (choice.best, choice.second, choice.hoped, alone)
    named = [place for place in chosen if place is not None]
    places = np.unique(np.concatenate((line, np.array(named, dtype=np.intp))))
    places = places[np.argsort(plans.usd[places], kind="stable")]
    ends = better_end(plans, places, asked)
    rows, number = [], {}
    for place, end in zip(places.tolist(), ends.tolist(), strict=True):
        number[place] = len(rows) + 1
        row = _row(sample, tried, plans, place, end, asked)
        rows.append(row | {"number": number[place], "frontier": place in line.tolist()})
    numbers = {
        name: None if (place := getattr(choice, name)) is None else number[place]
        for name in ("best", "second", "hoped")
    }
    told: Json = {
        "labels": len(sample), "votes": sample.votes, "plans": len(plans), "level": plans.level,
        **numbers, "labels_needed": choice.labels, "rows": rows, "left_out": left_out,
        "reason": "", "has_run": True, "has_sample": True,
    }  # fmt: skip
    hoped = None if choice.hoped is None else rows[numbers["hoped"] - 1]
    takes = what_it_takes(told | {"examples": asked.examples}, hoped) if hoped else ""
    has_judges = any(way.route != "people" for way in tried)
    return told | {"sentence": sentence(told, wish, has_judges=has_judges), "takes": takes}


def _people_alone(tried: Sequence[Way], plans: Plans, votes: int) -> int | None:
    alone = [place for place, way in enumerate(tried) if way.route == "people"]
    rows = np.flatnonzero(np.isin(plans.chain, alone) & (plans.votes == votes))
    return int(rows[0]) if len(rows) else None


def _row(
    sample: LearningSample,
    tried: Sequence[Way],
    plans: Plans,
    place: int,
    better: float,
    asked: Asked,
) -> Json:
    way, column = tried[int(plans.chain[place])], int(plans.column[place])
    chain, share, votes = way.chain, float(plans.share[place]), int(plans.votes[place])
    limit, audit = float(plans.limit[place]), int(plans.audit[place])
    whole = float(plans.usd[place])
    judges = asked.examples * float(chain.usd[column])
    row: Json = {
        "runs": [run.number for run in way.runs], "names": [run.name for run in way.runs],
        "route": way.route, "orders": way.orders, "k": way.k, "adaptive": way.adaptive,
        "whole": way.whole, "share": share, "votes": votes, "audit": audit,
        "threshold": None if chain.threshold is None else float(chain.threshold[column]),
        "usd": _money(whole), "judge_usd": _money(judges), "people_usd": _money(whole - judges),
        "value": float(plans.value[place]), "low": min(limit, better), "high": max(limit, better),
        "shown": bool(plans.reached[place]),
    }  # fmt: skip
    row["check"] = _check_size(plans, place, asked, sample) if share < 1 else 0
    return row | {"words": words_of(row)}


def _check_size(plans: Plans, place: int, asked: Asked, sample: LearningSample) -> int | None:
    """Return the size of the audit that checks a plan by fresh labels; None if none is enough."""
    if asked.goal is not Goal.ACCURACY:
        return int(plans.audit[place])
    share = float(plans.share[place])
    epsilon, wrong = _left_to_judges(plans, place, asked, sample)
    # If no label was wrong, half of one counts as wrong.
    wrong = max(wrong, 0.5 / (plans.n * (1 - share)))
    if not 0 < wrong < epsilon:
        return None
    rest = round(asked.examples * (1 - share))
    size = size_for_certificate(epsilon, wrong, _POWER, rest, asked.alpha)
    return None if isinstance(size, Undefined) else size.n


def _left_to_judges(
    plans: Plans, place: int, asked: Asked, sample: LearningSample
) -> tuple[float, float]:
    """Return which share of the unreviewed labels may be wrong, and which share is."""
    share = float(plans.share[place])
    people = share * float(1 - sample.right[int(plans.votes[place])].mean())
    may = (1 - asked.value - people) / (1 - share)
    return may, max(float(plans.loss[place]) - people, 0.0) / (1 - share)


def _money(amount: float) -> str:
    return str(usd(Decimal(repr(amount)).quantize(_CENT)))


def words_of(row: Mapping[str, Any]) -> str:
    """Describe a plan in plain words."""
    votes = number_of(row["votes"], "vote")
    if row["route"] == "people":
        return f"no judge; people label everything, {votes} each"
    share, names = _share(row["share"]), [set_apart(name) for name in row["names"]]
    if row["route"] == "row":
        asked = ", then ".join(names)
        if not row["share"]:
            return f"{asked} where the one before isn't sure; people label nothing{_audit_of(row)}"
        return (
            f"{asked} where the one before isn't sure; people label the {share} that none is sure "
            f"of, {votes} each{_audit_of(row)}"
        )
    orders = "both orders" if row["orders"] == 2 else "one order"
    samples = number_of(row["k"], "sample")
    if row["adaptive"]:
        samples = f"up to {samples}, stopped early"
    elif row["k"] > 1 or row["orders"] == 2:
        samples += " each" if row["orders"] == 2 else ""
    judge = f"{names[0]}, {orders}, {samples}"
    if not row["share"]:
        return f"{judge}; people label nothing{_audit_of(row)}"
    what = {
        "bpde": f"the {share} where it contradicts itself most",
        "learned": f"{share}, some at random and then where these show that it errs most",
        "random": f"{share} drawn at random",
    }[row["route"]]
    return f"{judge}; people label {what}, {votes} each{_audit_of(row)}"


def _share(share: float) -> str:
    whole = abs(100 * share - round(100 * share)) < 1e-9
    return percent(share, 0 if whole else 1)


def _audit_of(row: Mapping[str, Any]) -> str:
    return f", and an audit of {count(row['audit'])}" if row["audit"] else ""


def sentence(told: Mapping[str, Any], wish: Wish, *, has_judges: bool) -> str:
    """Return the sentence with which the page begins. Without a price, a judge has no plan."""
    best = next((row for row in told["rows"] if row["number"] == told["best"]), None)
    sure = percent(float(wish.confidence))
    if best is None:
        return f"No plan can be shown to reach it: {wish.words}, with {sure} confidence."
    cost = dollars(Decimal(best["usd"]))
    if best["route"] == "people":
        if not has_judges:
            return (
                f"No plan with a judge could be compared, so people label everything for {cost} "
                f"({wish.words}, {sure} confidence)."
            )
        return (
            f"No plan with a judge can be shown to reach it ({wish.words}, {sure} confidence). "
            f"People label everything for {cost}."
        )
    return f"For {cost}, {wish.words}, with {sure} confidence: {best['words']}."


def what_it_takes(told: Mapping[str, Any], hoped: Mapping[str, Any]) -> str:
    """Say what it would take to show that a cheaper plan reaches the goal."""
    cost, needed = dollars(Decimal(hoped["usd"])), told["labels_needed"]
    if needed is None:
        return f"A plan for {cost} may reach it, but no number of labels would show it."
    if needed > told["examples"]:
        return (
            f"A plan for {cost} may reach it, but its figure is too close to the goal. To show it, "
            f"people would have to label about {count(needed)} examples drawn at random."
        )
    return (
        f"A plan for {cost} may reach it. To show that, have people label about "
        f"{count(needed - told['labels'])} more examples drawn at random."
    )


SHOWN, NOT_SHOWN = "shown to reach the goal", "not shown"
RECOMMENDED, RUNNER_UP, CHEAPER, ALONE = "recommended", "runner-up", "cheaper", "people alone"


def frontier_plot(told: Mapping[str, Any]) -> Plot:
    """Plot cost against what each plan is predicted to reach, with named points."""
    wish = Wish.from_json(told)
    rows: list[Json] = []
    for row in told["rows"]:
        kind = SHOWN if row["shown"] else NOT_SHOWN
        name = {told["second"]: RUNNER_UP, told["hoped"]: CHEAPER, told["best"]: RECOMMENDED}
        label = name.get(row["number"], ALONE if row["route"] == "people" else "")
        figures = {key: row[key] for key in ("value", "low", "high")}
        rows.append({"plan": f"{row['number']}", "usd": float(row["usd"]), **figures,
                     "goal": kind, "name": label, "what": row["words"]})  # fmt: skip
    title = {
        Goal.ACCURACY: "accuracy of the final labels",
        Goal.WIN_RATE: "half of the interval's width",
        Goal.CERTIFICATE: "share of wrong labels that is certified",
    }[wish.goal]
    x = x_axis("usd", "cost, USD") | {"scale": {"zero": True}}
    # Half a width and a share of errors are near zero, so that an axis to 1 would flatten them.
    scale = SHARES if wish.goal == Goal.ACCURACY else {"zero": True}
    y = {"field": "value", "type": "quantitative", "title": title, "scale": scale}
    hints = tooltip("plan", "what", "usd", "value", "low", "high", "goal")
    shape = {"field": "goal", "type": "nominal", "title": None,
             "scale": {"domain": [SHOWN, NOT_SHOWN], "range": ["circle", "cross"]}}  # fmt: skip
    drawing = {
        "layer": [
            {
                "mark": {"type": "rule", "strokeDash": [4, 3], "color": "var(--quiet)"},
                "encoding": {"y": {"datum": float(wish.value), "type": "quantitative"}},
            },
            {
                "mark": {"type": "line", "opacity": 0.5},
                "encoding": {"x": x, "y": y, "order": {"field": "usd"}},
            },
            {
                "mark": {"type": "rule", "opacity": 0.6},
                "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}},
            },
            {
                "mark": {"type": "point", "filled": True, "size": 70},
                "encoding": {"x": x, "y": y, "shape": shape, "tooltip": hints},
            },
            *(_named(name, x, y) for name in (RECOMMENDED, RUNNER_UP, CHEAPER, ALONE)),
        ]
    }
    caption = (
        "Each point is a plan that no cheaper plan equals, with its interval. The dashed line is "
        "your goal. Circles are shown to reach it; crosses are not."
    )
    return plot("cheapest", "Cost against what is reached", caption, rows, drawing)


# Where a name is written next to its point: plans that are named are often neighbours.
_BESIDE = {
    RECOMMENDED: ("right", -6, -12), RUNNER_UP: ("left", 8, 16),
    CHEAPER: ("left", 10, 4), ALONE: ("right", -4, -12),
}  # fmt: skip


def _named(name: str, x: Json, y: Json) -> Json:
    align, across, down = _BESIDE[name]
    return {
        "transform": [{"filter": f"datum.name === '{name}'"}],
        "mark": {"type": "text", "align": align, "dx": across, "dy": down, "fontSize": 12},
        "encoding": {"x": x, "y": y, "text": {"field": "name"}},
    }


def row_of(told: Mapping[str, Any], number: int | None) -> Json:
    """Return a plan by its number; by default the recommended one. Raises UserError."""
    wanted = told["best"] if number is None else number
    if wanted is None:
        raise UserError(f"{told['sentence']} Name a plan to open one all the same.")
    plan: Json | None = next((row for row in told["rows"] if row["number"] == wanted), None)
    if plan is None:
        raise UserError(f"There is no plan {wanted}. There are {len(told['rows'])}.")
    return plan


def goal_to_store(told: Mapping[str, Any]) -> Json:
    """Return what a round keeps of the goal that its plan was chosen for."""
    return {name: told[name] for name in ("goal", "value", "confidence")}


def settings_of(
    project: Project, told: Mapping[str, Any], row: Mapping[str, Any]
) -> tuple[Run | None, RoundSettings]:
    """Return the round that carries a plan out in this project. Raises UserError.

    All samples of a run that are there are used, also if the plan needs fewer.
    """
    runs = [project.runs.get(number=number) for number in row["runs"]]
    goal = goal_to_store(told)
    if row["route"] == "people":
        return None, RoundSettings(everything=True, votes=row["votes"], goal=goal)
    if row["route"] == "row":
        return runs[0], _of_row(project, runs, row, goal)
    n = n_judged(project.pk, runs[0].frame_id)
    beta, audit = Decimal(repr(round(100 * row["share"], 4))), _audit_size(row)
    m = size_for_beta(n, beta)
    if row["route"] == "random":
        # A random review is an audit of that size: both are drawn alike.
        beta, audit, m = Decimal(0), max(m, audit), 0
    learn = min(labels_to_learn(told["labels"]), m - 1) if row["route"] == "learned" else 0
    return runs[0], RoundSettings(
        beta=beta,
        votes=row["votes"],
        audit=min(audit, n - m),
        learn=max(learn, 0),
        epsilon=_epsilon(told, row),
        goal=goal,
    )


def _audit_size(row: Mapping[str, Any]) -> int:
    return int(_USUAL_AUDIT if row["check"] is None else row["check"])


def _epsilon(told: Mapping[str, Any], row: Mapping[str, Any]) -> float:
    """Return the share of wrong labels to certify, at most one half."""
    value = float(told["value"])
    if told["goal"] == Goal.CERTIFICATE:
        return value
    if told["goal"] == Goal.ACCURACY and row["share"] < 1:
        # Labels of people count as right, so all errors that the goal allows may be among the
        # judge's.
        return round(min((1 - value) / (1 - row["share"]), 0.5), 4)
    return 0.1


def _of_row(
    project: Project, runs: Sequence[Run], row: Mapping[str, Any], goal: Json
) -> RoundSettings:
    """People label what no judge is sure of, and a random part of the rest, which checks it."""
    ids, judge, _ = _kept(project, runs, row["threshold"])
    kept, people = ids[judge >= 0], ids[judge < 0]
    size = min(_audit_size(row), len(kept))
    digest = hashlib.sha256(json.dumps([row["runs"], row["threshold"]]).encode()).digest()
    # Seeded by the plan, so that opening it again draws the same audit.
    rng = np.random.default_rng(int.from_bytes(digest[:8], "big"))
    audit = np.sort(rng.choice(kept, size, replace=False))
    asked = set(people.tolist()) | set(audit.tolist())
    if not asked:
        raise UserError("This plan asks people about nothing, so there is no round to open.")
    names = dict(frame_of(project).values_list("pk", "external_id"))
    listed = [names[key] for key in ids.tolist() if key in asked]
    stored = {"runs": row["runs"], "threshold": row["threshold"], "audit": audit.tolist()}
    return RoundSettings(
        everything=True,
        votes=row["votes"],
        subset=Subset.chosen([], ids=listed, sample=None, seed=None),
        goal=goal | {"row": stored},
    )


def _kept(
    project: Project, runs: Sequence[Run], threshold: float
) -> tuple[Codes, Codes, np.ndarray]:
    """Return the examples, the place of the judge that keeps each or -1, and (R, N) labels."""
    ids = np.array(list(frame_of(project).order_by().values_list("pk", flat=True)), dtype=np.intp)
    # Sorted keys, so that the draw doesn't depend on the order in which the database returns rows.
    ids.sort()
    verdicts = [verdict_rows(run, ids) for run in runs]
    unsure = np.stack([np.where(of_run.judged, of_run.bpde, np.nan) for of_run in verdicts])
    return ids, first_sure(unsure, threshold), np.stack([of_run.judge for of_run in verdicts])


def open_plan(
    project: Project,
    user: AbstractUser | None,
    told: Mapping[str, Any],
    number: int | None = None,
    *,
    background: bool = False,
    made: Callable[[Round], None] = lambda round_: None,
) -> Round:
    """Open the round that carries a plan out. Raises UserError.

    Args: number: of the plan; the recommended one by default. background, made: as `open_round`.
    """
    run, settings = settings_of(project, told, row_of(told, number))
    return open_round(project, user, run, settings, background=background, made=made)


def who_labels(
    project: Project, told: Mapping[str, Any], number: int | None = None
) -> Iterator[dict[str, str | None]]:
    """Yield who labels each example by a plan: a run with its label, or people.

    Raises:
        UserError: Whom it leaves to people is known only once its round is open.
    """
    row = row_of(told, number)
    if row["route"] in ("learned", "random") and row["share"]:
        raise UserError("Its round draws the examples. Open it, and export the round's items.")
    names = dict(frame_of(project).values_list("pk", "external_id"))
    runs = [project.runs.get(number=run) for run in row["runs"]]
    if row["route"] == "row":
        ids, judge, labels = _kept(project, runs, row["threshold"])
    elif runs:
        ids = np.array(sorted(names), dtype=np.intp)
        verdicts = verdict_rows(runs[0], ids)
        judge, labels = np.where(verdicts.judged, 0, -1), verdicts.judge[None]
        judge[verdicts.ranking[: size_for_beta(len(ids), Decimal(repr(100 * row["share"])))]] = -1
    else:
        ids = np.array(sorted(names), dtype=np.intp)
        judge, labels = np.full(len(ids), -1), np.zeros((1, len(ids)), np.int8)
    for place, key in enumerate(ids.tolist()):
        at = int(judge[place])
        label = None if at < 0 else str(LABELS[int(labels[at, place])])
        name = "people" if at < 0 else runs[at].name
        yield {"external_id": names[key], "label_from": name, "label": label}


@dataclass(frozen=True)
class Check:
    """Whether a round's audit shows that the goal of its plan is reached, by fresh labels.

    audited, wrong: of labels by judges, that were audited and that people contradict. reached:
    None while labels are missing, or if there is no audit. figure: what is shown, as a share.
    """

    round: int
    words: str
    audited: int
    wrong: int
    figure: float | None
    reached: bool | None


def goal_checks(project: Project) -> list[Check]:
    """Return the check of each round that a plan has opened, the newest first."""
    rounds = Round.objects.filter(project=project, parameters__has_key="goal")
    return [_check(round_) for round_ in rounds.select_related("run", "frame").order_by("-number")]


def _check(round_: Round) -> Check:
    stored = round_.parameters["goal"]
    wish = Wish.from_json(stored)
    nothing = Check(round_.number, "This round has no audit, so nothing checks its goal.",
                    0, 0, None, None)  # fmt: skip
    if round_.run is None:
        return replace(nothing, words="People label everything, so there is nothing to check.")
    row = stored.get("row")
    # The labels that a row of judges keeps are about all examples, not those that people see.
    sheet = Analysis(round_.project, round_.run, None if row else round_.frame).sheet
    label, judged, rest = sheet.judge, sheet.judged, ~sheet.selected
    if row:
        runs = [round_.project.runs.get(number=number) for number in row["runs"]]
        ids, judge, labels = _kept(round_.project, runs, row["threshold"])
        at = places_of(ids, sheet.ids.tolist())
        kept = judge[at]
        label, judged, rest = labels[np.maximum(kept, 0), at], kept >= 0, kept >= 0
        audited = places_of(sheet.ids, row["audit"])
    else:
        items = Item.objects.filter(round=round_, selection__kind=Selection.Kind.AUDIT)
        audited = places_of(sheet.ids, list(items.values_list("example", flat=True)))
    audited = _fresh(round_, sheet, audited[audited >= 0])
    if not len(audited):
        return replace(nothing, words="No label of an audit is fresh, so nothing checks the goal.")
    # A win rate also rests on what people say of the examples that no judge's label is kept of.
    needed = np.union1d(audited, np.flatnonzero(~rest)) if wish.goal is Goal.WIN_RATE else audited
    if missing := int((~sheet.answered[needed]).sum()):
        return replace(nothing, words=f"The check still lacks {number_of(missing, 'label')}.")
    # An example without any label by a judge keeps none, so it is not right either.
    right = judged & (label == sheet.answer)
    wrong = int((~right[audited]).sum())
    people, judges = win_points(sheet.answer), np.where(judged, win_points(label), EVEN)
    final = np.where(rest, judges, people)
    final[audited] = people[audited]
    rate = AuditedLabels(
        people[~rest], judges[rest], people[audited], judges[audited],
        *design_effect(final, sheet.question),
    )  # fmt: skip
    return _judged(round_, wish, rate, int(rest.sum()), len(audited), wrong)


def _fresh(round_: Round, sheet: Sheet, places: Codes) -> Codes:
    """Leave out what had a vote before the round opened: it may have chosen the plan."""
    # A known label was there before the plan, so none of them is fresh.
    if sheet.basis == "gold":
        return places[:0]
    # Imported votes may have no time.
    before = Vote.every.filter(
        Q(submitted_at=None) | Q(submitted_at__lt=round_.opened_at),
        example__in=sheet.ids[places].tolist(),
        example__project=round_.project_id,
    )
    seen = set(before.values_list("example", flat=True))
    return np.array([at for at in places.tolist() if int(sheet.ids[at]) not in seen], np.intp)


def _judged(
    round_: Round, wish: Wish, labels: AuditedLabels, rest: int, audited: int, wrong: int
) -> Check:
    words = f"Of {number_of(audited, 'fresh label')}, people contradict {count(wrong)}. "
    sure = percent(float(wish.confidence))
    if wish.goal is Goal.WIN_RATE:
        wide = width(win_rate(labels))
        figure = None if wide is None else wide / 2
        reached = figure is not None and figure <= float(wish.value)
        words += f"The win rate is known to ± {decimals(100 * (figure or 0.5), 1)} points"
    else:
        unseen = rest - audited
        most = most_unseen(unseen, audited, wrong, float(1 - wish.confidence))
        if wish.goal is Goal.ACCURACY:
            figure = 1 - most / labels.n
            reached = figure >= float(wish.value)
            words += (
                f"With {sure} confidence, at least {percent(figure, 1)} of the final labels agree"
            )
        else:
            figure = most / unseen if unseen else 0.0
            reached = figure <= float(wish.value)
            words += f"With {sure} confidence, at most {percent(figure, 1)} of the others are wrong"
    verdict = "the goal is reached." if reached else "the goal is not shown to be reached."
    return Check(round_.number, f"{words}: {verdict}", audited, wrong, figure, reached)


def asked_of(project: Project, wish: Wish) -> Json:
    """Return what a job holds, and by which an answer is found again until the data changes."""
    return wish.to_json() | {"state": f"{fingerprint(project)}:{code_version()}"}


def kept_answer(project: Project, wish: Wish) -> Json | None:
    """Return the answer if it was computed from the data as they are now."""
    done = _jobs(project).filter(asked=asked_of(project, wish), state=Job.State.DONE)
    kept: Json | None = done.values_list("result", flat=True).order_by("-pk").first()
    return kept


def waiting_job(project: Project, wish: Wish) -> Job | None:
    """Return the job that computes this answer now, or that was refused last."""
    jobs = _jobs(project).filter(asked=asked_of(project, wish)).exclude(state=Job.State.DONE)
    return jobs.order_by("-pk").first()


def answer_here(project: Project, user: AbstractUser | None, wish: Wish) -> Json:
    """Compute the answer in this process, and keep it as a job keeps it."""
    asked = asked_of(project, wish)
    told = find_cheapest(project, wish) | {"round": None}
    Job.objects.create(
        project=project, user=user, kind=Job.Kind.CHEAPEST, asked=asked, result=told,
        state=Job.State.DONE, ended_at=timezone.now(),
    )  # fmt: skip
    return told


def _jobs(project: Project) -> QuerySet[Job]:
    return Job.objects.filter(project=project, kind=Job.Kind.CHEAPEST)


def cheapest_asked(
    project: Project,
    user: AbstractUser | None,
    asked: Mapping[str, Any],
    keep: Callable[[Json], object],
) -> None:
    """Do what a program or a page asked, and say meanwhile how far it is.

    Args:
        asked: A wish, and `open_round` and `plan` if a round is to be opened.
        keep: Gets the answer, in the transaction that opens the round.
    """
    wish, key = Wish.from_json(asked), _progress_key(project, asked)

    def tell(done: int, of: int) -> None:
        report_cache.set(key, (done, of), CACHED_SECONDS)

    # The same question is answered by an earlier job as long as the data are the same.
    told = kept_answer(project, wish) or find_cheapest(project, wish, tell) | {"round": None}
    if not asked.get("open_round"):
        keep(told)
        return
    open_plan(
        project, user, told, asked.get("plan"), background=True,
        made=lambda round_: keep(told | {"round": round_.number}),
    )  # fmt: skip


def progress_of(job: Job) -> tuple[int, int] | None:
    """Return how many runs were replayed, of how many; None if nobody has begun."""
    progress: tuple[int, int] | None = report_cache.get(_progress_key(job.project, job.asked))
    return progress


def _progress_key(project: Project, asked: Mapping[str, Any]) -> str:
    # Sorted, so that the page and the worker have one key for the same question.
    text = json.dumps(asked, sort_keys=True)
    return f"cheapest:{project.pk}:{hashlib.sha256(text.encode()).hexdigest()}"
