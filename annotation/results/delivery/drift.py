"""Two runs on the same examples: has the judge drifted, and where?

If labels by people are known, the question is whether run B is as accurate as run A. Else it is
whether the win rate of response 1 stays the same. Both are paired: an example that both runs label
alike says nothing for either.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import numpy as np
from django.contrib.auth.models import AbstractUser

from annotation.models import GateLook, Job, Round
from annotation.results.data.figures import to_json
from annotation.results.data.sheet import Sheet
from annotation.results.delivery.gate import (
    Decided,
    Decision,
    decide_gate,
    decision_of,
    open_needed,
    take_look,
)
from annotation.results.delivery.requirements import parse
from annotation.results.planner.cheapest import cheapest_asked
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.methods import Paired, paired_with
from annotation.results.sections.routing import escalation_asked
from judging.core.errors import Misuse, UserError
from judging.methods.arrays import Booleans, Floats
from judging.methods.intervals.bootstrap import coded, plus_two_mean, share
from judging.methods.intervals.estimates import (
    Estimate,
    Figure,
    Undefined,
    holm_of_tested,
    sign_flip,
)
from judging.methods.intervals.looks import Ruling, decide
from judging.projects.models import Project
from judging.runs.models import Run

MARGIN = Decimal("0.05")


@dataclass(frozen=True)
class CategoryChange:
    """changed: share of examples with another label. shift: of the win rate, B less A.

    p_holm: that the shift is not by chance, adjusted for the number of categories.
    """

    category: str
    n: int
    changed: Figure
    shift: Figure
    p_holm: float | None


@dataclass(frozen=True)
class Drift:
    """decision: with its three exits. by_category: what changed where."""

    decision: Decision
    both: int
    changed: Figure
    shift: Figure
    accuracy_difference: Figure
    p: float | None
    by_category: tuple[CategoryChange, ...]

    def document(self) -> dict[str, Any]:
        """What `compare --json` prints; docs/gate.md has the keys."""
        return self.decision.document() | {
            "judged_by_both": self.both,
            "changed": self.changed.as_json(),
            "shift": self.shift.as_json(),
            "accuracy_difference": self.accuracy_difference.as_json(),
            "p": self.p,
            "by_category": [
                {
                    "category": change.category,
                    "n": change.n,
                    "changed": change.changed.as_json(),
                    "shift": change.shift.as_json(),
                    "p_holm": change.p_holm,
                }
                for change in self.by_category
            ],
        }


def compare_runs(
    project: Project, before: Run, after: Run, margin: Decimal = MARGIN, *, restart: bool = False
) -> Drift:
    """Compare run B with run A. Raises UserError if no example was judged by both."""
    if before.pk == after.pk:
        raise Misuse(f"Run {before.name} can't be compared with itself. Name two runs.")
    if not 0 < margin < 1:
        raise Misuse("The margin lies between 0 and 1, such as 0.05. Nothing was decided.")
    frames = {run.frame for run in (before, after) if run.frame is not None}
    if len(frames) > 1:
        raise UserError(
            f"{before.name} and {after.name} judged two different parts of the examples. Nothing "
            "was decided. Compare runs over the same part, or over all examples."
        )
    # If one of them judged a part only, that part is what both can be compared on.
    common = next(iter(frames), None)
    old, new = Analysis(project, before, common), Analysis(project, after, common)
    both = old.sheet.judged & new.sheet.judged
    if not both.any():
        raise UserError(
            f"No example was judged by both {before.name} and {after.name}. Nothing was decided."
        )
    known = labels_known(old, new)
    what = f"drift of {'accuracy' if known else 'win_rate'} within "
    margin = _as_before(after, before, what, margin)

    def answers(confidence: float) -> list[Decided]:
        return [
            _accuracy_kept(old, new, margin, confidence)
            if known
            else _win_rate_kept(old, new, both, margin, confidence)
        ]

    look = take_look(after, before, [f"{what}{margin}"], answers, restart=restart)
    decision = decision_of(after, look, int(both.sum()), other=before)
    # Every figure has the interval of this look. Later looks have wider ones.
    level = look.confidence
    return Drift(
        decision=decision,
        both=int(both.sum()),
        changed=_changed(old.sheet, new.sheet, both, level),
        shift=_shift(old.sheet, new.sheet, both, level),
        accuracy_difference=accuracy_difference(old, new, level),
        p=_p(old, new, both),
        by_category=_by_category(old.sheet, new.sheet, both, new.rng, level),
    )


def _as_before(after: Run, before: Run, what: str, margin: Decimal) -> Decimal:
    """Return the margin as earlier looks spell it: 0.05 and 0.050 share one error."""
    looks = GateLook.objects.filter(run=after, other=before).order_by("pk")
    for (text,) in looks.values_list("requirements", flat=True):
        if text.startswith(what) and Decimal(text.removeprefix(what)) == margin:
            return Decimal(text.removeprefix(what))
    return margin


def labels_known(old: Analysis, new: Analysis) -> bool:
    return any(not isinstance(analysis.sheet.known, Undefined) for analysis in (old, new))


def paired_runs(old: Analysis, new: Analysis, confidence: float = 0.95) -> Paired:
    """Compare accuracy of B with that of A, on the examples with a known label that both judged.

    The sheet of B says which labels are known, so that a round of B alone counts. If B has none,
    those are known that people gave in rounds of A.
    """
    known = new.sheet.known
    if not isinstance(known, Undefined):
        return paired_with(new.sheet, known, old.sheet, new.rng, confidence)
    before = old.sheet.known
    if isinstance(before, Undefined):
        return Paired(before, None)
    return paired_with(old.sheet, before, new.sheet, new.rng, confidence).other_way


def accuracy_difference(old: Analysis, new: Analysis, confidence: float) -> Figure:
    """Return the accuracy of B less that of A, as `paired_runs` compares them."""
    return paired_runs(old, new, confidence).difference


def _accuracy_kept(old: Analysis, new: Analysis, margin: Decimal, confidence: float) -> Decided:
    figure = accuracy_difference(old, new, confidence)
    return Decided(
        f"accuracy of B - accuracy of A>={-margin}",
        "run B is not less accurate than run A by more than the margin",
        decide(figure, -float(margin), at_least=True),
        figure,
        -margin,
        True,
        "" if isinstance(figure, Estimate) else figure.reason,
    )


def _win_rate_kept(
    old: Analysis, new: Analysis, both: Booleans, margin: Decimal, confidence: float
) -> Decided:
    figure = _shift(old.sheet, new.sheet, both, confidence)
    return Decided(
        f"|win rate by B - win rate by A|<={margin}",
        "the win rate of response 1 is the same within the margin, without labels by people",
        _within(figure, float(margin)),
        figure,
        margin,
        False,
        "" if isinstance(figure, Estimate) else figure.reason,
    )


def _within(figure: Figure, margin: float) -> Ruling:
    """Decide by two one-sided tests, each at the error of this look. Both must pass."""
    above = decide(figure, -margin, at_least=True)
    below = decide(figure, margin, at_least=False)
    if Ruling.FAIL in (above, below):
        return Ruling.FAIL
    return Ruling.PASS if above is below is Ruling.PASS else Ruling.INCONCLUSIVE


def _points(old: Sheet, new: Sheet) -> Floats:
    """Win rate of response 1 by B less that by A, for each example."""
    return (new.judge.astype(np.float64) - old.judge) / 2


def _shift(old: Sheet, new: Sheet, rows: Booleans, confidence: float) -> Figure:
    return plus_two_mean(
        _points(old, new)[rows], (-1, 1), old.question[rows], confidence=confidence
    )


def _changed(old: Sheet, new: Sheet, rows: Booleans, confidence: float) -> Figure:
    differs = (old.judge != new.judge)[rows]
    return share(differs, old.question[rows], confidence=confidence)


def _p(old: Analysis, new: Analysis, both: Booleans) -> float | None:
    if labels_known(old, new):
        return paired_runs(old, new).p
    return _test(old.sheet, new.sheet, both, new.rng)


def _test(old: Sheet, new: Sheet, rows: Booleans, rng: np.random.Generator) -> float | None:
    groups, code = coded(old.question[rows])
    # Pairs of one question are not independent, so the test turns the signs of whole questions.
    if groups < 2:
        return None
    return sign_flip(np.bincount(code, 2 * _points(old, new)[rows], minlength=groups), rng)


def _by_category(
    old: Sheet, new: Sheet, both: Booleans, rng: np.random.Generator, confidence: float
) -> tuple[CategoryChange, ...]:
    changes, tested = [], []
    for category in dict.fromkeys(old.category[both].tolist()):
        rows = both & (old.category == category)
        tested.append(_test(old, new, rows, rng))
        changes.append(
            CategoryChange(
                category,
                int(rows.sum()),
                _changed(old, new, rows, confidence),
                _shift(old, new, rows, confidence),
                None,
            )
        )
    return tuple(
        replace(change, p_holm=p) for change, p in zip(changes, holm_of_tested(tested), strict=True)
    )


def decide_asked(
    project: Project,
    user: AbstractUser | None,
    kind: str,
    asked: Mapping[str, Any],
    keep: Callable[[dict[str, Any]], object],
) -> None:
    """Decide what a program asked.

    Args:
        asked: The fields of a request, which names runs by their numbers.
        keep: Gets the answer, in the transaction that opens a round, if one is opened.
    """
    runs = project.runs
    if kind == Job.Kind.COMPARE:
        before, after = runs.get(number=asked["before"]), runs.get(number=asked["after"])
        margin = Decimal(asked["margin"])
        keep(compare_runs(project, before, after, margin, restart=asked["restart"]).document())
        return
    if kind == Job.Kind.ESCALATE:
        row = [runs.get(number=number) for number in asked["runs"]]
        of = float(asked["agreement"]), float(1 - Decimal(asked["confidence"])), asked["score"]
        plan, labelled = escalation_asked(project, row, *of)
        answer = {"confidence": float(asked["confidence"]), "plan": to_json(plan)}
        keep(answer | {"labels": list(labelled) if asked["labels"] else None})
        return
    if kind == Job.Kind.CHEAPEST:
        cheapest_asked(project, user, asked, keep)
        return
    run, wanted = runs.get(number=asked["run"]), [parse(text) for text in asked["require"]]
    decision = decide_gate(project, run, wanted, votes=asked["votes"], restart=asked["restart"])
    needed = decision.needed
    if not asked["open_round"] or needed is None or needed.settings is None:
        keep(decision.document())
        return

    def opened(round_: Round) -> None:
        asking = replace(needed, round=round_.number, settings=None)
        keep(replace(decision, needed=asking).document())

    open_needed(project, run, needed, user, background=True, made=opened)
