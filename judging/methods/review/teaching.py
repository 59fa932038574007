"""Teaching a judge by people's labels: which solved pairs it is shown, and if it became better.

Models learn from their own mistakes: from solved cases that they got wrong, and from rules that a
model draws from these (Zhang et al. 2024, arXiv:2402.05403). Here people's labels of a random part
of the examples say where the judge errs. Labels of the other part test if a taught judge agrees
with people more often than before. No label does both.

Votes of single annotators also tell how sure a judge is: it is asked once in the place of each of
them (Jung, Brahman and Choi, ICLR 2025, arXiv:2407.18370, "Simulated Annotators")."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from judging.methods.arrays import Booleans, Codes, Floats, Signs
from judging.methods.intervals.estimates import Estimate, Figure
from judging.methods.intervals.looks import ALPHA, Ruling, Spending


def choose_pairs(
    wrong: Booleans, unsure: Floats, category: Sequence[str], question: Codes, n: int
) -> Codes:
    """Choose the solved pairs that tell a judge most about its errors.

    First come pairs that it got wrong, the surest ones first, one of each category in turn. If
    these are too few, pairs follow that it got right, the least sure ones first. No question comes
    twice, so that leaving out the pair in question and its question leaves n - 1 of them.

    Args:
        wrong: (N,) bool, whether people contradict the judge's label.
        unsure: (N,) how unsure the judge is, such as BPDE.
        category, question: (N,) names, and codes of equal questions.
        n: how many to choose.
    Returns: places of at most n pairs, the first to be shown first."""
    errors = np.flatnonzero(wrong)
    by_category: dict[str, list[int]] = {}
    for place in errors[np.argsort(unsure[errors], kind="stable")].tolist():
        by_category.setdefault(category[place], []).append(place)
    # The category with the most errors comes first, and of two the one with the surest error.
    waiting = sorted(by_category.values(), key=lambda places: -len(places))
    turns = max(map(len, waiting), default=0)
    in_turn = [row[turn] for turn in range(turns) for row in waiting if turn < len(row)]
    right = np.flatnonzero(~wrong)
    in_turn += right[np.argsort(-unsure[right], kind="stable")].tolist()
    chosen: list[int] = []
    asked: set[int] = set()
    for place in in_turn:
        if len(chosen) < n and int(question[place]) not in asked:
            asked.add(int(question[place]))
            chosen.append(place)
    return np.array(chosen, dtype=np.intp)


def balanced_sides(decided: Sequence[bool], *, first: bool) -> list[bool]:
    """Say which solved pairs show the better response first: as many as show it second.

    The sides come in the order A B B A, so that neither leads nor ends a longer list more often.
    The prompt of the other order has each pair the other way round. So over both orders, position
    and answer cancel exactly; within one order, they differ by one pair at most.

    Args:
        decided: of each pair, whether one response is better; False for a tie.
        first: the side of the first decided pair.
    Returns: of each pair, whether its better response is shown first; ties take turns by
        themselves, as response 1 for the better one."""
    sides, seen = [], [0, 0]
    for is_decided in decided:
        # Places 0 and 3 of each four are A, 1 and 2 are B.
        sides.append((seen[is_decided] % 4 in (0, 3)) == first)
        seen[is_decided] += 1
    return sides


def annotators_with(present: Booleans, question: Codes, k: int) -> Codes:
    """Return the annotators who voted on at least k different questions.

    Args: present, question, k: as in `draw_annotators`.
    Returns: their columns."""
    votes = [len(np.unique(question[rows])) for rows in present.T]
    return np.flatnonzero(np.array(votes, dtype=np.intp) >= k)


def draw_annotators(
    present: Booleans, question: Codes, n: int, k: int, rng: np.random.Generator
) -> list[tuple[int, Codes]]:
    """Draw annotators to simulate, and of each some votes to show (Jung et al., N and K).

    All are drawn at random: no label decides what is shown. So the labels that are not shown stay
    a random sample.

    Args:
        present: (N, A) bool, who voted on which example.
        question: (N,) codes of equal questions; no annotator is shown one twice.
        n, k: how many annotators, and how many votes of each.
        rng: seeded.
    Returns: n columns, each with the places of k examples that this annotator voted on.
    Raises: ValueError if fewer than n annotators voted on k questions."""
    able = annotators_with(present, question, k)
    if len(able) < n:
        raise ValueError(f"{len(able)} annotators voted on {k} questions, and {n} are needed")
    drawn = []
    for column in rng.permutation(able)[:n].tolist():
        rows = rng.permutation(np.flatnonzero(present[:, column]))
        # The first place of each question in the shuffled rows is a random one of its examples.
        _, first = np.unique(question[rows], return_index=True)
        drawn.append((column, rows[np.sort(first)[:k]]))
    return drawn


def simulated_confidence(answer: Signs, there: Booleans, label: Signs) -> Floats:
    """Return how sure a judge is of its labels: the share of simulated annotators that agree.

    Jung et al. average over the annotators j the likelihood of a label, given the votes of j:
    c(x) = max_y 1/N sum_j p(y | x; votes of j). Without log-probabilities, p is the share of the
    judge's answers in the place of j. Both orders count alike, as in the verdict. The label is the
    run's own; unless there are ties, it is the y that attains the maximum.

    Args:
        answer: (N, R, J) of 1, 0, -1, the answer in each order in the place of each annotator.
        there: (N, R, J) bool, whether there is one.
        label: (N,) of 1, 0, -1.
    Returns: (N,) from 0 to 1; NaN where an order has no answer."""
    agree = (there & (answer == label[:, None, None])).sum(axis=2, dtype=float)
    n = there.sum(axis=2, dtype=float)
    shares = np.divide(agree, n, out=np.full_like(agree, np.nan), where=n > 0)
    both: Floats = shares.mean(axis=1)
    return both


def simulated_likelihood(p: Floats, label: Signs) -> Floats:
    """Return the same from log-probabilities, as the paper has it.

    Args:
        p: (N,) mean probability of response 1 over annotators and orders.
        label: (N,) of 1, 0, -1.
    Returns: (N,) the probability of the label; of a tie that of the less likely response, so that
        a tie is always the least sure."""
    return np.where(label > 0, p, np.where(label < 0, 1 - p, np.minimum(p, 1 - p)))


def shown_better(difference: Figure, p: float | None, look: int, alpha: float = ALPHA) -> Ruling:
    """Say if a taught judge is more accurate than before, on labels that taught nothing.

    Both must say so: the interval of the difference, and the exact paired test (McNemar's, if each
    question has one label: `judging.methods.intervals.estimates.sign_flip`). Each further version
    that is tested on the same labels is one more look and spends less, so that in at most alpha of
    all projects a version is kept that is no better, however many are tried.

    Args:
        difference: accuracy of the taught judge less that of the old one, with the interval of
            this look (`Spending.confidence`).
        p: two-sided, of the paired test; None if there was nothing to test.
        look: the number of this test among those on the same labels, from 1 on.
        alpha: the error of all looks together.
    Returns: pass if it is better, fail if it is worse, else inconclusive."""
    if not isinstance(difference, Estimate) or p is None or p > 2 * Spending(alpha).tail(look):
        return Ruling.INCONCLUSIVE
    if difference.low is None or difference.high is None:
        return Ruling.INCONCLUSIVE
    if difference.low > 0:
        return Ruling.PASS
    return Ruling.FAIL if difference.high < 0 else Ruling.INCONCLUSIVE
