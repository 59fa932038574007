"""The cheapest plan on recorded judges, as docs/validation.md shows it."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

import numpy as np

from annotation.results.planner.ways import LearningSample, Way, learning_sample, ways
from judging.core.formatting import percent
from judging.methods.arrays import Floats
from judging.methods.intervals.estimates import Undefined
from judging.methods.review.pipelines import Asked, Chain, Goal, choose, search
from judging.projects.models import Project
from judging.runs.models import Run

CONFIDENCE = 0.95
EXAMPLES = 1_000
# More would change no figure by much: each draw compares all plans.
MOST_DRAWS = 50
# Of the judges by their names; the recorded files have none. USD per example, all samples.
PRICES = {"ChatGPT": Decimal("0.002"), "GPT-4": Decimal("0.06")}
VOTE = Decimal("0.375")

HEAD = """
## The cheapest plan for a goal

Labels are drawn at random, {draws} times, and count as the learning sample. The search compares all
plans on them and recommends the cheapest that it can show to reach the goal, at 95 % confidence.
*Reached* says how often the recommended plan reaches the goal on all pairs, whose labels are
known. A judge's price is taken to be {cheap} USD per pair for ChatGPT and gpt-3.5-turbo, {dear} USD
for GPT-4, and that of a vote {vote} USD. *Cost* is the mean for 1,000 pairs, and *people alone*
label everything with as many votes as the known labels have. Learned routing is left out.
"""


@dataclass(frozen=True)
class _Case:
    """ways: on all pairs. right: as in `LearningSample`. votes: of the known labels."""

    name: str
    labels: Sequence[int]
    sample: LearningSample
    ways: list[Way]


def cheapest_lines(
    cases: Sequence[tuple[str, Sequence[int], Callable[[], tuple[Project, Run]]]], draws: int
) -> Iterator[str]:
    """Yield the section of the page.

    Args:
        cases: A name, sizes of learning samples, and a function that imports the runs.
        draws: Learning samples per row, of which MOST_DRAWS are drawn.
    """
    draws = min(draws, MOST_DRAWS)
    yield HEAD.format(draws=draws, cheap=PRICES["ChatGPT"], dear=PRICES["GPT-4"], vote=VOTE)
    head = ["Pairs", "Labels", "Goal", "Plans", "A plan with a judge", "Reached", "Cost"]
    head += ["People alone", "Recommended most often"]
    yield f"| {' | '.join(head)} |"
    yield f"|{'---|' * len(head)}"
    for name, labels, make in cases:
        case = _case(name, labels, *make())
        for size in labels:
            for goal in (0.8, 0.9):
                yield f"| {' | '.join(_row(case, size, goal, draws))} |"


def _case(name: str, labels: Sequence[int], project: Project, run: Run) -> _Case:
    project.primary_run = run
    project.save(update_fields=["primary_run"])
    sample = learning_sample(project)
    if isinstance(sample, Undefined):
        raise ValueError(sample.reason)
    prices = {one.number: _price(one) for one in project.runs.all()}
    asked = Asked(Goal.ACCURACY, 0.0, CONFIDENCE, EXAMPLES, float(VOTE))
    found, _ = ways(sample, asked, prices)
    # Here its score would be taught by all labels, and not by those of a draw.
    return _Case(name, labels, sample, [way for way in found if way.route != "learned"])


def _price(run: Run) -> Decimal:
    return PRICES["GPT-4" if "GPT-4" in run.name else "ChatGPT"]


def _row(case: _Case, size: int, goal: float, draws: int) -> Iterator[str]:
    """Yield the cells of a row, with seeded draws."""
    rng = np.random.default_rng([size, int(100 * goal)])
    sample, n = case.sample, len(case.sample)
    asked = Asked(Goal.ACCURACY, goal, CONFIDENCE, EXAMPLES, float(VOTE))
    question = sample.analysis.sheet.question[sample.places]
    judged = reached = plans = 0
    costs, chosen = [], []
    for _ in range(draws):
        rows = np.sort(rng.choice(n, size, replace=False))
        chains = [_of_rows(way.chain, rows) for way in case.ways]
        right = {votes: one[rows] for votes, one in sample.right.items()}
        found = search(chains, right, asked, question[rows], rng)
        plans, best = len(found), choose(found, asked).best
        if best is None:
            continue
        costs.append(float(found.usd[best]))
        way, column = case.ways[int(found.chain[best])], int(found.column[best])
        if not way.runs:
            continue
        judged += 1
        votes = int(found.votes[best])
        true = 1 - _loss(way.chain, column, sample.right[votes])
        reached += true >= goal - 1e-9
        chosen.append(_named(way, float(found.share[best])))
    alone = EXAMPLES * sample.votes * float(VOTE)
    yield from (case.name, str(size), f"accuracy ≥ {goal:.0%}", f"{plans:,}")
    yield percent(judged / draws)
    yield percent(reached / judged) if judged else "–"
    yield f"${np.mean(costs):,.0f}" if costs else "–"
    yield f"${alone:,.0f}"
    yield max(set(chosen), key=chosen.count) if chosen else "people alone"


def _of_rows(chain: Chain, rows: np.ndarray) -> Chain:
    return replace(chain, reviewed=chain.reviewed[rows], lost=chain.lost[rows])


def _loss(chain: Chain, column: int, right: Floats) -> float:
    return float((chain.lost[:, column] + chain.reviewed[:, column] * (1 - right)).mean())


def _named(way: Way, share: float) -> str:
    names = " then ".join("GPT-4" if "GPT-4" in run.name else "ChatGPT" for run in way.runs)
    orders = {0: "", 1: ", one order", 2: ", both orders"}[way.orders]
    return f"{names}{orders}, {way.route}, {share:.0%} by people"
