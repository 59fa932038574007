"""Training and qualifications: what came of them, and whom they let into the rounds after them.

Handing out the pairs belongs to `annotation.queue.queue`, and opening such a round to
`annotation.rounds.opening`. A vote in practice is final once it is given, so that a result never
changes. It is asked for here with every such vote, in the vote's transaction.
"""

from collections import defaultdict
from dataclasses import dataclass
from functools import partial

from django.db import transaction
from django.db.models import Count, Q, Sum

from annotation.models import Annotator, PracticeResult, Round, Slot, Vote
from annotation.people.annotators import people_changed
from annotation.queue.queue import practice_results
from annotation.rounds.opening import practice_of
from judging.projects import access


def finish(round_: Round, annotator: Annotator) -> PracticeResult | None:
    """Record what came of the person's training or try, if this vote was the last one of it.

    The person is locked: of two last votes that arrive at once, the later one sees both.
    """
    Annotator.objects.select_for_update(no_key=True).only("pk").get(pk=annotator.pk)
    if Slot.objects.filter(round=round_, annotator=annotator, vote=None).exists():
        return None
    before = list(practice_results(round_, annotator))
    votes = Vote.every.filter(item__round=round_, annotator=annotator, is_practice=True)
    answers = votes.order_by("pk").values_list("label", "example__gold_label")
    new = list(answers)[sum(result.n for result in before) :]
    if not new:
        return None
    practice, number = practice_of(round_), len(before) + 1
    n, right = len(new), sum(label == gold for label, gold in new)
    passed = practice.passes(right, n)
    result = PracticeResult.objects.create(
        round=round_,
        annotator=annotator,
        number=number,
        n=n,
        right=right,
        passed=passed,
        is_over=passed or number >= practice.tries,
    )
    detail = {"annotator": annotator.pseudonym, "try": number, "right": right, "pairs": n}
    did = "training finished" if practice.is_training else "qualification tried"
    access.record_event(
        round_.project, annotator.user, did, f"round {round_.number}", passed=passed, **detail
    )
    if result.is_over:
        # Those who can't come in are no longer waited for, where all others skipped a pair.
        transaction.on_commit(partial(people_changed, round_.project), robust=True)
    return result


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
            return "at it"
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
    given = {person: (n, seconds) for person, n, seconds in counted}
    began = Slot.objects.filter(round=round_, annotator__isnull=False).values("annotator")
    people = Annotator.objects.filter(Q(pk__in=began) | Q(pk__in=list(results)))
    return PracticeStanding(
        tuple(
            PersonInPractice(person, *given.get(person.pk, (0, None)), tuple(results[person.pk]))
            for person in people.order_by("number")
        )
    )
