"""How far labels can be trusted: blind votes, an audit's certificate, the annotator test."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from django.db.models import Min
from django.db.models.functions import Coalesce

from annotation.models import Item, Preregistration, Round, RoutingScores, Selection, Vote
from annotation.results.data.figures import (
    Data,
    Json,
    Plot,
    Sentence,
    intervals,
    optional,
    plot,
    share,
    value_of,
)
from annotation.results.data.sheet import Sheet
from annotation.results.merge.final_labels import HumanLabel, places_of, spread
from annotation.results.sections.review import EVERYTHING
from judging.core.formatting import count, decimals, percent
from judging.dataset.models import Frame
from judging.methods.agreement.annotators import AnnotatorComparison, alternative_annotator_test
from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, clopper_pearson
from judging.methods.review.certificate import (
    Certificate,
    CertificatePlan,
    Tallies,
    certify,
    simultaneous_bounds,
    tallies,
)
from judging.projects.models import AuditEvent, Project
from judging.runs.models import Run


@dataclass(frozen=True)
class Unblinded:
    """Votes behind the figures; left_out, counted: those of people who had seen the judge's output,
    by whether the figures count them."""

    votes: int
    left_out: int
    counted: int

    @property
    def sentence(self) -> str:
        """Say how many votes are not blind; empty if all are."""
        n = self.left_out or self.counted
        if not n:
            return ""
        were = f"{n} of {self.votes} votes {'was' if n == 1 else 'were'} given unblinded"
        if self.left_out:
            return f"{were} and {'is' if n == 1 else 'are'} left out."
        counts = "counts" if n == 1 else "count"
        return f"{were}, by people who had seen judge output, and {counts}."


def unblinded(sheet: Sheet) -> Unblinded:
    """Count votes. A person's vote on an example is one vote, in however many rounds it counts."""
    voted: set[tuple[int, int]] = set()
    left_out: set[tuple[int, int]] = set()
    counted: set[tuple[int, int]] = set()
    for pk, say in _says(sheet):
        voted |= {(pk, vote.annotator_id) for vote in say.votes + say.left_out}
        left_out |= {(pk, vote.annotator_id) for vote in say.left_out}
        counted |= {(pk, vote.annotator_id) for vote in say.votes if vote.unblinded}
    return Unblinded(len(voted), len(left_out), len(counted))


def _says(sheet: Sheet) -> Iterator[tuple[int, HumanLabel]]:
    """Yield whose votes the figures rest on, and then whose votes the final labels rest on."""
    yield from sheet.asked.items()
    for pk, say in zip(sheet.ids.tolist(), sheet.people, strict=True):
        if say is not None:
            yield pk, say


DEFAULT_ALPHA = 0.05
MOST_SHOWN = 20
# What the certified set is cut by, in words.
SCORES = {"bpde": "a BPDE", "routing": "a learned probability of an error"}
NO_AUDIT = Undefined("no audit; open a round with an audit to check the unreviewed labels")
BY_MODEL = Undefined(
    "a model of all votes gives the labels, so that each depends on the votes on other examples; "
    "a certificate needs majorities"
)
NO_PLAN = Undefined("no certificate was planned before the audit began, so none can be issued")


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


@dataclass(frozen=True)
class SimultaneousBound:
    """The largest share that may be wrong among the examples scored at most the threshold."""

    threshold: float
    n_set: int
    n_audited: int
    n_wrong: int
    bound: float


@dataclass(frozen=True, kw_only=True)
class CertificateFigures:
    """The claim about the labels that nobody checked, or the reason why it is not made.

    The plan, from `looks` to `resolved`, was stored before the audit began. `bounds` hold at all
    thresholds at once. The counts are those of an issued certificate.
    """

    issued: bool
    reason: str | None = optional()
    epsilon: float | None = None
    confidence: float | None = None
    looks: Sequence[int] | None = optional()
    score: str | None = None
    round: int | None = optional()
    planned_at: str | None = optional()
    resolved: int | None = optional()
    bounds: Sequence[SimultaneousBound] | None = optional()
    threshold: float | None = None
    share_from_judge: Figure
    bound: Figure
    n_from_judge: int | None = optional()
    n_audited: int | None = optional()
    n_wrong: int | None = optional()
    unchecked_accuracy: Figure


