"""Is model 1 better? Win rates of response 1, overall, by length, by category and by model."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from annotation.models import Round
from annotation.results.data.figures import (
    HollowEstimate,
    Number,
    Plot,
    Sentence,
    extended,
    intervals,
    optional,
    plot,
    share,
    value_of,
)
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import Sheet
from annotation.results.sections.position import two_orders
from annotation.results.sections.review import label_agreement
from judging.core.formatting import count, in_sentence
from judging.methods.agreement.accuracy import Comparison, credit
from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.bootstrap import CategoryTest, categories_differ, design_effect
from judging.methods.intervals.covariates import (
    CovariateBias,
    CovariateEffect,
    covariate_bias,
    covariate_effect,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, holm_of_tested, width
from judging.methods.intervals.win_rate import (
    AuditedLabels,
    everyone_labelled,
    judge_bias,
    vote_noise,
    win_points,
    win_rate,
    win_rate_test,
)
from judging.methods.ranking import (
    NextPair,
    PairResult,
    RankedModel,
    StyleRanking,
    bradley_terry,
    comparable,
    davidson,
    next_pairs,
    pairwise_results,
    style_controlled,
)
from judging.methods.verdicts.position import conflicts, order_labels

# A judge without a label says nothing for either side.
EVEN = 0.5


@dataclass(frozen=True)
class WinRates:
    """For examples like these. `judge` and `final` are hollow: they do not answer about people.

    calibrated: with the judge's labels replaced by what people's labels teach to expect.
    planned: which estimate is the one to cite, fixed when the first audited round was opened.
    bias: what trusting the judge does to the win rate. width_ratio: above 1 the judge's labels
    make the interval wider than people's alone.
    """

    judge: Figure
    final: Figure
    people: Figure
    judge_and_people: Figure
    people_with_vote_noise: Figure
    judge_and_people_with_vote_noise: Figure
    bias: Figure
    width_ratio: Number | Undefined
    calibrated: Figure
    planned: str


def win_rates(sheet: Sheet, calibrated: Figure, planned: str) -> WinRates:
    judge = of_labels(sheet, sheet.judge, sheet.judged)
    final = of_labels(sheet, sheet.final, sheet.has_final)
    hollow = extended(HollowEstimate, judge), extended(HollowEstimate, final)
    labels = audited_labels(sheet)
    if isinstance(labels, Undefined):
        return WinRates(*hollow, *[labels] * 6, calibrated=calibrated, planned=planned)
    # λ = 0 leaves the judge's labels out, so that this is the win rate by people alone.
    people, both = win_rate(labels, lam=0), win_rate(labels)
    noise = votes_noise(sheet)
    return WinRates(
        *hollow, people=people, judge_and_people=both,
        people_with_vote_noise=_noisy(labels, noise, lam=0),
        judge_and_people_with_vote_noise=_noisy(labels, noise), bias=_bias(sheet, labels),
        width_ratio=width_ratio(both, people), calibrated=calibrated, planned=planned,
    )  # fmt: skip


def of_labels(sheet: Sheet, labels: Signs, rows: Booleans) -> Figure:
    """Return the mean of these labels where they are; the same figure on every page."""
    return mean_of(labels[rows], sheet.question[rows])


def mean_of(labels: Signs, question: Codes) -> Figure:
    """Return the mean for examples like these, which would be of other questions."""
    values = win_points(labels)
    effect, questions = design_effect(values, question)
    return everyone_labelled(values, effect=effect, questions=questions)


def audited_labels(
    sheet: Sheet, inside: Booleans | None = None, turned: Booleans | None = None
) -> AuditedLabels | Undefined:
    """Y of the selected, f of the rest, and both of the audit.

    inside: the examples that count, None for all. turned: whose responses change places.
    """
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    rows = np.ones(len(sheet), bool) if inside is None else inside
    human, judge = win_points(sheet.human), _judge(sheet)
    if turned is not None:
        human, judge = (np.where(turned, 1 - points, points) for points in (human, judge))
    if sheet.everyone:
        labelled = known.rows[rows[known.rows]]
        values, nothing = human[labelled], np.zeros(0)
        if not len(values):
            return Undefined("no known label compares these two models")
        apart = design_effect(values, sheet.question[labelled])
        return AuditedLabels(values, nothing, nothing, nothing, *apart)
    selected, rest = sheet.selected & rows, ~sheet.selected & rows
    audited = sheet.audited & rest
    # Questions repeat among unlabelled examples too, so there the judge's labels show how alike
    # they are.
    mixed = np.where(sheet.selected | sheet.audited, human, judge)
    apart = design_effect(mixed[rows], sheet.question[rows])
    return AuditedLabels(human[selected], judge[rest], human[audited], judge[audited], *apart)


def votes_noise(sheet: Sheet) -> float | Undefined:
    """What other votes of the same people's kind would change, as a variance of the win rate.

    Without it the interval is about what this procedure, with these votes, says.
    """
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    if sheet.basis == "gold":
        return Undefined("known labels have no votes, so variation between voters is unknown")
    spread = sheet.ballots.counts.score_variance()
    audited = sheet.audited & ~sheet.selected
    selected = known.rows if sheet.everyone else np.flatnonzero(sheet.selected)
    # The variance needs two votes on every example whose label counts, and not on the others.
    seen = selected if sheet.everyone else np.flatnonzero(sheet.selected | audited)
    single = int(np.isnan(spread[seen]).sum())
    if single:
        have = "has" if single == 1 else "have"
        return Undefined(f"{single} of {len(seen)} examples {have} fewer than two votes")
    if sheet.everyone:
        return vote_noise(spread[selected], np.zeros(0), 0, len(selected))
    n_rest = int((~sheet.selected).sum())
    return vote_noise(spread[selected], spread[audited], n_rest, len(sheet))


def _noisy(labels: AuditedLabels, noise: float | Undefined, lam: float | None = None) -> Figure:
    if isinstance(noise, Undefined):
        return noise
    return win_rate(labels, lam=lam, noise=noise)


def _judge(sheet: Sheet) -> np.ndarray:
    return np.where(sheet.judged, win_points(sheet.judge), EVEN)


def _bias(sheet: Sheet, labels: AuditedLabels) -> Figure:
    """Return the judge's bias: known, not estimated, if people labelled everything."""
    known = sheet.known
    if not sheet.everyone or isinstance(known, Undefined):
        return judge_bias(labels)
    error = _judge(sheet)[known.rows] - win_points(sheet.human[known.rows])
    return Estimate(float(error.mean()), len(error), note="every label is known")


