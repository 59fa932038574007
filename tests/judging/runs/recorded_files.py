"""Samples put into the database as if a judge had given them."""

from collections.abc import Mapping, Sequence
from decimal import Decimal

from django.utils import timezone

from judging.dataset.models import Example
from judging.runs.models import Call, Parse, Run, Sample

Scores = tuple[object, object] | None


def record_scores(run: Run, example: Example, part: str, scores: Sequence[Scores]) -> Call:
    """One call whose samples have these scores of responses 1 and 2; None is unparsed."""
    call = Call.objects.create(
        run=run,
        example=example,
        part=part,
        seq=Call.objects.filter(run=run, example=example, part=part).count(),
        slots=list(range(len(scores))),
        state=Call.State.DONE,
        claimed_at=timezone.now(),
        finished_at=timezone.now(),
    )
    for slot, pair in enumerate(scores):
        record_sample(call, slot, pair)
    return call


def record_sample(call: Call, slot: int, pair: Scores, attempt: int = 0) -> Sample:
    sample = Sample.objects.create(call=call, index=slot, slot=slot, attempt=attempt, raw_text="")
    fields = {"status": Parse.Status.UNPARSED} if pair is None else read(pair)
    Parse.objects.create(sample=sample, version=1, **fields)
    return sample


def read(pair: tuple[object, object]) -> Mapping[str, object]:
    one, two = (Decimal(str(score)) for score in pair)
    outcome = "tie" if one == two else "win" if one > two else "lose"
    return {
        "status": Parse.Status.VALID,
        "score_1": one,
        "score_2": two,
        "outcome": outcome,
        "evidence": f"{one} against {two}",
    }
