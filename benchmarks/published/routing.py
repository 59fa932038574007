"""Learned routing on LLMBar's recorded judges, as docs/validation.md shows it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from annotation.results.sections.analysis import Analysis
from annotation.results.sections.routing import columns_of, texts_of
from judging.core.formatting import decimals
from judging.methods.arrays import Booleans, Floats
from judging.methods.intervals.estimates import Estimate, Undefined
from judging.methods.review.auroc import auroc
from judging.methods.review.certificate import trust_or_escalate
from judging.methods.review.curve import review_curve
from judging.methods.review.panels import equal_weights, panel
from judging.methods.review.routing import Features, routing, wrongness
from judging.projects.models import Project
from judging.runs.models import Run

LABELS = (30, 60)
BETAS = (10, 20, 30)
DRAWS = 200
ROUTES = ("BPDE", "learned", "learned, with the other judge", "jury's disagreement")

HEAD = """
## LLMBar, routing that learns

A random sample of the pairs counts as labelled, with the known labels. FairJudge learns from it and
orders the rest. All figures are means over {draws} draws and about that rest, so no label is used
twice. The route *learned* uses BPDE's order unless the fit beats it by half the standard error, or
by a whole one with fewer than ten errors. *Used* says how often the fit beat it. The jury's
disagreement needs no label: it is the entropy of both judges' verdicts. A judge's tie is half an
error.
"""


ASKED = (0.7, 0.8, 0.9)
DELTA = 0.1
KEPT = """
## LLMBar, labels that a judge may keep

{labels} of the pairs are drawn and taken as labelled, {draws} times. They choose the threshold up
to which the judge keeps its labels, so that with {confidence:.0%} confidence the known labels agree
with as many as asked. *Kept* is the mean share of the other pairs. *Broken* says in how many draws
fewer agreed than asked. The learned score is taught by half of the labels, and the other half
chooses. A judge's tie is wrong.

