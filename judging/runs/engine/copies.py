"""Copying answers of other runs of the project that were asked exactly the same.

A copy costs nothing, says which run it is from, and is read by today's parser like a fresh reply.
What a person has asked to repeat is always asked again.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from django.db import transaction
from django.utils import timezone

from judging.core.sql import statements
from judging.runs.engine.claims import next_seqs, place, reserve
from judging.runs.engine.recording import read_again, save_samples
from judging.runs.models import Call, Run, Sample, place_of, subject_field
from judging.runs.planning.agenda import Questioner
from judging.runs.planning.reuse import Place, Source, kept_samples
from judging.runs.samples import Ask

FREE = Decimal(0)
_COPIED = ("raw_text", "reasoning", "refusal", "finish_reason", "logprobs")


def copy(
    run: Run, holder: str, asks: Sequence[Ask], questioner: Questioner, sources: Sequence[Source]
) -> tuple[list[Ask], list[Ask]]:
    """Copy what others were asked the same. Returns what is left to ask, and what was copied.

    Nothing is copied unless `holder` holds the run and the run is running.
    """
    left, found = list(asks), list[tuple[Ask, Source, list[Sample]]]()
    for source in sources:
        wanted = [ask for ask in left if not ask.attempt and ask.subject.pk is not None]
        answers = _answers(source, wanted)
        still: list[Ask] = []
        for ask in left:
            given = answers.get((ask.subject.pk or 0, ask.part), {}) if ask in wanted else {}
            slots = [slot for slot in ask.slots if slot in given]
            if not slots or not source.asked_the_same(ask, questioner):
                still.append(ask)
                continue
            same = replace(ask, slots=tuple(slots))
            found.append((same, source, [given[slot] for slot in slots]))
            if rest := tuple(slot for slot in ask.slots if slot not in given):
                still.append(replace(ask, slots=rest))
        left = still
    if not found or not _write(run, holder, found, questioner):
        return list(asks), []
    return left, [ask for ask, _, _ in found]


def _answers(source: Source, asks: Sequence[Ask]) -> dict[Place, dict[int, Sample]]:
    """Return the last answer in each slot, by subject and part."""
    field = f"call__{subject_field(source.run)}"
    about = {f"{field}__in": {ask.subject.pk for ask in asks}}
    rows = kept_samples(source.run).filter(**about, call__part__in={ask.part for ask in asks})
    answers: defaultdict[Place, dict[int, Sample]] = defaultdict(dict)
    for sample in rows.select_related("call").order_by("attempt", "pk") if asks else ():
        subject = sample.call.example_id or sample.call.point_item_id or 0
        answers[subject, sample.call.part][sample.slot] = sample
    return answers


def _write(
    run: Run,
    holder: str,
    found: Sequence[tuple[Ask, Source, list[Sample]]],
    questioner: Questioner,
) -> bool:
    now, asks = timezone.now(), [ask for ask, _, _ in found]
    with transaction.atomic():
        if not reserve(run.pk, holder, [None]):
            return False
        seqs = next_seqs(run.pk, asks)
        calls = [
            statements.new(
                Call,
                run_id=run.pk,
                **place_of(ask.subject),
                part=ask.part,
                seq=next(seqs[*place(ask), ask.part]),
                slots=list(ask.slots),
                attempt=ask.attempt,
                state=Call.State.DONE,
                claimed_at=now,
                finished_at=now,
                usd=FREE,
                reserved_usd=FREE,
                reused_from=source.run.number,
            )
            for ask, source, _ in found
        ]
        for call, (_, _, samples) in zip(calls, found, strict=True):
            call.model = samples[0].call.model
        statements.insert(Call, calls)
        pairs = []
        for call, (ask, _, samples) in zip(calls, found, strict=True):
            quoted = questioner.quoted(ask.subject, ask.part)
            for index, sample in enumerate(samples):
                same = {name: getattr(sample, name) for name in _COPIED}
                fresh = statements.new(
                    Sample, call_id=call.pk, index=index, slot=sample.slot, attempt=0, **same
                )
                reading = read_again(sample, questioner.template, ask.part, quoted)
                pairs.append((fresh, reading))
        save_samples(pairs)
    return True
