"""Votes given elsewhere become votes like any others, in a round of their own kind.

A file with a wrong row adds nothing. The same vote again adds nothing; another label by the same
person on the same example is listed as a conflict, and the vote that is there stays.
"""

import secrets
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from annotation.models import Annotator, Item, Protocol, Round, Selection, Slot, Vote
from annotation.people.annotators import annotator_named
from annotation.queue.settling import (
    count_earlier_votes,
    counted_slots,
    leaving_out_unblinded,
    needs_decision,
)
from annotation.rendering.spans import checked_spans
from annotation.rounds.opening import protocol_named
from annotation.votes.files import KnownExample, VoteReader, VoteRow, names_of, vote_records
from judging.core.leases import Chunks
from judging.core.sql import statements
from judging.core.sql.statements import rows_came
from judging.dataset.files import Records
from judging.dataset.models import Example, Import
from judging.dataset.records import Codes, Refused, compare, content_id, refusal
from judging.dataset.whole_files import accepted, record_import
from judging.dataset.writing import tell_of_import
from judging.projects import access
from judging.projects.access import next_number
from judging.projects.models import Project

# Votes written at once, at most.
_MOST = 1000


@dataclass(frozen=True)
class VotesImported:
    """What a file of votes added; `filled` counts the votes that open rounds were waiting for."""

    added: int
    known: int
    conflicts: tuple[str, ...]
    annotators: tuple[str, ...]
    protocol: str
    filled: int


def import_votes(
    project: Project,
    user: AbstractUser | None,
    path: Path,
    *,
    file_format: str = "auto",
    annotator: str = "",
    protocol: str | None = None,
    maps: Sequence[str] = (),
    labels: Codes | None = None,
    sheet: str = "",
    keep: Callable[[VotesImported], object] = lambda done: None,
) -> VotesImported:
    """Read a whole file, then write it. Raises UserError with the lines that are wrong.

    It is written in short transactions. After a kill, the same file again adds what is missing.

    Args:
        keep: Gets what is returned, in the last transaction.
    """
    examples = Example.objects.filter(project=project).visible().order_by("number", "pk")
    known = [
        KnownExample(*row)
        for row in examples.values_list("pk", "external_id", "model_1", "model_2")
    ]
    records = vote_records(path, file_format, sheet)
    # All of the file is read before anything is written, so that a wrong line leaves nothing
    # behind.
    rows = _checked_votes(records, VoteReader(known, annotator, names_of(maps), labels or {}))
    file = _VotesFile(project, rows, protocol)
    compared = compare(rows, file.held, file.key)
    for asked in file.protocols:
        new = [row for row in compared.new if file.protocol_of(row) == asked]
        if new:
            _write(_import_round(project, user, asked), new, file.people)
    sha256 = records.sha256 if len(records.hashes) > 1 else records.hashes[0].hex()
    filled = sum(
        count_earlier_votes(round_)
        for round_ in Round.objects.filter(
            protocol__in=file.protocols,
            kind=Round.Kind.ROUTED,
            state__in=[Round.State.OPEN, Round.State.PAUSED],
        )
    )
    done = VotesImported(
        added=len(compared.new),
        known=compared.n_known,
        conflicts=tuple(compared.conflicts),
        annotators=tuple(sorted({row.annotator for row in rows})),
        protocol=", ".join(asked.name for asked in file.protocols),
        filled=filled,
    )
    with transaction.atomic():
        imported = record_import(
            project, user, Import.Kind.VOTES, path, sha256, len(rows), compared
        )
        tell_of_import(imported.pk)
        access.record_event(
            project, user, "votes imported", path.name, added=done.added,
            known=done.known, conflicts=len(done.conflicts),
        )  # fmt: skip
        keep(done)
    return done


VoteKey = tuple[int, int, int]


