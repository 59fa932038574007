"""Votes of people who had seen what the judge says: whether they count is a project's setting."""

from collections.abc import Collection

from judging.models.projects import Project


def leaving_out(projects: Collection[int]) -> set[int]:
    """Those of these projects whose results such votes do not enter.

    As it is now: whoever holds the project may have read it before it was changed.
    """
    found = Project.objects.filter(pk__in=projects, leave_out_unblinded=True)
    return set(found.values_list("pk", flat=True))
