"""Who may vote: annotators, and members who become one with the first item that they open."""

from django.db.models import QuerySet

from annotation.models import Annotator, Round
from annotation.settling import could_vote
from judging.models.projects import Membership, Project


def members_who_may_vote(project: Project) -> QuerySet[Membership]:
    """Owners and researchers are among them; who has left the labelling is not."""
    gone = Annotator.objects.filter(project=project, user__isnull=False, left_at__isnull=False)
    members = Membership.objects.filter(project=project, user__is_active=True)
    return members.exclude(user__in=gone.values("user"))


def voters_of(round_: Round) -> tuple[set[int], int]:
    """Ids of the annotators who may take items of this round, and how many members may besides.

    Nobody waits for the latter: what all others skipped is decided without them.
    """
    if not round_.open_to_all:
        return could_vote(round_), 0
    known = Annotator.objects.filter(project=round_.project_id, user__isnull=False)
    members = members_who_may_vote(round_.project)
    return could_vote(round_), members.exclude(user__in=known.values("user")).count()