def certificate(
    sheet: Sheet, audit: Audit | Undefined, unchecked_accuracy: Figure
) -> CertificateFigures:
    kept: dict[str, Any] = {"unchecked_accuracy": unchecked_accuracy}
    claim: Certificate | Undefined
    if isinstance(audit, Undefined):
        # A round with an audit is no advice once everything was reviewed.
        is_all = getattr(unchecked_accuracy, "reason", "") == EVERYTHING
        claim = Undefined(EVERYTHING) if is_all else audit
    else:
        kept["bounds"] = _bounds(sheet, audit)
        # The bounds need no plan, because they hold at all thresholds at once.
        plan = stored_plan(audit)
        claim = NO_PLAN if plan is None else best_certificate(sheet, audit, plan)
        if plan is not None:
            kept |= {
                "epsilon": plan.epsilon,
                "confidence": 1 - plan.alpha,
                "looks": list(plan.looks),
                "score": score_name(audit),
                "round": audit.number,
                "planned_at": audit.opened_at,
                "resolved": audit.resolved,
            }
    if isinstance(claim, Undefined):
        return CertificateFigures(
            issued=False, reason=claim.reason, share_from_judge=claim, bound=claim, **kept
        )
    return CertificateFigures(
        issued=True, threshold=claim.threshold,
        share_from_judge=Estimate(claim.n_from_judge / len(sheet), len(sheet)),
        bound=Estimate(float(claim.bound), claim.n_audited), n_from_judge=claim.n_from_judge,
        n_audited=claim.n_audited, n_wrong=claim.n_wrong, **kept,
    )  # fmt: skip


def audit_of(sheet: Sheet, run: Run, frame: Frame | None = None) -> Audit | Undefined:
    """The newest round of this run that has an audit; one with a plan before any other.

    frame: the examples that the sheet holds. An audit of other examples certifies nothing here.
    """
    if run.project.label_rule != Project.LabelRule.MAJORITY:
        return BY_MODEL
    items = Item.objects.filter(
        round__run=run, round__frame=frame, selection__kind=Selection.Kind.AUDIT
    )
    rounds = Round.objects.filter(pk__in=items.values("round")).order_by("-number")
    # A round without a plan can certify nothing. The sort is stable, so the newest stays first.
    planned_first = sorted(rounds, key=lambda round_: round_.certificate_plan is None)
    if not planned_first:
        return NO_AUDIT
    newest = planned_first[0]
    drawn = items.filter(round=newest).order_by("audit_order", "pk")
    in_order = places_of(sheet.ids, list(drawn.values_list("example", flat=True)))
    # An audited example that the sheet leaves out has no row.
    in_order = in_order[in_order >= 0]
    waiting = np.flatnonzero(~sheet.answered[in_order])
    closed = newest.state == Round.State.CLOSED
    # Only a prefix of the draw is random: what is settled first is easy. Once the round is closed,
    # no label comes any more, and what has none counts as wrong.
    resolved = len(in_order) if closed or not len(waiting) else int(waiting[0])
    opened_at = newest.opened_at.isoformat()
    planned = newest.certificate_plan
    # The sets are cut by the score that was stored with the plan, before the first audit label.
    by_routing = planned is not None and planned.get("score") == "routing"
    scores = _scores_of(newest, sheet.ids) if by_routing else None
    audits = Selection.objects.filter(kind=Selection.Kind.AUDIT, round__project=run.project_id)
    runs = audits.exclude(round__run=None).values("round__run").distinct().count()
    return Audit(newest.number, opened_at, planned, in_order, resolved, scores, runs)


def score_name(audit: Audit) -> str:
    """Return the name of the score that the certified set is cut by."""
    return "bpde" if audit.scores is None else "routing"


def _scores_of(round_: Round, ids: Codes) -> np.ndarray:
    """Return the scores by which the round selected, in the order of the sheet."""
    kept = RoutingScores.objects.get(round=round_)
    return spread(ids, kept.examples, kept.scores)


