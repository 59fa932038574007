from django.db import migrations


class Migration(migrations.Migration):
    """Pages and exports merge people and judge by themselves; nothing read this table."""

    dependencies = [("annotation", "0004_sides_from_the_seed")]

    operations = [migrations.DeleteModel(name="FinalLabel")]
