"""The ways to label that a project's recorded judgments allow, each with its price.

A way is one run or several in a row, with all of the samples or fewer, and a route to people. It is
replayed on the labels of a random sample, so nothing is asked of a judge. What has no price is left
out, and named: an unknown cost is never 0.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal
from functools import cache
from itertools import combinations
from typing import Any

import numpy as np
from django.db.models import Count, Max, Sum

from annotation.models import Item, Round, Selection
from annotation.results.data.figures import Data
from annotation.results.data.samples import SampleArrays, samples_array
from annotation.results.data.sheet import Sheet, VerdictRows, verdict_rows
from annotation.results.merge.final_labels import places_of
from annotation.results.sections.analysis import Analysis
from annotation.results.sections.methods import is_adaptive, prompt_share_of
from annotation.results.sections.routing import MOST_JUDGES, columns_of, pair_texts, with_stages
from annotation.rounds.opening import LEARN
from judging.core.formatting import number_of
from judging.methods.agreement.fewer_samples import StoppingRule, calibrated_rules
from judging.methods.agreement.votes import percent_agreement
from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.estimates import Undefined
from judging.methods.review.pipelines import (
    SHARES,
    Asked,
    Chain,
    Goal,
    Replays,
    as_recorded,
    at_random,
    by_rank,
    fewer_samples,
    in_a_row,
    label_loss,
    lessons,
    people_alone,
    people_right,
    predicted_right,
    stopped_early,
)
from judging.methods.review.ridge import MOST_ROWS
from judging.methods.review.routing import wrongness
from judging.projects.models import Project
from judging.runs.models import Form, Run
from judging.runs.planning.agenda import pilot_size, reach

# More runs give more plans, for all of which every limit has to pay.
MOST_RUNS = 6
# If a run has more samples in each order, only some numbers of samples are replayed.
MANY_SAMPLES = 6
# Runs of which rows of judges are made.
MOST_IN_ROWS = 4
# Ranks are taken among these at most; the learning sample is always among them.
MOST_RANKED = 20_000
VOTES = (1, 3, 5)
FEWEST_LABELS = 20
_FEWEST_PAIRS = 10
_ENOUGH = 0.5
Tell = Callable[[int, int], object]


@dataclass(frozen=True)
class LearningSample:
    """Random examples with labels of people. places: where in the sheet.

    votes: how many votes a label has. right: by votes per example, how often fewer votes give it.
    """

    analysis: Analysis
    places: Codes
    votes: int
    right: dict[int, Floats]

    def __len__(self) -> int:
        return len(self.places)


def learning_sample(project: Project) -> LearningSample | Undefined:
    """Return the labels from which plans are learned: those of the first run that has a sample."""
    runs = ranked_runs(project)
    if not runs:
        return Undefined("no run of a judge is finished")
    reasons = []
    for run in runs:
        analysis = Analysis(project, run)
        places = _random_places(analysis)
        if not isinstance(places, Undefined) and len(places) >= FEWEST_LABELS:
            # A random part of a random sample is random as well.
            if len(places) > MOST_ROWS:
                places = np.sort(analysis.rng.choice(places, MOST_ROWS, replace=False))
            return LearningSample(analysis, places, *_votes(analysis.sheet, places))
        if not isinstance(places, Undefined):
            labels = number_of(len(places), "label")
            places = Undefined(
                f"{labels} of a random sample are too few; {FEWEST_LABELS} are needed"
            )
        reasons.append(places)
    return reasons[0]


def ranked_runs(project: Project) -> list[Run]:
    """Return the runs that can be searched, the primary one first, then the newest."""
    runs = list(project.runs.filter(ranked_at__isnull=False).order_by("-number"))
    runs.sort(key=lambda run: run.pk != project.primary_run_id)
    return runs[:MOST_RUNS]


def _random_places(analysis: Analysis) -> Codes | Undefined:
    """A learning sample, or the selected and the audited of a round, thinned to equal chances.

    Rounds that a plan opened are left out: their labels check the goal, so they choose nothing.
    """
    sheet = analysis.sheet
    if sheet.everyone:
        return np.flatnonzero(sheet.labelled)
    rounds = Round.objects.filter(run=analysis.run, frame=analysis.frame, kind=Round.Kind.ROUTED)
    # These labels check a plan's goal, and a label that chose the plan can't check it.
    rounds = rounds.exclude(parameters__has_key="goal")
    items = Item.objects.filter(round__in=rounds)

    def drawn(*kinds: Any) -> Codes:
        keys = items.filter(selection__kind__in=kinds).values_list("example", flat=True)
        places = places_of(sheet.ids, sorted(set(keys)))
        return places[places >= 0]

    chosen = drawn(Selection.Kind.LEARN)
    if not len(chosen):
        chosen = _thinned(analysis, drawn(Selection.Kind.TOP, Selection.Kind.ALL),
                          drawn(Selection.Kind.AUDIT))  # fmt: skip
    if not len(chosen):
        return Undefined("no random sample is labelled")
    if waiting := int((~sheet.answered[chosen]).sum()):
        # Those that are settled first are the easy ones.
        return Undefined(
            f"{waiting} of {len(chosen)} labels of the random sample are still missing"
        )
    return np.sort(chosen)


def _thinned(analysis: Analysis, selected: Codes, audited: Codes) -> Codes:
    audited = np.setdiff1d(audited, selected)
    rest = len(analysis.sheet) - len(selected)
    if not len(selected) or not rest:
        return selected if len(selected) and not rest else audited
    # Audited examples were drawn with a chance of n/N_U. Selected ones get the same chance here.
    wanted = round(len(selected) * len(audited) / rest)
    return np.concatenate((audited, analysis.rng.choice(selected, wanted, replace=False)))


def _votes(sheet: Sheet, places: Codes) -> tuple[int, dict[int, Floats]]:
    counts, label = sheet.ballots.counts.counts[places], sheet.human[places]
    n_votes = counts.sum(axis=1)
    ones = np.ones(len(places))
    if sheet.basis == "gold":
        # The known label is what people would say; how many of them it takes is predicted.
        several = sheet.ballots.counts.counts
        several = several[several.sum(axis=1) > 1].astype(np.float64)
        agreement = percent_agreement(several) if len(several) >= _FEWEST_PAIRS else Undefined("")
        if isinstance(agreement, Undefined):
            return 1, {1: ones}
        return 1, {votes: ones * predicted_right(agreement, votes) for votes in VOTES}
    own = int(np.bincount(n_votes).argmax()) or 1
    right = {own: ones}
    for votes in (fewer for fewer in VOTES if fewer < own):
        told = people_right(counts, label, votes)
        there = np.isfinite(told)
        # Fewer votes can be drawn only where there are several, and the mean takes the place of the
        # rest.
        if there.mean() >= _ENOUGH:
            right[votes] = np.where(there, told, told[there].mean())
    return own, right


@dataclass(frozen=True)
class Price:
    """USD per example of all samples, of which `prompt` for prompts; calls: in each order."""

    whole: float
    prompt: float
    calls: float

    def of(self, run: Run, k: float, k_of_run: int, orders: int, *, one_by_one: bool) -> float:
        """Return what k samples in each order cost. An adaptive run asks one at a time."""
        share = orders / len(run.orders)
        calls = k if one_by_one else max(1.0, self.calls * k / k_of_run)
        prompts = self.prompt * calls / max(self.calls, 1e-9)
        return share * (prompts + (self.whole - self.prompt) * k / k_of_run)


def price_of(run: Run, prices: Mapping[int, Decimal]) -> Price | None:
    """Return what the run cost per example, from its own calls or those it copied, or as given."""
    if run.number in prices:
        return Price(float(prices[run.number]), 0.0, 1.0)
    if run.price is None:
        return None
    own = run.calls.filter(example__isnull=False, reused_from=None, usd__isnull=False)
    sums = own.aggregate(usd=Sum("usd"), n=Count("pk"), examples=Count("example", distinct=True))
    # A run that copied all its answers paid nothing itself. Its price is that of the run that it
    # copied.
    if not sums["n"]:
        source = run.calls.aggregate(number=Max("reused_from"))["number"]
        other = run.project.runs.filter(number=source).exclude(pk=run.pk).first()
        return price_of(other, prices) if other else None
    whole = float(sums["usd"]) / sums["examples"]
    calls = sums["n"] / sums["examples"] / len(run.orders)
    return Price(whole, whole * float(prompt_share_of(run)), calls)


@dataclass(frozen=True)
class Way:
    """Plans that differ in how many examples people label alone, as `chain` has them.

    runs: the judges in their order. route: bpde, learned, random, row or people.
    orders, k, adaptive: of the one judge. whole: whether these are all samples of its run.
    """

    runs: tuple[Run, ...]
    route: str
    chain: Chain
    orders: int = 0
    k: int = 0
    adaptive: bool = False
    whole: bool = True


@dataclass(frozen=True)
class _Judge:
    run: Run
    verdicts: VerdictRows
    samples: SampleArrays | Undefined
    price: Price

    @property
    def is_replayable(self) -> bool:
        """Fewer samples of these give labels and a ranking of their own."""
        run = self.run
        plain = run.form != Form.CHOICE and not run.stages and run.rule is None
        known = isinstance(self.samples, SampleArrays) and self.samples.orders <= 2
        return plain and known and not is_adaptive(run)


def ways(
    sample: LearningSample,
    asked: Asked,
    prices: Mapping[int, Decimal],
    tell: Tell = lambda done, of: None,
) -> tuple[list[Way], list[str]]:
    """Return every way to label, and what was left out and why.

    Args:
        asked: the goal, and for how many examples plans are priced.
        prices: USD per example of runs, by their number, where it was not recorded.
        tell: is told how many runs are done, of how many.
    """
    analysis, sheet = sample.analysis, sample.analysis.sheet
    left_out, judges = [], []
    older = analysis.project.runs.filter(ranked_at__isnull=False).count() - MOST_RUNS
    if older > 0:
        why = f"because the newest {MOST_RUNS} are compared"
        left_out.append(f"{number_of(older, 'older run')} left out, {why}.")
    for run in ranked_runs(analysis.project):
        if run.frame_id not in (None, analysis.frame.pk if analysis.frame else None):
            left_out.append(f"{run.name} is left out, because it judged other examples.")
            continue
        price, verdicts = price_of(run, prices), verdict_rows(run, sheet.ids)
        if price is None:
            left_out.append(f"{run.name} is left out, because its price is not known.")
        elif verdicts.judged[sample.places].mean() < _ENOUGH:
            reason = f"{run.name} is left out, because it labelled less than half of the sample."
            left_out.append(reason)
        else:
            judges.append(_Judge(run, verdicts, samples_array(run, sheet.ids), price))
    among = _ranked_among(sample)
    every = [Way((), "people", people_alone(len(sample)))]
    # All runs share them, and they are read only if a run can learn.
    texts = cache(lambda: pair_texts(analysis.project, sheet.ids))
    for done, judge in enumerate(judges):
        tell(done, len(judges))
        every += _ways_of(sample, asked, judge, among, texts)
    every += _rows_of(sample, asked.goal, judges, among)
    return every, left_out


def _ranked_among(sample: LearningSample) -> Codes:
    n = len(sample.analysis.sheet)
    if n <= MOST_RANKED:
        return np.arange(n)
    # The sample has to be ranked, so the others fill up what is left.
    others = np.setdiff1d(np.arange(n), sample.places)
    drawn = sample.analysis.rng.choice(others, MOST_RANKED - len(sample), replace=False)
    return np.sort(np.concatenate((sample.places, drawn)))


def _ways_of(
    sample: LearningSample, asked: Asked, judge: _Judge, among: Codes, texts: Callable[[], Data]
) -> Iterator[Way]:
    run, rows, goal = judge.run, np.searchsorted(among, sample.places), asked.goal
    verdicts, k = judge.verdicts, run.samples_an_order
    whole = as_recorded(verdicts.judge[among], verdicts.judged[among], verdicts.level[among], k)
    shape: dict[str, Any] = {"orders": len(run.orders), "k": k, "adaptive": is_adaptive(run)}
    yield from _routes(sample, goal, run, whole, rows, judge.price.whole, shape)
    yield from _learned(sample, asked, judge, whole, among, texts, shape)
    if not judge.is_replayable:
        return
    assert isinstance(judge.samples, SampleArrays)
    difference, valid = judge.samples.difference[among], judge.samples.valid[among]
    scale, most = judge.samples.scale, judge.samples.k
    sizes = range(1, most + 1) if most <= MANY_SAMPLES else (1, 2, 3, most // 2, most)
    for orders in range(1, judge.samples.orders + 1):
        for size in sorted(set(sizes)):
            # All samples are the run as it was recorded, which was added above.
            if (orders, size) == (len(run.orders), most):
                continue
            made = fewer_samples(
                difference, valid, scale, size, sample.analysis.rng, both_orders=orders == 2
            )
            usd = judge.price.of(run, size, most, orders, one_by_one=False)
            shape = {"orders": orders, "k": size, "whole": False}
            yield from _routes(sample, goal, run, made, rows, usd, shape)
    # A round of an adaptive run asks one sample in each order, so with one there is nothing to
    # stop.
    if judge.samples.orders == 2 and most > 1:
        furthest = round(float(reach(run)) * scale)
        order = sample.analysis.rng.permutation(len(among))
        pilot = order[: pilot_size(asked.examples)]
        in_full = np.zeros(len(among), dtype=bool)
        in_full[order[: round(len(among) * pilot_size(asked.examples) / asked.examples)]] = True
        rules = _rules(difference[pilot], valid[pilot])
        made = stopped_early(difference, valid, scale, furthest, rules, in_full)
        usd = judge.price.of(run, float(made.rounds.mean()), most, 2, one_by_one=True)
        shape = {"orders": 2, "k": most, "adaptive": True, "whole": False}
        yield from _routes(sample, goal, run, made, rows, usd, shape)


def _rules(difference: np.ndarray, valid: Booleans) -> list[StoppingRule]:
    """Return stopping rules by the judge's pilot labels, so no label of people is used twice."""
    rules = calibrated_rules(difference, valid)
    # Without a rule, samples stop only when the label can't change any more.
    return [] if isinstance(rules, Undefined) else rules


