"""Training and qualifications: what came of them, and whom they let into the rounds after them.

Handing out the pairs belongs to `annotation.queue.queue`, and opening such a round to
`annotation.rounds.opening`. A vote in practice is final once it is given, so that a result never
changes. It is asked for here with every such vote, in the vote's transaction.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import partial

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import Count, Q, Sum

from annotation.models import Annotator, Item, PracticeResult, Round, Slot, Vote
from annotation.people.annotators import people_changed
from annotation.queue.queue import practice_results
from annotation.rounds.opening import practice_of
from judging.core.errors import UserError
from judging.dataset.models import CheckFor, Example, Label
from judging.projects import access


def finish(round_: Round, annotator: Annotator) -> PracticeResult | None:
    """Record what came of the person's training or try, if this vote was the last one of it.

    The person is locked: of two last votes that arrive at once, the later one sees both.
    """
    Annotator.objects.select_for_update(no_key=True).only("pk").get(pk=annotator.pk)
    # A try ends once all pairs that it gave the person are answered.
    if Slot.objects.filter(round=round_, annotator=annotator, vote=None).exists():
        return None
    before = list(practice_results(round_, annotator))
    votes = Vote.every.filter(item__round=round_, annotator=annotator, is_practice=True)
    answers = votes.order_by("pk").values_list("label", "example__gold_label")
    # Earlier tries took the first answers, in the order in which they were given.
    new = list(answers)[sum(result.n for result in before) :]
    if not new:
        return None
    practice, number = practice_of(round_), len(before) + 1
    n, right = len(new), sum(label == gold for label, gold in new)
    passed = practice.passes(right, n)
    result = PracticeResult.objects.create(
        round=round_, annotator=annotator, number=number, n=n, right=right, passed=passed,
        is_over=passed or number >= practice.tries,
    )  # fmt: skip
    detail = {"annotator": annotator.pseudonym, "try": number, "right": right, "pairs": n}
    did = "training finished" if practice.is_training else "qualification tried"
    access.record_event(
        round_.project, annotator.user, did, f"round {round_.number}", passed=passed, **detail
    )
    if result.is_over:
        # If all others skipped a pair, nobody waits any longer for people who can't come in.
        transaction.on_commit(partial(people_changed, round_.project), robust=True)
    return result


def change_check(
    example: Example, by: AbstractUser, check_for: str, gold_label: str, explanation: str
) -> None:
    """Change what a check is for, its known label, and what people read after they practised on it.

    Raises UserError if the example is none, or if a round has it and more than its explanation
    would change: answers were judged by the rest.
    """
    if not example.is_check:
        raise UserError(
            "This example isn't a check, so it has no known label or explanation to "
            "change. Nothing was changed."
        )
    if gold_label not in Label.values or check_for not in CheckFor.values:
        raise UserError("Say the check's known label and what it is for. Nothing was changed.")
    with transaction.atomic():
        # A round that opens at this moment would ask about the pair as it was before.
        row = Example.objects.select_for_update(no_key=True).get(pk=example.pk)
        is_same = (row.check_for, row.gold_label) == (check_for, gold_label)
        if not is_same and Item.every.filter(example=row).exists():
            raise UserError(
                "A round already asks about this pair, so only its explanation can change. To "
                "change the rest, import the pair with another ID. Nothing was changed."
            )
        row.check_for, row.gold_label, row.explanation = check_for, gold_label, explanation
        row.save(update_fields=["check_for", "gold_label", "explanation"])
        detail = {"check_for": check_for, "gold_label": gold_label}
        access.record_event(row.project, by, "check changed", row.external_id, **detail)


def rounds_after(round_: Round) -> list[Round]:
    """Return the rounds that are not closed and open for those who pass this one."""
    rounds = Round.objects.filter(after=round_).exclude(state=Round.State.CLOSED)
    return list(rounds.select_related("project").order_by("number"))


@dataclass(frozen=True)
class PersonInPractice:
    """One person in training or in a qualification.

    answered: pairs so far, in all tries. seconds: active time for them; None if none was timed.
    results: of the training, or of each try.
    """

    annotator: Annotator
    answered: int
    seconds: float | None
    results: tuple[PracticeResult, ...]

    @property
    def state(self) -> str:
        if not self.results or not self.results[-1].is_over:
            return "in progress"
        return "passed" if self.results[-1].passed else "not passed"


@dataclass(frozen=True)
class PracticeStanding:
    """What came of a round of practice so far, by person in the order in which they joined."""

    people: tuple[PersonInPractice, ...]

    @property
    def n_passed(self) -> int:
        return sum(person.state == "passed" for person in self.people)

    @property
    def n_failed(self) -> int:
        return sum(person.state == "not passed" for person in self.people)


def practice_standing(round_: Round) -> PracticeStanding:
    """Return who practises in the round and how they did. Three queries, whatever its size."""
    results: dict[int, list[PracticeResult]] = defaultdict(list)
    for result in PracticeResult.objects.filter(round=round_).order_by("number"):
        results[result.annotator_id].append(result)
    votes = Vote.every.filter(item__round=round_, is_practice=True).order_by()
    counted = votes.values_list("annotator").annotate(n=Count("pk"), seconds=Sum("active_seconds"))
    votes_of = {person: (n, seconds) for person, n, seconds in counted}
    began = Slot.objects.filter(round=round_, annotator__isnull=False).values("annotator")
    people = Annotator.objects.filter(Q(pk__in=began) | Q(pk__in=list(results)))
    return PracticeStanding(
        tuple(
            PersonInPractice(person, *votes_of.get(person.pk, (0, None)), tuple(results[person.pk]))
            for person in people.order_by("number")
        )
    )
