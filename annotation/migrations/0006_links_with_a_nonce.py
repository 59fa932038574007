import secrets

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models
from django.utils import timezone


def fill(apps, schema_editor):
    """A nonce of its own for each row. Which removals a link is older than is told by their times,
    this once. A link without a maker is of somebody who was erased, who may invite no more."""
    invitation_table = apps.get_model("annotation", "Invitation")
    lost = apps.get_model("judging", "LostRight")
    for model in (invitation_table, apps.get_model("annotation", "Round")):
        for key in list(model.objects.values_list("pk", flat=True)):
            model.objects.filter(pk=key).update(nonce=secrets.token_urlsafe())
    for invitation in invitation_table.objects.all():
        before = lost.objects.filter(
            project_id=invitation.project_id, at__lt=invitation.created_at
        )
        last = before.aggregate(last=models.Max("pk"))["last"]
        invitation_table.objects.filter(pk=invitation.pk).update(made_after=last or 0)
    orphans = invitation_table.objects.filter(created_by=None, revoked_at=None)
    orphans.update(revoked_at=timezone.now())


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("annotation", "0005_no_final_labels"),
        ("judging", "0005_rights_and_links"),
    ]

    operations = [
        migrations.AddField("invitation", "nonce", models.CharField(default="", max_length=43)),
        migrations.AddField("round", "nonce", models.CharField(default="", max_length=43)),
        migrations.AddField(
            "invitation", "made_after", models.PositiveBigIntegerField(default=0)
        ),
        migrations.AlterField(
            "invitation",
            "created_by",
            models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL),
        ),
        migrations.RunPython(fill, migrations.RunPython.noop),
    ]
