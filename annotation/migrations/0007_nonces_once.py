import secrets

from django.db import migrations, models


class Migration(migrations.Migration):
    """Apart from the filling: PostgreSQL alters no table whose rows were changed just before."""

    dependencies = [("annotation", "0006_links_with_a_nonce")]

    operations = [
        migrations.AlterField(
            model,
            "nonce",
            models.CharField(default=secrets.token_urlsafe, max_length=43, unique=True),
        )
        for model in ("invitation", "round")
    ]
