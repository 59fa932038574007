"""The judge's card: one figure for each bias, its meaning, and how to reduce it."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from annotation.results.data.figures import (
    Data,
    Plot,
    Sentence,
    intervals,
    plot,
    value_of,
)
from annotation.results.merge.final_labels import CHUNK, spread
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.calibration import own_probabilities, read_calibration
from annotation.results.sections.position import two_orders
from annotation.results.sections.win_rates import Preference, preference
from judging.core.formatting import count, decimals, interval
from judging.methods.calibration.probabilities import advantage, advantage_of
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, wilson
from judging.methods.verdicts.position import order_labels
from judging.runs.forms.likelihood import pair_differences
from judging.runs.models import Verdict

# Words of a name, the vendor's or the model's own, and the family that they tell.
_FAMILIES = {
    "openai": ("gpt", "chatgpt", "openai", "davinci", "o1", "o3", "o4"),
    "anthropic": ("claude", "anthropic"),
    "google": ("gemini", "gemma", "palm", "bard"),
    "meta": ("llama", "alpaca", "vicuna", "meta"),
    "mistral": ("mistral", "mixtral", "ministral", "magistral"),
    "alibaba": ("qwen", "qwq"),
    "deepseek": ("deepseek",),
    "cohere": ("command", "cohere", "aya"),
    "microsoft": ("phi",),
    "huggingface": ("smollm", "zephyr"),
    "ibm": ("granite",),
    "nvidia": ("nemotron",),
    "pandalm": ("pandalm",),
    "thudm": ("chatglm", "glm"),
    "databricks": ("dolly", "dbrx"),
}
_WORD = re.compile(r"[a-z]+(?:\d(?![a-z\d]))?")


def family_of(model: str) -> str | None:
    """By a known word in the name; a name without one is a family of its own where not empty."""
    name = model.rpartition("/")[2].casefold()
    words = [word for word in _WORD.findall(name) if word]
    for family, known in _FAMILIES.items():
        if any(word == one or word.rstrip("0123456789") == one for word in words for one in known):
            return family
    return name or None


_COST = np.dtype([("example", "i8"), ("usd", "f8")])


def read_card(of: Analysis) -> Data:
    """usd: (N,) NaN where not known; likelihood, per_token: response 1 less 2, NaN likewise."""
    usd = np.full(len(of.sheet), np.nan)
    if of.run.price is not None:
        known = Verdict.objects.filter(run=of.run, usd__isnull=False)
        rows = known.values_list("example", "usd").iterator(chunk_size=CHUNK)
        found = np.fromiter(rows, dtype=_COST)
        usd = spread(of.sheet.ids, found["example"], found["usd"])
    found = pair_differences(of.project, of.sheet.ids)
    plain = {
        "likelihood_model": found.model,
        "statuses": of.statuses,
    }
    arrays = {"usd": usd, "likelihood": found.sums, "per_token": found.per_token}
    return Data(arrays, plain)


NO_PLACES = Undefined("not applicable to human labels")
NO_IDS = Undefined("only runs of the form choice have option IDs")
NO_LIKELIHOOD = Undefined(
    "no likelihoods yet; compute them with manage.py likelihood PROJECT --run RUN"
)
NO_KIN = Undefined("no pair compares a model of the judge’s family with another family’s model")
NO_PRICE = Undefined("the price is unknown")
NOTHING_ASKED = Undefined("the judge has not been asked yet")
NOT_A_PREFERENCE = Undefined("applies to the judge only")


@dataclass(frozen=True)
class JudgeModel:
    model: str
    form: str
    family: str | None


@dataclass(frozen=True, kw_only=True)
class CardEntry:
    """neutral: the value of a judge without this bias, None if the entry is no bias."""

    key: str
    title: str
    value: Figure
    human: Figure = NOT_A_PREFERENCE
    bias: Figure = NOT_A_PREFERENCE
    neutral: float | None = None
    meaning: str
    remedy: str


@dataclass(frozen=True)
class JudgeCard:
    judge: JudgeModel
    entries: Sequence[CardEntry]


def judge_card(of: Analysis) -> JudgeCard:
    judge = JudgeModel(of.run.model, of.run.form, family_of(of.run.model))
    return JudgeCard(judge, [make(of) for make in ENTRIES])


def position_bias(of: Analysis) -> CardEntry:
    data = of.own("calibration", read_calibration)
    if isinstance(data, Data):
        value = advantage_of("position", own_probabilities(data), question=of.sheet.question)
    else:
        value = by_orders(of)
    if isinstance(value, Undefined) and isinstance(data, Data):
        value = by_orders(of)
        if isinstance(value, Estimate):
            value = replace(value, note="position bias and ID-token bias together")
    return CardEntry(
        key="position",
        title="Position bias",
        value=value,
        meaning="How much being shown first raises a response’s chance of winning. 0 means no "
        "bias; above 0, the judge favours the first response.",
        remedy="Ask in both orders (mec_bpc, PORTIA, or permutations X0 and X2). Their mean "
        "cancels this bias.",
        human=NO_PLACES,
        bias=value,
        neutral=0.0,
    )


def by_orders(of: Analysis) -> Figure:
    """From the labels of each order's mean."""
    samples = two_orders(of.samples)
    if isinstance(samples, Undefined):
        return samples
    labels, there = order_labels(samples.difference, samples.valid, samples.band)
    scores = np.where(there, (labels + 1) / 2, np.nan)
    return advantage(scores[:, 0], scores[:, 1], question=of.sheet.question)