[Jung, Brahman and Choi](https://arxiv.org/abs/2407.18370) report over 80 % agreement with almost
80 % kept, for judges in a row and simulated annotators on a subset of Chatbot Arena. Here, one
judge by itself keeps as many only if it is rarely wrong, as GPT-4 on Natural. With 90 % asked, no
judge keeps more than a third: so high an agreement can't be promised with so few labels.
"""


@dataclass(frozen=True)
class Judge:
    """A judge's errors, and the rankings that may find them.

    Attributes:
        level: BPDE.
        jury: The panel's disagreement.
        alone, together: Columns without the other judge's verdicts, and with them.
    """

    judged: Booleans
    wrong: Floats
    level: Floats
    jury: Floats
    alone: Features
    together: Features


def routing_lines(
    cases: Sequence[tuple[str, str, Callable[[], tuple[Project, Run]]]], draws: int = DRAWS
) -> Iterator[str]:
    """Yield the section of the page.

    Args:
        cases: Subset, judge, and a function that imports this judge's run and the other one's.
        draws: Learning samples per figure.
    """
    yield HEAD.format(draws=draws)
    head = ["Subset", "Judge", "Labels", "Route", "Used", "AUROC for errors"]
    head += [f"Errors found in the top {beta} %" for beta in BETAS]
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    judges = [(subset, name, judge_of(*make())) for subset, name, make in cases]
    for subset, name, judge in judges:
        for labels in LABELS:
            for row in rows_of(judge, labels, draws):
                yield f"| {subset} | {name} | {labels} | {' | '.join(row)} |"
    yield KEPT.format(labels=LABELS[-1], draws=draws, confidence=1 - DELTA)
    yield "| Subset | Judge | Asked | Kept by BPDE | Broken | Kept by the learned score | Broken |"
    yield f"|{'---|' * 7}"
    for subset, name, judge in judges:
        for asked in ASKED:
            cells = " | ".join(kept_by(judge, asked, draws))
            yield f"| {subset} | {name} | {asked:.0%} | {cells} |"


def judge_of(project: Project, run: Run) -> Judge:
    analysis = Analysis(project, run)
    sheet, samples = analysis.sheet, analysis.samples
    if isinstance(samples, Undefined):
        raise ValueError(samples.reason)
    texts = texts_of(project, run, sheet)
    signs = np.stack([sheet.judge, *(one.judge for one in analysis.others)])
    there = np.stack([sheet.judged, *(one.judged for one in analysis.others)])
    return Judge(
        sheet.judged,
        np.where(sheet.judged, wrongness(sheet.judge, sheet.human), 1.0),
        sheet.level,
        panel(signs, there, equal_weights(len(signs))).disagreement,
        columns_of(sheet, run, samples, (), texts),
        columns_of(sheet, run, samples, analysis.others, texts),
    )


def rows_of(judge: Judge, labels: int, draws: int) -> Iterator[list[str]]:
    """Yield for each route how often it was used, its AUROC, and the errors it found."""
    rng = np.random.default_rng(labels)
    found: dict[str, list[tuple[float, ...]]] = {route: [] for route in ROUTES}
    used = dict.fromkeys(ROUTES, 0)
    expected = np.zeros(len(BETAS))
    for _ in range(draws):
        order = rng.permutation(len(judge.wrong))
        sample, rest = order[:labels], order[labels:]
        levels = {"BPDE": judge.level, "jury's disagreement": judge.jury}
        for route, columns in zip(ROUTES[1:3], (judge.alone, judge.together), strict=True):
            fit = routing(columns, judge.level, judge.judged, sample, judge.wrong[sample], rng)
            used[route] += fit.used
            levels[route] = fit.probability if fit.used else judge.level
        for route in ROUTES:
            found[route].append(_figures(levels[route][rest], judge.wrong[rest]))
        expected += _sizes(len(rest)) * judge.wrong[rest].mean() / draws
    for route in ROUTES:
        area, *errors = np.nanmean(found[route], axis=0)
        learned = route.startswith("learned")
        yield [
            route,
            f"{used[route] / draws:.0%}" if learned else "",
            decimals(float(area), 3),
            *(f"{value:.1f}" for value in errors),
        ]
    yield ["random", "", decimals(0.5, 3), *(f"{value:.1f}" for value in expected)]


def kept_by(judge: Judge, asked: float, draws: int) -> Iterator[str]:
    """Yield the share that is kept, and how often the promise is broken, by both scores."""
    wrong = ~judge.judged | (judge.wrong > 0)
    for learns in (False, True):
        rng = np.random.default_rng(LABELS[-1])
        kept, broken = np.zeros(draws), 0
        for draw in range(draws):
            sample = np.zeros(len(wrong), bool)
            sample[rng.permutation(len(wrong))[: LABELS[-1]]] = True
            taught, score = np.zeros(len(wrong), bool), judge.level
            if learns:
                taught[rng.permutation(np.flatnonzero(sample))[: LABELS[-1] // 2]] = True
                places = np.flatnonzero(taught)
                given = judge.alone, judge.level, judge.judged, places, judge.wrong[places], rng
                score = routing(*given).probability
            score = np.where(judge.judged & ~taught, score, np.nan)
            found = trust_or_escalate(score[None], wrong[None], sample & ~taught, 1 - asked, DELTA)
            if isinstance(found, Undefined):
                continue
            keeps = (score <= found.threshold) & ~sample
            kept[draw] = keeps.sum() / (~sample).sum()
            broken += bool(wrong[keeps].sum() > (1 - asked) * keeps.sum() + 1e-9)
        yield from (f"{kept.mean():.0%}", f"{broken / draws:.1%}")


def _figures(level: Floats, wrong: Floats) -> tuple[float, ...]:
    area = auroc(level, wrong)
    curve = review_curve(level, 1 - wrong)
    m = _sizes(len(level))
    found = m - np.interp(m, curve.reviewed, curve.judge_right)
    return (area.value if isinstance(area, Estimate) else np.nan, *found.tolist())


def _sizes(n: int) -> Floats:
    return np.floor(np.array(BETAS) * n / 100 + 0.5)
