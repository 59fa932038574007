"""Figures of one method or of people, with a truth: PORTIA, calibrations, likelihood, agreement.

As in `figures`, each check draws a setting and says for each figure whether its interval held."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from itertools import product

import numpy as np
from scipy.stats import spearmanr

from benchmarks.simulations.choices import CONFUSED, ChoiceJudge
from benchmarks.simulations.coverage import Check, Found, Rng, held
from judging.methods.agreement.accuracy import Comparison, Design, comparison
from judging.methods.agreement.fewer_samples import expected_labels, expected_right
from judging.methods.agreement.spans import span_overlap
from judging.methods.agreement.votes import (
    agreement_interval,
    beyond_chance,
    category_counts,
    cohen_kappa,
    confusion,
    fleiss_kappa,
    gwet_ac1,
    kappa,
    krippendorff_alpha,
    ordinal_alpha,
    percent_agreement,
)
from judging.methods.arrays import Codes, Floats, Signs
from judging.methods.calibration.comparison import compare_calibrations
from judging.methods.calibration.methods import method_named
from judging.methods.calibration.probabilities import (
    PERMUTATIONS,
    advantage_of,
    choice_probabilities,
)
from judging.methods.calibration.table import icc, icc_columns, signs
from judging.methods.intervals.bootstrap import design_effect, plus_two_mean, plus_two_ratio, share
from judging.methods.intervals.covariates import explained_by
from judging.methods.intervals.estimates import Estimate, Figure, Undefined, holm, median
from judging.methods.intervals.win_rate import AuditedLabels, win_rate
from judging.methods.likelihood.bias import likelihood_bias, unfairness
from judging.methods.portia.breakdowns import (
    agreement_with_people,
    agreement_with_reference,
    first_position_share,
    human_ties,
)
from judging.methods.portia.coverage import consistency, fixed_coverage, stages_per_example
from judging.methods.portia.stages import OrderLabels, StageLabels

# The population from which truths without a formula are taken.
MANY = 100_000
BOUND = 0.05
# Share of the examples that are like the first one of their question.
TOGETHER = 0.7
# Examples, and how many of them share a question.
DESIGNS = ((20, 1), (80, 1), (80, 4), (400, 1))
Figures = dict[str, Figure]


def _question(n: int, each: int) -> Codes:
    return np.arange(n) // each


def _together(values: Floats, each: int, rng: Rng) -> Floats:
    """Draws of which most are those of the first example of their question; (n,) or (n, c)."""
    if each == 1:
        return values
    first = np.repeat(values[::each], each, axis=0)[: len(values)]
    return np.where(
        (rng.random(len(values)) < TOGETHER)[(..., *[None] * (values.ndim - 1))], first, values
    )


def share_checks() -> Iterator[Check]:
    for each, n, p in product((1, 4, 10), (20, 80, 400), (0.01, 0.05, 0.10, 0.50)):

        def draw(rng: Rng, n: int = n, p: float = p, each: int = each) -> dict[str, Found | None]:
            values = (_together(rng.random(n), each, rng) < p).astype(float)
            return {"share of examples": held(share(values, _question(n, each)), p)}

        yield Check(f"N={n}, true for {p:.0%}, {each} to a question", draw)


def difference_checks() -> Iterator[Check]:
    """Two judges on the same examples: all labelled, several to a question, and after an audit."""
    for n, audit, each in (
        (20, 0, 1),
        (80, 0, 1),
        (80, 0, 4),
        (400, 0, 1),
        (80, 20, 1),
        (400, 60, 1),
    ):
        for wrong in (0.02, 0.10, 0.40):

            def draw(
                rng: Rng, n: int = n, audit: int = audit, each: int = each, wrong: float = wrong
            ) -> dict[str, Found | None]:
                chance = _together(rng.random((n, 2)), each, rng)
                apart = (chance[:, 0] >= wrong) - 1.0 * (chance[:, 1] >= wrong / 2)
                question, truth, name = _question(n, each), -wrong / 2, "paired difference"
                if not audit:
                    figure = plus_two_ratio(apart, np.ones(n), (-1, 1), question=question)
                    return {name: held(figure, truth)}
                order = np.argsort(-(rng.normal(size=n) + 1.5 * (chance[:, 0] < wrong)))
                m = n // 5
                rows = np.concatenate((order[:m], rng.choice(order[m:], audit, replace=False)))
                weight = np.repeat([1.0, (n - m) / audit], [m, audit])
                figure = plus_two_ratio(
                    apart[rows], np.ones(len(rows)), (-1, 1), weight=weight, stratum=weight > 1
                )
                return {f"{name} after an audit": held(figure, float(apart.mean()))}

            design = f"audit {audit}" if audit else f"all labelled, {each} to a question"
            yield Check(f"N={n}, {design}, errors {wrong:.0%} and {wrong / 2:.0%}", draw)


def _portia(
    n: int, torn: float, helps: float, each: int, rng: Rng
) -> tuple[StageLabels, Signs, OrderLabels]:
    """Labels by stage, people's, and another judge's. Of the examples `torn` are decided by the
    position when shown whole; alignment settles `helps` of these, and chance some of the rest."""
    u = _together(rng.random((n, 4)), each, rng)
    truth = np.where(u[:, 0] < 0.5, 1, -1).astype(np.int8)
    by_position = u[:, 1] < torn
    labels = np.repeat(truth[:, None, None], 3, axis=1).repeat(2, axis=2)
    guesses = rng.choice(np.array([1, -1], np.int8), (n, 3, 2), p=(0.6, 0.4))
    guesses[:, 0] = [1, -1]
    unsure = by_position[:, None] & ((u[:, 2, None] >= helps) | (np.arange(3) == 0))
    labels = np.where(unsure[:, :, None], guesses, labels).astype(np.int8)
    agrees = labels[:, :, 0] == labels[:, :, 1]
    asked = np.column_stack((np.ones(n, bool), ~agrees[:, 0], ~agrees[:, 0] & ~agrees[:, 1]))
    last = asked.sum(axis=1) - 1
    human = np.where(u[:, 3] < 0.15, 0, np.where(rng.random(n) < 0.85, truth, -truth))
    other = np.where(rng.random(n) < 0.9, truth, -truth).astype(np.int8)
    stages = StageLabels(labels, np.ones((n, 3, 2), bool), asked, last)
    return (
        stages,
        human.astype(np.int8),
        OrderLabels(np.stack((other, other), axis=1), np.ones((n, 2), bool)),
    )


def _portia_figures(
    stages: StageLabels, human: Signs, other: OrderLabels, question: Codes
) -> Figures:
    unsplit, n = stages.unsplit, len(stages)
    assert isinstance(unsplit, OrderLabels)
    every = Design(np.ones(n, bool), np.zeros(n, bool))
    coverage = fixed_coverage(stages, unsplit, question=question)
    against_people = agreement_with_people(stages, unsplit, human, every, question)
    against_judge = agreement_with_reference(stages, unsplit, other, question)
    return {
        "gain in consistency": consistency(stages, unsplit, question).gain,
        "fixed coverage": coverage.coverage,
        "fixed coverage beyond chance": coverage.beyond_chance,
        "first position": first_position_share(stages.final, question),
        "gain in agreement with people": against_people.gain,
        "gain in agreement with a judge": against_judge.gain,
        "human ties where consistent": human_ties(unsplit, human, every, question).where_consistent,
        "stages an example": stages_per_example(stages, question),
    }


@cache
def _portia_truth(torn: float, helps: float) -> dict[str, float]:
    drawn = _portia(MANY, torn, helps, 1, np.random.default_rng(0))
    found = _portia_figures(*drawn, np.arange(MANY))
    return {name: one.value for name, one in found.items() if isinstance(one, Estimate)}


def portia_checks() -> Iterator[Check]:
    for n, (torn, helps), each in product(
        (20, 80, 400), ((0.1, 0.5), (0.5, 0.0), (0.8, 0.6)), (1, 4)
    ):

        def draw(
            rng: Rng, n: int = n, torn: float = torn, helps: float = helps, each: int = each
        ) -> dict[str, Found | None]:
            truth = _portia_truth(torn, helps)
            found = _portia_figures(*_portia(n, torn, helps, each, rng), _question(n, each))
            return {name: held(one, truth[name]) for name, one in found.items()}

        yield Check(f"N={n}, torn {torn:.0%}, settles {helps:.0%}, {each} to a question", draw)


CHOOSERS = {
    "slightly biased": ChoiceJudge(token=0.3, position=0.2, clear=2.1, noise=0.3),
    "biased": CONFUSED,
    "token decides": ChoiceJudge(token=2.5, position=0.2, clear=1.0, noise=0.3),
    "nearly exact": ChoiceJudge(token=0.05, position=0.05, clear=3.0, noise=0.05),
}


def _chosen(
    judge: ChoiceJudge, n: int, names: tuple[str, ...], each: int, rng: Rng
) -> tuple[Floats, Signs]:
    """P(t1) of each permutation, and labels of which a tenth contradict the contents."""
    better = _together(rng.normal(0, judge.clear, n), each, rng)
    p = np.stack([judge.p_t1(better, name, rng) for name in names], axis=1)
    return p, np.where((better > 0) == (rng.random(n) < 0.9), 1, -1).astype(np.int8)


@cache
def _choice_truth(name: str, names: tuple[str, ...]) -> dict[str, float]:
    table, gold = _chosen(CHOOSERS[name], MANY, names, 1, np.random.default_rng(0))
    given = choice_probabilities(table, names)
    p = given.of_response_1()
    said, mean = signs(p), signs(p.mean(axis=1))
    fleiss = fleiss_kappa(category_counts(said, np.ones_like(said), (1, 0, -1)))
    assert isinstance(fleiss, float)
    icc_2k, icc_3k = icc(icc_columns(p, given.present).sum(axis=0))
    apart = [50 * abs((of[gold == 1] == 1).mean() - (of[gold == -1] == -1).mean()) for of in said.T]
    position, token = (advantage_of(what, given) for what in ("position", "token"))
    return {
        "kappa of permutations": fleiss,
        "ICC(2,k)": float(icc_2k),
        "ICC(3,k)": float(icc_3k),
        "RStd of one permutation": float(apart[0]),
        "RStd, mean over permutations": float(np.mean(apart)),
        "accuracy of one permutation": float((said == gold[:, None]).mean()),
        "accuracy of the mean": float((mean == gold).mean()),
        "gain over the plain mean": 0.0,
        "position advantage": 0.0 if isinstance(position, Undefined) else position.value,
        "ID-token advantage": 0.0 if isinstance(token, Undefined) else token.value,
    }


def calibration_checks() -> Iterator[Check]:
    designs = (*DESIGNS, (40, 1))
    for (n, each), name, names in product(designs, CHOOSERS, (("X0", "X2"), PERMUTATIONS)):

        def draw(
            rng: Rng, n: int = n, each: int = each, name: str = name, names: tuple[str, ...] = names
        ) -> dict[str, Found | None]:
            table, gold = _chosen(CHOOSERS[name], n, names, each, rng)
            given = choice_probabilities(table, names)
            found = compare_calibrations(
                given,
                [method_named("uncalibrated"), method_named("mean")],
                rng,
                gold=gold,
                question=_question(n, each),
            )
            row, truth = found.row("uncalibrated"), _choice_truth(name, names)
            figures: Figures = {
                "kappa of permutations": row.kappa,
                "ICC(2,k)": row.icc_2k,
                "ICC(3,k)": row.icc_3k,
                "RStd of one permutation": row.by_permutation["X0"].rstd,
                "RStd, mean over permutations": row.average.rstd,
                "accuracy of one permutation": row.average.accuracy,
                "accuracy of the mean": row.mean.accuracy,
                "gain over the plain mean": row.gain,
            }
            if len(names) > 2:
                for what, words in (("position", "position"), ("token", "ID-token")):
                    figures[f"{words} advantage"] = advantage_of(
                        what, given, question=_question(n, each)
                    )
            return {name: held(one, truth[name]) for name, one in figures.items()}

        yield Check(f"N={n}, {name}, {len(names)} permutations, {each} to a question", draw)


def _scored(n: int, bias: float, each: int, rng: Rng) -> tuple[Floats, Floats, Floats, Floats]:
    """LS, the judge's and people's scores from 1 to 5, and the length."""
    length = rng.gamma(6, 10, n)
    fluent, quality = _together(rng.normal(size=(n, 2)), each, rng).T
    ls = -2 * length + 25 * fluent
    human = np.clip(np.rint(3 + quality + rng.normal(0, 0.5, n)), 1, 5)
    judge = np.clip(3 + quality + bias * fluent + rng.normal(0, 0.7, n) * (1 + (fluent > 1)), 1, 5)
    return ls, judge, human, length


@cache
def _scored_truth(bias: float) -> dict[str, float]:
    """On the scale from 1 to 5, which samples reach."""
    ls, judge, human, length = _scored(MANY, bias, 1, np.random.default_rng(0))
    over = unfairness(judge, human)
    xy, xz, yz = (spearmanr(*pair).statistic for pair in ((ls, over), (ls, length), (over, length)))
    return {
        "BiasScore": xy,
        "BiasScore given length": (xy - xz * yz) / np.sqrt((1 - xz**2) * (1 - yz**2)),
        "likelihood with length": xz,
        "judge with people": spearmanr(judge, human).statistic,
    }


def likelihood_checks() -> Iterator[Check]:
    for (n, each), bias in product(DESIGNS, (0.0, 0.5, 2.0)):

        def draw(
            rng: Rng, n: int = n, each: int = each, bias: float = bias
        ) -> dict[str, Found | None]:
            ls, judge, human, length = _scored(n, bias, each, rng)
            found = likelihood_bias(
                ls, judge, human, rng, length=length, question=_question(n, each)
            )
            truth = _scored_truth(bias)
            figures = (found.bias, found.given_length, found.length, found.performance)
            return {name: held(one, truth[name]) for name, one in zip(truth, figures, strict=True)}

        yield Check(f"N={n}, bias {bias:g}, {each} to a question", draw)


def fewer_checks() -> Iterator[Check]:
    """One of three samples in each order; the truth is the mean of the chance to be right."""
    for (n, each), unsure in product(DESIGNS, (0.02, 0.10, 0.50)):

        def draw(
            rng: Rng, n: int = n, each: int = each, unsure: float = unsure
        ) -> dict[str, Found | None]:
            torn = _together(rng.random(n), each, rng) < unsure
            chance = np.where(torn, 0.6, 1.0)
            outcomes = np.where(rng.random((n, 2, 3)) < chance[:, None, None], 1, -1)
            shares = expected_labels(outcomes, np.ones(outcomes.shape, bool), 1, both_orders=False)
            right = expected_right(shares, np.ones(n, np.int8), knows_ties=True)
            figure = plus_two_ratio(
                right, shares[:, :3].sum(axis=1), (0, 1), question=_question(n, each)
            )
            return {"accuracy of fewer samples": held(figure, 1 - 0.4 * unsure)}

        yield Check(f"N={n}, unsure of {unsure:.0%}, {each} to a question", draw)


AGREEMENTS = {
    "Fleiss' kappa of people": fleiss_kappa,
    "Krippendorff's alpha": krippendorff_alpha,
    "Gwet's AC1": gwet_ac1,
    "share of pairs that agree": percent_agreement,
}
TWO_PEOPLE = {"Cohen's kappa of two people": False, "linear kappa of two people": True}


def _voted(n: int, careless: float, each: int, rng: Rng) -> tuple[Signs, Floats]:
    """Three votes an example, each careless with this chance, and their counts."""
    label = rng.choice([1, 0, -1], n, p=(0.45, 0.15, 0.40))
    votes = np.where(rng.random((n, 3)) < careless, rng.choice([1, 0, -1], (n, 3)), label[:, None])
    votes = _together(votes, each, rng).astype(np.int8)
    return votes, category_counts(votes, np.ones_like(votes), (1, 0, -1))


@cache
def _voted_truth(careless: float) -> dict[str, float]:
    votes, counts = _voted(MANY, careless, 1, np.random.default_rng(0))
    kinds, often = np.unique(counts, axis=0, return_counts=True)
    values = {name: of(kinds, often.astype(float)) for name, of in AGREEMENTS.items()}
    table = confusion(votes[:, 0], votes[:, 1])
    values |= {name: cohen_kappa(table, linear=linear) for name, linear in TWO_PEOPLE.items()}
    return {name: one for name, one in values.items() if isinstance(one, float)}


def people_checks() -> Iterator[Check]:
    for (n, each), careless in product(DESIGNS, (0.02, 0.2, 0.6)):

        def draw(
            rng: Rng, n: int = n, each: int = each, careless: float = careless
        ) -> dict[str, Found | None]:
            votes, counts = _voted(n, careless, each, rng)
            question, truth = _question(n, each), _voted_truth(careless)
            every = Design(np.ones(n, bool), np.zeros(n, bool))
            pair = comparison(votes[:, 0], np.ones(n, bool), votes[:, 1], every, question)
            assert isinstance(pair, Comparison)
            figures = {
                name: agreement_interval(of, counts, question, rng)
                for name, of in AGREEMENTS.items()
            }
            figures |= {name: kappa(pair, rng, linear=one) for name, one in TWO_PEOPLE.items()}
            return {name: held(one, truth[name]) for name, one in figures.items()}

        yield Check(f"N={n}, careless {careless:.0%}, {each} to a question", draw)


CRITERIA, EACH_VOTES = 3, 3


def _criterion_votes(
    n: int, each: int, slope: float, tie: float, rng: Rng
) -> tuple[Floats, Signs, Codes]:
    """(V, C) answers, (V,) overall votes and questions. The first criterion alone counts for the
    overall vote, by Davidson's model with ties of this weight."""
    example = np.arange(n).repeat(EACH_VOTES)
    quality = np.stack([_together(rng.normal(size=n), each, rng) for _ in range(CRITERIA)], axis=1)
    answers = np.clip(np.rint(quality[example] + rng.normal(size=(len(example), CRITERIA))), -1, 1)
    # What a question favours besides the criteria.
    eta = slope * answers[:, 0] + _together(rng.normal(size=n), each, rng)[example]
    total = np.exp(eta / 2) + np.exp(-eta / 2) + tie
    drawn = rng.random(len(eta)) * total
    overall = (drawn < np.exp(eta / 2)).astype(np.int8) - (drawn > np.exp(eta / 2) + tie)
    return answers, overall.astype(np.int8), example // each


