"""Is model 1 better? Four win rates of response 1, and what trusting the judge does to them."""

from collections.abc import Sequence

import numpy as np

from annotation.results.data.figures import Json, lacking, shown, undefined
from annotation.results.data.samples import SampleArrays
from annotation.results.data.sheet import Sheet
from annotation.results.sections.review import label_agreement
from judging.methods.agreement.accuracy import Comparison
from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.bootstrap import design_effect
from judging.methods.intervals.covariates import (
    CovariateBias,
    CovariateEffect,
    covariate_bias,
    covariate_effect,
)
from judging.methods.intervals.estimates import Estimate, Figure, Undefined
from judging.methods.intervals.win_rate import (
    AuditedLabels,
    WinRateScale,
    everyone_labelled,
    judge_bias,
    vote_noise,
    win_rate,
)
from judging.methods.ranking import (
    PairResult,
    RankedModel,
    bradley_terry,
    comparable,
    davidson,
    pairwise_results,
)
from judging.methods.verdicts.position import conflicts, order_labels

HOLLOW = "sampling error only; the judge's bias on unreviewed examples is not in it"
# A judge without a label says nothing for either side.
EVEN = 0.5


def win_rates(sheet: Sheet) -> Json:
    """For examples like these. `judge` and `final` are hollow: they do not answer about people."""
    judge = of_labels(sheet, sheet.judge, sheet.judged)
    final = of_labels(sheet, sheet.final, sheet.has_final)
    hollow = {"judge": _hollow(judge), "final": _hollow(final)}
    labels = audited_labels(sheet)
    if isinstance(labels, Undefined):
        names = ("people", "judge_and_people", "bias", "width_ratio")
        noisy = [f"{name}_with_vote_noise" for name in names[:2]]
        return hollow | lacking(labels, *names, *noisy)
    people, both = win_rate(labels, lam=0), win_rate(labels)
    noise = votes_noise(sheet)
    return hollow | {
        "people": people.as_json(),
        "judge_and_people": both.as_json(),
        "people_with_vote_noise": _noisy(labels, noise, lam=0),
        "judge_and_people_with_vote_noise": _noisy(labels, noise),
        "bias": _bias(sheet, labels).as_json(),
        "width_ratio": _ratio(both, people),
    }


def of_labels(sheet: Sheet, labels: Signs, rows: Booleans) -> Figure:
    """The mean of these labels where they are; the same figure wherever it stands."""
    return mean_of(labels[rows], sheet.question[rows])


def mean_of(labels: Signs, question: Codes) -> Figure:
    """Other examples like these would be of other questions."""
    values = WinRateScale.WIN_RATE.points(labels)
    effect, questions = design_effect(values, question)
    return everyone_labelled(values, effect=effect, questions=questions)


def audited_labels(sheet: Sheet) -> AuditedLabels | Undefined:
    """Y of the selected, f of the rest, and both of the audit."""
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    points = WinRateScale.WIN_RATE.points
    human = points(sheet.human)
    if sheet.everyone:
        values, nothing = human[known.rows], np.zeros(0)
        apart = design_effect(values, sheet.question[known.rows])
        return AuditedLabels(values, nothing, nothing, nothing, *apart)
    judge, audited = _judge(sheet), sheet.audited & ~sheet.selected
    apart = design_effect(np.where(sheet.selected | audited, human, judge), sheet.question)
    return AuditedLabels(
        human[sheet.selected], judge[~sheet.selected], human[audited], judge[audited], *apart
    )


def votes_noise(sheet: Sheet) -> float | Undefined:
    """What other votes of the same people's kind would change, as a variance of the win rate.

    Without it the interval is about what this procedure, with these votes, says.
    """
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    if sheet.basis == "gold":
        return Undefined("known labels have no votes whose noise could be told")
    spread = sheet.ballots.counts.score_variance()
    audited = sheet.audited & ~sheet.selected
    selected = known.rows if sheet.everyone else np.flatnonzero(sheet.selected)
    seen = selected if sheet.everyone else np.flatnonzero(sheet.selected | audited)
    single = int(np.isnan(spread[seen]).sum())
    if single:
        return Undefined(f"{single} of {len(seen)} examples have fewer than two votes")
    if sheet.everyone:
        return vote_noise(spread[selected], np.zeros(0), 0, len(selected))
    n_rest = int((~sheet.selected).sum())
    return vote_noise(spread[selected], spread[audited], n_rest, len(sheet))


