"""One card for the judge: each of its known biases, against people where there are any.

A preference is not yet a bias: longer, likelier or kindred responses may be better. Where people
have labelled the same examples, the bias is what the judge prefers beyond them.
"""

from collections.abc import Callable

import numpy as np

from annotation.results.analysis import Analysis
from annotation.results.calibration import own_probabilities
from annotation.results.calibration_data import read_calibration
from annotation.results.families import family_of
from annotation.results.figures import Json
from annotation.results.judge_card_data import read_card
from annotation.results.length import preference
from annotation.results.position import two_orders
from annotation.results.sections import Data
from judging.methods.advantages import advantage, advantage_of
from judging.methods.estimates import Estimate, Figure, Undefined
from judging.methods.position import order_labels
from judging.methods.proportions import wilson

NO_PLACES = Undefined("people’s labels name no position and no ID")
NO_IDS = Undefined("this form names no option IDs to choose between: ask for the form choice")
NO_LIKELIHOOD = Undefined(
    "no likelihoods of these responses yet: manage.py likelihood PROJECT --run RUN"
)
NO_KIN = Undefined("no pair has exactly one response by a model of the judge’s family")
NO_PRICE = Undefined("the price is unknown")
NOTHING_ASKED = Undefined("nothing was asked yet")
NORMAL_95 = 1.959964
NOT_A_PREFERENCE = Undefined("this is about the judge alone")


def judge_card(of: Analysis) -> Json:
    """`entries`, each with value, human, bias, meaning and remedy."""
    return {
        "judge": {"model": of.run.model, "form": of.run.form, "family": family_of(of.run.model)},
        "entries": [make(of) for make in ENTRIES],
    }


def entry(
    key: str,
    title: str,
    value: Figure | Json,
    meaning: str,
    remedy: str,
    *,
    human: Figure | Json = NOT_A_PREFERENCE,
    bias: Figure | Json = NOT_A_PREFERENCE,
    neutral: float | None = None,
) -> Json:
    """neutral: the value of a judge without this bias."""
    return {
        "key": key,
        "title": title,
        "value": as_json(value),
        "human": as_json(human),
        "bias": as_json(bias),
        "neutral": neutral,
        "meaning": meaning,
        "remedy": remedy,
    }


def as_json(found: Figure | Json) -> Json:
    return found if isinstance(found, dict) else found.as_json()


def position_bias(of: Analysis) -> Json:
    data = of.own("calibration", read_calibration)
    if isinstance(data, Data):
        value = advantage_of(
            "position", own_probabilities(data), of.rng, question=of.sheet.question
        )
    else:
        value = by_orders(of)
    if isinstance(value, Undefined) and isinstance(data, Data):
        value = with_note(by_orders(of), "position and ID token together")
    return entry(
        "position",
        "Position bias",
        value,
        "What standing first adds to a response’s chance to win: 0 is none, above 0 favours the "
        "first.",
        "Ask both orders (mec_bpc, PORTIA, or X0 and X2 of a choice): their mean cancels it.",
        human=NO_PLACES,
        bias=value,
        neutral=0.0,
    )


def by_orders(of: Analysis) -> Figure:
    """From the labels of each order's mean."""
    samples = two_orders(of.samples)
    if isinstance(samples, Undefined):
        return samples
    labels, there = order_labels(samples.difference, samples.valid)
    scores = np.where(there, (labels + 1) / 2, np.nan)
    return advantage(scores[:, 0], scores[:, 1], of.rng, question=of.sheet.question)


def with_note(found: Figure, note: str) -> Figure:
    if isinstance(found, Undefined):
        return found
    return Estimate(found.value, found.n, found.low, found.high, note)


def token_bias(of: Analysis) -> Json:
    data = of.own("calibration", read_calibration)
    value: Figure = NO_IDS
    if isinstance(data, Data):
        value = advantage_of("token", own_probabilities(data), of.rng, question=of.sheet.question)
    return entry(
        "id_token",
        "ID-token bias",
        value,
        "What bearing the first ID token adds to a response’s chance: 0 is none.",
        "Ask a balanced set of permutations (--permutations 2 or 4) and take their mean; Pride and "
        "CalibraEval calibrate one permutation.",
        human=NO_PLACES,
        bias=value,
        neutral=0.0,
    )


