from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0033_crowd_texts'),
    ]

    operations = [
        migrations.AddField(
            model_name='job',
            name='n_done',
            field=models.PositiveIntegerField(default=0),
        ),
        migrations.AlterField(
            model_name='job',
            name='state',
            field=models.CharField(
                choices=[
                    ('waiting', 'waiting'),
                    ('done', 'done'),
                    ('refused', 'refused'),
                    ('stopped', 'cancelled'),
                ],
                default='waiting',
                max_length=7,
            ),
        ),
    ]
