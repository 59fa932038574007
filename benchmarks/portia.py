"""Speed of PORTIA's alignment, and of the splitting that comes before it.

    python -m benchmarks.portia [FOLDER]

FOLDER is FairEval's data (default: faireval/ in FAIRJUDGE_TEST_DATA); without one, pairs of the
same shape are made up.  Aims on one core, a pair: 0.5, 1.5 and 2 ms for 2, 3 and 4 parts on the 80
answers of gpt35 and vicuna-13b, and half a second for 100 sentences each and 3 parts.  The paper
reports 310, 3,710 and 33,120 ms (its Table 10).
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from judging.methods.portia.alignment import MAX_SENTENCES, length_aligned, semantically_aligned
from judging.methods.portia.splitting import boundaries

AIMS = {2: 0.5, 3: 1.5, 4: 2.0}
LONG_AIM = 500
REPEATS = 7
LONG_PAIRS = 4

Pair = tuple[str, str]
T = TypeVar("T")


def main(folder: Path | None) -> None:
    pairs = made_up_pairs() if folder is None else faireval_pairs(folder)
    source = "made-up pairs" if folder is None else "pairs of FairEval"
    splitting, split = timed(lambda: [split_pair(*pair) for pair in pairs])
    sentences = sum(len(cuts) + 1 for _, one, _, two in split for cuts in (one, two))
    say(f"{len(pairs)} {source}, {sentences / len(pairs) / 2:.1f} sentences a response")
    say(f"  sentences found in {splitting / len(pairs):.2f} ms a pair")
    for k, aim in AIMS.items():
        length, _ = timed(lambda k=k: [length_aligned(*pair, k) for pair in split])
        meaning, _ = timed(lambda k=k: [semantically_aligned(*pair, k) for pair in split])
        say(
            f"  k = {k}: by length {length / len(pairs):.3f} ms, "
            f"by meaning {meaning / len(pairs):.2f} ms a pair; aim: {aim} ms"
        )
    long = [split_pair(*pair) for pair in long_pairs(pairs)]
    assert all(len(cuts) == MAX_SENTENCES - 1 for _, one, _, two in long for cuts in (one, two))
    meaning, _ = timed(lambda: [semantically_aligned(*pair, 3) for pair in long])
    say(f"{MAX_SENTENCES} sentences each, k = 3: {meaning / len(long):.0f} ms; aim: {LONG_AIM} ms")


def split_pair(one: str, two: str) -> tuple[str, Sequence[int], str, Sequence[int]]:
    return one, boundaries(one), two, boundaries(two)


def timed(call: Callable[[], T]) -> tuple[float, T]:
    """Milliseconds of CPU of the fastest of a few runs, and what the last one gave."""
    best = float("inf")
    for _ in range(REPEATS):
        started = time.process_time()
        result = call()
        best = min(best, time.process_time() - started)
    return best * 1000, result


def faireval_pairs(folder: Path) -> list[Pair]:
    def answers(model: str) -> list[str]:
        lines = (folder / f"answer_{model}.jsonl").read_text(encoding="utf-8").splitlines()
        rows = sorted(map(json.loads, lines), key=lambda row: int(row["question_id"]))
        return [row["text"] for row in rows]

    return list(zip(answers("gpt35"), answers("vicuna-13b"), strict=True))


def made_up_pairs(n: int = 80) -> list[Pair]:
    """Sentences of words drawn by Zipf's law from a vocabulary that the two responses share."""
    rng = random.Random(20240603)
    words = [f"word{i}" for i in range(400)]
    weights = [1 / (i + 1) for i in range(len(words))]

    def response() -> str:
        return " ".join(
            " ".join(rng.choices(words, weights, k=rng.randint(8, 25))).capitalize() + "."
            for _ in range(rng.randint(6, 16))
        )

    return [(response(), response()) for _ in range(n)]


def long_pairs(pairs: Sequence[Pair]) -> list[Pair]:
    """Responses of several questions joined until both have more sentences than the cap."""
    step = len(pairs) // LONG_PAIRS
    return [
        tuple("\n\n".join(texts) for texts in zip(*pairs[i * step : (i + 1) * step], strict=True))
        for i in range(LONG_PAIRS)
    ]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    data = os.environ.get("FAIRJUDGE_TEST_DATA")
    default = Path(data, "faireval") if data else None
    parser.add_argument("folder", nargs="?", type=Path, default=default)
    main(parser.parse_args().folder)