def stored_plan(audit: Audit) -> CertificatePlan | None:
    stored = audit.planned
    if not stored:
        return None
    looks, grid = tuple(stored["looks"]), tuple(stored["grid"])
    return CertificatePlan(float(stored["epsilon"]), float(stored["alpha"]), looks, grid)


def best_certificate(sheet: Sheet, audit: Audit, plan: CertificatePlan) -> Certificate | Undefined:
    """Return the certificate for the most labels. All looks hold at once, so it is valid."""
    reached = [look for look in plan.looks if look <= audit.resolved]
    if not reached:
        first = plan.looks[0]
        return Undefined(
            f"the certificate is first checked when {first} audited examples are settled in the "
            f"order drawn; so far, {audit.resolved} {'is' if audit.resolved == 1 else 'are'}"
        )
    if not len(plan.grid):
        return Undefined("the judge labelled none of the examples that were not selected")
    claims = [certify(plan, _tallies(sheet, audit, plan.grid, look), look) for look in reached]
    issued = [claim for claim in claims if isinstance(claim, Certificate)]
    return max(issued, key=lambda claim: claim.n_from_judge) if issued else claims[-1]


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


@dataclass(frozen=True)
class AlternativeTest:
    """omega: share of annotators against whom the judge is as good; it passes at one half."""

    passes: bool
    epsilon: float
    omega: Figure
    mean_rho: Figure
    annotators: Sequence[AnnotatorComparison]
    epsilon_changed: bool


@dataclass(frozen=True)
class Replacement:
    """epsilon: the judge's advantage in this project. changed: after the first vote was given."""

    epsilon: float
    changed: bool


def replacement_of(project: Project) -> Replacement:
    """Read, by two queries, the advantage of people, and whether it changed after votes."""
    # An imported vote may have no time of its own, but was there when it was stored.
    voted_at = Coalesce("submitted_at", "updated_at")
    votes = Vote.every.filter(example__project=project, is_practice=False)
    first = votes.aggregate(at=Min(voted_at))["at"]
    changes = AuditEvent.objects.filter(
        project=project, action="settings changed", detail__has_key="annotator_advantage"
    )
    changed = first is not None and changes.filter(at__gt=first).exists()
    return Replacement(float(project.annotator_advantage), changed)


def alt_test(sheet: Sheet, replacement: Replacement) -> AlternativeTest | Undefined:
    """Test on examples that were not chosen for being hard: on all of them, or on the audit."""
    rows = np.ones(len(sheet), bool) if sheet.everyone else sheet.audited & ~sheet.selected
    ballots = sheet.ballots
    test = alternative_annotator_test(
        sheet.judge[rows], sheet.judged[rows], ballots.votes[rows], ballots.present[rows],
        ballots.names, replacement.epsilon,
    )  # fmt: skip
    if isinstance(test, Undefined):
        return test
    n = len(test.annotators)
    omega, mean_rho = Estimate(float(test.omega), n), Estimate(float(test.mean_rho), n)
    return AlternativeTest(
        test.passes, float(test.epsilon), omega, mean_rho, test.annotators, replacement.changed
    )


def _score(sheet: Sheet, audit: Audit) -> Floats:
    return np.where(sheet.judged, sheet.bpde if audit.scores is None else audit.scores, np.nan)


def _wrong(sheet: Sheet) -> Booleans:
    """Mark wrong labels by this round's people alone. An unresolved item counts as wrong."""
    return (sheet.judge != sheet.answer) | ~sheet.answered | ~sheet.judged


def _tallies(sheet: Sheet, audit: Audit, grid: tuple[float, ...], look: int) -> Tallies:
    audited = np.zeros(len(sheet), bool)
    audited[audit.places[:look]] = True
    return tallies(grid, _score(sheet, audit), ~sheet.selected, audited, _wrong(sheet))


