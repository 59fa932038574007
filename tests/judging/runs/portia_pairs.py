"""Pairs of several sentences each, for runs by PORTIA, and what such runs came to."""

from collections import Counter
from typing import Any

from judging.projects.models import Project
from judging.runs.forms.portia import stage_calls
from judging.runs.models import Run, Verdict
from tests.factories import make_examples, make_project
from tests.judging.runs.judging import judged

WORDS = "amber birch cedar dune ember fjord grove heath inlet jetty kelp larch moor nook".split()


def word(place: int) -> str:
    return WORDS[place % len(WORDS)]


def response(seed: int, sentences: int) -> str:
    """No two alike; neighbours share words, so that something can be aligned."""
    return " ".join(
        f"The {word(seed + place)} stands near {word(seed * place)} number {seed}."
        for place in range(1, sentences + 1)
    )


def make_pairs(n: int, *, short: int = 0) -> Project:
    """Response 1 is the longer one of even examples. The last `short` ones can't be split."""
    project = make_project()
    for number in range(n):
        pair = [response(number, 6), response(number + 3, 4)]
        if number >= n - short:
            pair = ["The amber stands near.", "The birch."]
        first, second = pair if number % 2 == 0 else reversed(pair)
        make_examples(project, 1, response_1=first, response_2=second)
    return project


def by_portia(project: Project, **choices: Any) -> Run:
    return judged(project, **{"method": "portia", "form": "relation"} | choices)


def stages_of(run: Run) -> Counter[str]:
    """How many examples each stage settled, and none did."""
    return Counter(Verdict.objects.filter(run=run).values_list("stage", flat=True))


def calls_of(run: Run) -> dict[str, int]:
    return {one.stage: one.calls for one in stage_calls(run)}
