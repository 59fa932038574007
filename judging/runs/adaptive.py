"""Adaptive runs: one sample of each order a round, until the label of an example is clear.

A pilot, drawn at random, is asked in full; on it the rules are calibrated by which the others may
stop. They are about the label that the judge would give after all its samples, not about the truth.
"""

import math
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from fractions import Fraction
from itertools import chain
from typing import Any

import numpy as np

from judging.json_fields import merge
from judging.methods.adaptive import (
    StoppingRule,
    calibrated_rules,
    label_is_settled,
    may_stop,
)
from judging.methods.estimates import Undefined
from judging.models.examples import Example
from judging.models.runs import Form, Method, Run
from judging.runs.plan import Agenda, Wanted
from judging.runs.samples import ExampleSamples, Pair, recorded
from judging.runs.wording import template_of

# A fifth of the examples, within these bounds: fewer than 59 can't show 95 % even when all agree.
FEWEST_PILOT, MOST_PILOT, PILOT_SHARE = 60, 400, 5
LIKERT_REACH = Fraction(6)
# Recorded scores come without their scale; FairEval's goes from 1 to 10.
FAIREVAL_REACH = Fraction(9)


@dataclass(frozen=True, slots=True)
class Adaptive:
    """When an example of this run needs no further sample."""

    k: int
    form: str
    orders: tuple[str, ...]
    reach: Fraction
    confidence: float
    pilot: frozenset[int]
    rules: tuple[StoppingRule, ...] = ()

    def rounds_wanted(self, example: ExampleSamples) -> int:
        """How many samples of each order the example shall have, by those that it has."""
        if example.example_id in self.pilot:
            return self.k
        orders = [
            {sample.slot: sample.pair(self.form) for sample in example.of(part)}
            for part in self.orders
        ]
        for rounds in range(1, self.k):
            if any(rounds - 1 not in order for order in orders):
                return rounds
            if self.is_clear([[order[slot] for slot in range(rounds)] for order in orders]):
                return rounds
        return self.k

    def is_clear(self, orders: Sequence[Sequence[Pair | None]]) -> bool:
        """Whether the label after these rounds can't change, or is known well enough."""
        rounds = len(orders[0])
        differences = [[Fraction(p[0]) - Fraction(p[1]) for p in order if p] for order in orders]
        if label_is_settled(differences, [self.k - rounds] * len(orders), self.reach):
            return True
        lead = sum(chain.from_iterable(differences), Fraction(0))
        return all(differences) and may_stop(self.rules, rounds, lead)


def adaptive_of(run: Run) -> Adaptive | None:
    """None for a run that asks everything."""
    kept = run.parameters.get("adaptive")
    if kept is None:
        return None
    rules = tuple(StoppingRule(**rule) for rule in kept.get("rules") or ())
    return described(run, kept["confidence"], kept.get("pilot", ()), rules)


def described(
    run: Run, confidence: float, pilot: Sequence[int], rules: tuple[StoppingRule, ...] = ()
) -> Adaptive:
    return Adaptive(run.k, run.form, run.orders, reach(run), confidence, frozenset(pilot), rules)


def reach(run: Run) -> Fraction:
    """The largest difference that one sample can make."""
    if run.form == Form.SCORE and run.method != Method.IMPORTED:
        scale = template_of(run).scale
        return Fraction(scale.high) - Fraction(scale.low)
    if run.form == Form.SCORE:
        return FAIREVAL_REACH
    return LIKERT_REACH if run.form == Form.LIKERT else Fraction(1)


@dataclass(frozen=True, slots=True)
class AdaptiveAgenda(Agenda):
    """One round more of each example that is not clear yet, but of the pilot all k at once.

    `most`: until the pilot is complete the others get one round, whenever the run is stopped
    meanwhile.
    """

    run: Run
    adaptive: Adaptive
    most: int
    open_ended: bool = True

    def wanted(self, examples: Sequence[Example]) -> Wanted:
        return {
            example.example_id: dict.fromkeys(self.run.parts, self.rounds(example))
            for example in recorded(self.run, [example.pk for example in examples])
        }

    def rounds(self, example: ExampleSamples) -> int:
        rounds = self.adaptive.rounds_wanted(example)
        return rounds if example.example_id in self.adaptive.pilot else min(self.most, rounds)


def adaptive_agenda(run: Run) -> AdaptiveAgenda:
    """Before each pass over the examples: draw the pilot, then calibrate on it, each once."""
    adaptive = adaptive_of(run)
    if not adaptive.pilot:
        keep(run, pilot=draw_pilot(run))
    elif "rules" not in run.parameters["adaptive"]:
        calibrate(run, adaptive)
    return AdaptiveAgenda(
        run, adaptive_of(run), run.k if "rules" in run.parameters["adaptive"] else 1
    )


def keep(run: Run, **values: Any) -> None:
    merge(run, "parameters", lambda kept: {**kept, "adaptive": kept["adaptive"] | values})


def draw_pilot(run: Run) -> list[int]:
    ids = list(run.project.examples.judged().order_by("number", "pk").values_list("pk", flat=True))
    return sorted(random.Random(run.seed).sample(ids, pilot_size(len(ids))))


def pilot_size(examples: int) -> int:
    return min(examples, MOST_PILOT, max(FEWEST_PILOT, examples // PILOT_SHARE))


def calibrate(run: Run, adaptive: Adaptive) -> None:
    """Rules by the pilot, once it has been asked in full."""
    pilot = list(recorded(run, sorted(adaptive.pilot)))
    if any(len(e.of(part)) < run.k for e in pilot for part in run.orders):
        return
    rules = rules_from(adaptive, pilot)
    if isinstance(rules, Undefined):
        keep(run, rules=[], why=rules.reason)
    else:
        keep(run, rules=[asdict(rule) for rule in rules])


def rules_from(
    adaptive: Adaptive, pilot: Sequence[ExampleSamples]
) -> list[StoppingRule] | Undefined:
    """Exact: the differences are brought to a common denominator first."""
    pairs = [[e.pairs(part, adaptive.form) for part in adaptive.orders] for e in pilot]
    valid = np.array([[[p is not None for p in order] for order in e] for e in pairs])
    exact = [[[difference(p) for p in order] for order in e] for e in pairs]
    scale = math.lcm(*(d.denominator for d in chain.from_iterable(chain.from_iterable(exact))))
    whole = np.array([[[int(d * scale) for d in order] for order in e] for e in exact])
    rules = calibrated_rules(whole, valid, adaptive.confidence)
    if isinstance(rules, Undefined):
        return rules
    return [replace(rule, lead=rule.lead / scale) for rule in rules]


def difference(pair: Pair | None) -> Fraction:
    return Fraction(0) if pair is None else Fraction(pair[0]) - Fraction(pair[1])