def _bounds(sheet: Sheet, audit: Audit) -> list[SimultaneousBound]:
    """Bounds that hold at once for every threshold shown, look planned, and run with an audit: what
    may be looked at freely."""
    scores = _score(sheet, audit)[~sheet.selected]
    grid = np.unique(scores[np.isfinite(scores)])
    if not len(grid):
        return []
    # The bounds share the error, so that each threshold more would make all of them wider.
    shown_at = grid[np.unique(np.linspace(0, len(grid) - 1, MOST_SHOWN).astype(int))]
    counts = _tallies(sheet, audit, tuple(shown_at.tolist()), audit.resolved)
    looks = len(audit.planned["looks"]) if audit.planned else 1
    limits = simultaneous_bounds(counts, DEFAULT_ALPHA, looks, audit.runs)
    rows = zip(shown_at, counts.size, counts.audited, counts.wrong, strict=True)
    return [
        SimultaneousBound(float(t), int(size), int(audited), int(wrong), float(bound))
        for (t, size, audited, wrong), bound in zip(rows, limits, strict=True)
    ]


# Whom the judge is compared with, by `Sheet.basis`.
AGAINST = {"votes": "people's majority", "gold": "the known labels", "round": "people"}


def answer(alone: Figure, final: Figure | None, basis: str, claim: CertificateFigures) -> Sentence:
    """Say how often the judge alone is right, and the final labels, or what is certified.

    Args:
        alone: accuracy of the judge's labels.
        final: accuracy of the final labels; None before a review.
    """
    if claim.issued:
        return certified(claim)
    if isinstance(alone, Undefined):
        return Sentence(
            f"How far the labels can be trusted isn't known yet: {alone.reason}.",
            "trust",
            warns=True,
        )
    after = ""
    if final is not None and not isinstance(final, Undefined):
        after = f"; after the review, {share(final, 'the final labels')} are right"
    agrees = f"the judge agrees with {AGAINST[basis]} on {share(alone, 'pairs')}"
    return Sentence(f"Without review, {agrees}{after}.", "trust")


def certified(claim: CertificateFigures) -> Sentence:
    """State the claim of a certificate that was issued."""
    score = SCORES[str(claim.score)]
    return Sentence(
        f"Certified: at most {percent(claim.epsilon)} of the {count(claim.n_from_judge)} labels "
        f"with {score} of at most {decimals(claim.threshold or 0.0)} are wrong, "
        f"with confidence {percent(claim.confidence)}.",
        "trust",
    )


def accuracy_plot(alone: Figure, final: Figure | None, unchecked: Figure) -> Plot:
    figures = {"judge alone": alone, "final labels": final, "unreviewed labels": unchecked}
    rows = [
        {"labels": words} | value_of(figure)
        for words, figure in figures.items()
        if figure is not None and not isinstance(figure, Undefined)
    ]
    caption = "The share of right labels, with 95\u202f% intervals. The line is at one half."
    return plot("trust", "Accuracy", caption, rows, intervals("labels", "accuracy"))


NOT_REGISTERED = Undefined("no plan was registered before people labelled")
REGISTERED = "preregistration"


def registrations_of(project: Project, run: Run) -> Data | Undefined:
    """Read the plans, and the settings of the rounds that people labelled in."""
    plans = Preregistration.objects.filter(project=project).order_by("-number")
    versions = [_plain(plan) for plan in plans]
    if not versions:
        return NOT_REGISTERED
    rounds = Round.objects.filter(project=project, kind=Round.Kind.ROUTED)
    # A round without a run has people label everything, so it belongs to the plan as well.
    rows = rounds.filter(run=run) | rounds.filter(run=None)
    done = [_settings_of(row) for row in rows.select_related("protocol").order_by("number")]
    return Data(plain={"plans": versions, "rounds": done})


def _plain(plan: Preregistration) -> Json:
    return {
        "number": plan.number,
        "sha256": plan.sha256,
        "made_at": plan.made_at.isoformat(),
        "text": plan.text,
    }


def _settings_of(round_: Round) -> Json:
    names = ("beta", "budget", "everything", "audit", "route", "learn", "epsilon", "alpha", "looks")
    return {
        "number": round_.number,
        "opened_at": round_.opened_at.isoformat(),
        "votes": round_.votes_per_item,
        "seed": round_.seed,
        "protocol": round_.protocol.digest,
        **{name: round_.parameters.get(name) for name in names},
    }
