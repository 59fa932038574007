"""The figures of a run as JSON: each number with its interval and n, or the reason for none."""

from annotation.results.ablation import ablation
from annotation.results.agreement import people
from annotation.results.analysis import Analysis
from annotation.results.categories import by_category
from annotation.results.costs import Costs
from annotation.results.curves import band, hitlc
from annotation.results.distribution import distribution
from annotation.results.expecting import expectation
from annotation.results.figures import Json, usd
from annotation.results.length import length
from annotation.results.methods_table import methods
from annotation.results.models_ranking import models
from annotation.results.position import conflict_by_gap, orders
from annotation.results.review import review_of
from annotation.results.trust import alt_test, certificate
from annotation.results.win_rates import win_rates
from judging.methods.accuracy import Ties
from judging.methods.estimates import Undefined
from judging.models import Run


def report(analysis: Analysis, costs: Costs, statuses: dict[str, int]) -> Json:
    """What `report --json` prints; the results page shows the same figures."""
    project, run, sheet = analysis.project, analysis.run, analysis.sheet
    samples, rng = analysis.samples, analysis.rng
    return {
        "project": {"slug": project.slug, "name": project.name},
        "run": described(run),
        "coverage": _coverage(analysis, statuses),
        "methods": methods(
            sheet,
            run,
            analysis.others,
            analysis.prompt_share,
            analysis.fewer,
            analysis.review,
            costs,
            rng,
        ),
        "position": analysis.position,
        "conflict_by_gap": conflict_by_gap(samples, run.form),
        "by_category": by_category(sheet, samples, rng),
        "orders": orders(sheet, samples, rng),
        "hitlc": hitlc(sheet, samples, rng),
        "ties": {str(ties): _under(analysis, ties) for ties in Ties},
        "people": people(sheet, rng),
        "distribution": distribution(sheet),
        "win_rate": win_rates(sheet),
        "certificate": certificate(sheet, analysis.audit),
        "alt_test": alt_test(sheet),
        "length": length(sheet, rng),
        "ablation": ablation(sheet, run, analysis.others, analysis.fewer, rng),
        "models": models(sheet, rng),
        "review": _review(analysis),
        "expected": expectation(sheet, analysis.review, rng),
        "cost": _cost(costs),
    }


def described(run: Run) -> Json:
    return {
        "number": run.number,
        "name": run.name,
        "method": run.method,
        "form": run.form,
        "endpoint": run.endpoint,
        "model": run.model,
        "k": run.k,
        "temperature": str(run.temperature),
        "template": run.template_name,
        "template_sha256": run.template_hash,
        "seed": run.seed,
        "price_source": run.price_source,
    }


def _coverage(analysis: Analysis, statuses: dict[str, int]) -> Json:
    known = analysis.sheet.known
    return {
        "examples": len(analysis.sheet),
        "judged": analysis.coverage.as_json(),
        "samples": statuses,
        "labels": analysis.shares,
        "final_labels": analysis.final_shares,
        "basis": analysis.sheet.basis,
        "known": known.as_json() if isinstance(known, Undefined) else len(known.rows),
    }


def _under(analysis: Analysis, ties: Ties) -> Json:
    """A judge's tie against gold without ties: half right, or wrong."""
    accuracy = analysis.before(ties).accuracy.as_json()
    review = review_of(analysis.sheet, ties)
    if isinstance(review, Undefined):
        return {"accuracy": accuracy, "hitlc": [], "auroc": review.as_json()}
    area = review.auroc_of(review.level).as_json()
    return {"accuracy": accuracy, "hitlc": band(review, analysis.rng), "auroc": area}


def _review(analysis: Analysis) -> Json:
    """The honest lines at the review that took place."""
    lines = analysis.lines()
    if isinstance(lines, Undefined):
        return {"m": analysis.reviewed, "reason": lines.reason}
    errors = lines.errors
    found: Json = {
        "m": lines.m,
        "accuracy": lines.accuracy.as_json(),
        "unreviewed_accuracy": lines.unreviewed.as_json(),
        "random": lines.random.as_json(),
        "gain": lines.gain.as_json(),
    }
    if isinstance(errors, Undefined):
        return found | {"errors": errors.as_json()}
    counted = {"found": errors.found, "expected": errors.expected, "p": errors.p}
    return found | {"errors": counted}


def _cost(costs: Costs) -> Json:
    return {
        "judge_usd": usd(costs.judge_usd),
        "human_usd": usd(costs.human_usd),
        "total_usd": usd(costs.total_usd),
        "paper_usd": usd(costs.paper_usd),
        "by_hand_one_vote_usd": usd(costs.by_hand_one),
        "by_hand_same_votes_usd": usd(costs.by_hand_same),
        "votes": costs.n_votes,
        "votes_an_example": costs.votes_an_example,
    }
