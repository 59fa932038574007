"""The file for paying a panel's people, and the panel's file that says what became of them.

It is the one place that shows the panel's ids, and only to owners. What comes back is read by the
names that Prolific and MTurk use in their own files, so that these can be uploaded as they are.
"""

import csv
import io
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.utils import timezone

from annotation.models import CrowdSubmission, Round
from annotation.people.crowds import State, give_back, submissions_with_votes
from judging.core.errors import UserError
from judging.core.text import ESCAPE_COLUMN, escape_row, unescape_cell
from judging.projects import access

COLUMNS = (
    "worker_id", "study_id", "session_id", "status", "person", "login", "votes", "active_minutes",
    "code", "started_at", "ended_at",
)  # fmt: skip
# How panels name the columns of what they hand out, in small letters.
_WORKER = ("worker_id", "participant id", "participant_id", "workerid")
_SESSION = ("session_id", "submission id", "submission_id", "session", "assignmentid")
_STATUS = ("status", "assignmentstatus")
# What panels say of a submission, in small letters. All else leaves it as it is.
_SAID = {
    "rejected": State.REJECTED,
    "returned": State.RETURNED,
    "timed-out": State.RETURNED,
    "timed out": State.RETURNED,
    "approved": State.APPROVED,
}
_LEFT_AS_IT_IS = {
    "awaiting review", "submitted", "active", "reserved", "screened out", "partially approved",
    *State.values, *(label.lower() for label in State.labels),
}  # fmt: skip
MOST_BYTES = 5_000_000
_NAMED = 5


def file_for_paying(round_: Round, by: AbstractUser) -> str:
    """Return a CSV with one row a submission, oldest first, and put it on record."""
    written = io.StringIO()
    writer = csv.writer(written)
    writer.writerow([*COLUMNS, ESCAPE_COLUMN])
    rows = list(_rows(round_))
    writer.writerows(escape_row(row) for row in rows)
    access.record_event(
        round_.project, by, "crowd file downloaded", f"round {round_.number}", rows=len(rows)
    )
    return written.getvalue()


def _rows(round_: Round) -> Iterator[list[str]]:
    for one in submissions_with_votes(round_).order_by("pk"):
        if not one.worker_id:
            continue
        done = one.state in (State.COMPLETE, State.APPROVED)
        screened = one.state in (State.SCREENED, State.NOTHING)
        yield [
            one.worker_id,
            one.study_id,
            one.session_id,
            one.state,
            one.annotator.pseudonym if one.annotator else "",
            one.annotator.name if one.annotator else "",
            str(one.n_votes),
            "" if one.minutes is None else f"{one.minutes:.2f}",
            one.link.completion_code if done else one.link.screened_code * screened,
            _moment(one.started_at),
            _moment(one.ended_at),
        ]


def _moment(at: datetime | None) -> str:
    return at.astimezone(UTC).isoformat().replace("+00:00", "Z") if at else ""


@dataclass(frozen=True)
class Marked:
    """How many submissions a file changed, and how many it names that never came here."""

    changed: int
    unknown: int


def mark(round_: Round, by: AbstractUser, content: bytes) -> Marked:
    """Set what a panel's CSV says of each submission: approved, rejected, returned.

    Nothing is changed if a row can't be read. Raises UserError that names the row. Votes stay, and
    the places of rejected and returned submissions are free again.
    """
    said = _read(content)
    known = {
        one.worker_id: one
        for one in CrowdSubmission.objects.filter(link__round=round_)
        .exclude(worker_id="")
        .select_related("annotator", "link__round__project")
    }
    changed, unknown = [], 0
    with transaction.atomic():
        for worker, session, state in said:
            one = known.get(worker)
            if one is None or (session and one.session_id and session != one.session_id):
                unknown += 1
                continue
            rows = CrowdSubmission.objects.filter(pk=one.pk).exclude(state=state)
            if rows.update(state=state, ended_at=one.ended_at or timezone.now()):
                changed.append(one)
        if changed:
            access.record_event(
                round_.project,
                by,
                "crowd submissions marked",
                f"round {round_.number}",
                submissions=len(changed),
            )
    give_back(changed)
    return Marked(len(changed), unknown)


def _read(content: bytes) -> list[tuple[str, str, str]]:
    """Return worker, session and new state of each row that says something new."""
    if len(content) > MOST_BYTES:
        raise UserError("The file has more than 5 MB. Upload the panel's list of submissions.")
    try:
        text = content.decode("utf-8-sig")
        rows = list(csv.DictReader(io.StringIO(text, newline=""), strict=True))
    except (UnicodeDecodeError, csv.Error):
        raise UserError("The file is no CSV in UTF-8. Nothing was changed.") from None
    names = {(name or "").strip().lower(): name for name in (rows[0] if rows else {})}
    worker, status = _column(names, _WORKER), _column(names, _STATUS)
    if worker is None or status is None:
        raise UserError(
            "The file needs a column with the worker's ID (worker_id, Participant id or WorkerId) "
            "and one with the status. Nothing was changed."
        )
    session = _column(names, _SESSION)
    read, states = [], dict[str, str]()
    for line, row in enumerate(rows, start=2):
        who = unescape_cell((row[worker] or "").strip(), row.get(ESCAPE_COLUMN) or "")
        what = (row[status] or "").strip().lower()
        if what not in _SAID and what not in _LEFT_AS_IT_IS:
            raise UserError(
                f"Row {line}: “{what[:40]}” is no status. Use approved, rejected or returned. "
                "Nothing was changed."
            )
        if not who:
            raise UserError(f"Row {line} names no worker. Nothing was changed.")
        # A row of a MTurk batch is an assignment, and a worker has one of each study here.
        if states.setdefault(who, what) != what:
            raise UserError(f"Row {line} contradicts an earlier row of that worker.")
        if what in _SAID:
            own = (row[session] or "").strip() if session else ""
            read.append((who, unescape_cell(own, row.get(ESCAPE_COLUMN) or ""), _SAID[what]))
    return read


def _column(names: dict[str, str], known: tuple[str, ...]) -> str | None:
    return next((names[name] for name in known if name in names), None)