def _routes(
    sample: LearningSample,
    goal: Goal,
    run: Run,
    made: Replays,
    rows: Codes,
    usd: float,
    shape: Mapping[str, Any],
) -> Iterator[Way]:
    human, knows_ties = sample.analysis.sheet.human[sample.places], sample.analysis.sheet.knows_ties
    labels = made.sign[:, rows], made.judged[:, rows], human
    loss = label_loss(goal, *labels, knows_ties=knows_ties)
    yield Way((run,), "bpde", by_rank(made.place, rows, loss, usd), **shape)
    yield Way((run,), "random", at_random(loss, usd), **shape)


def labels_to_learn(sample: int) -> int:
    """Return how many random labels a plan learns from first, so that others can test its rank."""
    return min(LEARN, sample // 2)


def _learned(
    sample: LearningSample,
    asked: Asked,
    judge: _Judge,
    recorded: Replays,
    among: Codes,
    texts: Callable[[], Data],
    shape: Mapping[str, Any],
) -> Iterator[Way]:
    """By what labels teach of this run alone: a jury of others would have to be paid.

    Parts of the sample teach in turn, as many labels as the round has people give first, and the
    rank is BPDE's where a round would keep to it. Each part's rank is tested on the others. A plan
    with fewer votes is taught by labels of as few.
    """
    size = labels_to_learn(len(sample))
    if isinstance(judge.samples, Undefined) or size >= SHARES[0] * asked.examples:
        return
    analysis, run, places = sample.analysis, judge.run, sample.places
    sheet = replace(analysis.sheet, **vars(judge.verdicts))
    columns = columns_of(sheet, run, judge.samples, (), with_stages(texts(), sheet, run))
    human = sheet.human[places]
    loss = label_loss(
        asked.goal, sheet.judge[places], sheet.judged[places], human, knows_ties=sheet.knows_ties
    )
    rng = analysis.rng
    for votes in _votes_that_teach(sample, asked.goal):
        labels = labels_by(sample, votes, rng)
        wrong = wrongness(sheet.judge[places], labels)
        taught = lessons(
            columns, recorded, sheet.level, sheet.judged, places, wrong, size, rng, among
        )
        if taught.used:
            chain = by_rank(
                taught.place, np.searchsorted(among, places),
                np.broadcast_to(loss, taught.taught.shape), judge.price.whole,
                drawn=size / asked.examples, taught=taught.taught,
            )  # fmt: skip
            yield Way((run,), "learned", replace(chain, votes=votes), **shape)


def _votes_that_teach(sample: LearningSample, goal: Goal) -> list[int]:
    """Nobody knows which votes gave a known label, so the most votes come closest."""
    if goal is not Goal.ACCURACY:
        return [sample.votes]
    if sample.analysis.sheet.basis == "gold":
        return [max(sample.right)]
    n_votes = sample.analysis.sheet.ballots.counts.counts[sample.places].sum(axis=1)
    return [votes for votes in sample.right if votes == sample.votes or votes <= n_votes.min()]


def labels_by(sample: LearningSample, votes: int, rng: np.random.Generator) -> Signs:
    """The labels that this many of the recorded votes would give, drawn at random."""
    human = sample.analysis.sheet.human[sample.places]
    if votes >= sample.votes:
        return human
    counts = sample.analysis.sheet.ballots.counts.counts[sample.places]
    drawn = np.stack([rng.multivariate_hypergeometric(row, votes) for row in counts])
    majority = 2 * drawn.max(axis=1) > votes
    return np.where(majority, 1 - drawn.argmax(axis=1), 0).astype(np.int8)


def _rows_of(
    sample: LearningSample, goal: Goal, judges: Sequence[_Judge], among: Codes
) -> Iterator[Way]:
    """Yield two or three judges in a row, the cheaper ones first, as `escalate` asks them."""
    cheap_first = sorted(judges, key=lambda judge: judge.price.whole)[:MOST_IN_ROWS]
    sheet, rows = sample.analysis.sheet, np.searchsorted(among, sample.places)
    for size in range(2, MOST_JUDGES + 1):
        for row in combinations(cheap_first, size):
            verdicts = [judge.verdicts for judge in row]
            unsure = np.stack([np.where(of.judged, of.bpde, np.nan)[among] for of in verdicts])
            # Without a single BPDE, no judge of the row is ever sure.
            if not np.isfinite(unsure).any():
                continue
            signs = np.stack([of.judge[sample.places] for of in verdicts])
            there = np.stack([of.judged[sample.places] for of in verdicts])
            human = sheet.human[sample.places]
            loss = label_loss(goal, signs, there, human, knows_ties=sheet.knows_ties)
            chain = in_a_row(unsure, rows, loss, [judge.price.whole for judge in row])
            yield Way(tuple(judge.run for judge in row), "row", chain)