def width_ratio(both: Figure, people: Figure) -> Number | Undefined:
    widths = [width(figure) for figure in (both, people)]
    if None in widths or not widths[1]:
        return Undefined("one of the two win rates has no interval")
    return Number(float(widths[0] / widths[1]))


@dataclass(frozen=True)
class PreferenceEffect:
    """raw, equal: the win rate of response 1 as it is, and were both responses alike.

    slope: γ. share_alike: of pairs that hardly differ; few_alike: under a tenth of them, so that
    `equal_length_win_rate` is an extrapolation. separated: only Firth's correction keeps the slope
    finite.
    """

    raw_win_rate: Figure
    equal_length_win_rate: Figure
    slope: Figure
    share_alike: float
    few_alike: bool
    separated: bool


@dataclass(frozen=True)
class Preference:
    """The judge's and people's on the examples that both labelled, so that `bias` is the judge's
    slope less people's. everywhere: the judge's over everything that it judged.

    Without people's labels, `judge` is the same as `everywhere`.
    """

    judge: PreferenceEffect | Undefined
    human: PreferenceEffect | Undefined
    bias: Figure
    everywhere: PreferenceEffect | Undefined


def length(sheet: Sheet) -> Preference:
    """Measure the preference by the characters of response 1 less those of response 2."""
    return preference(sheet, sheet.length.astype(np.float64))


def preference(sheet: Sheet, difference: Floats) -> Preference:
    """difference: (N,) of response 1 less response 2; NaN where it is not known."""
    there = sheet.judged & ~np.isnan(difference)
    effect = covariate_effect(
        difference[there], (sheet.judge[there] + 1) / 2, question=sheet.question[there]
    )
    # An Undefined is false, so it stays what it is.
    everywhere = effect and _effect(effect, of_labels(sheet, sheet.judge, there))
    both = _length_bias(sheet, difference, there)
    if isinstance(both, Undefined):
        return Preference(everywhere, both, both, everywhere)
    judge, human = (_effect(fitted, fitted.raw) for fitted in (both.judge, both.human))
    return Preference(judge, human, both.bias, everywhere)


