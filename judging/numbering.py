"""The numbers of a project's things: each is given once, however many ask at the same time."""

from django.db.models import Max, Model

from judging.models.projects import Project


def next_number(project: Project, model: type[Model]) -> int:
    """One more than the last number of the project's rows of this model.

    To be called in the transaction that makes the row: the project's own row stays locked until
    that ends, so that whoever asks next waits for it.
    """
    # Not the key: rows that refer to the project are stored meanwhile.
    Project.objects.select_for_update(no_key=True).only("pk").get(pk=project.pk)
    rows = model._default_manager.filter(project=project)
    return int(rows.aggregate(last=Max("number"))["last"] or 0) + 1