def token_bias(of: Analysis) -> CardEntry:
    data = of.own("calibration", read_calibration)
    value: Figure = NO_IDS
    if isinstance(data, Data):
        value = advantage_of("token", own_probabilities(data), question=of.sheet.question)
    return CardEntry(
        key="id_token",
        title="ID-token bias",
        value=value,
        meaning="How much having the first option ID raises a response’s chance of winning. 0 "
        "means no bias.",
        remedy="Ask a balanced set of permutations (--permutations 2 or 4), whose mean cancels "
        "this bias, or calibrate a single permutation with PriDe or CalibraEval.",
        human=NO_PLACES,
        bias=value,
        neutral=0.0,
    )


def length_bias(of: Analysis) -> CardEntry:
    return of_preference(
        "length",
        "Length bias",
        of.length,
        "γ for the longer response. Above 0, the judge prefers longer responses. It is a bias if "
        "people who labelled the same examples don’t share it.",
        "Have people review the pairs whose lengths differ most. The Length section shows the "
        "win rate at equal length.",
    )


def likelihood_bias(of: Analysis) -> CardEntry:
    data = of.own("judge_card", read_card)
    differences = data.arrays["likelihood"]
    found = Preference(*[NO_LIKELIHOOD] * 4)
    if not np.isnan(differences).all():
        found = preference(of.sheet, differences)
    return of_preference(
        "likelihood",
        "Likelihood bias",
        found,
        "γ for the response that a language model finds more likely. Compare it with Length: a "
        "response’s likelihood depends on its length.",
        "Show the judge the most biased examples with people’s scores first (pointwise runs: "
        "--shots-from).",
    )


def self_preference(of: Analysis) -> CardEntry:
    kin, found = kinship(of), Preference(*[NO_KIN] * 4)
    if kin.any():
        found = preference(of.sheet, kin)
    return of_preference(
        "self_preference",
        "Self-preference",
        found,
        "γ for the response by a model of the judge’s own family. Above 0, the judge prefers its "
        "own family.",
        "Use a judge from a different family than both models.",
    )


def kinship(of: Analysis) -> np.ndarray:
    """(N,) 1 where response 1 alone is of the judge's family, -1 where response 2 alone is."""
    family = family_of(of.run.model)
    kin = np.array([family is not None and family_of(name) == family for name in of.sheet.models])
    if not len(kin):
        return np.zeros(len(of.sheet))
    return kin[of.sheet.model_1].astype(float) - kin[of.sheet.model_2].astype(float)


