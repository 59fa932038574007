"""Which responses to a question are compared: designs of paired comparisons.

A design is a pure function of the question, its models and a seed, so the same file gives the same
pairs again. If a model is added later, every pair that is new has this model in it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain, combinations

Pair = tuple[str, str]
# Base blocks are chosen among all of their size.
MOST_BLOCK = 4
MOST_BLOCKS = 6000


def draw(*of: object) -> int:
    """Draw a number by some values, the same on every machine.

    Args:
        of: what JSON can hold, such as a seed, a question and a model.

    Returns:
        A whole number from 0 to 2^64 - 1.
    """
    # Python's own hash of a text differs in each process, and its generators may change.
    return int.from_bytes(hashlib.sha256(json.dumps(of).encode()).digest()[:8])


def _pair(a: str, b: str) -> Pair:
    # One spelling for a pair, so that it is counted and drawn the same way round everywhere.
    return (a, b) if a < b else (b, a)


def all_pairs(models: Iterable[str]) -> list[Pair]:
    """Compare every two of the models.

    Args:
        models: n different names.

    Returns:
        n (n - 1) / 2 pairs, each with its names in alphabetical order.
    """
    return list(combinations(sorted(models), 2))


def against_baseline(models: Iterable[str], baseline: str) -> list[Pair]:
    """Compare each model with one of them.

    Args:
        models: n different names.
        baseline: one of these.

    Returns:
        n - 1 pairs, each with its names in alphabetical order.
    """
    return [_pair(model, baseline) for model in sorted(models) if model != baseline]


def random_opponents(models: Iterable[str], opponents: int, seed: int, question: str) -> list[Pair]:
    """Return pairs in which each model has at least this many opponents, drawn at random.

    The models come in a random order, and each draws its opponents among those before it: all of
    them if there are no more. So n models have r·n - r·(r + 1)/2 pairs (all pairs if n ≤ r), every
    model has at least r opponents, and the graph of the pairs is connected. The order is drawn for
    each question, since the first ones are drawn most often.

    Args:
        models: n different names.
        opponents: r, the least number of opponents of a model.
        seed: of the whole design.
        question: the question's name.

    Returns:
        The pairs in alphabetical order.
    """
    # The name decides between equal numbers, so that the order never depends on the input's.
    order = sorted(models, key=lambda model: (draw(seed, question, model), model))
    pairs = []
    for place, model in enumerate(order):
        before = (_pair(model, other) for other in order[:place])
        drawn = sorted(before, key=lambda pair: (draw(seed, question, *pair), pair))
        pairs += drawn[:opponents]
    return sorted(pairs)


@lru_cache(maxsize=64)
def cyclic_blocks(models: int, size: int) -> tuple[tuple[int, ...], ...]:
    """Return every block of `size` among 0 … models - 1 once, the most balanced prefix first.

    Blocks are developed by Bose's method of differences (1939, On the construction of balanced
    incomplete block designs): a base block gives a block for each shift modulo `models`, in which
    each model occurs equally often, and two models meet as often as their difference occurs in the
    base. Base blocks follow each other so that the differences so far occur as equally as possible.
    If the first one is a perfect difference set, such as {0, 1, 3} modulo 7, its blocks are a
    balanced incomplete block design with λ = 1. All blocks together are one with
    λ = C(models - 2, size - 2). With blocks of two, these are the cyclic designs of David (1963).

    Args:
        models: the number of models.
        size: models in a block, from 2 to `MOST_BLOCK`.

    Returns:
        Blocks, each a tuple of `size` numbers of models.
    """
    bases: dict[tuple[int, ...], None] = {}
    for rest in combinations(range(1, models), size - 1):
        block = (0, *rest)
        shifts = (tuple(sorted((model - by) % models for model in block)) for by in block)
        # Shifts of a base develop into the same blocks, so only the smallest of them is kept.
        bases[min(shifts)] = None
    left, counts, blocks = list(bases), Counter[int](), []
    while left:
        best = min(left, key=lambda base: (_unevenness(counts, base, models), base))
        left.remove(best)
        counts.update(_differences(best, models))
        developed = (tuple(sorted((model + by) % models for model in best)) for by in range(models))
        # A base that a shift leaves as it is gives fewer blocks.
        blocks += list(dict.fromkeys(developed))
    return tuple(blocks)


def _differences(base: Sequence[int], models: int) -> list[int]:
    return [min(b - a, models - b + a) for a, b in combinations(base, 2)]


def _unevenness(counts: Counter[int], base: Sequence[int], models: int) -> int:
    """Return the sum of squares of how often each difference occurs with this base."""
    after = counts + Counter(_differences(base, models))
    return sum(n * n for n in after.values())


def block_pairs(stages: Sequence[Sequence[str]], size: int, seed: int, number: int) -> list[Pair]:
    """Return the pairs of the question with this number: all within its block.

    Args:
        stages: the models that the design began with, then those of each later addition. A model
            that was added meets `size` - 1 of the earlier ones on each question, by turns.
        size: models in a block.
        seed: of the whole design.
        number: the question's place among all, from 0.

    Returns:
        The pairs, each with its names in alphabetical order.
    """
    first = sorted(stages[0], key=lambda model: (draw(seed, model), model))
    blocks = cyclic_blocks(len(first), min(size, len(first)))
    block = [first[place] for place in blocks[number % len(blocks)]]
    pairs, earlier = all_pairs(block), first
    for stage in stages[1:]:
        for model in sorted(stage):
            meets = min(size - 1, len(earlier))
            # Questions take turns, so that all earlier models are met equally often.
            turn = (earlier[(number * meets + n) % len(earlier)] for n in range(meets))
            pairs += [_pair(model, other) for other in turn]
            earlier = [*earlier, model]
    return sorted(pairs)


@dataclass
class Balance:
    """How often models and pairs of models occur over many questions."""

    of_model: Counter[str] = field(default_factory=Counter)
    of_pair: Counter[Pair] = field(default_factory=Counter)

    def add(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            self.of_pair[pair] += 1
            self.of_model.update(pair)

    def groups(self, models: Iterable[str], earlier: Iterable[Pair] = ()) -> list[list[str]]:
        """Part the models into groups that no pair connects; one group is best.

        Args:
            models: those to part.
            earlier: pairs that exist already, perhaps of other models.

        Returns:
            The groups, and in each its models by name.
        """
        pairs = [*self.of_pair, *earlier]
        named = set(models)
        group = {model: {model} for model in (*named, *chain.from_iterable(pairs))}
        for a, b in pairs:
            if group[a] is not group[b]:
                joined = group[a] | group[b]
                group |= dict.fromkeys(joined, joined)
        parts = {id(members): sorted(members & named) for members in group.values()}
        return sorted(filter(None, parts.values()))