def _length_bias(sheet: Sheet, difference: Floats, there: Booleans) -> CovariateBias | Undefined:
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    inside = there[known.rows]
    rows = known.rows[inside]
    return covariate_bias(
        difference[rows], (sheet.judge[rows] + 1) / 2, (sheet.human[rows] + 1) / 2,
        weight=known.weight[inside], question=sheet.question[rows], stratum=known.stratum[inside],
    )  # fmt: skip


def _effect(effect: CovariateEffect, raw: Figure) -> PreferenceEffect:
    return PreferenceEffect(
        raw, effect.equal, effect.slope, effect.near, effect.few_comparable, effect.separated
    )


# The rest has too few examples each to say anything.
MOST = 50
NO_KNOWN_LABEL = Undefined("no known label can be compared with the judge's")


@dataclass(frozen=True)
class CategoryFigures:
    """The p_ fields: that the figure differs from that of the other categories, adjusted by Holm
    over the categories; None where it can't be tested."""

    category: str
    n: int
    accuracy: Figure
    kappa: Figure
    conflict_rate: Figure
    judge_win_rate: Figure
    p_accuracy: float | None
    p_conflict_rate: float | None
    p_judge_win_rate: float | None


@dataclass(frozen=True)
class CategoryDifferences:
    """Whether categories differ at all: p of a permutation test of each figure."""

    accuracy: Number | Undefined
    conflict_rate: Number | Undefined
    judge_win_rate: Number | Undefined


def category_differences(tests: Sequence[CategoryTest | Undefined]) -> CategoryDifferences:
    return CategoryDifferences(
        *[test if isinstance(test, Undefined) else Number(test.p) for test in tests]
    )


def category_tests(
    sheet: Sheet, samples: SampleArrays | Undefined
) -> list[CategoryTest | Undefined]:
    """Test accuracy, conflict rate and the judge's win rate for differences between categories.

    They have a generator of their own, so that no other figure depends on their draws."""
    _, code = np.unique(sheet.category, return_inverse=True)
    code, rng = code.reshape(-1), np.random.default_rng(len(sheet))
    compared, samples = sheet.comparison(sheet.judge, sheet.judged), two_orders(samples)
    tests: list[CategoryTest | Undefined] = []
    if isinstance(compared, Undefined) or isinstance(sheet.known, Undefined):
        tests.append(NO_KNOWN_LABEL)
    else:
        there = compared.judged
        earned = credit(
            compared.judge, compared.judged, compared.human, knows_ties=compared.knows_ties
        )
        tests.append(
            categories_differ(
                earned[there],
                code[sheet.known.rows][there],
                rng,
                weight=compared.weight[there],
                question=compared.question[there],
                stratum=compared.stratum[there],
            )
        )
    if isinstance(samples, Undefined):
        tests.append(samples)
    else:
        labels, there = order_labels(samples.difference, samples.valid, samples.band)
        both = there.all(axis=1)
        differ = labels[both, 0] != labels[both, 1]
        tests.append(categories_differ(differ, code[both], rng, question=sheet.question[both]))
    rows = sheet.judged
    points = win_points(sheet.judge[rows])
    tests.append(categories_differ(points, code[rows], rng, question=sheet.question[rows]))
    return tests


def by_category(
    sheet: Sheet,
    samples: SampleArrays | Undefined,
    rng: np.random.Generator,
    tests: Sequence[CategoryTest | Undefined] | None = None,
) -> list[CategoryFigures]:
    """The largest categories first; examples without one are `(none)`.

    tests: from `category_tests`, if they are there already.
    """
    tests = category_tests(sheet, samples) if tests is None else tests
    names, code, sizes = np.unique(sheet.category, return_inverse=True, return_counts=True)
    compared, samples = sheet.comparison(sheet.judge, sheet.judged), two_orders(samples)
    # Stable, so that categories of one size keep the order of their names.
    largest = np.argsort(-sizes, kind="stable")[:MOST]
    rows = []
    for c in largest:
        inside = code == c
        part = compared if isinstance(compared, Undefined) else _within(sheet, compared, inside)
        agreement = label_agreement(part, rng)
        rows.append(
            CategoryFigures(
                category=str(names[c]) or "(none)",
                n=int(sizes[c]),
                accuracy=agreement.accuracy,
                kappa=agreement.kappa,
                conflict_rate=_conflict_rate(sheet, samples, inside),
                judge_win_rate=of_labels(sheet, sheet.judge, inside & sheet.judged),
                p_accuracy=_adjusted(tests[0], int(c)),
                p_conflict_rate=_adjusted(tests[1], int(c)),
                p_judge_win_rate=_adjusted(tests[2], int(c)),
            )
        )
    return rows


