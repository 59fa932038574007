"""In-context examples: solved pairs of the project that are shown before the one asked about.

They are drawn at random (by the run's seed) among the examples whose known label is win or lose,
as many of the one as of the other where the number is even, each about another question. One more
is drawn than is shown: an example is never shown its own answer, nor one to its own question, so
that all examples can be asked about and N stays all of them.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Self

from judging.errors import UserError
from judging.llm.prompts import Shot
from judging.models.examples import Example, Label
from judging.models.projects import Project
from judging.models.runs import Run

OTHER = {Label.WIN.value: Label.LOSE.value, Label.LOSE.value: Label.WIN.value}


def draw_shots(project: Project, shots: int, seed: int) -> dict[str, Any]:
    """What a run keeps: how many are shown, and the examples they are taken from, in order."""
    if not shots:
        return {"shown": 0, "drawn": []}
    rows = project.examples.judged().filter(gold_label__in=OTHER).order_by("number", "pk")
    solved = list(rows.values_list("pk", "question", "gold_label"))
    random.Random(seed).shuffle(solved)
    chosen = one_after_the_other(solved, shots + 1)
    if len(chosen) <= shots:
        raise UserError(
            f"{shots} in-context examples need {shots + 1} questions with a known label, win or "
            f"lose, and project {project.slug} has {len(chosen)}. Nothing was started."
        )
    return {"shown": shots, "drawn": [[pk, 1 if label == Label.WIN else 2] for pk, label in chosen]}


def one_after_the_other(solved: Sequence[tuple[int, str, str]], n: int) -> list[tuple[int, str]]:
    """n of them, win and lose in turn as long as there are both, no question twice."""
    waiting = {label: [row for row in solved if row[2] == label] for label in OTHER}
    chosen: list[tuple[int, str]] = []
    asked: set[str] = set()
    turn = solved[0][2] if solved else Label.WIN.value
    while len(chosen) < n and any(waiting.values()):
        queue = waiting[turn] or waiting[OTHER[turn]]
        pk, question, label = queue.pop(0)
        if question not in asked:
            asked.add(question)
            chosen.append((pk, label))
            turn = OTHER[label]
    return chosen


@dataclass(frozen=True, slots=True)
class Shots:
    """`drawn` are the examples and which response of each is better."""

    shown: int
    drawn: tuple[tuple[Example, int], ...]

    @classmethod
    def of(cls, run: Run) -> Self:
        kept = run.parameters.get("shots", {"shown": 0, "drawn": []})
        found = Example.objects.in_bulk([pk for pk, _ in kept["drawn"]])
        if gone := [pk for pk, _ in kept["drawn"] if pk not in found]:
            raise UserError(
                f"{len(gone)} of the in-context examples of run {run.name} are no longer in the "
                "project. Answers given with and without them are never mixed: start a new run."
            )
        return cls(kept["shown"], tuple((found[pk], better) for pk, better in kept["drawn"]))

    def before(self, example: Example) -> tuple[Shot, ...]:
        """What is shown before this one: nothing of itself or of its own question."""
        others = [
            Shot(one.question, one.response_1, one.response_2, better)
            for one, better in self.drawn
            if one.pk != example.pk and one.question != example.question
        ]
        return tuple(others[: self.shown])