@cache
def _slope_truth(slope: float, tie: float) -> float:
    answers, overall, question = _criterion_votes(
        MANY // 5, 1, slope, tie, np.random.default_rng(0)
    )
    found = explained_by(answers[:, :1], overall, question, np.random.default_rng(0))[0].slope
    assert isinstance(found, Estimate)
    return found.value


def criteria_checks() -> Iterator[Check]:
    for (n, each), slope, tie in product(
        ((40, 1), (80, 1), (160, 4), (400, 1)), (0.0, 2.0), (0.0, 1.0)
    ):

        def draw(
            rng: Rng, n: int = n, each: int = each, slope: float = slope, tie: float = tie
        ) -> dict[str, Found | None]:
            answers, overall, question = _criterion_votes(n, each, slope, tie, rng)
            found = explained_by(answers, overall, question, rng)
            without = [one.p for one in found[1:] if one.p is not None]
            mean = (1 + answers[:, 0].reshape(n, EACH_VOTES).mean(axis=1)) / 2
            apart = design_effect(mean, question[::EACH_VOTES])
            nothing = np.zeros(0)
            labels = AuditedLabels(mean, nothing, nothing, nothing, *apart)
            return {
                "weight of a criterion": held(found[0].slope, _slope_truth(slope, tie)),
                "any criterion without weight, by Holm": (
                    Found(bool(holm(without).min() > BOUND)) if without else None
                ),
                "win rate on a criterion": held(win_rate(labels, lam=0.0), 0.5),
            }

        together = f", {each} to a question" if each > 1 else ""
        yield Check(f"N={n}{together}, slope {slope:g}, ν {tie:g}", draw)


