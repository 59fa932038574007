"""Reading the stored replies again with today's parser, without a call."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import transaction
from django.db.models import QuerySet

from judging.errors import UserError
from judging.llm.parsing import PARSER_VERSION
from judging.models.calls import Parse
from judging.models.runs import Method, Run
from judging.runs.questions import Questioner
from judging.runs.reading import read_again
from judging.runs.subjects import content_free, subject_of
from judging.runs.verdicts import rebuild_verdicts

CHUNK = 500
COMPARED = ("status", "score_1", "score_2", "rating", "p_first", "outcome")


@dataclass(frozen=True, slots=True)
class ReparseCounts:
    read: int
    changed: int


def reparse(
    run: Run, advance: Callable[[ReparseCounts], None] = lambda counts: None
) -> ReparseCounts:
    """Add a version to every reply that an older parser read, and rebuild the verdicts.

    Interrupted and repeated it goes on where it was: what today's parser has read is left alone.
    `advance` is told with each chunk how far it is; where it raises, the chunk is not written.
    """
    check_replies(run)
    counts = ReparseCounts(0, 0)
    while chunk := next_chunk(run):
        newer = read_chunk(run, chunk)
        changed = sum(values(old) != values(new) for old, new in zip(chunk, newer, strict=True))
        counts = ReparseCounts(counts.read + len(chunk), counts.changed + changed)
        with transaction.atomic():
            Parse.objects.filter(pk__in=[old.pk for old in chunk]).update(current=False)
            Parse.objects.bulk_create(newer)
            advance(counts)
    rebuild_verdicts(run)
    return counts


def check_replies(run: Run) -> None:
    if run.method == Method.IMPORTED:
        raise UserError(f"Run {run.name} was recorded elsewhere: it holds no replies to read.")


def older(run: Run) -> QuerySet[Parse]:
    """What an older parser read."""
    return Parse.objects.filter(
        sample__call__run=run,
        sample__raw_text__isnull=False,
        current=True,
        version__lt=PARSER_VERSION,
    )


def next_chunk(run: Run) -> list[Parse]:
    about = "sample__call__example", "sample__call__point_item"
    return list(older(run).select_related(*about).order_by("pk")[:CHUNK])


def read_chunk(run: Run, chunk: Sequence[Parse]) -> list[Parse]:
    asked, inputs = Questioner.of(run), content_free(run)
    newer = []
    for old in chunk:
        call = old.sample.call
        quoted = asked.quoted(subject_of(call, inputs), call.part)
        newer.append(read_again(old.sample, asked.template, call.part, quoted))
    return newer


def values(parse: Parse) -> tuple[object, ...]:
    return tuple(getattr(parse, name) for name in COMPARED)
