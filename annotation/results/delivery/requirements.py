"""What a gate may require of a run: figures by name, each at any confidence.

The figures are those of the report, by the same functions. Only their confidence may differ, since
looks share one error (`judging.methods.intervals.looks`).
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from annotation.results.sections.analysis import Analysis
from annotation.results.sections.people import voters_agree
from annotation.results.sections.review import LabelAgreement, agreement_after, label_agreement
from annotation.results.sections.win_rates import people_prefer
from judging.core.errors import Misuse
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, clopper_pearson, wilson

Measure = Callable[[Analysis, float], Figure]


def _alone(of: Analysis, confidence: float) -> LabelAgreement:
    compared = of.sheet.comparison(of.sheet.judge, of.sheet.judged)
    return label_agreement(compared, of.rng, confidence=confidence)


def _final_accuracy(of: Analysis, confidence: float) -> Figure:
    if not of.reviewed and not of.audited:
        return Undefined("nothing was reviewed for this run, so the final labels are the judge's")
    return agreement_after(of.sheet, of.rng, confidence=confidence).accuracy_over_all


def _coverage(of: Analysis, confidence: float) -> Figure:
    n = len(of.sheet)
    return wilson(int(of.sheet.judged.sum()), n, confidence) if n else Undefined("no examples")


def _unreviewed_errors(of: Analysis, confidence: float) -> Figure:
    """Share of wrong labels among those that nobody reviewed, from the audit."""
    unchecked = of.unchecked
    if isinstance(unchecked, Undefined):
        return unchecked
    right = clopper_pearson(unchecked.value * unchecked.n, unchecked.n, confidence)
    assert isinstance(right, Estimate)
    assert right.low is not None
    assert right.high is not None
    # Errors are what is left of the right labels, so both limits change places.
    return Estimate(1 - right.value, right.n, 1 - right.high, 1 - right.low)


# By name: the figure, and what it means.
MEASURES: dict[str, tuple[Measure, str]] = {
    "accuracy": (lambda of, level: _alone(of, level).accuracy, "accuracy of the judge's labels"),
    "final_accuracy": (_final_accuracy, "accuracy of the final labels"),
    "kappa": (lambda of, level: _alone(of, level).kappa, "Cohen's kappa of judge and people"),
    "agreement": (
        lambda of, level: voters_agree(of.sheet, of.rng, level).agreement,
        "how often two people agree",
    ),
    "alpha": (
        lambda of, level: voters_agree(of.sheet, of.rng, level).krippendorff_alpha,
        "Krippendorff's alpha of people",
    ),
    "coverage": (_coverage, "share of examples that the judge labelled"),
    "certificate": (_unreviewed_errors, "share of wrong labels that the certificate allows"),
}
WIN_RATE = "win_rate"
CERTIFICATE = "certificate"
# Figures that more votes can't narrow.
OF_THE_JUDGE = ("coverage",)
# A tiny exponent would make a requirement a text of a million digits.
MOST_DECIMALS = 12
LOWEST = {"kappa": -1, "alpha": -1}
# Possessive quantifiers, so that no text makes the pattern try every way to divide it.
_FORM = re.compile(r"\s*+(\w++)\s*+(?:\((.*)\)\s*+)?(>=|<=)\s*+(\S++)\s*+", re.DOTALL)


def possible() -> str:
    """Return what may be required, in words."""
    return ", ".join((*MEASURES, f"{WIN_RATE}(MODEL)"))


@dataclass(frozen=True)
class Requirement:
    """A figure and its bound. models: one, or two that are compared, for a win rate."""

    name: str
    models: tuple[str, ...]
    at_least: bool
    bound: Decimal

    def __str__(self) -> str:
        of = f"({', '.join(self.models)})" if self.models else ""
        return f"{self.name}{of}{'>=' if self.at_least else '<='}{self.bound.normalize():f}"

    @property
    def meaning(self) -> str:
        if self.name != WIN_RATE:
            return MEASURES[self.name][1]
        model, *others = self.models
        return f"win rate of {model}" + "".join(f" against {other}" for other in others)

    def figure(self, of: Analysis, confidence: float) -> Figure:
        """Return the figure with its interval at this confidence."""
        if self.name == WIN_RATE:
            return people_prefer(of.sheet, *pair_of(of, self.models), confidence)
        return MEASURES[self.name][0](of, confidence)


def parse(text: str) -> Requirement:
    """Read `accuracy>=0.85`. Raises Misuse that names what is possible."""
    match = _FORM.fullmatch(text)
    known = match and (match[1] in MEASURES or match[1] == WIN_RATE)
    if not match or not known:
        raise Misuse(
            f"“{text}” is no requirement. Write a figure, >= or <=, and a bound, such as "
            f"accuracy>=0.85. The figures are: {possible()}. Nothing was decided."
        )
    name, inside, sign, number = match.groups()
    models = tuple(model.strip() for model in inside.split(",")) if inside else ()
    if (name == WIN_RATE) != bool(inside and all(models)) or len(models) > 2:
        raise Misuse(
            f"“{text}” is no requirement: {WIN_RATE} needs a model, as in {WIN_RATE}(MODEL) or "
            f"{WIN_RATE}(MODEL, OTHER), and other figures take none. Nothing was decided."
        )
    if name == CERTIFICATE and sign == ">=":
        raise Misuse(f"“{text}”: a certificate bounds errors from above, so write {CERTIFICATE}<=…")
    return Requirement(name, models, sign == ">=", _bound(text, name, number))


def _bound(text: str, name: str, number: str) -> Decimal:
    try:
        value = Decimal(number.removesuffix("%"))
    except InvalidOperation:
        raise Misuse(f"“{text}”: {number} is not a number. Nothing was decided.") from None
    if not value.is_finite():
        raise Misuse(f"“{text}”: {number} is not a number. Nothing was decided.")
    if int(value.as_tuple().exponent) < -MOST_DECIMALS:
        raise Misuse(
            f"“{text}”: a bound has at most {MOST_DECIMALS} decimals. Nothing was decided."
        )
    value = value / 100 if number.endswith("%") else value
    lowest = LOWEST.get(name, 0)
    if not lowest <= value <= 1:
        raise Misuse(
            f"“{text}”: {name} lies between {lowest} and 1, so its bound does too; write 0.85 or "
            "85%. Nothing was decided."
        )
    return value


def pair_of(of: Analysis, models: tuple[str, ...]) -> tuple[str, str]:
    """Return the two models of a win rate. Raises Misuse if they name none, or several pairs."""
    sheet = of.sheet
    names = [name for name in sheet.models if name]
    for model in models:
        if model not in names:
            raise Misuse(
                f"No example has a response by {model}. The project's models are: "
                f"{', '.join(names) or 'not named'}. Nothing was decided."
            )
    pairs = {
        frozenset((sheet.models[first], sheet.models[other]))
        for first, other in {*zip(sheet.model_1.tolist(), sheet.model_2.tolist(), strict=True)}
    }
    others = sorted({name for pair in pairs if models[0] in pair for name in pair - {models[0]}})
    if len(models) == 2:
        if models[1] not in others:
            raise Misuse(f"No example compares {models[0]} with {models[1]}. Nothing was decided.")
        return models[0], models[1]
    if len(others) != 1:
        raise Misuse(
            f"{models[0]} is compared with {', '.join(others) or 'no other model'}. Name both "
            f"models: {WIN_RATE}({models[0]}, OTHER). Nothing was decided."
        )
    return models[0], others[0]