class _VotesFile:
    """Tells whose votes the rows of a file are, and under which protocol.

    An export of the same project is recognised by the IDs of its votes; an older one has none, and
    is recognised by most of its rows. Its pseudonyms are the project's people.
    """

    def __init__(self, project: Project, rows: Sequence[VoteRow], protocol: str | None) -> None:
        self._project, self._asked = project, protocol
        self.held: dict[VoteKey, str] = {}
        self._by_vote_id: dict[str, VoteKey] = {}
        cast: set[tuple[str, int, str, datetime | None]] = set()
        # Also votes that were put aside: the same file must not bring them back as new ones.
        votes = Vote.every.filter(example__project=project).select_related("annotator")
        for vote in votes.only(
            "annotator__number", "example", "protocol", "label", "submitted_at"
        ).iterator(chunk_size=5000):
            key = (vote.protocol_id, vote.annotator_id, vote.example_id)
            self.held[key] = vote.label
            self._by_vote_id[vote_id(project, vote.pk)] = key
            cast.add((vote.annotator.pseudonym, vote.example_id, vote.label, vote.submitted_at))
        same = sum(
            (row.annotator, row.example.pk, row.label, row.submitted_at) in cast
            for row in rows
            if row.exported and not row.vote_id
        )
        # Most rows must match, since two people of different projects may share a pseudonym and a
        # label.
        self._own = 2 * same > len(rows) or any(self._held_as(row) for row in rows)
        self._known_protocols = list(Protocol.objects.filter(project=project))
        # In the order of the file, so that the same file gives the same pseudonyms.
        strangers = [row for row in rows if not self._held_as(row)]
        self._protocols = {
            named: self._protocol(*named)
            for named in dict.fromkeys((row.fingerprint, row.protocol) for row in strangers)
        }
        self.people = {
            name: self._person(name) for name in dict.fromkeys(row.annotator for row in strangers)
        }
        used = {self.key(row)[0] for row in rows}
        self.protocols = list(Protocol.objects.filter(pk__in=used).order_by("number"))

    def key(self, row: VoteRow) -> VoteKey:
        """Return the protocol, the annotator and the example of a row."""
        if held := self._held_as(row):
            return held
        return self.protocol_of(row).pk, self.people[row.annotator].pk, row.example.pk

    def protocol_of(self, row: VoteRow) -> Protocol:
        return self._protocols[row.fingerprint, row.protocol]

    def _held_as(self, row: VoteRow) -> VoteKey | None:
        key = self._by_vote_id.get(row.vote_id)
        return key if key and key[2] == row.example.pk else None

    def _protocol(self, fingerprint: str, name: str) -> Protocol:
        if self._asked is None:
            for known_protocol in self._known_protocols:
                if known_protocol.digest == fingerprint or (
                    self._own and not fingerprint and known_protocol.name == name
                ):
                    return known_protocol
        return protocol_named(self._project, self._asked)

    def _person(self, name: str) -> Annotator:
        there = Annotator.objects.filter(project=self._project)
        if self._own and not there.filter(name=name).exists():
            for annotator in there:
                if annotator.pseudonym == name:
                    return annotator
        return annotator_named(self._project, name)


def vote_id(project: Project, pk: int) -> str:
    """Return the ID that a vote has in exports, the same wherever the database is restored."""
    return content_id(["vote", project.created_at.astimezone(UTC).isoformat(), str(pk)])


def _checked_votes(records: Records, reader: VoteReader) -> list[VoteRow]:
    """Return the votes of a file in which no row is wrong and nobody votes twice on an example."""
    lines: dict[tuple[str, ...], int] = {}

    def second_vote(row: VoteRow) -> str | None:
        key = (row.annotator, row.example.external_id, row.fingerprint, row.protocol)
        earlier = lines.get(key)
        lines[key] = row.place.line
        if earlier is None:
            return None
        return f"{row.annotator} voted on {row.example.external_id} in line {earlier} already."

    rows = _with_quotes(reader.rows(records))
    return list(accepted(rows, second_vote, records.paths, "vote"))


def _with_quotes(rows: Iterable[VoteRow | Refused]) -> Iterator[VoteRow | Refused]:
    """Compare each span with the response that it is in, and let it hold the text there."""
    # In chunks, since responses may be long and are needed for marked rows only.
    rest = iter(rows)
    while chunk := list(islice(rest, _MOST)):
        marked = {
            row.example.pk
            for row in chunk
            if isinstance(row, VoteRow) and row.answer and "spans" in row.answer
        }
        texts = Example.objects.filter(pk__in=marked).only("response_1", "response_2")
        responses = (
            {example.pk: (example.response_1, example.response_2) for example in texts}
            if marked
            else {}
        )
        for row in chunk:
            if isinstance(row, Refused) or not row.answer or "spans" not in row.answer:
                yield row
                continue
            spans = checked_spans(row.answer["spans"], responses[row.example.pk])
            if isinstance(spans, str):
                yield refusal(row.place, "spans", f"In spans, {spans}.")
            else:
                yield replace(row, answer=row.answer | {"spans": spans})


def _import_round(project: Project, user: AbstractUser | None, protocol: Protocol) -> Round:
    rounds = Round.objects.filter(project=project, protocol=protocol, kind=Round.Kind.IMPORT)
    if (round_ := rounds.first()) is not None:
        return round_
    with transaction.atomic():
        number = next_number(project, Round)
        # Another import may have made it while this one waited for the number.
        return rounds.first() or Round.objects.create(
            project=project,
            number=number,
            kind=Round.Kind.IMPORT,
            protocol=protocol,
            state=Round.State.CLOSED,
            closed_at=timezone.now(),
            votes_per_item=1,
            seed=secrets.randbelow(2**62),
            no_majority=project.no_majority,
            wage_usd=project.wage_usd,
            minutes_per_vote=project.minutes_per_vote,
            cost_basis=project.cost_basis,
            opened_by=user,
        )


