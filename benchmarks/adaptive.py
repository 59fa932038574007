"""Fewer calls for the same label: adaptive runs replayed on simulated judges.

    python -m benchmarks.adaptive [--quick]

A judge has an opinion of each pair, favours a position, and wavers; each run is asked in full and
then replayed. Beside it stands the rule of thumb to stop when two rounds agree unanimously.
"""

import argparse
import os
import random
import sys
from fractions import Fraction

import django
import numpy as np

ORDERS = ("original", "swapped")
REACH = Fraction(9)
CASES = ((300, 3), (1000, 3), (1000, 5), (3000, 3))
CONFIDENCES = (0.95, 0.97)


def simulated(n: int, k: int, seed: int) -> list:
    """n pairs, asked k times in each order: scores 1 to 10, a bias of half a point."""
    from judging.runs.samples import ExampleSamples, RecordedSample

    rng = np.random.default_rng(seed)
    examples = []
    for number, opinion in enumerate(rng.normal(0.3, 2.0, n)):
        samples = []
        for part, bias in zip(ORDERS, (0.5, -0.5), strict=True):
            half = (opinion + bias) / 2
            noise = rng.normal(0.0, 1.0, (k, 2))
            scores = np.clip(np.rint(7 + noise + [half, -half]), 1, 10).astype(int).tolist()
            samples += [
                RecordedSample(part, slot, 0, "valid", first, second, None, None, None, None)
                for slot, (first, second) in enumerate(scores)
            ]
        examples.append(ExampleSamples(number, str(number), number, tuple(samples)))
    return examples


def adaptive(examples: list, k: int, confidence: float, seed: int) -> tuple[float, float]:
    """Share of the samples saved, and of the labels outside the pilot that stay."""
    from judging.runs.planning.agenda import Adaptive, pilot_size, replay

    pilot = random.Random(seed).sample(range(len(examples)), pilot_size(len(examples)))
    run = Adaptive(k, "score", ORDERS, REACH, confidence, frozenset(pilot))
    found = replay(run, examples)
    return found.saved, found.agreement.value


def unanimous(examples: list, k: int) -> tuple[float, float]:
    """Stop after two rounds whose four outcomes are the same."""
    saved = same = 0
    for example in examples:
        signs = [[np.sign(s.score_1 - s.score_2) for s in example.of(part)][:2] for part in ORDERS]
        stops = len({sign for order in signs for sign in order}) == 1
        total = sum(s.score_1 - s.score_2 for s in example.samples)
        saved += (k - 2) * stops
        same += not stops or np.sign(total) == signs[0][0]
    return saved / (k * len(examples)), same / len(examples)


def main(quick: bool) -> None:
    seeds = range(2 if quick else 8)
    for n, k in CASES[1:2] if quick else CASES:
        judges = [simulated(n, k, seed) for seed in seeds]
        rows = {"unanimous": [unanimous(examples, k) for examples in judges]}
        for confidence in CONFIDENCES:
            rows[f"adaptive at {confidence:.0%}"] = [
                adaptive(examples, k, confidence, seed)
                for seed, examples in zip(seeds, judges, strict=True)
            ]
        for name, found in rows.items():
            saved, agreement = np.mean(found, axis=0)
            line = f"{n:5} pairs, k = {k}  {name:16} {saved:6.1%} saved  {agreement:6.1%} agree"
            sys.stdout.write(line + "\n")
            sys.stdout.flush()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one case only")
    options = parser.parse_args()
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "fairjudge_site.settings")
    django.setup()
    main(options.quick)
