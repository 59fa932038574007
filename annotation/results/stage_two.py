"""The second stage of a round that learns: fit the labels of the first, and select by the score."""

import logging

import numpy as np

from annotation.learning import Learned, open_second_stage
from annotation.models import Item, Round, Selection
from annotation.results.analysis import Analysis
from annotation.results.figures import Json
from annotation.results.routing_columns import columns_of, texts_of
from annotation.results.sheet import Sheet
from judging.methods.arrays import Codes, Floats
from judging.methods.auroc import AurocDifference
from judging.methods.estimates import Undefined
from judging.methods.routing import Routing, expected_errors, routing, wrongness
from judging.models.runs import Run

# How far ahead is looked.
NEXT_LABELS = 20
logger = logging.getLogger(__name__)


def select_what_was_learned(round_: Round) -> bool:
    """Whether this process opened the second stage; False where another was faster."""
    run = round_.run
    if run is None:
        logger.warning("Round %s lost the run that it would select from.", round_.pk)
        return False
    return open_second_stage(round_, learned_of(round_, run))


def learned_of(round_: Round, run: Run) -> Learned:
    """What the labels of the learning sample teach, by the round's own seed."""
    analysis = Analysis(round_.project, run)
    sheet, samples = analysis.sheet, analysis.samples
    if isinstance(samples, Undefined):
        return Learned(False, {"reason": samples.reason}, _scores(sheet, sheet.bpde))
    places = learning_places(round_, sheet)
    wrong = wrongness(sheet.judge[places], sheet.answer[places])
    texts = texts_of(round_.project, run, sheet)
    columns = columns_of(sheet, run, samples, analysis.others, texts)
    rng = np.random.default_rng(abs(round_.seed))
    found = routing(columns, sheet.level, sheet.judged, places, wrong, rng)
    scores = found.probability if found.used else sheet.bpde
    following = _after_the_cut(round_, sheet, scores, places)
    fit = described(found) | {"next": expected_errors(found, columns, following, rng).as_json()}
    return Learned(found.used, fit, _scores(sheet, scores))


def _after_the_cut(round_: Round, sheet: Sheet, scores: Floats, sample: Codes) -> Codes:
    """The examples that the next labels would go to, were the cut extended."""
    left = np.setdiff1d(np.arange(len(sheet)), sample)
    # Without a label they come first in the cut, and no error of the judge is found by them.
    unjudged = int((~sheet.judged[left]).sum())
    left = left[sheet.judged[left]]
    start = max(0, round_.parameters["m"] - len(sample) - unjudged)
    return left[np.argsort(-scores[left], kind="stable")][start : start + NEXT_LABELS]


def learning_places(round_: Round, sheet: Sheet) -> Codes:
    """Where in the sheet the labelled learning sample is."""
    items = Item.objects.filter(round=round_, selection__kind=Selection.Kind.LEARN)
    here = set(items.values_list("example_id", flat=True))
    drawn = np.array([pk in here for pk in sheet.ids.tolist()], dtype=bool)
    return np.flatnonzero(drawn & sheet.answered)


def described(found: Routing) -> Json:
    """What is kept of a fit, for the pages and for whoever asks how examples were selected."""
    trial, apart = found.trial, found.trial.advantage
    advantage = (
        {"value": apart.value, "standard_error": apart.standard_error}
        if isinstance(apart, AurocDifference)
        else apart.as_json()
    )
    return {
        "used": found.used,
        "reason": found.reason,
        "n": found.n,
        "n_wrong": found.n_wrong,
        "ridge": found.ridge,
        "learned": trial.learned.as_json(),
        "bpde": trial.bpde.as_json(),
        "advantage": advantage,
        "notes": list(found.notes),
        "coefficients": [
            {"name": one.name, "odds_ratio": one.odds_ratio.as_json()} for one in found.coefficients
        ],
        "intercept_and_slopes": found.fit.coefficients[0].tolist(),
        "covariance": found.fit.covariance[0].tolist(),
    }


def _scores(sheet: Sheet, scores: Floats) -> dict[int, float]:
    there = sheet.judged & np.isfinite(scores)
    return dict(zip(sheet.ids[there].tolist(), scores[there].tolist(), strict=True))
