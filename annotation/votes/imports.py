"""Votes given elsewhere become votes like any others, in a round of their own kind.

All or nothing. The same vote again adds nothing; another label by the same person on the same
example is listed as a conflict, and the vote that is there stays.
"""

import hashlib
import secrets
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.utils import timezone

from annotation.models import Annotator, Item, Protocol, Round, Selection, Slot, Vote
from annotation.people.annotators import annotator_named
from annotation.queue.settling import (
    count_earlier_votes,
    counted_slots,
    leaving_out_unblinded,
    needs_decision,
)
from annotation.rounds.opening import protocol_named
from annotation.votes.files import KnownExample, VoteRow, VotesRead, names_of, read_votes
from judging.core.errors import UserError
from judging.core.sql.statements import rows_came
from judging.dataset.models import Example, Import
from judging.dataset.records import Refused, refuse
from judging.projects import access
from judging.projects.access import next_number
from judging.projects.models import Project


@dataclass(frozen=True)
class VotesImported:
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
) -> VotesImported:
    """Read a whole file, then write it. Raises UserError with the lines that are wrong."""
    asked = protocol_named(project, protocol)
    examples = Example.objects.filter(project=project).visible().order_by("number", "pk")
    known = [
        KnownExample(*row)
        for row in examples.values_list("pk", "external_id", "model_1", "model_2")
    ]
    reading = VotesRead(known, annotator, names_of(maps))
    rows = _all_rows(path, file_format, reading)
    with transaction.atomic():
        # Locked for the whole import: another one may hold the same votes.
        Project.objects.select_for_update(no_key=True).only("pk").get(pk=project.pk)
        # In the order of the file, so that the same file gives the same pseudonyms.
        names = dict.fromkeys(row.annotator for row in rows)
        people = {name: annotator_named(project, name) for name in names}
        new, n_known, conflicts = _new_votes(rows, people, asked)
        round_ = _import_round(project, user, asked)
        _write(round_, new, people)
        _record_import(project, user, path, len(rows), len(new), n_known, len(conflicts))
    filled = sum(
        count_earlier_votes(one)
        for one in Round.objects.filter(
            protocol=asked, kind=Round.Kind.ROUTED, state__in=[Round.State.OPEN, Round.State.PAUSED]
        )
    )
    return VotesImported(
        added=len(new),
        known=n_known,
        conflicts=tuple(conflicts),
        annotators=tuple(sorted(people)),
        protocol=asked.name,
        filled=filled,
    )


def _all_rows(path: Path, file_format: str, reading: VotesRead) -> list[VoteRow]:
    rows: list[VoteRow] = []
    problems: list[str] = []
    seen: dict[tuple[str, int], int] = {}
    for row in read_votes(path, file_format, reading):
        if isinstance(row, Refused):
            problems += [problem.place + ": " + problem.sentence for problem in row.problems]
            continue
        key = (row.annotator, row.example.pk)
        if key in seen:
            problems.append(
                f"{path.name}, line {row.line}: {row.annotator} voted on {row.example.external_id} "
                f"in line {seen[key]} already."
            )
        seen[key] = row.line
        rows.append(row)
    refuse(problems)
    if not rows:
        raise UserError(f"{path.name} holds no vote. Nothing was imported.")
    return rows


def _new_votes(
    rows: Sequence[VoteRow], people: dict[str, Annotator], protocol: Protocol
) -> tuple[list[VoteRow], int, list[str]]:
    held = {
        (annotator, example): label
        for annotator, example, label in Vote.objects.filter(
            protocol=protocol, annotator__in=people.values()
        ).values_list("annotator", "example", "label")
    }
    new, n_known, conflicts = [], 0, []
    for row in rows:
        label = held.get((people[row.annotator].pk, row.example.pk))
        if label is None:
            new.append(row)
        elif label == row.label:
            n_known += 1
        else:
            conflicts.append(
                f"line {row.line}: {row.annotator} voted {label} on {row.example.external_id} "
                f"before, now {row.label}. The earlier vote stays."
            )
    return new, n_known, conflicts


