from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('judging', '0002_calls_about_nothing_and_likelihoods'),
    ]

    operations = [
        migrations.AddField(
            model_name='judgetemplate',
            name='retired_at',
            field=models.DateTimeField(null=True),
        ),
    ]
