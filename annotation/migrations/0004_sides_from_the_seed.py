from django.db import migrations


class Migration(migrations.Migration):
    """Sides are drawn from the round's seed and how many items were shown; nothing counted them."""

    dependencies = [("annotation", "0003_votes_of_a_person")]

    operations = [migrations.RemoveField(model_name="seat", name="n_left_first")]
