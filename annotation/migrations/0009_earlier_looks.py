from django.conf import settings
from django.db import migrations
from django.db.models import Min


def looks_before(apps, schema_editor):
    """Who saw judge output and has no mark of it, as the mark went with the membership, and a
    superuser without a role got none: by their marked votes, and by what they exported."""
    vote = apps.get_model("annotation", "Vote")
    export = apps.get_model("judging", "Export")
    member = apps.get_model("judging", "Membership")
    look = apps.get_model("judging", "EarlierLook")
    voted = vote.objects.filter(unblinded=True, source="screen", submitted_at__isnull=False)
    voted = voted.exclude(annotator__user=None).values_list("example__project", "annotator__user")
    exported = export.objects.filter(run__isnull=False, created_by__isnull=False)
    exported = exported.exclude(what="votes").values_list("project", "created_by")
    first = {}
    for rows, at in ((voted, "submitted_at"), (exported, "created_at")):
        for project, user, when in rows.order_by().annotate(first=Min(at)):
            first[project, user] = min(when, first.get((project, user), when))
    for (project, user), when in first.items():
        theirs = member.objects.filter(project=project, user=user)
        if not theirs.exists():
            look.objects.get_or_create(project_id=project, user_id=user, defaults={"at": when})
        theirs.filter(unblinded_at=None).update(unblinded_at=when)


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("annotation", "0008_votes"),
        ("judging", "0006_earlier_looks"),
    ]

    operations = [migrations.RunPython(looks_before, migrations.RunPython.noop)]
