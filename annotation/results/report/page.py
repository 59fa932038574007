"""The honest answer in a few sentences: who is better, how far the judge can be trusted, and why.

Read from the report alone, for the head of the page, of the HTML file, and of the printed lines.
"""

from collections.abc import Iterator
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

from annotation.results.data.figures import Json
from annotation.results.report.report import SECTIONS, Report
from annotation.results.sections.review import ReviewCurves
from annotation.results.sections.trust import SCORES
from judging.core.formatting import NARROW_SPACE, count, decimals, interval, percent, set_apart
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.runs.models import Run

EVEN = 0.5


@dataclass(frozen=True)
class Sentence:
    """section: where the page shows what it is about. warns: it speaks against trust."""

    text: str
    section: str
    warns: bool = False


def in_short(report: Report) -> list[Sentence]:
    return [
        *_better(report),
        *_accuracy(report),
        *_unblinded(report),
        *_unchecked(report),
        *_position(report),
        *_ranking(report),
    ]


def _better(report: Report) -> Iterator[Sentence]:
    """About people where that can be said; what the judge says is no answer by itself."""
    if len(report.models.pairwise) > 1:
        yield from _first_of_many(report)
        return
    rate, names = report.win_rate, _names(report)
    found = _shortest(rate.judge_and_people, rate.people)
    if found is not None:
        whose = "the known labels" if report.coverage.basis == "gold" else "people"
        yield Sentence(_verdict(found, names, whose), "win-rate")
        return
    people = rate.people
    # All examples of one question have a win rate, and no interval to judge it by.
    reason = people.reason if isinstance(people, Undefined) else people.note
    if isinstance(rate.judge, Undefined):
        yield Sentence(f"Which model is better isn't known yet ({reason}).", "win-rate", warns=True)
        return
    yield Sentence(
        f"Which model people prefer isn't known yet ({reason}). The judge alone gives "
        f"{names[0] if names else 'response 1'} a win rate of {share(rate.judge)}, but its bias is "
        "unknown.",
        "win-rate",
        warns=True,
    )


def _first_of_many(report: Report) -> Iterator[Sentence]:
    """Responses 1 and 2 are by different models from example to example."""
    found = report.models
    if not found.ranking:
        yield Sentence(f"The models can't be ranked: {found.reason}.", "models", warns=True)
        return
    first, second = found.ranking[:2]
    low, high = first.strength.low, second.strength.high
    apart = None not in (low, high) and low > high
    by, more, checked = _resting_on(report)
    others = [one.model for one in found.apart]
    if others:
        more += f"; not yet comparable: {', '.join(map(set_apart, others))}"
    yield Sentence(
        f"Of {len(found.ranking)} models, {set_apart(first.model)} ranks first by {by}, "
        f"{'clearly' if apart else 'but not clearly'} ahead of {set_apart(second.model)}{more}.",
        "models",
        warns=not checked,
    )


def _resting_on(report: Report) -> tuple[str, str, bool]:
    """Whose the final labels are, what else is to be said of them, and whether people gave all."""
    n = report.coverage.examples
    done = (row.m + row.audited for row in report.methods if row.done)
    m = next(done, 0)
    if m and m == n:
        return "people's labels", "", True
    if m:
        return "the final labels", f"; people gave {m} of {n}, the judge the others", False
    if report.coverage.basis == "round":
        return "the judge's labels", ", which nobody has checked", False
    return "the judge's labels", "; people's labels are not part of this ranking", False


def _verdict(found: Estimate, names: tuple[str, str] | None, whose: str) -> str:
    first, second = names or ("Response 1", "Response 2")
    better = "No clear winner"
    if found.low > EVEN:
        better = f"{first} is better than {names[1] if names else 'response 2'}"
    elif found.high < EVEN:
        better = f"{second} is better than {names[0] if names else 'response 1'}"
    whom = names[0] if names else "response 1"
    return f"{better}: {whose} give {whom} a win rate of {share(found)}."


def _accuracy(report: Report) -> Iterator[Sentence]:
    accuracy = report.ties.half.accuracy
    if isinstance(accuracy, Undefined):
        return
    own = (row.kappa for row in report.methods if row.run == report.run.name and not row.beta)
    kappa = next(own, None)
    by_kappa = f" Cohen's kappa is {short(kappa)}." if isinstance(kappa, Estimate) else ""
    against = {
        "votes": "people's majority",
        "gold": "the known labels",
        "round": "people, weighted to represent all examples,",
    }[report.coverage.basis]
    yield Sentence(
        f"Without review, the judge agrees with {against} on {share(accuracy, 'pairs')}.{by_kappa}",
        "methods",
    )


def _unblinded(report: Report) -> Iterator[Sentence]:
    unblinded = report.coverage.unblinded
    if unblinded.sentence:
        yield Sentence(unblinded.sentence, "people", warns=bool(unblinded.counted))


def _unchecked(report: Report) -> Iterator[Sentence]:
    found = report.certificate
    if found.issued:
        yield Sentence(
            f"Certified: at most {percent(found.epsilon)} of the {found.n_from_judge} labels "
            f"with {SCORES[found.score]} of at most {decimals(found.threshold)} are wrong, "
            f"with confidence {percent(found.confidence)}.",
            "trust",
        )
    elif report.coverage.basis == "round":
        yield Sentence(
            f"There is no certificate for the unreviewed labels ({found.reason}).",
            "trust",
            warns=True,
        )


