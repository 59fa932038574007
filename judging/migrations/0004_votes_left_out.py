
from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('judging', '0003_template_retired'),
    ]

    operations = [
        migrations.AddField(
            model_name='project',
            name='leave_out_unblinded',
            field=models.BooleanField(default=False),
        ),
    ]
