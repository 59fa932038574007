"""How many labels a study needs, from what you expect or from what a first run has shown."""

from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from functools import lru_cache

from annotation.results.data.figures import Json
from annotation.results.report.report import Report, alone
from judging.core.errors import UserError
from judging.core.formatting import count, decimals, number_of, percent, usd
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.review.cost import HumanRate, human_usd
from judging.methods.sample_sizes import (
    Size,
    size_for_accuracy,
    size_for_better,
    size_for_certificate,
    size_for_kappa,
    size_for_win_rate,
)

MOST_EXAMPLES = 10_000_000
MOST_VOTES = 99
_HALF = 0.5
# Shares that are given are compared with these limits; what a method needs besides, it says itself.
_LIMITS: dict[str, tuple[float, float]] = {
    "win_rate": (0, 1), "ties": (0, 0.99), "accuracy": (0, 1), "kappa": (0, 0.999),
    "wrong": (0, 0.99), "within": (0.002, 0.5), "power": (0.5, 0.999), "epsilon": (0.001, 0.5),
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class Study:
    """What is expected of a study, and what it is to show; shares lie between 0 and 1.

    win_rate, ties: by people. accuracy, kappa: of the judge's labels against people's. wrong: share
    of the judge's labels that people would contradict where nobody reviews.
    within: half the width of intervals. power: the probability of showing what is true.
    epsilon: the largest share of wrong labels to certify. examples: N, all judged; None: many.
    """

    win_rate: float = 0.6
    ties: float = 0.1
    accuracy: float = 0.8
    kappa: float = 0.6
    wrong: float = 0.05
    within: float = 0.05
    power: float = 0.8
    epsilon: float = 0.1
    examples: int | None = None
    votes: int = 3
    rate: HumanRate = field(default_factory=HumanRate)

    def problems(self) -> list[tuple[str, str]]:
        """Return every value that is no study, with its name."""
        wrong = [
            (name, f"Enter a share from {percent(low, 1)} to {percent(high, 1)}.")
            for name, (low, high) in _LIMITS.items()
            if not low <= getattr(self, name) <= high
        ]
        if self.examples is not None and not 1 <= self.examples <= MOST_EXAMPLES:
            wrong.append(("examples", f"Enter a number from 1 to {count(MOST_EXAMPLES)}."))
        if not 1 <= self.votes <= MOST_VOTES:
            wrong.append(("votes", f"Enter a number from 1 to {MOST_VOTES}."))
        return wrong


@dataclass(frozen=True)
class Need:
    """A goal and what it takes.

    goal: its name. question: what it answers. labels: examples that people label, None if no number
    is enough, with the `reason`. reached: the mean half-width of the interval, or the probability,
    with these labels. cautious: labels if the values that a pilot measured are at the worse end
    of their intervals; None without a pilot, or if no number is enough then.
    """

    goal: str
    question: str
    labels: int | None
    reason: str
    reached: float | None
    reaches: str
    cautious: int | None
    votes: int | None
    hours: Decimal | None
    usd: Decimal | None


@dataclass(frozen=True)
class Pilot:
    """What a first run measured. study: its values. worse: their ends that need more labels.

    measured: names of the values that come from the run; the others are the defaults.
    """

    study: Study
    worse: Study
    measured: tuple[str, ...]

    def is_of(self, study: Study) -> bool:
        """Return True if the study is the pilot's own, whatever a vote costs."""
        return replace(study, rate=self.study.rate) == self.study


GOALS = ("better", "win_rate", "accuracy", "kappa", "certificate")


@lru_cache(maxsize=256)
def needs(study: Study, pilot: Pilot | None = None) -> tuple[Need, ...]:
    """Return what each goal takes. Seconds of work at most, and kept for the same study.

    Args:
        pilot: Where the study started from. Only for the pilot's own values it is known how far
            they may be wrong, so another study has nothing `cautious`.

    Raises:
        UserError: A value is out of its limits.
    """
    for name, why in study.problems():
        raise UserError(f"{name}: {why}")
    # The ends of intervals belong to the values that were measured, and to no others.
    worse = pilot.worse if pilot and pilot.is_of(study) else None
    return tuple(_need(goal, study, worse) for goal in GOALS)


def _need(goal: str, study: Study, worse: Study | None) -> Need:
    outcome, question, reaches = _size(goal, study)
    cautious = _size(goal, worse)[0] if worse else None
    size = None if isinstance(outcome, Undefined) else outcome
    votes = size and size.n * study.votes
    return Need(
        goal, question, size.n if size else None,
        outcome.reason if isinstance(outcome, Undefined) else "", size.reached if size else None,
        reaches, cautious.n if isinstance(cautious, Size) else None, votes,
        votes * study.rate.minutes / 60 if votes else None,
        human_usd(votes, study.rate) if votes else None,
    )  # fmt: skip


def _size(goal: str, study: Study) -> tuple[Size | Undefined, str, str]:
    """Return the size, the question that it answers, and what `reached` is called."""
    half, points = "mean half-width", f"± {100 * study.within:.3g} points"
    if goal == "better":
        question = f"Which model is better, if model 1 wins {percent(study.win_rate, 1)}"
        size = size_for_better(study.win_rate, study.power, study.ties)
        return _of(study, size), question, "probability to tell"
    if goal == "win_rate":
        return _win_rate(study), f"People's win rate, {points}", half
    if goal == "accuracy":
        question = f"The judge's accuracy of about {percent(study.accuracy, 1)}, {points}"
        return _of(study, size_for_accuracy(study.accuracy, study.within)), question, half
    if goal == "kappa":
        kappa, within = decimals(study.kappa, 2), decimals(study.within, 3)
        question = f"The judge's kappa of about {kappa}, ± {within}"
        return _of(study, size_for_kappa(study.kappa, study.within, study.ties)), question, half
    size = size_for_certificate(study.epsilon, study.wrong, study.power, study.examples)
    question = (
        f"A certificate that at most {percent(study.epsilon, 1)} of the judge's labels are wrong, "
        f"if {percent(study.wrong, 1)} are"
    )
    return size, question, "probability of the certificate"


def _of(study: Study, size: Size | Undefined) -> Size | Undefined:
    """Return the size, or an Undefined if the study has too few examples for it."""
    if isinstance(size, Undefined) or study.examples is None or size.n <= study.examples:
        return size
    needed = number_of(size.n, "labelled example")
    return Undefined(f"{needed} are needed, and there are {count(study.examples)}")


def _win_rate(study: Study) -> Size | Undefined:
    if study.examples is None:
        return Undefined("enter how many examples the judge labels")
    return size_for_win_rate(study.within, study.examples, study.accuracy)


def answer(goals: tuple[Need, ...], study: Study) -> str:
    """Return the sentence with which the page begins."""
    first = goals[0]
    if first.labels is None or first.usd is None:
        return f"No number of labels shows which model is better: {first.reason}."
    return (
        f"To show which model is better, people label about {number_of(first.labels, 'pair')} "
        f"with {number_of(study.votes, 'vote')} each, for {usd(first.usd)}."
    )


def pilot_of(report: Report, study: Study) -> Pilot:
    """Put a run's figures in the place of what `study` assumes, where the run has them."""
    right, kappa = alone(report), _kappa(report)
    # An Undefined is false, so that people's own win rate takes its place.
    people = report.win_rate.judge_and_people or report.win_rate.people
    values: dict[str, float] = {}
    worse: dict[str, float] = {}
    for name, figure, towards in (
        ("win_rate", people, _HALF),
        ("accuracy", right, _HALF),
        ("kappa", kappa, 0.0),
    ):
        if isinstance(figure, Estimate):
            values[name] = _within_limits(name, figure.value)
            worse[name] = _within_limits(name, _end(figure, towards))
    if "accuracy" in values and isinstance(right, Estimate):
        # Where nobody reviews, the judge's error is the best guess of how many labels are wrong.
        values["wrong"] = _within_limits("wrong", 1 - right.value)
        low = right.value if right.low is None else right.low
        worse["wrong"] = _within_limits("wrong", 1 - low)
    labels = report.dataset.labels
    if not isinstance(labels, Undefined) and (total := sum(labels.values())):
        # The share of ties has no interval, so its worse end is the value itself.
        values["ties"] = worse["ties"] = _within_limits("ties", labels.get("tie", 0) / total)
    return Pilot(
        replace(study, **values),  # type: ignore[arg-type]
        replace(study, **worse),  # type: ignore[arg-type]
        tuple(values),
    )


def _kappa(report: Report) -> Figure | None:
    rows = (row for row in report.methods if row.run == report.run.name and not row.beta)
    return next((row.kappa for row in rows), None)


def _end(figure: Estimate, towards: float) -> float:
    """Return the end of the interval that is nearest to `towards`, or that itself inside."""
    if figure.low is None or figure.high is None:
        return figure.value
    # The nearer to `towards`, the more labels are needed.
    return min(max(towards, figure.low), figure.high)


def _within_limits(name: str, value: float) -> float:
    low, high = _LIMITS[name]
    # A study with a value outside its limits would be refused.
    return round(min(max(value, low), high), 4)


def as_document(study: Study, goals: tuple[Need, ...], pilot: Pilot | None) -> Json:
    """Return what `sizes --json` prints and the API answers with."""
    assumed = {name: value for name, value in vars(study).items() if name != "rate"}
    money = {"minutes_per_vote": study.rate.minutes, "wage_usd": study.rate.wage}
    measured = list(pilot.measured) if pilot else []
    return {"study": assumed | money, "measured": measured, "goals": list(map(asdict, goals))}
