"""Imports and files are left to workers as gates are: one table for all. Its name stays."""

from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [("annotation", "0025_teams")]

    operations = [
        migrations.AlterModelTable("gaterequest", "annotation_gaterequest"),
        migrations.RenameModel("GateRequest", "Job"),
        migrations.AlterField(
            "job",
            "project",
            models.ForeignKey(
                on_delete=models.CASCADE, related_name="jobs", to="judging.project"
            ),
        ),
        migrations.AlterField(
            "job",
            "kind",
            models.CharField(
                choices=[
                    ("gate", "gate"),
                    ("compare", "comparison"),
                    ("escalate", "escalation"),
                    ("votes", "votes"),
                    ("judgments", "recorded judgments"),
                    ("scores", "scores"),
                    ("report", "report"),
                    ("table", "table"),
                ],
                max_length=10,
            ),
        ),
    ]
