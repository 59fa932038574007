"""Which β a target or a budget needs, in a sentence, and what that rests on."""

from dataclasses import dataclass
from decimal import Decimal

import numpy as np

from annotation.results.expecting import beta_for
from annotation.results.figures import Json
from annotation.results.planning import Plan
from judging.figures import count, decimals, interval, number_of, percent, usd
from judging.methods.certificate import audit_needed

EVEN = 0.5


@dataclass(frozen=True)
class Advice:
    """beta: what to take, None where no β can be told. warns: it speaks against a review."""

    sentence: str
    rests_on: str
    beta: float | None = None
    warns: bool = False


def advice(
    report: Json | None, plan: Plan, target: Decimal | None, epsilon: float, budget: Decimal | None
) -> Advice:
    """The most binding first: no labels, a useless ranking, a target, a budget, the best gain."""
    if report is None or not report["coverage"]["judged"]["value"]:
        return _without_judge(plan)
    expected = report["expected"]
    if not expected["beta"]:
        return _without_labels(expected["reason"], plan, epsilon)
    labels = f"{count(expected['known'])} known labels"
    if target is not None:
        return _for_target(expected, plan, target, labels)
    area = report["hitlc"]["auroc"] if report else {}
    if report and report["hitlc"].get("no_better_than_chance") and not plan.learn:
        learned = report["routing"]
        instead = "spend on an audit, let the round learn where it errs, or try another judge."
        if learned.get("used"):
            reached = decimals(learned["auroc"]["learned"]["value"])
            instead = f"let the round learn where it errs (AUROC {reached} on these labels)."
        return Advice(
            "On this judge BPDE finds errors no better than chance (AUROC "
            f"{_with_interval(area)}). A review by rank buys what a random one would: {instead}",
            labels,
            warns=True,
        )
    if budget is not None:
        return Advice(
            f"{usd(budget)} buys β = {decimals(float(plan.beta), 1)} % beside this audit: "
            f"{count(plan.m)} examples by rank.",
            "the votes, minutes and wage above",
            float(plan.beta),
        )
    return _best_gain(expected, area, plan, labels)


def _with_interval(found: Json) -> str:
    if found.get("low") is None or found.get("high") is None:
        return decimals(found["value"])
    return f"{decimals(found['value'])} [{interval(found['low'], found['high'])}]"


def _without_judge(plan: Plan) -> Advice:
    """There is no label of a judge that a review could correct, or an audit certify."""
    return Advice(
        "No β can be recommended before a judge has labelled the examples. Let it judge first, or "
        "have people label everything.",
        f"a judge's labels of {number_of(plan.n_frame, 'example')}, which are not there yet",
        warns=True,
    )


def _without_labels(reason: str, plan: Plan, epsilon: float) -> Advice:
    needed = audit_needed(epsilon, 0)
    if needed > plan.n_frame - plan.m:
        return Advice(
            f"No β can be recommended for an accuracy yet ({reason}). To certify that at most "
            f"{percent(epsilon)} of the unchecked labels are wrong takes an audit of {needed}, "
            f"and only {count(plan.n_frame - plan.m)} would be unchecked: have people label "
            "everything.",
            f"the {number_of(plan.n_frame, 'example')} that there are",
            warns=True,
        )
    return Advice(
        f"No β can be recommended for an accuracy yet ({reason}). Begin with an audit of at least "
        f"{needed}: with none of them wrong it certifies that at most {percent(epsilon)} of the "
        "unchecked labels are.",
        "the exact bound for a large set, at 95 % confidence",
    )


def _for_target(expected: Json, plan: Plan, target: Decimal, labels: str) -> Advice:
    beta = beta_for(expected, float(target) / 100)
    rests_on = f"the lower band, which holds at every β at once, over {labels}"
    if beta is None:
        best = percent(max(expected["lower_band"]), 1)
        return Advice(
            f"No β is sure to reach {decimals(float(target), 1)} %: the lower band never exceeds "
            f"{best}. More known labels narrow it.",
            rests_on,
            warns=True,
        )
    return Advice(
        f"For {decimals(float(target), 1)} % take β = {beta:g} %: {usd(plan.usd_at(beta))} for "
        "people.",
        rests_on,
        beta,
    )


def _best_gain(expected: Json, area: Json, plan: Plan, labels: str) -> Advice:
    """Where the curve is farthest above a random choice: beyond, a random label corrects more.

    Where errors do not come first on the whole, what the curve gains somewhere is its noise.
    """
    if area["value"] is not None and area["value"] <= EVEN:
        return Advice(
            "No β is recommended: on these labels the first by rank hold no more errors than as "
            f"many taken at random (AUROC {_with_interval(area)}).",
            labels,
            warns=True,
        )
    beta, accuracy = (np.array(expected[name]) for name in ("beta", "accuracy"))
    chance = accuracy[0] + beta / 100 * (accuracy[-1] - accuracy[0])
    best = int((accuracy - chance).argmax())
    if not best or accuracy[best] - chance[best] < 1e-9:
        return Advice(
            "At no β does the review by rank put right more labels than a random one.",
            labels,
            warns=True,
        )
    return Advice(
        f"Take β = {beta[best]:g} %, {usd(plan.usd_at(float(beta[best])))} for people: there "
        "labels by rank correct most beyond as many taken at random.",
        f"the curve over {labels}; it says where to stop, not how accurate the labels become",
        float(beta[best]),
    )
