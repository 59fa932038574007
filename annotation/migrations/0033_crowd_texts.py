from django.db import migrations, models


class Migration(migrations.Migration):

    dependencies = [
        ('annotation', '0032_simulated_annotators'),
    ]

    operations = [
        migrations.AddField(
            model_name='crowdlink',
            name='completion_text',
            field=models.TextField(blank=True, default=''),
        ),
        migrations.AddField(
            model_name='crowdlink',
            name='screened_text',
            field=models.TextField(blank=True, default=''),
        ),
    ]
