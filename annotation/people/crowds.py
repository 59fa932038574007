"""People of a panel: a round's crowd link, one submission per person, and how each ends.

Anyone who opens the link with a new worker id gets a login without a password. It opens the
pairs of this round and nothing else, because the person is no member of the project: `admitted` is
the only thing that lets them in, and it stops when their submission or the round ends.

A worker id is no secret, so it opens nothing by itself. The browser in which a person began knows
them by its session. On another device they go on only if the panel sends the same session id, and
if that is long enough to be a secret.

`file_for_paying` and `mark` exchange files with the panel. They are the one place that shows the
panel's ids, and only to owners. What comes back is read by the names that Prolific and MTurk use in
their own files, so that these can be uploaded as they are.
"""

import csv
import io
import re
import secrets
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address, ip_network
from typing import Any

from django.conf import settings
from django.contrib.auth.models import AbstractUser, User
from django.core import signing
from django.db import IntegrityError, transaction
from django.db.models import Count, Exists, F, Max, OuterRef, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.http import Http404
from django.urls import reverse
from django.utils import timezone
from django.utils.crypto import constant_time_compare, salted_hmac
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy

from annotation.models import Annotator, CrowdLink, CrowdSubmission, Draft, Item, Round, Slot, Vote
from annotation.people.annotators import crowd_annotator, give_back_items, people_changed
from annotation.people.invitations import (
    last_lost_right,
    maker_may_invite,
    signed_link,
    unsigned_link,
)
from annotation.queue.queue import claim_next, make_seat
from annotation.queue.settling import HAVE_A_PLACE, crowd_places, is_free, seats_at_limit
from judging.core import languages
from judging.core.caching import report_cache
from judging.core.errors import UserError
from judging.core.text import ESCAPE_COLUMN, escape_row, unescape_cell
from judging.projects import access
from judging.projects.models import AuditEvent

State = CrowdSubmission.State
# Without a sign of life for so long, a person gives their place back.
AWAY = timedelta(minutes=5)
# Characters of a session id that nobody guesses. Prolific's have 24, MTurk's 30.
SHORTEST_SECRET = 16
LOGINS_AN_HOUR = 30
# MTurk calls its parameters so. They are read too, whatever names a link has.
MTURK = ("workerId", "hitId", "assignmentId")
# MTurk sends this while a worker looks at a task that they have not accepted.
_PREVIEW = "ASSIGNMENT_ID_NOT_AVAILABLE"
_SALT = "fairjudge.crowd"
_ID = re.compile(r"[\w.:@+=/-]{1,120}", re.ASCII)
_ENDED = _lazy("This study accepts no more people. You can close this page.")
_TWICE = _lazy("You have taken part in this study already, or began it with another submission.")
_FULL = _lazy(
    "All places of this study are taken. Return your submission, or try again in some minutes."
)
_NOTHING_FREE = _lazy("Other people are working on all remaining pairs. Try again in some minutes.")


class CrowdOver(Http404):
    """The person's part in the round has ended, and with it what their login opens."""


@dataclass(frozen=True)
class PanelIds:
    """What the panel says of a person: who they are, in which study, in which submission."""

    worker: str
    study: str = ""
    session: str = ""

    @property
    def is_secret(self) -> bool:
        """Return True if nobody else can know the session id."""
        return len(self.session) >= SHORTEST_SECRET


def _changes(round_: Round) -> QuerySet[AuditEvent]:
    return AuditEvent.objects.filter(
        project=round_.project, subject=f"round {round_.number}", action__in=_DID
    )


_DID = {
    "crowd link made": "made the crowd link",
    "crowd link changed": "changed the crowd link",
    "crowd link withdrawn": "withdrew the crowd link",
}


def terms_version(round_: Round) -> str:
    """Return what a form carries of the terms that it was made for."""
    return access.version_of(_changes(round_).aggregate(last=Max("pk"))["last"])