def _write(round_: Round, rows: Sequence[VoteRow], people: dict[str, Annotator]) -> None:
    """Write the votes, those on an example together, in short transactions."""
    by_example: dict[int, list[VoteRow]] = defaultdict(list)
    for row in rows:
        by_example[row.example.pk].append(row)
    # Examples in the order of their keys, in which every writer locks them.
    examples, chunks = sorted(by_example), Chunks(Item, Slot, Vote)
    selection: Selection | None = None
    while examples:
        # About this many votes at once, in whole examples, since the votes on one stay together.
        size = max(1, min(chunks.size, _MOST) * len(by_example) // len(rows))
        chunk, examples = examples[:size], examples[size:]
        with chunks.transaction():
            # Two imports at once write in turn.
            Project.objects.select_for_update(no_key=True).only("pk").get(pk=round_.project_id)
            items, selection = _items(round_, chunk, selection)
            wanted = [row for key in chunk for row in by_example[key]]
            _write_chunk(round_, _not_there_yet(round_, wanted, people), people, items)
    rows_came(len(rows), Item, Slot, Vote)


def _not_there_yet(
    round_: Round, rows: Sequence[VoteRow], people: dict[str, Annotator]
) -> list[VoteRow]:
    """Leave out what another import has written since this one compared the file."""
    votes = Vote.every.filter(
        protocol=round_.protocol_id, example__in={row.example.pk for row in rows}
    )
    there = set(votes.values_list("annotator", "example"))
    return [row for row in rows if (people[row.annotator].pk, row.example.pk) not in there]


def _write_chunk(
    round_: Round, rows: Sequence[VoteRow], people: dict[str, Annotator], items: dict[int, Item]
) -> None:
    used: dict[int, int] = defaultdict(int)
    taken = Slot.objects.filter(round=round_, item__in=[item.pk for item in items.values()])
    for item_id, index in taken.values_list("item", "index"):
        # An earlier import may have filled some slots of this item.
        used[item_id] = max(used[item_id], index + 1)
    slots = []
    for row in rows:
        item = items[row.example.pk]
        slots.append(
            Slot(
                round=round_,
                item=item,
                index=used[item.pk],
                position=item.position,
                annotator=people[row.annotator],
            )
        )
        used[item.pk] += 1
    slots = Slot.objects.bulk_create(slots)
    votes = Vote.objects.bulk_create(
        _vote(round_, row, slot, people[row.annotator])
        for row, slot in zip(rows, slots, strict=True)
    )
    for slot, vote in zip(slots, votes, strict=True):
        slot.vote = vote
    if slots:
        statements.update(Slot, slots, ("vote",))
    _settle(round_, list(items.values()))


def _items(
    round_: Round, example_ids: Sequence[int], selection: Selection | None
) -> tuple[dict[int, Item], Selection | None]:
    """Return the round's item of each example, made if it doesn't have one, and their selection."""
    items = Item.objects.filter(round=round_, example__in=example_ids)
    held = set(items.values_list("example", flat=True))
    new = [pk for pk in example_ids if pk not in held]
    if new:
        start = Round.objects.values_list("frame_size", flat=True).get(pk=round_.pk)
        selection = selection or Selection.objects.create(
            round=round_, kind=Selection.Kind.IMPORT, seed=round_.seed, frame_size=0
        )
        Item.objects.bulk_create(
            Item(round=round_, selection=selection, example_id=pk, position=float(start + n))
            for n, pk in enumerate(new)
        )
        more = {"n_items": F("n_items") + len(new), "frame_size": F("frame_size") + len(new)}
        Selection.objects.filter(pk=selection.pk).update(**more)
        Round.objects.filter(pk=round_.pk).update(frame_size=start + len(new))
    return {item.example_id: item for item in items.select_related("selection")}, selection


def _vote(round_: Round, row: VoteRow, slot: Slot, annotator: Annotator) -> Vote:
    return Vote(
        slot=slot, item_id=slot.item_id, example_id=row.example.pk, protocol_id=round_.protocol_id,
        annotator=annotator, label=row.label, answer=row.answer or {},
        left_response=row.left_response, comment=row.comment, active_seconds=row.active_seconds,
        source=Vote.Source.IMPORT, unblinded=row.unblinded, language=row.language,
        submitted_at=row.submitted_at,
    )  # fmt: skip


def _settle(round_: Round, items: Sequence[Item]) -> None:
    """Say of each item whether its votes need a decision: nobody else votes in such a round."""
    labels: dict[int, list[str]] = defaultdict(list)
    leave_out = bool(leaving_out_unblinded([round_.project_id]))
    slots = counted_slots(Slot.objects.filter(item__in=[item.pk for item in items]), leave_out)
    for item_id, label in slots.values_list("item", "vote__label"):
        labels[item_id].append(label)
    for item in items:
        undecided = needs_decision(round_, item.selection.kind, labels[item.pk])
        item.state = Item.State.ADJUDICATE if undecided else Item.State.COMPLETE
    for state in Item.State:
        keys = [item.pk for item in items if item.state == state]
        Item.objects.filter(pk__in=keys).update(state=state)