def _adjusted(test: CategoryTest | Undefined, category: int) -> float | None:
    return None if isinstance(test, Undefined) else test.p_holm.get(category)


def _within(sheet: Sheet, compared: Comparison, inside: Booleans) -> Comparison | Undefined:
    known = sheet.known
    rows = inside[known.rows] if not isinstance(known, Undefined) else np.zeros(0, bool)
    if not rows.any():
        return Undefined("no known label in this category")
    return compared.at(rows)


def _conflict_rate(sheet: Sheet, samples: SampleArrays | Undefined, inside: Booleans) -> Figure:
    if isinstance(samples, Undefined):
        return samples
    labels, there = order_labels(samples.difference[inside], samples.valid[inside], samples.band)
    return conflicts(labels, there, sheet.question[inside]).conflict_rate


@dataclass(frozen=True)
class ModelPair:
    """Final labels of the examples that compare two models, turned to the first one.

    people: the first model's win rate by people with the judge's help. p: that it differs from one
    half, p_holm: adjusted over the pairs; None without an interval.
    """

    model_1: str
    model_2: str
    win: int
    tie: int
    lose: int
    win_rate: Figure
    people: Figure
    p: float | None
    p_holm: float | None


@dataclass(frozen=True)
class ModelStrength:
    """strength: log-odds with mean 0. win_rate: expected against the other models.

    rank_low, rank_high: the best and the worst rank that it may have."""

    model: str
    strength: Figure
    win_rate: Figure
    rank_low: int
    rank_high: int


@dataclass(frozen=True, kw_only=True)
class Davidson:
    """The ranking with ties as outcomes of their own. tie: ν of the model."""

    tie: Figure | None = optional()
    ranking: Sequence[ModelStrength]
    reason: str | None = optional()


@dataclass(frozen=True)
class ModelApart:
    """A model that can't be ranked with the others yet, and why."""

    model: str
    reason: str


@dataclass(frozen=True)
class StyleEffect:
    """effect: log-odds of a response for one standard deviation more of a style."""

    name: str
    effect: Figure


@dataclass(frozen=True, kw_only=True)
class StyleControlled:
    """The ranking between responses of the same style."""

    effects: Sequence[StyleEffect]
    ranking: Sequence[ModelStrength]
    reason: str | None = optional()


@dataclass(frozen=True, kw_only=True)
class ModelRanking:
    """Pairs in the order of import, and the Bradley-Terry ranking, a tie half a win each.

    next: the pairs of models whose next label tells most about all strengths.
    apart: the models that are not yet comparable.
    same_places: whether each model is always response 1, or always response 2.
    reason: why there is no ranking.
    """

    pairwise: Sequence[ModelPair]
    apart: Sequence[ModelApart]
    same_places: bool
    davidson: Davidson
    style: StyleControlled
    next: Sequence[NextPair]
    ranking: Sequence[ModelStrength]
    reason: str | None = optional()


STYLES = ("length", "markdown")
FEW_MODELS = Undefined("three models are needed")
NO_TEXTS = Undefined("the texts were removed, and with them what is known of their style")