def chance_checks() -> Iterator[Check]:
    """People who answer at random, each with habits of their own."""
    for n, each, people in product((12, 40), (1, 4), (2, 3)):

        def draw(
            rng: Rng, n: int = n, each: int = each, people: int = people
        ) -> dict[str, Found | None]:
            p = []
            for _ in range(CRITERIA):
                votes = np.stack(
                    [
                        np.rint(_together(rng.normal(lean, 1, n), each, rng)).clip(-1, 1)
                        for lean in rng.normal(0, 0.5, people)
                    ],
                    axis=1,
                )
                found = beyond_chance(votes, np.ones(votes.shape), _question(n, each), rng)
                p += [] if found is None else [found]
            return {"agreement on any criterion, by Holm": Found(bool(holm(p).min() > BOUND))}

        together = f", {each} to a question" if each > 1 else ""
        yield Check(f"N={n}{together}, {people} people", draw)


def _said(n: int, careless: float, each: int, levels: int, rng: Rng) -> tuple[Codes, Floats]:
    """Three answers an example on a scale, each careless with this chance, and their counts."""
    level = np.clip(np.rint(rng.normal(levels / 2, levels / 3, n)), 0, levels - 1)
    drawn = rng.integers(0, levels, (n, 3))
    answers = np.where(rng.random((n, 3)) < careless, drawn, level[:, None])
    answers = _together(answers, each, rng).astype(np.intp)
    return answers, category_counts(answers, np.ones_like(answers), np.arange(levels))


