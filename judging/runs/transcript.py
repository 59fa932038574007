"""Everything that a run recorded about one example, order by order, as it was asked."""

from dataclasses import dataclass

from judging.models.calls import Call, Parse
from judging.models.examples import Example
from judging.models.runs import Run


@dataclass(frozen=True, slots=True)
class Reply:
    """A sample and what was read in it, its numbers turned back to responses 1 and 2.

    `superseded`: the same slot was asked again later, so this reply no longer counts.
    """

    slot: int
    attempt: int
    parse: Parse
    raw_text: str
    reasoning: str
    finish_reason: str
    superseded: bool


@dataclass(frozen=True, slots=True)
class OrderTranscript:
    part: str
    replies: tuple[Reply, ...]
    unanswered: tuple[Call, ...]

    @property
    def begun(self) -> bool:
        return bool(self.replies or self.unanswered)


def transcript_of(run: Run, example: Example) -> tuple[OrderTranscript, ...]:
    """In the method's order of asking; two queries, however many samples.

    Of PORTIA's stages those that the example came to.
    """
    calls = Call.objects.filter(run=run, example=example)
    parses = (
        Parse.objects.filter(current=True, sample__call__in=calls)
        .select_related("sample__call")
        .order_by("sample__slot", "sample__attempt")
    )
    last = {(p.sample.call.part, p.sample.slot): p.sample.attempt for p in parses}
    unanswered = calls.exclude(state=Call.State.DONE).order_by("seq")
    replies = [(parse.sample.call.part, reply(parse, last)) for parse in parses]
    orders = (
        OrderTranscript(
            part,
            tuple(found for of, found in replies if of == part),
            tuple(call for call in unanswered if call.part == part),
        )
        for part in run.parts
    )
    return tuple(order for order in orders if order.begun or not run.stages)


def reply(parse: Parse, last: dict[tuple[str, int], int]) -> Reply:
    sample = parse.sample
    return Reply(
        slot=sample.slot,
        attempt=sample.attempt,
        parse=parse,
        raw_text=sample.raw_text or "",
        reasoning=sample.reasoning,
        finish_reason=sample.finish_reason,
        superseded=last[sample.call.part, sample.slot] != sample.attempt,
    )