def models(sheet: Sheet, style: Floats | None = None) -> ModelRanking:
    """style: (N, 2) length and markdown of response 1 less those of response 2."""
    named = np.array([bool(name) for name in sheet.models], dtype=bool)
    rows = sheet.has_final & (sheet.model_1 != sheet.model_2)
    # Responses without a model's name can't be ranked. An empty project has no names to look up.
    rows &= named[sheet.model_1] & named[sheet.model_2] if len(sheet) else False
    comparisons = (sheet.model_1[rows], sheet.model_2[rows], sheet.final[rows])
    # Examples of one question are resampled together.
    asked = {"question": sheet.question[rows]}
    # A model that no label compares yet doesn't keep the others from a ranking.
    places, met = np.unique(np.stack(comparisons[:2]), return_inverse=True)
    names = [sheet.models[place] for place in places]
    among = (*met.reshape(2, -1), comparisons[2])
    ranking = bradley_terry(names, *among, **asked)
    with_ties = davidson(names, *among, **asked)
    named_models = [name for name in sheet.models if name]
    # Styles are read for three models or more, unless the texts are gone.
    of_style: StyleRanking | Undefined = FEW_MODELS if len(named_models) < 3 else NO_TEXTS
    if isinstance(ranking, Undefined):
        of_style = ranking
    elif style is not None:
        # A style that never differs has no effect that could be estimated.
        differs = np.ptp(style[rows], axis=0) > 0
        of_style = style_controlled(names, *among, style[rows][:, differs], **asked)
    compared = comparable(names, *among)
    apart = () if isinstance(compared, Undefined) else compared.apart
    unmet = [name for name in named_models if name not in names] if names else []
    return ModelRanking(
        pairwise=_pairs(sheet, rows, pairwise_results(sheet.models, *comparisons)),
        apart=[ModelApart(model, reason) for model, reason in apart]
        + [ModelApart(model, "no label compares it yet") for model in unmet],
        # One column is left if every label compares the same two models in the same places.
        same_places=len(np.unique(np.stack(comparisons[:2]), axis=1).T) == 1,
        davidson=Davidson(ranking=(), reason=with_ties.reason)
        if isinstance(with_ties, Undefined)
        else Davidson(tie=with_ties.tie, ranking=_ranked(with_ties.ranked)),
        style=StyleControlled(effects=(), ranking=(), reason=of_style.reason)
        if isinstance(of_style, Undefined)
        else StyleControlled(
            effects=[
                StyleEffect(name, effect)
                for name, effect in zip(
                    np.array(STYLES)[differs].tolist(), of_style.effects, strict=True
                )
            ],
            ranking=_ranked(of_style.ranked),
        ),
        # Here models without any label take part, which the ranking has to leave out.
        next=next_pairs(named_models, *_places(named_models, sheet, rows), comparisons[2]),
        **{"ranking": (), "reason": ranking.reason}
        if isinstance(ranking, Undefined)
        else {"ranking": _ranked(ranking)},
    )


def _places(names: Sequence[str], sheet: Sheet, rows: Booleans) -> tuple[Codes, Codes]:
    place = {name: number for number, name in enumerate(names)}
    of_all = np.array([place.get(name, -1) for name in sheet.models], dtype=np.intp)
    return of_all[sheet.model_1[rows]], of_all[sheet.model_2[rows]]


def _pairs(sheet: Sheet, rows: Booleans, pairs: Sequence[PairResult]) -> list[ModelPair]:
    labels = [_between(sheet, pair) for pair in pairs]
    tests = [None if isinstance(label, Undefined) else win_rate_test(label) for label in labels]
    return [
        ModelPair(
            pair.model_1,
            pair.model_2,
            pair.wins,
            pair.ties,
            pair.losses,
            _win_rate(sheet, rows, pair),
            label if isinstance(label, Undefined) else win_rate(label),
            p,
            p_holm,
        )
        for pair, label, p, p_holm in zip(pairs, labels, tests, holm_of_tested(tests), strict=True)
    ]


def people_prefer(
    sheet: Sheet, model: str, other: str, confidence: float = 0.95
) -> Figure | Undefined:
    """Return the win rate of a model against another, by people with the judge's help."""
    labels = _between(sheet, PairResult(model, other, 0, 0, 0))
    return labels if isinstance(labels, Undefined) else win_rate(labels, confidence=confidence)


def _between(sheet: Sheet, pair: PairResult) -> AuditedLabels | Undefined:
    """Return the labels for the win rate between two models.

    The audit is a random sample of these examples too.
    """
    place_1, place_2 = (sheet.models.index(name) for name in (pair.model_1, pair.model_2))
    there = (sheet.model_1 == place_1) & (sheet.model_2 == place_2)
    turned = (sheet.model_1 == place_2) & (sheet.model_2 == place_1)
    return audited_labels(sheet, there | turned, turned)