def length_bias(of: Analysis) -> Json:
    return of_preference(
        "length",
        "Length bias",
        of.length,
        "γ of the longer response: above 0 prefers it; a bias is what goes beyond people.",
        "Review by people where lengths differ most; the equal-length win rate is in Length.",
    )


def likelihood_bias(of: Analysis) -> Json:
    data = of.own("judge_card", read_card)
    differences = data.arrays["likelihood"]
    found = (
        preference(of.sheet, differences, of.rng)
        if not np.isnan(differences).all()
        else lacking_all(NO_LIKELIHOOD)
    )
    return of_preference(
        "likelihood",
        "Likelihood bias",
        found,
        "γ of the response that a language model finds likelier; see Length too, as the sum "
        "tracks length.",
        "Show the most biased examples with people’s scores before the question (pointwise "
        "--shots-from).",
    )


def self_preference(of: Analysis) -> Json:
    kin = kinship(of)
    found = preference(of.sheet, kin, of.rng) if kin.any() else lacking_all(NO_KIN)
    return of_preference(
        "self_preference",
        "Self-preference",
        found,
        "γ of the response by a model of the judge’s own family; above 0 prefers its kin.",
        "Judge with a model of another family than both candidates.",
    )


def kinship(of: Analysis) -> np.ndarray:
    """(N,) 1 where response 1 alone is of the judge's family, -1 where response 2 alone is."""
    family = family_of(of.run.model)
    kin = np.array([family is not None and family_of(name) == family for name in of.sheet.models])
    if not len(kin):
        return np.zeros(len(of.sheet))
    return kin[of.sheet.model_1].astype(float) - kin[of.sheet.model_2].astype(float)


def lacking_all(reason: Undefined) -> Json:
    return {"judge": reason.as_json(), "human": reason.as_json(), "bias": reason.as_json()}


def of_preference(key: str, title: str, found: Json, meaning: str, remedy: str) -> Json:
    judge, human = (one.get("slope", one) for one in (found["judge"], found["human"]))
    bias = found["bias"]
    return entry(key, title, judge, meaning, remedy, human=human, bias=bias, neutral=0.0)


def stability(of: Analysis) -> Json:
    return entry(
        "repetition",
        "Repetition stability",
        of.position["repetition_stability"],
        "How often two samples of the same prompt agree: 1 is always.",
        "More samples (k), or a lower temperature.",
        neutral=1.0,
    )


def unparsed(of: Analysis) -> Json:
    statuses = of.own("judge_card", read_card).plain["statuses"]
    total = sum(statuses.values())
    without = total - statuses.get("valid", 0)
    return entry(
        "unparsed",
        "Samples without a verdict",
        wilson(without, total) if total else NOTHING_ASKED,
        "Unparsed, truncated, refused, filtered or failed: none of them is ever taken for a value.",
        "A template that the model follows, more tokens (--retry truncated), or another form.",
        neutral=0.0,
    )


def cost(of: Analysis) -> Json:
    usd = of.own("judge_card", read_card).arrays["usd"]
    return entry(
        "cost",
        "Cost of a pair, USD",
        mean_cost(usd[~np.isnan(usd)]),
        "What the judge’s calls about one pair cost, all orders and samples together.",
        "Batches cost half, an adaptive run stops early, fewer samples cost less.",
    )


def mean_cost(usd: np.ndarray) -> Figure:
    if not len(usd):
        return NO_PRICE
    mean = float(usd.mean())
    if len(usd) < 2:
        return Estimate(mean, len(usd))
    half = NORMAL_95 * float(usd.std(ddof=1)) / len(usd) ** 0.5
    return Estimate(mean, len(usd), max(0.0, mean - half), mean + half)


ENTRIES: tuple[Callable[[Analysis], Json], ...] = (
    position_bias,
    token_bias,
    length_bias,
    likelihood_bias,
    self_preference,
    stability,
    unparsed,
    cost,
)