def _import_round(project: Project, user: AbstractUser | None, protocol: Protocol) -> Round:
    found = Round.objects.filter(project=project, protocol=protocol, kind=Round.Kind.IMPORT).first()
    if found is not None:
        return found
    return Round.objects.create(
        project=project,
        number=next_number(project, Round),
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
    if not rows:
        return
    items = _items(round_, {row.example.pk for row in rows})
    used: dict[int, int] = defaultdict(int)
    slots = Slot.objects.filter(round=round_, item__in=items.values()).values_list("item", "index")
    for item_id, index in slots:
        used[item_id] = max(used[item_id], index + 1)
    made = []
    for row in rows:
        item = items[row.example.pk]
        made.append(
            Slot(
                round=round_,
                item=item,
                index=used[item.pk],
                position=item.position,
                annotator=people[row.annotator],
            )
        )
        used[item.pk] += 1
    slots_made = Slot.objects.bulk_create(made, batch_size=1000)
    votes = Vote.objects.bulk_create(
        (
            _vote(round_, row, slot, people[row.annotator])
            for row, slot in zip(rows, slots_made, strict=True)
        ),
        batch_size=1000,
    )
    for slot, vote in zip(slots_made, votes, strict=True):
        slot.vote = vote
    Slot.objects.bulk_update(slots_made, ["vote"], batch_size=500)
    rows_came(len(rows), Item, Slot, Vote)
    _settle(round_, list(items.values()))


def _items(round_: Round, example_ids: set[int]) -> dict[int, Item]:
    """The round's item of each example, made where it is new."""
    held = Item.objects.filter(round=round_, example__in=example_ids).values_list(
        "example", flat=True
    )
    new = sorted(example_ids - set(held))
    if new:
        start = Item.objects.filter(round=round_).count()
        selection = Selection.objects.create(
            round=round_,
            kind=Selection.Kind.IMPORT,
            seed=round_.seed,
            frame_size=len(new),
            n_items=len(new),
        )
        Item.objects.bulk_create(
            (
                Item(round=round_, selection=selection, example_id=pk, position=float(start + n))
                for n, pk in enumerate(new)
            ),
            batch_size=1000,
        )
        Round.objects.filter(pk=round_.pk).update(frame_size=start + len(new))
    return {item.example_id: item for item in Item.objects.filter(round=round_).select_related(
        "selection") if item.example_id in example_ids}  # fmt: skip


def _vote(round_: Round, row: VoteRow, slot: Slot, annotator: Annotator) -> Vote:
    return Vote(
        slot=slot,
        item_id=slot.item_id,
        example_id=row.example.pk,
        protocol_id=round_.protocol_id,
        annotator=annotator,
        label=row.label,
        answer=row.answer or {},
        left_response=row.left_response,
        comment=row.comment,
        active_seconds=row.active_seconds,
        source=Vote.Source.IMPORT,
        unblinded=row.unblinded,
        submitted_at=row.submitted_at,
    )


def _settle(round_: Round, items: Sequence[Item]) -> None:
    labels: dict[int, list[str]] = defaultdict(list)
    leave_out = bool(leaving_out_unblinded([round_.project_id]))
    slots = counted_slots(Slot.objects.filter(round=round_), leave_out)
    for item_id, label in slots.values_list("item", "vote__label"):
        labels[item_id].append(label)
    for item in items:
        undecided = needs_decision(round_, item.selection.kind, labels[item.pk])
        item.state = Item.State.ADJUDICATE if undecided else Item.State.COMPLETE
    Item.objects.bulk_update(items, ["state"], batch_size=500)


def _record_import(
    project: Project,
    user: AbstractUser | None,
    path: Path,
    n_rows: int,
    n_added: int,
    n_known: int,
    n_conflicts: int,
) -> None:
    Import.objects.create(
        project=project,
        number=next_number(project, Import),
        kind=Import.Kind.VOTES,
        state=Import.State.DONE,
        file_names=[path.name],
        sha256=hashlib.sha256(path.read_bytes()).hexdigest(),
        n_rows=n_rows,
        n_written=n_added,
        n_known=n_known,
        n_conflicts=n_conflicts,
        created_by=user,
        finished_at=timezone.now(),
    )
    access.record_event(
        project, user, "votes imported", path.name, added=n_added, known=n_known,
        conflicts=n_conflicts,
    )  # fmt: skip