def set_up(
    round_: Round, by: AbstractUser, fields: Mapping[str, Any], made_for: str | None = None
) -> CrowdLink:
    """Make the round's link, or change it. A link that was withdrawn gets a new address.

    Raises Overtaken if `made_for` is not the version of the terms that hold now.
    """
    if round_.kind == Round.Kind.IMPORT or round_.state == Round.State.CLOSED:
        raise UserError("This round hands out no items, so it can't have a crowd link.")
    if round_.is_practice or round_.after_id is not None:
        raise UserError(
            "People of a panel see one round only, so training, a qualification, and a round that "
            "opens after one of them can't have a crowd link. Use attention checks with rules."
        )
    with transaction.atomic():
        Round.objects.select_for_update(of=("self",), no_key=True).get(pk=round_.pk)
        if made_for not in (None, terms_version(round_)):
            access.refuse_for_last(_changes(round_), by, lambda event: _DID[event.action])
        link = CrowdLink.objects.filter(round=round_).first() or CrowdLink(round=round_)
        is_new = link.pk is None or not is_usable(link)
        if is_new:
            link.nonce, link.withdrawn_at = secrets.token_urlsafe(), None
        for name, value in fields.items():
            setattr(link, name, value)
        # A link lets people in only while its maker may invite. The last person who set its terms
        # counts as the maker.
        link.created_by, link.made_after = by, last_lost_right(round_.project)
        link.save()
        did = "crowd link made" if is_new else "crowd link changed"
        access.record_event(
            round_.project,
            by,
            did,
            f"round {round_.number}",
            people=link.max_people,
            pairs=link.max_pairs,
        )
    people_changed(round_.project)
    return link


def withdraw(link: CrowdLink, by: AbstractUser) -> None:
    """Let nobody new in. Those who are at work may finish."""
    links = CrowdLink.objects.filter(pk=link.pk, withdrawn_at=None)
    # A new nonce ends every address of the link that was handed out, also if it is made again.
    if links.update(withdrawn_at=timezone.now(), nonce=secrets.token_urlsafe()):
        round_ = link.round
        access.record_event(round_.project, by, "crowd link withdrawn", f"round {round_.number}")
        people_changed(round_.project)


def is_usable(link: CrowdLink) -> bool:
    """Return True if the link lets people in: not withdrawn, and its maker may still invite."""
    links = CrowdLink.objects.filter(maker_may_invite("round__project"), pk=link.pk)
    return links.filter(withdrawn_at=None, created_by__isnull=False).exists()


def link_of(link: CrowdLink) -> str:
    """Return the link, with the placeholders that Prolific fills in if it has Prolific's names."""
    token = signed_link(link.pk, link.nonce, salt=_SALT)
    address = settings.FAIRJUDGE_URL.rstrip("/") + reverse("crowd", args=[token])
    names = [name for name in (link.worker_name, link.study_name, link.session_name) if name]
    if link.worker_name != "PROLIFIC_PID":
        return address
    return f"{address}?{'&'.join(f'{name}={{{{%{name}%}}}}' for name in names)}"


def open_link(token: str) -> CrowdLink:
    """Return the link of this token if it lets people in. Raises UserError that says why not."""
    try:
        number, nonce = unsigned_link(token, _SALT)
    except (signing.BadSignature, ValueError, TypeError):
        raise UserError(
            _("This link is incomplete. Open the study from the panel again.")
        ) from None
    links = CrowdLink.objects.select_related("round__project", "round__protocol")
    link = links.filter(pk=number).first()
    if link is None or not constant_time_compare(link.nonce, nonce) or not is_usable(link):
        raise UserError(_ENDED)
    return link


def wording(link: CrowdLink, name: str) -> tuple[Any, str]:
    """Return a text of the link, or its questions, in the page's language, with that language.

    What isn't translated is as the owner wrote it, in the project's language.
    """
    language = languages.best_of(link.translations)
    if text := link.translations.get(language, {}).get(name):
        return text, language
    return getattr(link, name), link.round.project.language


def panel_ids(link: CrowdLink, sent: Mapping[str, str]) -> PanelIds:
    """Read the ids in a link's address. Raises UserError if the worker's is missing or odd."""
    names = zip((link.worker_name, link.study_name, link.session_name), MTURK, strict=True)
    values = [sent.get(name) or sent.get(other) or "" for name, other in names]
    if _PREVIEW in values:
        raise UserError(_("This is a preview. Accept the task first, then open it again."))
    if not values[0] or any(value and not _ID.fullmatch(value) for value in values):
        raise UserError(
            _(
                "The address lacks your ID (%(parameter)s), or it can't be read. Open the "
                "study from the panel again."
            )
            % {"parameter": link.worker_name}
        )
    return PanelIds(*values)


