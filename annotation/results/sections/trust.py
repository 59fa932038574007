"""How many of the votes behind a report were given by people who had seen what the judge says."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from annotation.models import Item, Round, RoutingScores, Selection
from annotation.results.data.figures import Json, shown
from annotation.results.data.sheet import Sheet
from annotation.results.merge.final_labels import HumanLabel, places_of, spread
from judging.methods.agreement.annotators import (
    AlternativeAnnotatorTest,
    alternative_annotator_test,
)
from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.estimates import Figure, Undefined, clopper_pearson
from judging.methods.review.certificate import (
    Certificate,
    CertificatePlan,
    Tallies,
    certify,
    simultaneous_bounds,
    tallies,
)
from judging.runs.models import Run


def unblinded(sheet: Sheet) -> Json:
    """A person's vote on an example is one vote, in however many rounds it counts."""
    given: set[tuple[int, int]] = set()
    left_out: set[tuple[int, int]] = set()
    counted: set[tuple[int, int]] = set()
    for pk, say in _says(sheet):
        given |= {(pk, vote.annotator_id) for vote in say.paid}
        left_out |= {(pk, vote.annotator_id) for vote in say.left_out}
        counted |= {(pk, vote.annotator_id) for vote in say.votes if vote.unblinded}
    return {"votes": len(given), "left_out": len(left_out), "counted": len(counted)}


def _says(sheet: Sheet) -> Iterator[tuple[int, HumanLabel]]:
    """Whose votes the figures rest on, and whose the final labels."""
    yield from sheet.asked.items()
    for pk, say in zip(sheet.ids.tolist(), sheet.people, strict=True):
        if say is not None:
            yield pk, say


def sentence(found: Json) -> str:
    """Empty where all votes are blind."""
    n, votes = found["left_out"] or found["counted"], found["votes"]
    if not n:
        return ""
    were = f"{n} of {votes} votes {'was' if n == 1 else 'were'} given unblinded"
    if found["left_out"]:
        return f"{were} and {'is' if n == 1 else 'are'} left out."
    return f"{were}, after a look at what the judge says, and {'counts' if n == 1 else 'count'}."


DEFAULT_ALPHA = 0.05
MOST_SHOWN = 20
# What the certified set is cut by, in words.
SCORES = {"bpde": "a BPDE", "routing": "a learned probability of an error"}
NO_AUDIT = Undefined("no audit: open a round with one to learn about the labels nobody checks")
NO_PLAN = Undefined("no plan was stored before the audit began, so nothing can be certified")


@dataclass(frozen=True)
class Audit:
    """The audit of one round, in the order of its draw. resolved: labelled from the first on,
    without a gap; all of them once the round is closed. planned: what the round stored.

    runs: how many runs of the project have an audit to choose among.

    A cut that was extended later takes the most contested ones into the selected. It leaves the
    sets below it as they are, so that looks are still at prefixes of the whole order.
    """

    number: int
    opened_at: str
    planned: dict[str, Any] | None
    places: np.ndarray
    resolved: int
    scores: np.ndarray | None = None
    runs: int = 1


def certificate(sheet: Sheet, audit: Audit | Undefined) -> Json:
    """The claim, or why it is not made."""
    if isinstance(audit, Undefined):
        return _not_issued(audit)
    beside = {"bounds": _bounds(sheet, audit)}
    plan = stored_plan(audit)
    if plan is None:
        return _not_issued(NO_PLAN) | beside
    fixed = {
        "epsilon": plan.epsilon,
        "confidence": 1 - plan.alpha,
        "looks": list(plan.looks),
        "score": score_name(audit),
        "round": audit.number,
        "planned_at": audit.opened_at,
        "resolved": audit.resolved,
    }
    found = best_certificate(sheet, audit, plan)
    if isinstance(found, Undefined):
        return _not_issued(found) | fixed | beside
    return fixed | beside | _issued(found, len(sheet))


def audit_of(sheet: Sheet, run: Run) -> Audit | Undefined:
    """The newest round of this run that has an audit; one with a plan before any other."""
    items = Item.objects.filter(round__run=run, selection__kind=Selection.Kind.AUDIT)
    rounds = Round.objects.filter(pk__in=items.values("round")).order_by("-number")
    found = sorted(rounds, key=lambda one: one.certificate_plan is None)
    if not found:
        return NO_AUDIT
    drawn = items.filter(round=found[0]).order_by("audit_order", "pk")
    in_order = places_of(sheet.ids, list(drawn.values_list("example", flat=True)))
    in_order = in_order[in_order >= 0]
    waiting = np.flatnonzero(~sheet.answered[in_order])
    closed = found[0].state == Round.State.CLOSED
    resolved = len(in_order) if closed or not len(waiting) else int(waiting[0])
    opened_at = found[0].opened_at.isoformat()
    planned = found[0].certificate_plan
    scores = _scores_of(found[0], sheet.ids) if _by_routing(planned) else None
    audits = Selection.objects.filter(kind=Selection.Kind.AUDIT, round__project=run.project_id)
    runs = audits.exclude(round__run=None).values("round__run").distinct().count()
    return Audit(found[0].number, opened_at, planned, in_order, resolved, scores, runs)


def score_name(audit: Audit) -> str:
    """What the certified set is cut by."""
    return "bpde" if audit.scores is None else "routing"


def _by_routing(planned: dict[str, Any] | None) -> bool:
    return planned is not None and planned.get("score") == "routing"


