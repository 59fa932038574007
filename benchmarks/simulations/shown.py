"""Which check stands behind the interval of each figure that FairJudge shows.

The figures are those of docs/report.md and docs/gate.md, by their keys without brackets. A test
holds this list against these pages, against the checks of `make simulate`, and against reports.
The last two are what the page *Plan* and an adaptive run say."""

from __future__ import annotations

from fnmatch import fnmatchcase

SHARES, REPEATED = "shares of examples", "accuracy with repeated questions"
ACCURACY, KAPPA = "the judge's accuracy over the project", "the judge's kappa over the project"
FINAL, FINAL_KAPPA = "accuracy of the final labels", "kappa of the final labels"
AUROC, ROUTED = "AUROC, all labels known", "AUROC after a routed round"
CURVE, DIFFERENCES = "the HITLC curve after an audit", "paired differences"
LENGTH, FEWER = "length γ and the equal-length win rate", "fewer samples"
PORTIA, CALIBRATIONS = "PORTIA and whole responses", "calibrations"
PEOPLE, LIKELIHOOD = "people's agreement", "likelihood bias"
HERE, LIKE_THESE = (
    "judge and people, about this project's examples",
    "judge and people, about examples like these",
)
STYLE = "strengths at equal style"
STRENGTHS, DAVIDSON = "strengths of Bradley–Terry", "strengths and ν of Davidson"
CALIBRATED = "judges calibrated by people"
SKILL, NOISE = "skill of annotators", "agreement without people's noise"
TWO_WAY = "alpha for other annotators"
CARD, BAND = "position effect and repetition stability", "the planner's lower band"

