import secrets

import django.db.models.deletion
from django.conf import settings
from django.db import migrations, models

_ORDER = ["annotator", "researcher", "owner"]


def lost_before(apps, schema_editor):
    """Who was removed or lowered before there was a table for it, from the audit trail."""
    event_table = apps.get_model("judging", "AuditEvent")
    lost = apps.get_model("judging", "LostRight")
    users = dict(
        apps.get_model(settings.AUTH_USER_MODEL).objects.values_list("username", "pk")
    )
    events = event_table.objects.filter(
        action__in=["member removed", "role changed"], project__isnull=False
    )
    for event in events.order_by("at", "pk"):
        user, how = users.get(event.subject), "removed"
        if user is None:
            continue
        if event.action == "role changed":
            before, now = event.detail.get("before"), event.detail.get("now")
            if before not in _ORDER or now not in _ORDER:
                continue
            if _ORDER.index(now) >= _ORDER.index(before):
                continue
            how = "lowered"
        elif event.user_id == user:
            how = "left"
        row = lost.objects.create(project_id=event.project_id, user_id=user, how=how)
        lost.objects.filter(pk=row.pk).update(at=event.at)


class Migration(migrations.Migration):

    dependencies = [
        migrations.swappable_dependency(settings.AUTH_USER_MODEL),
        ("judging", "0004_votes_left_out"),
    ]

    operations = [
        migrations.CreateModel(
            name="LostRight",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("how", models.CharField(choices=[("removed", "removed"), ("left", "left"), ("lowered", "given a smaller role")], max_length=8)),
                ("at", models.DateTimeField(auto_now_add=True)),
                ("project", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="lost_rights", to="judging.project")),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="lost_rights", to=settings.AUTH_USER_MODEL)),
            ],
            options={
                "indexes": [models.Index(fields=["project", "user"], name="lost_right_of_person")],
            },
        ),
        migrations.CreateModel(
            name="PasswordLink",
            fields=[
                ("id", models.BigAutoField(auto_created=True, primary_key=True, serialize=False, verbose_name="ID")),
                ("nonce", models.CharField(default=secrets.token_urlsafe, max_length=43, unique=True)),
                ("created_at", models.DateTimeField(auto_now_add=True)),
                ("made_by", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to=settings.AUTH_USER_MODEL)),
                ("project", models.ForeignKey(null=True, on_delete=django.db.models.deletion.CASCADE, related_name="+", to="judging.project")),
                ("user", models.ForeignKey(on_delete=django.db.models.deletion.CASCADE, related_name="password_links", to=settings.AUTH_USER_MODEL)),
            ],
        ),
        migrations.RunPython(lost_before, migrations.RunPython.noop),
    ]