def _noisy(labels: AuditedLabels, noise: float | Undefined, lam: float | None = None) -> Json:
    if isinstance(noise, Undefined):
        return noise.as_json()
    return win_rate(labels, lam=lam, noise=noise).as_json()


def _judge(sheet: Sheet) -> np.ndarray:
    return np.where(sheet.judged, WinRateScale.WIN_RATE.points(sheet.judge), EVEN)


def _bias(sheet: Sheet, labels: AuditedLabels) -> Figure:
    """Where people labelled everything it is known and not estimated."""
    known = sheet.known
    if not sheet.everyone or isinstance(known, Undefined):
        return judge_bias(labels)
    error = _judge(sheet)[known.rows] - WinRateScale.WIN_RATE.points(sheet.human[known.rows])
    return Estimate(float(error.mean()), len(error), note="every label is known")


def _hollow(found: Figure) -> Json:
    return found.as_json() | ({"hollow": HOLLOW} if isinstance(found, Estimate) else {})


def _ratio(both: Figure, people: Figure) -> Json:
    """Above 1 the judge's labels make the interval wider than people's alone."""
    widths = [_width(one) for one in (both, people)]
    if None in widths or not widths[1]:
        return Undefined("one of the two has no interval").as_json()
    return shown(widths[0] / widths[1])


def _width(found: Figure) -> float | None:
    if isinstance(found, Undefined) or found.low is None or found.high is None:
        return None
    return found.high - found.low


def length(sheet: Sheet, rng: np.random.Generator) -> Json:
    """By the characters of response 1 less those of response 2."""
    return preference(sheet, sheet.length.astype(np.float64), rng)


def preference(sheet: Sheet, difference: Floats, rng: np.random.Generator) -> Json:
    """`judge` over everything judged; `human` and `bias` over the examples that both labelled.

    difference: (N,) of response 1 less response 2; NaN where it is not known.
    """
    there = sheet.judged & ~np.isnan(difference)
    effect = covariate_effect(
        difference[there], (sheet.judge[there] + 1) / 2, rng, question=sheet.question[there]
    )
    judge = {"judge": effect.as_json() if isinstance(effect, Undefined) else _effect(effect)}
    if not isinstance(effect, Undefined):
        judge["judge"]["raw_win_rate"] = of_labels(sheet, sheet.judge, there).as_json()
    both = _length_bias(sheet, difference, there, rng)
    if isinstance(both, Undefined):
        return judge | lacking(both, "human", "bias")
    return judge | {"human": _effect(both.human), "bias": both.bias.as_json()}


def _length_bias(
    sheet: Sheet, difference: Floats, there: Booleans, rng: np.random.Generator
) -> CovariateBias | Undefined:
    known = sheet.known
    if isinstance(known, Undefined):
        return known
    inside = there[known.rows]
    rows = known.rows[inside]
    return covariate_bias(
        difference[rows],
        (sheet.judge[rows] + 1) / 2,
        (sheet.human[rows] + 1) / 2,
        rng,
        weight=known.weight[inside],
        question=sheet.question[rows],
        stratum=known.stratum[inside],
    )


def _effect(found: CovariateEffect) -> Json:
    return {
        "raw_win_rate": found.raw.as_json(),
        "equal_length_win_rate": found.equal.as_json(),
        "slope": found.slope.as_json(),
        "share_alike": found.near,
        "few_alike": found.few_comparable,
        "separated": found.separated,
    }


# The rest has too few examples each to say anything.
MOST = 50


def by_category(
    sheet: Sheet, samples: SampleArrays | Undefined, rng: np.random.Generator
) -> list[Json]:
    """The largest categories first; examples without one are `(none)`."""
    names, code, sizes = np.unique(sheet.category, return_inverse=True, return_counts=True)
    compared = sheet.comparison(sheet.judge, sheet.judged)
    largest = np.argsort(-sizes, kind="stable")[:MOST]
    return [
        {"category": str(names[c]) or "(none)", "n": int(sizes[c])}
        | _category(sheet, samples, compared, code == c, rng)
        for c in largest
    ]