# The first pattern that fits a key counts.
SIMULATED_BY: dict[str, tuple[str, ...]] = {
    "coverage.judged": (SHARES,),
    "methods.kappa": (KAPPA, FINAL_KAPPA),
    "methods.*": (ACCURACY, FINAL, CURVE, FEWER),
    "position.position_effect": (CARD,),
    "position.repetition_stability": (CARD,),
    "position.win_rate_*": (DIFFERENCES,),
    "position.*": (SHARES,),
    "conflict_by_gap.*": (SHARES,),
    "orders.*.accuracy*": (ACCURACY,),
    "orders.consistency": (SHARES,),
    "portia.*by_chance": (),
    "portia.by_*": (SHARES,),
    "portia.coverage_by_gap.*": (SHARES,),
    "portia.stages.consistency": (SHARES,),
    "portia.*unsplit": (SHARES, ACCURACY, PORTIA),
    "portia.*": (PORTIA, SHARES, ACCURACY),
    "calibration.mass": (),
    "calibration.*": (CALIBRATIONS,),
    "ablation.accuracy": (ACCURACY, FEWER),
    "ablation.kappa": (KAPPA,),
    "ablation.difference": (DIFFERENCES,),
    "hitlc.auroc*": (AUROC, ROUTED),
    "hitlc.bpde": (CURVE, f"{BAND} after an audit"),
    "hitlc.unreviewed_accuracy": (SHARES, ACCURACY),
    "hitlc.*": (),
    "ties.*.accuracy": (ACCURACY,),
    "ties.*.hitlc": (CURVE,),
    "ties.*.auroc": (AUROC, ROUTED),
    "review.random": (),
    "review.gain": (),
    "review.*": (FINAL, CURVE, SHARES),
    "length.bias": ("length bias, judge less people",),
    "length.*": (LENGTH,),
    # Position, ID token, length, likelihood, self-preference, stability and unparsed; not cost.
    "judge_criteria.conflict_rate": (SHARES,),
    "judge_criteria.accuracy": (ACCURACY, REPEATED),
    "judge_criteria.kappa": (KAPPA, "agreement on criteria by chance"),
    "judge_card.entries.*": (CALIBRATIONS, CARD, LENGTH, "length bias, judge less people", SHARES),
    "win_rate.judge": (DIFFERENCES,),
    "win_rate.final": (DIFFERENCES,),
    "win_rate.people*": ("people alone, about examples like these",),
    "win_rate.judge_and_people*": (HERE, LIKE_THESE),
    "win_rate.calibrated": (CALIBRATED,),
    "win_rate.bias": ("the judge's bias",),
    "win_rate.width_ratio": (),
    "calibrated.accuracy": (CALIBRATED,),
    "calibrated.kappa": (CALIBRATED,),
    "calibrated.*": (),
    "models.pairwise.win_rate": (DIFFERENCES,),
    "models.pairwise.people": (LIKE_THESE, "pairs of models that do not differ"),
    "models.*.win_rate": (),
    "models.style.*": (STYLE,),
    "models.davidson.*": (DAVIDSON,),
    "models.ranking.strength": (STRENGTHS,),
    "by_category.accuracy": (ACCURACY, REPEATED),
    "by_category.kappa": (KAPPA, "kappa with repeated questions"),
    "by_category.conflict_rate": (SHARES,),
    "by_category.judge_win_rate": (DIFFERENCES,),
    "category_differences.*": (),
    "certificate.unchecked_accuracy": (ACCURACY, "rounds that learn"),
    "certificate.*": (),
    "alt_test.*": (),
    # A range that the ridge shrinks: the page and the key's note say that it is no 95 % interval.
    "routing.coefficients.odds_ratio": (),
    "routing.auroc.learned": (),
    "routing.auroc.*": (AUROC,),
    "routing.held_out.*": (AUROC, ROUTED),
    "routing.errors_found.people": (),
    "routing.errors_found.*": (ACCURACY,),
    "routing.next": (),
    "cascades.accuracy": (),
    "people.annotators.*": (SHARES,),
    "people.side_bias.left_rate": (SHARES,),
    "people.side_bias_pooled.odds_ratio": (),
    "people.pairwise.agreement": (SHARES,),
    "people.*": (PEOPLE,),
    "pace.*": ("pace of votes",),
    "self_agreement.agreement": (SHARES,),
    "skills.annotators.skill": (SKILL,),
    "skills.two_way_alpha": (TWO_WAY,),
    "skills.guesses": (SKILL,),
    "skills.labels.judge_accuracy": (ACCURACY,),
    "noise.with_themselves": (SHARES,),
    "disagreement.parts.share": ("parts of disagreements",),
    "disagreement.effect.change": (DIFFERENCES,),
    "disagreement.effect.*": (DIFFERENCES,),
    "noise.*": (NOISE,),
    "criteria.criteria.win_rate": ("votes on criteria", "people alone, about examples like these"),
    "criteria.criteria.slope": ("votes on criteria",),
    "criteria.criteria.same_as_overall": (SHARES,),
    "criteria.criteria.*": (PEOPLE, "agreement on criteria by chance"),
    "vote_details.reasons.*": (PEOPLE, "agreement on criteria by chance"),
    "vote_details.*": ("strength, confidence and marked text",),
    "likelihood.*": (LIKELIHOOD,),
    "gate accuracy": (ACCURACY,),
    "gate final_accuracy": (FINAL,),
    "gate kappa": (KAPPA,),
    "gate agreement": (PEOPLE,),
    "gate alpha": (PEOPLE,),
    "gate coverage": (SHARES,),
    "gate win_rate*": (HERE, LIKE_THESE),
    "gate certificate": ("certificates",),
    "gate changed": (SHARES,),
    "gate shift": (DIFFERENCES,),
    "gate accuracy_difference": (DIFFERENCES,),
    "planner at_least": (f"{BAND}, all labels known", f"{BAND} after an audit"),
    "adaptive agreement": (SHARES,),
}
RANGES = frozenset({"routing.coefficients.odds_ratio"})


def checks_of(key: str) -> tuple[str, ...] | None:
    """Return the checks behind a figure; none if it has no interval; None if it isn't listed."""
    plain = key.replace("[]", "").replace(".*.", ".")
    found = (names for pattern, names in SIMULATED_BY.items() if fnmatchcase(plain, pattern))
    return next(found, None)
