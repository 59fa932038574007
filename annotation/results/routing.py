"""The report's section on routing that learns: what finds this judge's errors, and what it found.

Where a round learned, its own fit is shown, as it was kept. Where the label of every example is
known, the same fit on all of them says what learning would have bought.
"""

import numpy as np

from annotation.results.analysis import Analysis
from annotation.results.figures import Json, shown
from annotation.results.other_runs import OtherRun
from annotation.results.routing_columns import columns_of
from annotation.results.routing_data import read_routing
from annotation.results.routing_words import evidence, sentence
from annotation.results.sections import Data
from annotation.results.sheet import Known, Sheet
from annotation.results.stage_two import NEXT_LABELS, described
from judging.methods.arrays import Booleans, Codes, Floats
from judging.methods.auroc import auroc
from judging.methods.design_totals import design_total
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.jury import equal_weights, panel
from judging.methods.routing import routing, wrongness

NOT_KEPT = Undefined("the round went by BPDE and kept no learned score")
NO_JURY = Undefined("the project has no other run to ask")


def figures(analysis: Analysis) -> Json:
    data = analysis.own("routing", read_routing)
    if isinstance(data, Undefined):
        return {"routing": data.as_json()}
    if "fit" in data.plain:
        return {"routing": _of_round(analysis, data)}
    if "waits" in data.plain:
        done, n = data.plain["waits"]
        reason = f"round {data.plain['round']} is still learning: {done} of {n} are settled"
        return {"routing": Undefined(reason).as_json()}
    return {"routing": _of_known_labels(analysis, data)}


def _of_round(analysis: Analysis, data: Data) -> Json:
    sheet, plain = analysis.sheet, data.plain
    fit, sample = plain["fit"], data.arrays["sample"]
    if "coefficients" not in fit:
        return Undefined(fit["reason"]).as_json() | {"round": plain["round"]}
    return {
        "source": "round",
        "round": plain["round"],
        **_learned(fit),
        "auroc": {
            "bpde": fit["bpde"],
            "learned": fit["learned"],
            "jury": _jury(sheet, analysis.others, np.flatnonzero(sample & sheet.answered)),
        },
        "held_out": _held_out(analysis, data),
        "errors_found": _errors_found(sheet, data),
        "next": _next(sheet, data),
    }


def _next(sheet: Sheet, data: Data) -> Json:
    """Errors that the next labels are expected to find; once the cut was extended, from the
    scores alone."""
    fit, scores = data.plain["fit"], data.arrays["scores"]
    if sheet.selected.sum() <= data.plain["m"]:
        return fit["next"]
    if not fit["used"]:
        return Undefined("the cut was extended, and BPDE is no probability").as_json()
    left = np.sort(scores[~sheet.selected & np.isfinite(scores)])[::-1][:NEXT_LABELS]
    return shown(left.sum(), len(left))


def _of_known_labels(analysis: Analysis, data: Data) -> Json:
    """Nothing was spent here and nothing is left to find: the labels are all there."""
    sheet, samples = analysis.sheet, analysis.samples
    rows = np.flatnonzero(sheet.labelled)
    if isinstance(samples, Undefined) or not len(rows):
        return Undefined("no sample of the judge has a known label beside it").as_json()
    columns = columns_of(sheet, analysis.run, samples, analysis.others, data)
    wrong = wrongness(sheet.judge[rows], sheet.human[rows])
    found = routing(columns, sheet.level, sheet.judged, rows, wrong, analysis.rng)
    fit = described(found)
    known = Undefined("the label of every example is known").as_json()
    return {
        "source": "known labels",
        "round": None,
        **_learned(fit),
        "auroc": {
            "bpde": fit["bpde"],
            "learned": fit["learned"],
            "jury": _jury(sheet, analysis.others, rows),
        },
        "held_out": dict.fromkeys(("bpde", "learned", "jury"), known),
        "errors_found": dict.fromkeys(("people", "bpde", "random"), known),
        "next": known,
    }


