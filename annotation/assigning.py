"""Who labels in a round: all the project's annotators or named ones, up to a limit each or none."""

from collections.abc import Collection

from django.contrib.auth.models import AbstractUser
from django.db import transaction
from django.db.models import QuerySet

from annotation.annotators import people_changed
from annotation.leaving import give_back
from annotation.models import Annotator, Round, Seat
from annotation.seats import fresh_seat
from judging import audit
from judging.errors import UserError
from judging.models.projects import Project


def assignable(project: Project) -> QuerySet[Annotator]:
    """The annotators who can log in and are members, by name."""
    people = Annotator.objects.filter(project=project, left_at=None, user__is_active=True)
    people = people.filter(user__memberships__project=project)
    return people.order_by("name", "pk")


def assign(
    round_: Round,
    by: AbstractUser | None,
    people: Collection[Annotator],
    limit: int | None = None,
) -> None:
    """Hand out items to these alone, or to everybody where nobody is named.

    Votes that were given stay; what is in the hands of others goes back. Who left the round by
    their own wish is not called back.
    """
    if limit is not None and limit < 1:
        raise UserError("A limit is at least 1 item a person.")
    with transaction.atomic():
        locked = Round.objects.select_for_update(of=("self",), no_key=True).get(pk=round_.pk)
        if locked.kind == Round.Kind.IMPORT or locked.state == Round.State.CLOSED:
            raise UserError("Nothing is handed out in this round, so nobody can be assigned to it.")
        locked.open_to_all = not people
        locked.parameters |= {"limit": limit}
        locked.save(update_fields=["open_to_all", "parameters"])
        seats = Seat.objects.filter(round=locked)
        seats.update(limit=limit)
        gone: list[Annotator] = []
        if people:
            unseat = seats.exclude(annotator__in=people).exclude(left_at__isnull=False)
            gone = list(Annotator.objects.filter(seats__in=unseat))
            unseat.delete()
        for person in people:
            fresh = fresh_seat(locked, person) | {"limit": limit}
            Seat.objects.get_or_create(round=locked, annotator=person, defaults=fresh)
        subject = f"round {locked.number}"
        to = [person.pseudonym for person in people] or "everybody"
        audit.record(locked.project, by, "assigned", subject, to=to, limit=limit)
    for person in gone:
        give_back(person, round_)
    people_changed(round_.project)
    round_.refresh_from_db(fields=["open_to_all", "parameters"])
