from django.db import migrations, models


def count(apps, schema_editor):
    """Count the pairs of each import that is done, as its end does from now on."""
    imports = apps.get_model("judging", "Import").objects.filter(kind="examples", state="done")
    examples = apps.get_model("judging", "Example").objects.filter(is_check=False)
    for pk, project in imports.values_list("pk", "project"):
        imports.filter(pk=pk).update(n_judged=examples.filter(project=project, source=pk).count())


class Migration(migrations.Migration):

    dependencies = [
        ('judging', '0033_what_operators_need'),
    ]

    operations = [
        migrations.AddField(
            model_name='import',
            name='n_judged',
            field=models.PositiveIntegerField(null=True),
        ),
        migrations.RunPython(count, migrations.RunPython.noop),
    ]