def _learned(fit: Json) -> Json:
    kept = ("used", "reason", "n", "n_wrong", "ridge", "advantage", "notes")
    ordered = sorted(fit["coefficients"], key=lambda one: -evidence(one["odds_ratio"]))
    coefficients = [one | {"sentence": sentence(one["name"], one["odds_ratio"])} for one in ordered]
    return {name: fit[name] for name in kept} | {"coefficients": coefficients}


def _jury(sheet: Sheet, others: tuple[OtherRun, ...], rows: Codes) -> Json:
    """How well the panel's disagreement finds this run's errors."""
    if not others:
        return NO_JURY.as_json()
    there = rows[sheet.judged[rows]]
    wrong = wrongness(sheet.judge[there], _labels(sheet)[there])
    apart = disagreement(sheet, others)[there]
    return auroc(apart, wrong, question=sheet.question[there]).as_json()


def disagreement(sheet: Sheet, others: tuple[OtherRun, ...]) -> Floats:
    signs = np.stack([sheet.judge, *(one.judge for one in others)])
    judged = np.stack([sheet.judged, *(one.judged for one in others)])
    return panel(signs, judged, equal_weights(len(signs))).disagreement


def _labels(sheet: Sheet) -> np.ndarray:
    return sheet.human if sheet.everyone else sheet.answer


def _held_out(analysis: Analysis, data: Data) -> Json:
    """On examples whose labels taught nothing, each with what it stands for."""
    sheet, known = analysis.sheet, analysis.sheet.known
    names = ("bpde", "learned", "jury")
    if isinstance(known, Undefined):
        return dict.fromkeys(names, known.as_json())
    keep = ~data.arrays["sample"][known.rows] & sheet.judged[known.rows]
    rows, weight = known.rows[keep], known.weight[keep]
    wrong = wrongness(sheet.judge[rows], sheet.human[rows])
    scores = data.arrays["scores"]
    question = sheet.question[rows]
    by_bpde = auroc(sheet.level[rows], wrong, weight=weight, question=question)
    found = {"bpde": by_bpde.as_json()}
    fair = np.isfinite(scores[rows])
    learned = auroc(scores[rows][fair], wrong[fair], weight=weight[fair], question=question[fair])
    # Where BPDE was kept, the scores that the round went by are BPDE.
    found["learned"] = (learned if data.plain["fit"]["used"] else NOT_KEPT).as_json()
    others = analysis.others
    if not others:
        return found | {"jury": NO_JURY.as_json()}
    apart = disagreement(sheet, others)[rows]
    by_jury = auroc(apart, wrong, weight=weight, question=question)
    return found | {"jury": by_jury.as_json()}


def _errors_found(sheet: Sheet, data: Data) -> Json:
    """Errors of the judge in all that people were asked about for the selection, and what as
    many labels would have found by BPDE's rank and at random."""
    known, m = sheet.known, int(sheet.selected.sum())
    if isinstance(known, Undefined):
        return {"labels": m} | dict.fromkeys(("people", "bpde", "random"), known.as_json())
    wrong = np.zeros(len(sheet))
    rows = known.rows
    wrong[rows] = np.where(sheet.judged[rows], wrongness(sheet.judge[rows], sheet.human[rows]), 1.0)
    first = np.zeros(len(sheet), dtype=bool)
    first[sheet.ranking[:m]] = True
    by_chance = _total(sheet, known, wrong)
    if isinstance(by_chance, Estimate):
        share = m / len(sheet)
        limits = (None if one is None else one * share for one in (by_chance.low, by_chance.high))
        by_chance = Estimate(by_chance.value * share, by_chance.n, *limits)
    return {
        "labels": m,
        "people": shown(wrong[sheet.selected].sum(), m),
        "bpde": _total(sheet, known, wrong * first).as_json(),
        "random": by_chance.as_json(),
    }


def _total(sheet: Sheet, known: Known, values: Floats) -> Figure:
    """Over the project, from the selected and the audit."""
    if sheet.everyone:
        return Estimate(float(values[known.rows].sum()), len(known.rows))
    audited: Booleans = sheet.audited & ~sheet.selected
    return design_total(values[sheet.selected], values[audited], int((~sheet.selected).sum()))