def of_preference(key: str, title: str, found: Preference, meaning: str, remedy: str) -> CardEntry:
    judge, human = (
        one if isinstance(one, Undefined) else one.slope for one in (found.judge, found.human)
    )
    return CardEntry(
        key=key,
        title=title,
        value=judge,
        human=human,
        bias=found.bias,
        neutral=0.0,
        meaning=meaning,
        remedy=remedy,
    )


def stability(of: Analysis) -> CardEntry:
    return CardEntry(
        key="repetition",
        title="Repetition stability",
        value=of.position.repetition_stability,
        meaning="How often two samples of the same prompt agree. 1 means always.",
        remedy="Ask for more samples (k), or use a lower temperature.",
        neutral=1.0,
    )


def unparsed(of: Analysis) -> CardEntry:
    statuses = of.own("judge_card", read_card).plain["statuses"]
    total = sum(statuses.values())
    without = total - statuses.get("valid", 0)
    return CardEntry(
        key="unparsed",
        title="Samples without a verdict",
        value=wilson(without, total) if total else NOTHING_ASKED,
        meaning="The share of samples that were unparsed, truncated, refused, filtered or failed. "
        "They never count as a verdict.",
        remedy="Use a template that the model follows, allow more tokens (--retry truncated), or "
        "use another form.",
        neutral=0.0,
    )


def cost(of: Analysis) -> CardEntry:
    usd = of.own("judge_card", read_card).arrays["usd"]
    return CardEntry(
        key="cost",
        title="Cost per pair, USD",
        value=mean_cost(usd[~np.isnan(usd)]),
        meaning="The mean cost of the judge’s calls per pair, with all orders and samples.",
        remedy="Use batches (half the price), an adaptive run (stops early), or fewer samples.",
    )


def mean_cost(usd: np.ndarray) -> Figure:
    if not len(usd):
        return NO_PRICE
    # What was paid is known; few expensive pairs decide what others would cost, so no interval.
    return Estimate(float(usd.mean()), len(usd))


ENTRIES: tuple[Callable[[Analysis], CardEntry], ...] = (
    position_bias,
    token_bias,
    length_bias,
    likelihood_bias,
    self_preference,
    stability,
    unparsed,
    cost,
)


def entry_of(card: JudgeCard, key: str) -> CardEntry:
    return next(entry for entry in card.entries if entry.key == key)


def likelihood_answer(card: JudgeCard) -> Sentence:
    """Say whether the judge prefers likely responses more than people do."""
    entry = entry_of(card, "likelihood")
    if isinstance(entry.value, Undefined):
        return Sentence(
            f"Likelihood bias isn't known: {entry.value.reason}.", "likelihood", warns=True
        )
    bias = entry.bias
    if isinstance(bias, Undefined):
        return Sentence(
            f"The judge's preference for likelier responses is γ = {_signed(entry.value)}. "
            f"Whether people share it isn't known: {bias.reason}.",
            "likelihood",
        )
    than, warns = "There is no clear sign of likelihood bias", False
    if bias.low is not None and bias.low > 0:
        than, warns = "The judge prefers likelier responses more than people do", True
    elif bias.high is not None and bias.high < 0:
        than, warns = "The judge prefers likelier responses less than people do", True
    return Sentence(f"{than}: the difference in γ is {_signed(bias)}.", "likelihood", warns)


def _signed(figure: Estimate) -> str:
    text = decimals(figure.value, signed=True)
    if figure.low is not None and figure.high is not None:
        text += f" [{interval(figure.low, figure.high, signed=True)}]"
    return f"{text}, n = {count(figure.n)}"


def likelihood_plot(card: JudgeCard) -> Plot:
    entry = entry_of(card, "likelihood")
    figures = {"judge": entry.value, "people": entry.human, "bias": entry.bias}
    rows = [
        {"whose": words} | value_of(one)
        for words, one in figures.items()
        if not isinstance(one, Undefined)
    ]
    caption = "γ for the likelier response, with 95 % intervals. The line is at no preference."
    drawing = intervals("whose", "γ", scale={"zero": True}, line_at=0)
    return plot("likelihood", "Preference for likely responses", caption, rows, drawing)