def _ranked(models: Sequence[RankedModel]) -> list[ModelStrength]:
    return [
        ModelStrength(row.model, row.strength, Estimate(float(row.win_rate), row.n), *row.ranks)
        for row in models
    ]


def _win_rate(sheet: Sheet, rows: Booleans, pair: PairResult) -> Figure:
    """Return the win rate of the pair's first model, wherever it was shown; a tie is half a win."""
    place_1, place_2 = (sheet.models.index(name) for name in (pair.model_1, pair.model_2))
    first, second = sheet.model_1[rows], sheet.model_2[rows]
    there = (first == place_1) & (second == place_2)
    turned = (first == place_2) & (second == place_1)
    # A label is about response 1, which may be the pair's second model.
    signs = np.where(turned, -sheet.final[rows], sheet.final[rows])
    inside = there | turned
    return mean_of(signs[inside], sheet.question[rows][inside])


RATES = {
    "calibrated": "judge, calibrated by people",
    "judge_and_people": "judge and people",
    "people": "people alone",
    "final": "final labels (hollow)",
    "judge": "judge alone (hollow)",
}


def pair_names(ranking: ModelRanking) -> tuple[str, str] | None:
    """Return the two models if the project compares them throughout, in the same places."""
    if not ranking.same_places or len(ranking.pairwise) != 1:
        return None
    return ranking.pairwise[0].model_1, ranking.pairwise[0].model_2


def to_cite(rates: WinRates) -> str | None:
    """Return the name of the one win rate to cite: the one that was planned, if it has an interval,
    else the narrower of the two about people that need no fit. Of equally wide ones it is that of
    people alone: if every label is known, the judge has no part in either."""
    if rates.planned == Round.Cite.CALIBRATED and width(rates.calibrated) is not None:
        return "calibrated"
    widths = {name: width(getattr(rates, name)) for name in ("people", "judge_and_people")}
    # A win rate without an interval can't be cited, because nobody could tell how far it holds.
    known = {name: size for name, size in widths.items() if size is not None}
    return min(known, key=lambda name: known[name], default=None)


def is_of_models(ranking: ModelRanking) -> bool:
    """Return False if response 1 is not the same model in every pair, so that it can't win."""
    return pair_names(ranking) is not None or not ranking.pairwise


NO_ONE_MODEL = "response 1 is not the same model in every pair: see “Models” for who wins"


def whose_rate(models: ModelRanking) -> str:
    """Say whose win rate is shown, if it is that of response 1."""
    names = pair_names(models)
    if names is not None:
        return in_sentence(names[0])
    return "response 1" if is_of_models(models) else "response 1 of each pair"


def answer(rates: WinRates, models: ModelRanking, basis: str) -> Sentence:
    """Say who wins, for people if that is known: the judge's word is no answer by itself."""
    names, cited = pair_names(models), to_cite(rates)
    if cited is not None:
        whose = "the known labels" if basis == "gold" else "people"
        rate = getattr(rates, cited)
        return Sentence(_verdict(rate, names, whose), "win-rate")
    people = rates.people
    # All examples of one question have a win rate, and no interval to judge it by.
    reason = people.reason if isinstance(people, Undefined) else people.note
    if isinstance(rates.judge, Undefined):
        return Sentence(
            f"Which model is better isn't known yet ({reason}).", "win-rate", warns=True
        )
    return Sentence(
        f"Which model people prefer isn't known yet ({reason}). The judge alone gives "
        f"{whose_rate(models)} a win rate of {share(rates.judge)}, but its bias is unknown.",
        "win-rate",
        warns=True,
    )


def _verdict(estimate: Estimate, names: tuple[str, str] | None, whose: str) -> str:
    first, second = map(in_sentence, names or ("response 1", "response 2"))
    better = "No clear winner"
    if estimate.low is not None and estimate.low > EVEN:
        better = f"{first if names else 'Response 1'} is better than {second}"
    elif estimate.high is not None and estimate.high < EVEN:
        better = f"{second if names else 'Response 2'} is better than {first}"
    whom = first
    return f"{better}: {whose} give {whom} a win rate of {share(estimate)}."


