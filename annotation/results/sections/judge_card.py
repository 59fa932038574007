"""The judge's card: one figure for each bias, its meaning, and how to reduce it.

At the end how the judge and people agree on each criterion, of a run that scored criteria."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from annotation.results.data.figures import (
    Data,
    Plot,
    Sentence,
    intervals,
    optional,
    plot,
    value_of,
)
from annotation.results.merge.final_labels import CHUNK, spread
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.calibration import own_probabilities, read_calibration
from annotation.results.sections.people import CRITERIA, MISSING, design_on, read_criteria, votes_on
from annotation.results.sections.position import ONE_ORDER, two_orders
from annotation.results.sections.win_rates import Preference, preference
from judging.core.formatting import count, decimals, interval
from judging.methods.agreement.accuracy import Comparison, accuracy
from judging.methods.agreement.votes import VoteCounts, beyond_chance, kappa
from judging.methods.arrays import Signs
from judging.methods.calibration.probabilities import advantage, advantage_of
from judging.methods.intervals.bootstrap import share
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, holm_of_tested, wilson
from judging.methods.verdicts.position import order_labels
from judging.runs.forms.likelihood import pair_differences
from judging.runs.models import Form, Parse, Verdict

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
    """Return the family that a known word in the name tells, or else the name itself."""
    # Only the last part is the model's own name; the part before it can name a host.
    name = model.rpartition("/")[2].casefold()
    words = [word for word in _WORD.findall(name) if word]
    for family, known in _FAMILIES.items():
        # The name `llama3` is of the family llama, while o1 and o3 are words of their own.
        if any(word == key or word.rstrip("0123456789") == key for word in words for key in known):
            return family
    return name or None


_COST = np.dtype([("example", "i8"), ("usd", "f8")])


def read_card(of: Analysis) -> Data:
    """usd: (N,) NaN where not known; likelihood, per_token: response 1 less 2, NaN likewise."""
    usd = np.full(len(of.sheet), np.nan)
    if of.run.price is not None:
        known = Verdict.objects.filter(run=of.run, usd__isnull=False)
        rows = known.values_list("example", "usd").iterator(chunk_size=CHUNK)
        costs = np.fromiter(rows, dtype=_COST)
        usd = spread(of.sheet.ids, costs["example"], costs["usd"])
    likelihoods = pair_differences(of.project, of.sheet.ids)
    plain = {"likelihood_model": likelihoods.model, "statuses": of.statuses}
    arrays = {"usd": usd, "likelihood": likelihoods.sums, "per_token": likelihoods.per_token}
    return Data(arrays, plain)


NO_PLACES = Undefined("not applicable to human labels")
NO_IDS = Undefined("only runs of the form choice have option IDs")
NO_LIKELIHOOD = Undefined(
    "no likelihoods yet; compute them with manage.py likelihood PROJECT --run RUN"
)
NO_KIN = Undefined(
    "no pair compares a model from the judge’s family with a model from another family"
)
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

    @property
    def is_share(self) -> bool:
        """Return True if pages show the figure in percent."""
        return self.key in ("repetition", "unparsed")

    @property
    def is_difference(self) -> bool:
        """Return True if pages show the figure in percentage points."""
        return self.key in ("position", "id_token")


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
            # These permutations can't tell the position from the option's ID, so the orders show
            # both together.
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
    """Return the first position's advantage, by the label of each order's mean."""
    samples = two_orders(of.samples)
    if isinstance(samples, Undefined):
        return samples
    labels, there = order_labels(samples.difference, samples.valid, samples.band)
    # Win, tie and lose earn 1, ½ and 0, so that a difference of means is one of win rates.
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
    slopes = Preference(*[NO_LIKELIHOOD] * 4)
    if not np.isnan(differences).all():
        slopes = preference(of.sheet, differences)
    return of_preference(
        "likelihood",
        "Likelihood bias",
        slopes,
        "γ for the response that a language model finds more likely. Compare it with Length: a "
        "response’s likelihood depends on its length.",
        "Show the judge the most biased examples with people’s scores first (pointwise runs: "
        "--shots-from).",
    )


def self_preference(of: Analysis) -> CardEntry:
    kin, slopes = kinship(of), Preference(*[NO_KIN] * 4)
    if kin.any():
        slopes = preference(of.sheet, kin)
    return of_preference(
        "self_preference",
        "Self-preference",
        slopes,
        "γ for the response by a model of the judge’s own family. Above 0, the judge prefers its "
        "own family.",
        "Use a judge from a different family than both models.",
    )


def kinship(of: Analysis) -> np.ndarray:
    """Return (N,) 1 if response 1 alone is of the judge's family, -1 if response 2 alone is."""
    family = family_of(of.run.model)
    kin = np.array([family is not None and family_of(name) == family for name in of.sheet.models])
    if not len(kin):
        return np.zeros(len(of.sheet))
    # Two responses of the same family differ by 0, which tells nothing about a preference for it.
    return kin[of.sheet.model_1].astype(float) - kin[of.sheet.model_2].astype(float)