@cache
def _said_truth(careless: float, levels: int) -> float:
    _, counts = _said(MANY, careless, 1, levels, np.random.default_rng(0))
    kinds, often = np.unique(counts, axis=0, return_counts=True)
    found = ordinal_alpha(kinds, often.astype(float))
    assert isinstance(found, float)
    return found


def _marked(elsewhere: Floats) -> Codes:
    """Spans of two people on each example: 8 characters, the same ones or others."""
    place = np.where(elsewhere > 0, 20, 0)
    votes = np.arange(2 * len(place))
    start = np.stack((np.zeros_like(place), place), axis=1).reshape(-1)
    return np.stack((votes, np.ones_like(votes), start, start + 8), axis=1)


def detail_checks() -> Iterator[Check]:
    """What people say besides which response is better. Of careless people, one of two marks other
    words, so that the truth of F1 is the share of the examples on which nobody is careless."""
    for (n, each), careless in product(DESIGNS, (0.02, 0.2, 0.6)):

        def draw(
            rng: Rng, n: int = n, each: int = each, careless: float = careless
        ) -> dict[str, Found | None]:
            question = _question(n, each)
            found: dict[str, Found | None] = {}
            for name, levels in (("strength", 5), ("confidence", 3)):
                _, counts = _said(n, careless, each, levels, rng)
                alpha = agreement_interval(ordinal_alpha, counts, question, rng)
                found[f"ordinal alpha of {name}"] = held(alpha, _said_truth(careless, levels))
            elsewhere = _together((rng.random(n) < careless).astype(float), each, rng)
            pairs, lengths = np.arange(n).repeat(2), np.full((n, 2), 40)
            f1 = span_overlap(pairs, _marked(elsewhere), lengths, question).f1
            found["F1 of marked text"] = held(f1, 1 - careless)
            sure = _together(rng.binomial(6, 1 - careless, n) / 6, each, rng)
            mean = plus_two_mean(sure, (0.0, 1.0), question)
            found["mean confidence"] = held(mean, 1 - careless)
            return found

        yield Check(f"N={n}, careless {careless:.0%}, {each} to a question", draw)


def pace_checks() -> Iterator[Check]:
    for n in (6, 20, 100):

        def draw(rng: Rng, n: int = n) -> dict[str, Found | None]:
            return {
                "median seconds of a vote": held(median(rng.lognormal(3, 1, n)), float(np.exp(3)))
            }

        yield Check(f"{n} votes", draw)


FIGURES: dict[str, Callable[[], Iterator[Check]]] = {
    "shares of examples": share_checks,
    "paired differences": difference_checks,
    "PORTIA and whole responses": portia_checks,
    "calibrations": calibration_checks,
    "likelihood bias": likelihood_checks,
    "fewer samples": fewer_checks,
    "people's agreement": people_checks,
    "votes on criteria": criteria_checks,
    "agreement on criteria by chance": chance_checks,
    "strength, confidence and marked text": detail_checks,
    "pace of votes": pace_checks,
}