def submission_of(link: CrowdLink, ids: PanelIds) -> CrowdSubmission | None:
    """Return the submission of this worker. Raises UserError if it is another of theirs."""
    submission = CrowdSubmission.objects.filter(link=link, worker_id=ids.worker).first()
    if submission is not None and not constant_time_compare(submission.session_id, ids.session):
        raise UserError(_TWICE)
    return submission


def refuse_if_full(link: CrowdLink) -> None:
    """Raise UserError if the round has no place or no pair for somebody new."""
    if link.round.state != Round.State.OPEN:
        raise UserError(_ENDED if link.round.state == Round.State.CLOSED else _NOTHING_FREE)
    release_absent(CrowdLink.objects.filter(pk=link.pk))
    if not crowd_places(link.round_id):
        raise UserError(_FULL)
    slots = Slot.objects.asked().filter(round=link.round_id, item__state=Item.State.OPEN)
    if not slots.filter(is_free(timezone.now())).exists():
        raise UserError(_NOTHING_FREE if slots.filter(vote=None).exists() else _ENDED)


def count_new_login(address: str) -> None:
    """Raise UserError if too many people began from this address within the hour.

    Only a keyed hash of the address is kept, for an hour.
    """
    key = f"crowd:{salted_hmac(_SALT, _network(address)).hexdigest()}"
    now = timezone.now()
    recent = [at for at in report_cache.get(key, []) if at > now - timedelta(hours=1)]
    if len(recent) >= LOGINS_AN_HOUR:
        raise UserError(
            _(
                "Too many people began this study from your network within the hour. Try again "
                "later."
            )
        )
    report_cache.set(key, [*recent, now], 3600)


def _network(address: str) -> str:
    """Return the address, or the part of an IPv6 address that is the same for one household."""
    try:
        return str(ip_network((ip_address(address), 64), strict=False))
    except ValueError:
        # IPv4, which has fewer bits, or no address at all.
        return address


def begin(
    link: CrowdLink, ids: PanelIds, answers: Mapping[str, str], *, screened_out: bool = False
) -> CrowdSubmission:
    """Let a person in with a login of their own, or record that they were screened out.

    Raises UserError if they were here before, or if the last place was just taken.
    """
    try:
        with transaction.atomic():
            # Locked, so that the last place is given once.
            CrowdLink.objects.select_for_update(no_key=True).filter(pk=link.pk).first()
            return _begin(link, ids, answers, screened_out=screened_out)
    # A worker has one submission of a link, which the database decides if they open it twice at
    # the same moment.
    except IntegrityError:
        raise UserError(_TWICE) from None


def _begin(
    link: CrowdLink, ids: PanelIds, answers: Mapping[str, str], *, screened_out: bool
) -> CrowdSubmission:
    if not is_usable(link):
        raise UserError(_ENDED)
    submission = CrowdSubmission(
        link=link,
        worker_id=ids.worker,
        study_id=ids.study,
        session_id=ids.session,
        answers=dict(answers),
    )
    round_ = link.round
    if screened_out:
        submission.state, submission.ended_at = State.SCREENED, timezone.now()
        submission.save()
        access.record_event(
            round_.project, None, "crowd person screened out", f"round {round_.number}"
        )
        return submission
    if not crowd_places(link.round_id):
        raise UserError(_FULL)
    # No name of theirs, no password, and no membership.
    user = User.objects.create_user(f"crowd-{secrets.token_hex(8)}")
    submission.annotator = crowd_annotator(round_.project, user)
    make_seat(round_, submission.annotator, link.max_pairs)
    submission.save()
    access.record_event(round_.project, user, "crowd person began", f"round {round_.number}")
    return submission


def admitted(user: AbstractUser, round_id: int) -> Annotator:
    """Return the annotator that a person of a panel labels as in this round.

    Raises Http404 for everybody else, and CrowdOver once their submission or the round has ended.
    """
    theirs = CrowdSubmission.objects.select_related("annotator", "link__round")
    submission = theirs.filter(annotator__user=user.pk, link__round=round_id).first()
    if submission is None or submission.annotator is None or not user.is_active:
        raise Http404("No such round.")
    if submission.state != State.WORKING or submission.link.round.state == Round.State.CLOSED:
        raise CrowdOver(_("Your part in this study has ended."))
    return submission.annotator