def of_preference(key: str, title: str, slopes: Preference, meaning: str, remedy: str) -> CardEntry:
    judge, human = (
        effect if isinstance(effect, Undefined) else effect.slope
        for effect in (slopes.judge, slopes.human)
    )
    return CardEntry(
        key=key, title=title, value=judge, human=human, bias=slopes.bias, neutral=0.0,
        meaning=meaning, remedy=remedy,
    )  # fmt: skip


def stability(of: Analysis) -> CardEntry:
    return CardEntry(
        key="repetition", title="Repetition stability", value=of.position.repetition_stability,
        meaning="How often two samples of the same prompt agree.",
        remedy="Ask for more samples (k), or use a lower temperature.", neutral=1.0,
    )  # fmt: skip


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
    position_bias, token_bias, length_bias, likelihood_bias, self_preference, stability, unparsed,
    cost,
)  # fmt: skip


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
    # A γ of the judge alone is an association: likelier responses may be better. Only more than
    # people's is a bias.
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
        {"whose": words} | value_of(figure)
        for words, figure in figures.items()
        if not isinstance(figure, Undefined)
    ]
    caption = "γ for the likelier response, with 95\u202f% intervals. The line is at no preference."
    drawing = intervals("whose", "γ", scale={"zero": True}, line_at=0)
    return plot("likelihood", "Preference for likely responses", caption, rows, drawing)


JUDGE_CRITERIA = "judge_criteria"
NOT_ASKED = Undefined("the judge was not asked for scores on criteria")


@dataclass(frozen=True, kw_only=True)
class JudgeOnCriterion:
    """The judge against people on a criterion.

    n: examples with the judge's scores. conflict_rate: how often swapping the responses changes
    which one has the higher mean score. accuracy, kappa: against the majority of people's votes on
    the criterion, where these have one. p_kappa_holm: that they agree beyond chance, one-sided,
    adjusted over the criteria.
    """

    criterion: str
    n: int
    conflict_rate: Figure
    accuracy: Figure
    kappa: Figure
    p_kappa_holm: float | None = optional()


def read_judge_criteria(of: Analysis) -> Data | Undefined:
    """Read which response has the higher mean score on each criterion.

    Returns: by example and criterion, in each order and over both: a sign, or MISSING."""
    run = of.run
    if run.form != Form.CRITERIA:
        return NOT_ASKED
    names = list(run.parameters["output"].get("criteria", ()))
    place = {pk: row for row, pk in enumerate(of.sheet.ids.tolist())}
    orders = list(run.orders)
    sums = np.zeros((len(orders), len(place), len(names)))
    counts = np.zeros(sums.shape)
    rows = (
        Parse.objects.that_count(run)
        .filter(status=Parse.Status.VALID, criteria__isnull=False)
        .values_list("sample__call__example", "sample__call__part", "criteria")
    )
    for example, part, scores in rows.iterator(chunk_size=CHUNK):
        if example in place:
            for column, name in enumerate(names):
                score_1, score_2 = scores[name]
                sums[orders.index(part), place[example], column] += float(score_1) - float(score_2)
                counts[orders.index(part), place[example], column] += 1
    # NaN stays NaN in the sum over the orders: one order alone would bring in its position bias.
    means = np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
    return Data(
        {"orders": _signs_of(means), "judge": _signs_of(means.sum(axis=0))}, {"names": names}
    )


