"""A project whose judge prefers long responses, and people who look at the content."""

import json
import random
from collections.abc import Callable
from pathlib import Path

from django.utils import timezone

from annotation.models import Annotator, Item, Round, Slot, Vote
from annotation.results.sections.routing import select_what_was_learned
from annotation.rounds.changes import rounds_due
from judging.dataset.models import Example
from judging.projects.models import Project
from judging.runs.models import Run
from judging.runs.recorded.writing import import_judgments
from tests.factories import make_examples


def biased_run(project: Project, folder: Path, n: int = 120, seed: int = 1) -> Run:
    """n examples whose right label is `gold(example)`, judged twice in each order.

    The judge is surely wrong where the worse response is the much longer one, and wavers at
    random elsewhere, so that BPDE finds few of its errors.
    """
    draw = random.Random(seed)
    examples = make_examples(project, n)
    lines = []
    for example in examples:
        better = draw.choice([1, 2])
        example.question = f"Which is better, {better} or {3 - better}? ({example.number:03})"
        misled = draw.random() < 0.35
        short, long = (100, 900) if draw.random() < 0.8 else (200, 300)
        lengths = {better: short, 3 - better: long} if misled else {better: 300, 3 - better: 250}
        if not misled and draw.random() < 0.5:
            lengths = {better: short, 3 - better: long}
        example.response_1, example.response_2 = ("x" * lengths[side] for side in (1, 2))
        says = better if not misled else 3 - better
        for order in ("original", "swapped"):
            for slot in range(2):
                wavers = draw.random() < 0.2
                label = "tie" if wavers else {1: "win", 2: "lose"}[says]
                row = {"external_id": example.external_id, "order": order, "slot": slot}
                lines.append(row | {"outcome": label})
    Example.objects.bulk_update(examples, ["question", "response_1", "response_2"])
    path = folder / "judgments.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    run = import_judgments(project, None, [path], file_format="jsonl")
    project.primary_run = run
    project.save(update_fields=["primary_run"])
    return run


def gold(example: Example) -> str:
    """The better one is named first in the question."""
    return "win" if example.question.startswith("Which is better, 1") else "lose"


def label_all(
    round_: Round,
    people: list[Annotator],
    says: Callable[[Example, Annotator], str] = lambda example, person: gold(example),
) -> int:
    """Everybody votes for what is right on every open item, or for what `says` gives.

    Returns how many items there were."""
    items = list(
        Item.objects.filter(round=round_, state=Item.State.OPEN).select_related(
            "example", "round__protocol"
        )
    )
    filled = []
    for item in items:
        slots = Slot.objects.filter(item=item, vote=None).order_by("index")
        for slot, person in zip(slots, people, strict=False):
            slot.annotator = person
            slot.vote = Vote(
                slot=slot,
                item=item,
                example=item.example,
                protocol=item.round.protocol,
                annotator=person,
                label=says(item.example, person),
                left_response=1,
                active_seconds=30.0,
                submitted_at=timezone.now(),
            )
            filled.append(slot)
    Vote.objects.bulk_create(slot.vote for slot in filled)
    Slot.objects.bulk_update(filled, ["annotator", "vote"])
    Item.objects.filter(pk__in=[item.pk for item in items]).update(state=Item.State.COMPLETE)
    return len(items)


def go_on() -> int:
    """What workers do when they are woken; how many rounds went on."""
    return sum(map(select_what_was_learned, rounds_due()))