def _scores_of(round_: Round, ids: Codes) -> np.ndarray:
    """In the order of the sheet; fixed when the round selected by them."""
    kept = RoutingScores.objects.get(round=round_)
    return spread(ids, kept.examples, kept.scores)


def stored_plan(audit: Audit) -> CertificatePlan | None:
    stored = audit.planned
    if not stored:
        return None
    looks, grid = tuple(stored["looks"]), tuple(stored["grid"])
    return CertificatePlan(float(stored["epsilon"]), float(stored["alpha"]), looks, grid)


def best_certificate(sheet: Sheet, audit: Audit, plan: CertificatePlan) -> Certificate | Undefined:
    """All looks hold at once, so the largest set that one of them certified stands."""
    reached = [look for look in plan.looks if look <= audit.resolved]
    if not reached:
        first = plan.looks[0]
        return Undefined(
            f"{audit.resolved} audited examples are settled in the order drawn; "
            f"the first look is at {first}"
        )
    if not len(plan.grid):
        return Undefined("the judge gave no label to any example that was not selected")
    found = [certify(plan, _tallies(sheet, audit, plan.grid, look), look) for look in reached]
    issued = [one for one in found if isinstance(one, Certificate)]
    return max(issued, key=lambda one: one.n_from_judge) if issued else found[-1]


def audited_accuracy(sheet: Sheet, audit: Audit) -> Figure:
    """How often the judge is right on what was not selected, from those audited so far.

    The ones that came to a label are the easy ones: without all of them there is no figure.
    """
    rows = audit.places[: audit.resolved]
    rows = rows[~sheet.selected[rows]]
    if not len(rows):
        return Undefined("no audited example is settled yet in the order drawn")
    without = int((~sheet.answered[rows]).sum())
    if without:
        return Undefined(f"{without} of {len(rows)} audited examples got no label")
    return clopper_pearson(float((~_wrong(sheet)[rows]).sum()), len(rows))


def alt_test(sheet: Sheet) -> Json:
    """Only where the examples were not chosen for being hard: all of them, or the audit."""
    rows = np.ones(len(sheet), bool) if sheet.everyone else sheet.audited & ~sheet.selected
    ballots = sheet.ballots
    found = alternative_annotator_test(
        sheet.judge[rows],
        sheet.judged[rows],
        ballots.votes[rows],
        ballots.present[rows],
        ballots.names,
    )
    return found.as_json() if isinstance(found, Undefined) else _test(found)


def _test(found: AlternativeAnnotatorTest) -> Json:
    return {
        "passes": found.passes,
        "epsilon": found.epsilon,
        "omega": shown(found.omega, len(found.annotators)),
        "mean_rho": shown(found.mean_rho, len(found.annotators)),
        "annotators": [
            {
                "annotator": one.annotator,
                "n": one.n,
                "rho_judge": one.rho_judge,
                "rho_human": one.rho_human,
                "p": one.p,
                "judge_is_as_good": one.judge_is_as_good,
            }
            for one in found.annotators
        ],
    }


def _score(sheet: Sheet, audit: Audit) -> Floats:
    return np.where(sheet.judged, sheet.bpde if audit.scores is None else audit.scores, np.nan)


def _wrong(sheet: Sheet) -> Booleans:
    """Measured by this round's people, whatever is known besides; an unresolved item is wrong."""
    return (sheet.judge != sheet.answer) | ~sheet.answered | ~sheet.judged


def _tallies(sheet: Sheet, audit: Audit, grid: tuple[float, ...], look: int) -> Tallies:
    audited = np.zeros(len(sheet), bool)
    audited[audit.places[:look]] = True
    return tallies(grid, _score(sheet, audit), ~sheet.selected, audited, _wrong(sheet))


def _bounds(sheet: Sheet, audit: Audit) -> list[Json]:
    """Bounds that hold at once for every threshold shown, look planned, and run with an audit: what
    may be looked at freely."""
    scores = _score(sheet, audit)[~sheet.selected]
    grid = np.unique(scores[np.isfinite(scores)])
    if not len(grid):
        return []
    shown_at = grid[np.unique(np.linspace(0, len(grid) - 1, MOST_SHOWN).astype(int))]
    counts = _tallies(sheet, audit, tuple(shown_at.tolist()), audit.resolved)
    looks = len(audit.planned["looks"]) if audit.planned else 1
    limits = simultaneous_bounds(counts, DEFAULT_ALPHA, looks, audit.runs)
    rows = zip(shown_at, counts.size, counts.audited, counts.wrong, strict=True)
    return [
        {
            "threshold": float(t),
            "n_set": int(size),
            "n_audited": int(audited),
            "n_wrong": int(wrong),
            "bound": float(bound),
        }
        for (t, size, audited, wrong), bound in zip(rows, limits, strict=True)
    ]


def _issued(found: Certificate, n: int) -> Json:
    return {
        "issued": True,
        "threshold": found.threshold,
        "share_from_judge": shown(found.n_from_judge / n, n),
        "bound": shown(found.bound, found.n_audited),
        "n_from_judge": found.n_from_judge,
        "n_audited": found.n_audited,
        "n_wrong": found.n_wrong,
    }


def _not_issued(reason: Undefined) -> Json:
    return {
        "issued": False,
        "reason": reason.reason,
        "epsilon": None,
        "confidence": None,
        "score": None,
        "threshold": None,
        "share_from_judge": reason.as_json(),
        "bound": reason.as_json(),
    }