def why_nothing(submission: CrowdSubmission) -> str:
    """Return why no pair is handed out to this person, "" if there is one for them."""
    assert submission.annotator is not None
    handed = claim_next(submission.link.round, submission.annotator)
    return "" if isinstance(handed, Draft) else handed.reason


def finish(submission: CrowdSubmission) -> bool:
    """End the submission if there is no pair left for this person. Returns False if there is one.

    Who gave no vote because others have all pairs is not complete, and gets no code for it.
    """
    annotator = submission.annotator
    if submission.state != State.WORKING or annotator is None:
        return submission.state != State.LEFT
    if not why_nothing(submission):
        return False
    has_voted = Vote.every.filter(annotator=annotator).exists()
    return end(submission, State.COMPLETE if has_voted else State.NOTHING)


def end(submission: CrowdSubmission, state: str) -> bool:
    """End a submission that is still open, and give its pairs to others at once."""
    theirs = CrowdSubmission.objects.filter(pk=submission.pk)
    with transaction.atomic():
        changed = theirs.filter(state__in=(State.WORKING, State.LEFT)).update(
            state=state, ended_at=timezone.now()
        )
        if changed:
            annotator, round_ = submission.annotator, submission.link.round
            by = annotator.user if annotator else None
            did = f"crowd person {State(state).label}"
            access.record_event(round_.project, by, did, f"round {round_.number}")
    submission.refresh_from_db(fields=["state", "ended_at"])
    if changed:
        give_back([submission])
    return bool(changed)


def give_back(submissions: list[CrowdSubmission]) -> None:
    """Give the pairs of people whose part has ended to others, and count who may still vote."""
    for submission in submissions:
        if submission.annotator is not None:
            give_back_items(submission.annotator)
    projects = {
        given_back.link.round.project_id: given_back.link.round.project
        for given_back in submissions
    }
    for project in projects.values():
        people_changed(project)


def release_absent(links: QuerySet[CrowdLink] | None = None) -> int:
    """Take back the places of people who closed the page. Returns how many.

    They are here as long as a pair is in their hands, which their page renews every minute, or
    if they entered something within `AWAY`. Who gave all their votes has nothing left to do but to
    read the code, and keeps it.
    """
    since = timezone.now() - AWAY
    mine = {"annotator": OuterRef("annotator")}
    held = Slot.objects.filter(**mine, vote=None, lease_until__gte=timezone.now())
    entered = Draft.every.filter(**mine, updated_at__gte=since)
    absent = CrowdSubmission.objects.filter(
        ~Exists(held), ~Exists(entered), state=State.WORKING, back_at__lt=since
    )
    if links is not None:
        absent = absent.filter(link__in=links)
    gone = []
    for submission in absent.select_related("annotator", "link__round__project"):
        done = seats_at_limit(submission.link.round_id)
        if done.filter(annotator=submission.annotator_id).exists():
            end(submission, State.COMPLETE)
            continue
        # The person may have come back since the query above. Then `back_at` is another one.
        still = CrowdSubmission.objects.filter(pk=submission.pk, state=State.WORKING)
        if still.filter(back_at=submission.back_at).update(state=State.LEFT):
            gone.append(submission)
    give_back(gone)
    return len(gone)


def come_back(submission: CrowdSubmission) -> bool:
    """Let a person who went away go on, if there is still a place. Returns True if they may."""
    with transaction.atomic():
        # The lock that `begin` takes, so that the last place is given once.
        links = CrowdLink.objects.select_for_update(no_key=True)
        link = links.filter(pk=submission.link_id).first()
        theirs = CrowdSubmission.objects.filter(pk=submission.pk)
        left = theirs.filter(state=State.LEFT)
        if link is None or not left.exists():
            return theirs.filter(state=State.WORKING).exists()
        taken = CrowdSubmission.objects.filter(link=link, state__in=HAVE_A_PLACE).count()
        if taken >= link.max_people:
            return False
        left.update(state=State.WORKING, back_at=timezone.now())
    submission.refresh_from_db(fields=["state", "back_at"])
    return True