# Sums of scores differ by more, or only by rounding.
_PLACES = 9


def _signs_of(means: np.ndarray) -> Signs:
    signs = np.sign(np.round(means, _PLACES))
    return np.where(np.isnan(means), MISSING, signs).astype(np.int8)


def judge_criteria(of: Analysis) -> Sequence[JudgeOnCriterion]:
    """Return a row for each criterion that the judge scored; none for runs of other forms."""
    read = of.own(JUDGE_CRITERIA, read_judge_criteria)
    if isinstance(read, Undefined):
        return []
    rng, sheet, people = of.rng, of.sheet, of.own(CRITERIA, read_criteria)
    rows, tests = [], []
    for column, name in enumerate(read.plain["names"]):
        judge = read.arrays["judge"][:, column]
        compared: Comparison | Undefined = Undefined("nobody voted on this criterion")
        if not isinstance(people, Undefined) and name in people.plain["names"]:
            compared = _compared(of, people, people.plain["names"].index(name), judge)
        orders = read.arrays["orders"][:, :, column]
        both = (orders != MISSING).all(axis=0)
        conflict: Figure = ONE_ORDER
        if len(orders) == 2:
            conflict = share(
                orders[0, both] != orders[1, both],
                sheet.question[both],
                reason="no example has scores in both orders",
            )
        figure = {"criterion": name, "n": int((judge != MISSING).sum()), "conflict_rate": conflict}
        if isinstance(compared, Undefined):
            rows.append(figure | {"accuracy": compared, "kappa": compared})
            # A criterion that can't be tested is no part of the family that Holm's correction
            # counts.
            tests.append(None)
            continue
        rows.append(figure | {"accuracy": accuracy(compared), "kappa": kappa(compared, rng)})
        there = compared.judged
        # For this test the judge and people's majority are two voters on each example.
        pairs = np.stack((compared.judge[there], compared.human[there]), axis=1)
        met = np.ones(pairs.shape, bool)
        tests.append(beyond_chance(pairs, met, compared.question[there], rng))
    adjusted = holm_of_tested(tests)
    return [JudgeOnCriterion(**row, p_kappa_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def _compared(of: Analysis, people: Data, column: int, judge: Signs) -> Comparison | Undefined:
    """Compare the judge's signs with people's majority, weighted by why people saw the example."""
    sheet, answers = of.sheet, people.arrays["answers"][:, column]
    there = answers != MISSING
    example, person = people.arrays["example"][there], people.arrays["person"][there]
    votes, present = votes_on(np.sign(answers[there]), example, person, len(sheet))
    human, has = VoteCounts.from_votes(votes, present).majority()
    design = design_on(sheet, present.any(axis=1))
    if isinstance(design, Undefined):
        return design
    weights = design.weights()
    assert not isinstance(weights, Undefined)
    rows = np.flatnonzero((weights > 0) & has)
    if not len(rows):
        return Undefined("no example has a majority on this criterion")
    judged = judge[rows] != MISSING
    return Comparison(
        # Kappa looks up the sign of every row, also of those that it then leaves out.
        np.where(judged, judge[rows], 0),
        judged,
        human[rows],
        weights[rows],
        (~design.selected[rows]).astype(np.intp),
        sheet.question[rows],
        knows_ties=True,
    )
