from django.db import migrations, models


class Migration(migrations.Migration):
    """A person's progress and pace are read from the index, however many votes they gave."""

    dependencies = [("annotation", "0002_routing_scores")]

    operations = [
        migrations.RemoveIndex(model_name="slot", name="slot_of_person"),
        migrations.AddIndex(
            model_name="slot",
            index=models.Index(fields=["annotator", "round", "vote"], name="slot_of_person"),
        ),
    ]