def _category(
    sheet: Sheet,
    samples: SampleArrays | Undefined,
    compared: Comparison | Undefined,
    inside: Booleans,
    rng: np.random.Generator,
) -> Json:
    part = compared if isinstance(compared, Undefined) else _within(sheet, compared, inside)
    found = label_agreement(part, rng)
    return {
        "accuracy": found.accuracy.as_json(),
        "kappa": found.kappa.as_json(),
        "conflict_rate": _conflict_rate(sheet, samples, inside),
        "judge_win_rate": of_labels(sheet, sheet.judge, inside & sheet.judged).as_json(),
    }


def _within(sheet: Sheet, compared: Comparison, inside: Booleans) -> Comparison | Undefined:
    known = sheet.known
    rows = inside[known.rows] if not isinstance(known, Undefined) else np.zeros(0, bool)
    if not rows.any():
        return Undefined("no known label in this category")
    return compared.at(rows)


def _conflict_rate(sheet: Sheet, samples: SampleArrays | Undefined, inside: Booleans) -> Json:
    if isinstance(samples, Undefined):
        return samples.as_json()
    if samples.orders < 2:
        return undefined("this run asked in one order only")
    labels, there = order_labels(samples.difference[inside], samples.valid[inside])
    return conflicts(labels, there, sheet.question[inside]).conflict_rate.as_json()


def models(sheet: Sheet, rng: np.random.Generator) -> Json:
    """Pairs in the order of import, and the Bradley-Terry ranking, a tie half a win each.

    `davidson` has the same with ties as outcomes of their own.
    """
    named = np.array([bool(name) for name in sheet.models], dtype=bool)
    rows = sheet.has_final & (sheet.model_1 != sheet.model_2)
    rows &= named[sheet.model_1] & named[sheet.model_2] if len(sheet) else False
    given = (sheet.model_1[rows], sheet.model_2[rows], sheet.final[rows])
    asked = {"question": sheet.question[rows]}
    # A model that no label compares yet doesn't keep the others from a ranking.
    places, met = np.unique(np.stack(given[:2]), return_inverse=True)
    names = [sheet.models[place] for place in places]
    among = (*met.reshape(2, -1), given[2])
    ranking = bradley_terry(names, *among, rng, **asked)
    with_ties = davidson(names, *among, rng, **asked)
    compared = comparable(names, *among)
    apart = () if isinstance(compared, Undefined) else compared.apart
    unmet = [name for name in sheet.models if name and name not in names]
    pairs = pairwise_results(sheet.models, *given)
    found: Json = {
        "pairwise": [
            {
                "model_1": one.model_1,
                "model_2": one.model_2,
                "win": one.wins,
                "tie": one.ties,
                "lose": one.losses,
                "win_rate": _win_rate(sheet, rows, one).as_json(),
            }
            for one in pairs
        ],
        "apart": [{"model": model, "reason": reason} for model, reason in apart]
        + [{"model": model, "reason": "no label compares it yet"} for model in unmet if names],
        "same_places": len(np.unique(np.stack(given[:2]), axis=1).T) == 1,
        "davidson": {"ranking": [], "reason": with_ties.reason}
        if isinstance(with_ties, Undefined)
        else {"tie": with_ties.tie.as_json(), "ranking": _ranked(with_ties.ranked)},
    }
    if isinstance(ranking, Undefined):
        return found | {"ranking": [], "reason": ranking.reason}
    return found | {"ranking": _ranked(ranking)}


def _ranked(models: Sequence[RankedModel]) -> list[Json]:
    return [
        {
            "model": one.model,
            "strength": one.strength.as_json(),
            "win_rate": shown(one.win_rate, one.n),
        }
        for one in models
    ]


def _win_rate(sheet: Sheet, rows: Booleans, pair: PairResult) -> Figure:
    """Of the pair's first model, wherever it stands; a tie is half a win."""
    one, other = (sheet.models.index(name) for name in (pair.model_1, pair.model_2))
    first, second = sheet.model_1[rows], sheet.model_2[rows]
    there = (first == one) & (second == other)
    turned = (first == other) & (second == one)
    signs = np.where(turned, -sheet.final[rows], sheet.final[rows])
    inside = there | turned
    return mean_of(signs[inside], sheet.question[rows][inside])
