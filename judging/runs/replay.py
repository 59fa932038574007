"""What an adaptive run saves, and whether it gives the same labels: replayed on stored samples."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from judging.errors import UserError
from judging.methods.adaptive import StoppingRule, agreement_with_full_run
from judging.methods.estimates import Figure, Undefined
from judging.methods.outcomes import Label
from judging.methods.verdicts import verdict
from judging.models.runs import Method, Run
from judging.runs.adaptive import Adaptive, adaptive_of, described, pilot_size, rules_from
from judging.runs.samples import ExampleSamples, samples_of

SIGNS = {Label.WIN: 1, Label.TIE: 0, Label.LOSE: -1, None: 2}


@dataclass(frozen=True, slots=True)
class Replay:
    """Samples of the full run and of the adaptive one; labels compared outside the pilot.

    The pilot is asked in full, so its labels agree by themselves: it counts among the samples only.
    """

    samples: int
    asked: int
    n_pilot: int
    rules: tuple[StoppingRule, ...]
    agreement: Figure

    @property
    def saved(self) -> float:
        """Share of the full run's samples that were not needed."""
        return 1 - self.asked / self.samples if self.samples else 0.0

    def __str__(self) -> str:
        share = "not known"
        if not isinstance(self.agreement, Undefined):
            low, high = self.agreement.low or 0.0, self.agreement.high or 0.0
            share = f"{self.agreement.value:.1%} (95 % interval {low:.1%} to {high:.1%})"
        return (
            f"Adaptive: {self.asked} of {self.samples} samples, {self.saved:.1%} saved. Labels as "
            f"in the full run, outside the pilot of {self.n_pilot}: {share}. "
            f"{len(self.rules)} calibrated rules."
        )


def replay(
    adaptive: Adaptive, examples: Sequence[ExampleSamples], calibrated: bool = False
) -> Replay:
    """Stop on these fully asked examples as the run would have. `calibrated`: by its own rules."""
    if not calibrated:
        pilot = [e for e in examples if e.example_id in adaptive.pilot]
        rules = rules_from(adaptive, pilot) if pilot else Undefined("there is no pilot")
        adaptive = replace(adaptive, rules=() if isinstance(rules, Undefined) else tuple(rules))
    rounds = {e.example_id: adaptive.rounds_wanted(e) for e in examples}
    others = [e for e in examples if e.example_id not in adaptive.pilot]
    stopped = np.array([sign(adaptive, e, rounds[e.example_id]) for e in others])
    full = np.array([sign(adaptive, e, adaptive.k) for e in others])
    orders = len(adaptive.orders)
    return Replay(
        samples=len(examples) * orders * adaptive.k,
        asked=sum(rounds.values()) * orders,
        n_pilot=len(examples) - len(others),
        rules=adaptive.rules,
        agreement=agreement_with_full_run(stopped, full) if others else Undefined("all are pilot"),
    )


def sign(adaptive: Adaptive, example: ExampleSamples, rounds: int) -> int:
    original, swapped = (example.pairs(part, adaptive.form) for part in adaptive.orders)
    return SIGNS[verdict(original[:rounds], swapped[:rounds], k=rounds).label]


def replay_run(run: Run, confidence: float) -> Replay:
    """A stored run that asked everything, as if it had been adaptive. No call is made."""
    in_rounds = run.method in (Method.MEC_BPC, Method.IMPORTED) and not run.stages
    if not in_rounds or len(run.orders) < 2 or run.k < 2:
        raise UserError(
            f"Run {run.name} can't be replayed: it has no several rounds in two orders."
        )
    if adaptive_of(run) is not None:
        raise UserError(f"Run {run.name} was adaptive itself: only a full run can be replayed.")
    full = [
        example
        for example in samples_of(run)
        if all(len(example.of(part)) >= run.k for part in run.orders)
    ]
    size = pilot_size(len(full))
    pilot = random.Random(run.seed).sample([e.example_id for e in full], size)
    return replay(described(run, confidence, pilot), full)