def _position(report: Report) -> Iterator[Sentence]:
    conflict, first = report.position.conflict_rate, report.position.first_position_rate
    if isinstance(conflict, Undefined):
        return
    lean = ""
    if (
        isinstance(first, Estimate)
        and first.low is not None
        and not first.low <= EVEN <= first.high
    ):
        favoured = max(("first", first.value), ("second", 1 - first.value), key=lambda one: one[1])
        lean = (
            f" Position bias: the {favoured[0]} response won {percent(favoured[1])} of the "
            f"{count(first.n)} verdicts that flipped when swapped."
        )
    yield Sentence(
        f"Swapping the two responses changes the verdict on {share(conflict, 'pairs')}.{lean}",
        "position",
        warns=bool(lean),
    )


def _ranking(report: Report) -> Iterator[Sentence]:
    area = report.hitlc.auroc
    if isinstance(area, Undefined):
        return
    if not report.hitlc.bpde_varies:
        yield Sentence(
            "BPDE is the same for every example that this judge labelled, so it can't rank them. "
            "More samples, or both orders, would show where the judge is unsure.",
            "review",
            warns=True,
        )
    elif report.hitlc.no_better_than_chance:
        yield Sentence(
            f"BPDE finds this judge's errors no better than chance (AUROC {short(area)}). "
            "Reviewing by rank gains no more than reviewing at random.",
            "review",
            warns=True,
        )
    elif report.hitlc.better_than_chance:
        yield Sentence(
            f"BPDE finds the judge's errors better than chance (AUROC {short(area)}).", "review"
        )
    else:
        yield Sentence(
            "There is not enough data to tell whether BPDE finds the judge's errors better than "
            f"chance (AUROC {short(area)}).",
            "review",
        )


def _names(report: Report) -> tuple[str, str] | None:
    """Where the project compares the same two models throughout, in the same places."""
    pairs = report.models.pairwise
    if not report.models.same_places or len(pairs) != 1:
        return None
    return set_apart(pairs[0].model_1), set_apart(pairs[0].model_2)


def _shortest(*figures: Figure) -> Estimate | None:
    """Both answer about people; the narrower one is the better estimate."""
    there = [one for one in figures if isinstance(one, Estimate) and one.low is not None]
    return min(there, key=lambda one: one.high - one.low, default=None)


def short(figure: Estimate) -> str:
    """`.732 [.69–.77]`: a figure within a sentence."""
    text = decimals(figure.value)
    if figure.low is None or figure.high is None:
        return text
    return f"{text} [{interval(figure.low, figure.high)}]"


def share(figure: Estimate, of: str = "") -> str:
    """`58 % of pairs (40–77 %, n = 60)`: a share within a sentence."""
    digits = int(figure.n >= 1000)
    known = figure.low is not None and figure.high is not None
    limits = f"{interval(100 * figure.low, 100 * figure.high, digits)}{NARROW_SPACE}%, "
    return (
        f"{percent(figure.value, digits)}{f' of {of}' if of else ''} "
        f"({limits if known else ''}n = {count(figure.n)})"
    )


_BETAS_SHOWN = (0, 5, 10, 20, 30, 50, 100)
_CURVES = ("bpde", "random", "oracle", "one_order", "margin", "independent")
_HEADINGS = {
    "methods": "Methods",
    "position": "Position",
    "portia": "PORTIA",
    "calibration": "Calibration",
    "ablation": "Other judge settings",
    "review": "Review",
    "length": "Length",
    "judge_card": "Judge biases",
    "win-rate": "Who is better?",
    "trust": "Trust",
    "routing": "Routing",
    "models": "Models",
    "people": "People",
    "pace": "Pace",
    "categories": "Categories",
    "cost": "Cost",
}
_LINES = ("unreviewed_accuracy", "errors_found", "errors_expected", "errors_p", "gain")


def page_context(run: Run, report: Report) -> Json:
    reason = no_people(report)
    shown = said_once(report, reason) if reason else report
    return {
        "run": run,
        "report": shown,
        "no_people": reason,
        "in_short": in_short(report),
        "contents": contents(report),
        "templates": [section.template for section in SECTIONS],
        "betas": by_beta(shown.hitlc),
        "costs": report.cost,
    }


def no_people(report: Report) -> str:
    """Why nothing is compared with people yet; empty where something is."""
    known = report.coverage.known
    return known.reason if isinstance(known, Undefined) else ""


@dataclass(frozen=True)
class SaidAbove(Undefined):
    """Its reason is shown once at the head of the page, so its cell shows only a dash."""

    said: bool = True


def said_once(part: Any, reason: str) -> Any:
    """The same part of the report, with a mark on every figure that lacks its value for this
    reason."""
    if isinstance(part, Undefined):
        return SaidAbove(reason) if part.reason == reason else part
    if isinstance(part, dict):
        return {key: said_once(value, reason) for key, value in part.items()}
    if isinstance(part, list | tuple):
        return [said_once(value, reason) for value in part]
    if not is_dataclass(part) or isinstance(part, Estimate):
        return part
    values = {one.name: said_once(getattr(part, one.name), reason) for one in fields(part)}
    return replace(part, **values)


def contents(report: Report) -> dict[str, str]:
    """The short name of each section that the page shows, by its place on the page."""
    run, left_out = report.run, set()
    if isinstance(report.portia, Undefined) and not run.portia:
        left_out.add("portia")
    if isinstance(report.calibration, Undefined) and run.form != "choice":
        left_out.add("calibration")
    return {place: name for place, name in _HEADINGS.items() if place not in left_out}


def by_beta(curves: ReviewCurves) -> list[Json]:
    """The report's lists, turned into one row a beta."""
    return [
        {"beta": beta} | {name: getattr(curves, name)[place] for name in (*_CURVES, *_LINES)}
        for place, beta in enumerate(curves.beta)
        if beta in _BETAS_SHOWN
    ]