@dataclass(frozen=True)
class RestingOn:
    """Who gave the final labels, a sentence about them, and whether people gave them all."""

    labels: str
    more: str
    checked: bool


def models_answer(ranking: ModelRanking, on: RestingOn) -> Sentence:
    """Say which model ranks first and whether clearly so; for two models, who won how often."""
    if len(ranking.pairwise) == 1 and not ranking.apart:
        (pair,) = ranking.pairwise
        n = pair.win + pair.tie + pair.lose
        ties = f"{count(pair.tie)} {'is a tie' if pair.tie == 1 else 'are ties'}"
        return Sentence(
            f"Of {count(n)} final labels, {in_sentence(pair.model_1)} wins {count(pair.win)} and "
            f"{in_sentence(pair.model_2)} wins {count(pair.lose)}; {ties}{on.more}.",
            "models",
        )
    if not ranking.pairwise:
        return Sentence(
            "No final label compares two named models yet. If the pairs name no models, import "
            "them with the columns model_1 and model_2.",
            "models",
        )
    if not ranking.ranking:
        return Sentence(f"The models can't be ranked: {ranking.reason}.", "models", warns=True)
    first, second = ranking.ranking[:2]
    # rank_high is the worst rank that the model may have. If that is 1, no other can be first.
    apart = first.rank_high == 1
    more = on.more
    if others := [model.model for model in ranking.apart]:
        more += f"; not yet comparable: {', '.join(map(in_sentence, others))}"
    return Sentence(
        f"Of {len(ranking.ranking)} models, {in_sentence(first.model)} ranks first by {on.labels}, "
        f"{'clearly' if apart else 'but not clearly'} ahead of {in_sentence(second.model)}{more}.",
        "models",
        warns=not on.checked,
    )


def win_rates_plot(figures: WinRates, models: ModelRanking) -> Plot:
    rates = {words: getattr(figures, name) for name, words in RATES.items()}
    rows = [
        {"by": words, "hollow": isinstance(rate, HollowEstimate)} | value_of(rate)
        for words, rate in rates.items()
        if not isinstance(rate, Undefined)
    ]
    whose = whose_rate(models)
    caption = "Hollow points cover sampling error only, not judge bias. The line is at one half."
    drawing = intervals("by", "win rate")
    *lines, points = drawing["layer"]
    drawing["layer"] = lines + [
        points
        | {"mark": {"type": "point", "size": 70, "strokeWidth": 1.5, "filled": filled}}
        | {"transform": [{"filter": f"{'!' if filled else ''}datum.hollow"}]}
        for filled in (True, False)
        # A layer without a row would have no scale.
        if any(row["hollow"] != filled for row in rows)
    ]
    return plot("win-rate", f"Win rate of {whose}", caption, rows, drawing)


def categories_plot(categories: Sequence[CategoryFigures]) -> Plot:
    rows = [
        {"category": row.category, "n": row.n} | value_of(row.accuracy)
        for row in categories
        if not isinstance(row.accuracy, Undefined)
    ]
    rows = rows if len(rows) > 1 else []
    caption = "The judge's accuracy per category, with its 95\u202f% interval."
    return plot("category", "By category", caption, rows, intervals("category", "accuracy"))


def models_plot(ranking: ModelRanking) -> Plot:
    """Plot the win rate of two models, or the expected win rates of more in order of rank."""
    if len(ranking.ranking) > 2:
        rows = [{"model": model.model} | value_of(model.strength) for model in ranking.ranking]
        scale = {"zero": False}
        drawing = intervals("model", "strength (log-odds)", scale=scale, line_at=0)
        caption = "Bradley–Terry strengths with 95\u202f% intervals. The line is the mean model."
        return plot("models", "Strength of each model", caption, rows, drawing)
    rows = [
        {"model": f"{in_sentence(pair.model_1)} against {in_sentence(pair.model_2)}"}
        | value_of(pair.win_rate)
        for pair in ranking.pairwise
        if not isinstance(pair.win_rate, Undefined)
    ]
    caption = "From the final labels, with 95\u202f% intervals. The line is at one half."
    return plot("models", "Win rate of each pair", caption, rows, intervals("model", "win rate"))