def votes_of(submission: CrowdSubmission) -> int:
    """Return how many votes the person gave in the round."""
    theirs = Vote.every.filter(annotator=submission.annotator_id)
    return theirs.count() if submission.annotator_id else 0


def submissions_with_votes(round_: Round) -> QuerySet[CrowdSubmission]:
    """Return the round's submissions with `n_votes`, `seconds` and `minutes`, the latest first."""
    votes = Vote.every.filter(annotator=OuterRef("annotator")).order_by().values("annotator")
    return (
        CrowdSubmission.objects.filter(link__round=round_)
        .select_related("annotator", "link")
        .annotate(
            n_votes=Coalesce(Subquery(votes.annotate(n=Count("pk")).values("n")), 0),
            seconds=Subquery(votes.annotate(n=Sum("active_seconds")).values("n")),
        )
        .annotate(minutes=F("seconds") / 60.0)
        .order_by("-pk")
    )


def counts_by_state(round_: Round) -> list[tuple[str, int]]:
    """Return how many submissions are in each state that has some, in the states' own order."""
    rows = CrowdSubmission.objects.filter(link__round=round_).order_by().values_list("state")
    counted = dict(rows.annotate(n=Count("pk")))
    return [(state.label, counted[state]) for state in State if state in counted]


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
    for submission in submissions_with_votes(round_).order_by("pk"):
        # Once a person is erased or their IDs are removed, no payment can be assigned to the row.
        if not submission.worker_id:
            continue
        done = submission.state in (State.COMPLETE, State.APPROVED)
        screened = submission.state in (State.SCREENED, State.NOTHING)
        yield [
            submission.worker_id,
            submission.study_id,
            submission.session_id,
            submission.state,
            submission.annotator.pseudonym if submission.annotator else "",
            submission.annotator.name if submission.annotator else "",
            str(submission.n_votes),
            "" if submission.minutes is None else f"{submission.minutes:.2f}",
            submission.link.completion_code if done else submission.link.screened_code * screened,
            _moment(submission.started_at),
            _moment(submission.ended_at),
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
    statuses = _read(content)
    known = {
        submission.worker_id: submission
        for submission in CrowdSubmission.objects.filter(link__round=round_)
        .exclude(worker_id="")
        .select_related("annotator", "link__round__project")
    }
    changed, unknown = [], 0
    with transaction.atomic():
        for worker, session, state in statuses:
            submission = known.get(worker)
            if submission is None or (
                session and submission.session_id and session != submission.session_id
            ):
                unknown += 1
                continue
            rows = CrowdSubmission.objects.filter(pk=submission.pk).exclude(state=state)
            if rows.update(state=state, ended_at=submission.ended_at or timezone.now()):
                changed.append(submission)
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
        # Spreadsheets begin a UTF-8 file with a byte order mark, which would become a part of the
        # first column's name.
        text = content.decode("utf-8-sig")
        table = csv.DictReader(io.StringIO(text, newline=""), strict=True)
        rows = list(table)
    except (UnicodeDecodeError, csv.Error):
        raise UserError("The file isn't a CSV file in UTF-8. Nothing was changed.") from None
    names = {(name or "").strip().lower(): name for name in table.fieldnames or ()}
    worker, status = _column(names, _WORKER), _column(names, _STATUS)
    if worker is None or status is None:
        raise UserError(
            "The file needs a column with the worker's ID (worker_id, Participant id or WorkerId) "
            "and one with the status. Nothing was changed."
        )
    if not rows:
        raise UserError("The file has a header and no row below it. Nothing was changed.")
    session = _column(names, _SESSION)
    read, states = [], dict[str, str]()
    for line, row in enumerate(rows, start=2):
        who = unescape_cell((row[worker] or "").strip(), row.get(ESCAPE_COLUMN) or "")
        what = (row[status] or "").strip().lower()
        if what not in _SAID and what not in _LEFT_AS_IT_IS:
            raise UserError(
                f"Row {line}: “{what[:40]}” isn't a status. Use approved, rejected or returned. "
                f"Nothing was changed."
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
