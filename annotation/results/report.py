"""The figures of a run as JSON: each number with its interval and n, or the reason for none."""

from decimal import Decimal
from typing import Any

from annotation.results.analysis import Agreement, Analysis
from annotation.results.costs import Costs
from judging.methods.accuracy import Ties
from judging.methods.estimates import Undefined
from judging.methods.hitlc import ErrorsFound

BETAS = (5, 10, 20, 30, 50)


def report(analysis: Analysis, costs: Costs, statuses: dict[str, int]) -> dict[str, Any]:
    """What `report --json` prints; the same figures as the results page."""
    project, run, sheet = analysis.project, analysis.run, analysis.sheet
    return {
        "project": {"slug": project.slug, "name": project.name},
        "run": {
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
        },
        "coverage": {
            "examples": len(sheet),
            "judged": analysis.coverage.as_json(),
            "samples": statuses,
            "labels": analysis.shares,
            "final_labels": analysis.final_shares,
        },
        "methods": _methods(analysis, costs),
        "position": _position(analysis),
        "hitlc": _hitlc(analysis),
        "ties": {
            "half": {"accuracy": analysis.before(Ties.HALF).accuracy.as_json()},
            "wrong": {"accuracy": analysis.before(Ties.WRONG).accuracy.as_json()},
        },
        "cost": _cost(costs),
    }


def _methods(analysis: Analysis, costs: Costs) -> list[dict[str, Any]]:
    run, name = analysis.run, NAMES.get(analysis.run.method, analysis.run.method)
    bpc = len(run.orders) == 2
    row = {"k": run.k, "bpc": bpc}
    reviewed = analysis.reviewed / len(analysis.sheet) * 100 if len(analysis.sheet) else 0.0
    return [
        row
        | {"name": name, "beta": 0, "judge_usd": _usd(costs.judge_usd), "human_usd": "0"}
        | _agreement(analysis.before()),
        row
        | {
            "name": f"{name}+HITLC",
            "beta": reviewed,
            "judge_usd": _usd(costs.judge_usd),
            "human_usd": _usd(costs.human_usd),
        }
        | _agreement(analysis.after()),
    ]


NAMES = {"vanilla": "VANILLA", "ec": "EC", "mec": "MEC", "mec_bpc": "MEC+BPC"}


def _agreement(found: Agreement) -> dict[str, Any]:
    return {
        "accuracy": found.accuracy.as_json(),
        "accuracy_over_all": found.over_all.as_json(),
        "kappa": found.kappa.as_json(),
    }


def _position(analysis: Analysis) -> dict[str, Any]:
    found = analysis.position
    if isinstance(found, Undefined):
        names = ("conflict_rate", "strict_conflict_rate", "first_position_rate")
        return {name: found.as_json() for name in (*names, "position_effect")}
    return {
        "conflict_rate": found.conflicts.conflict_rate.as_json(),
        "strict_conflict_rate": found.conflicts.strict_conflict_rate.as_json(),
        "first_position_rate": found.first.rate.as_json(),
        "first_position_p": found.first.p,
        "position_effect": found.effect.as_json(),
        "repetition_stability": found.stability.as_json(),
    }


def _hitlc(analysis: Analysis) -> dict[str, Any]:
    curve, oracle = analysis.curve, analysis.oracle
    auroc = {"auroc": analysis.finds_errors.as_json()}
    if isinstance(curve, Undefined) or isinstance(oracle, Undefined):
        reason = curve if isinstance(curve, Undefined) else oracle
        return {"beta": [], "bpde": reason.as_json()} | auroc  # type: ignore[union-attr]
    n = curve.total
    cuts = [int(beta * n / 100 + 0.5) for beta in BETAS]
    start = float(curve.accuracy(0))
    lines = [analysis.lines(m) for m in cuts]
    return auroc | {
        "beta": list(BETAS),
        "bpde": [float(value) for value in curve.accuracy(cuts)],
        "oracle": [float(value) for value in oracle.accuracy(cuts)],
        "random": [start + m / n * (1 - start) for m in cuts],
        "unreviewed_accuracy": [
            line.as_json() if isinstance(line, Undefined) else line.unreviewed.as_json()
            for line in lines
        ],
        "errors_found": [_errors(line, "found") for line in lines],
        "errors_expected": [_errors(line, "expected") for line in lines],
        "errors_p": [_errors(line, "p") for line in lines],
        "gain": [
            line.as_json() if isinstance(line, Undefined) else line.gain.as_json() for line in lines
        ],
    }


def _errors(line: Any, name: str) -> Any:
    if isinstance(line, Undefined):
        return line.as_json()
    errors = line.errors
    return getattr(errors, name) if isinstance(errors, ErrorsFound) else errors.as_json()


def _cost(costs: Costs) -> dict[str, Any]:
    return {
        "judge_usd": _usd(costs.judge_usd),
        "human_usd": _usd(costs.human_usd),
        "total_usd": _usd(costs.total_usd),
        "paper_usd": _usd(costs.paper_usd),
        "by_hand_one_vote_usd": _usd(costs.by_hand_one),
        "by_hand_same_votes_usd": _usd(costs.by_hand_same),
        "votes": costs.n_votes,
    }


def _usd(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount.normalize():f}"
