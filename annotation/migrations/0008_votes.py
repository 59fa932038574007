from django.db import migrations


class Migration(migrations.Migration):
    """Votes were called annotations. Only the name in Python changes: their tables keep theirs,
    so that nothing in the database is moved or rewritten."""

    dependencies = [
        ("annotation", "0007_nonces_once"),
        # Django renames the content types along, which their first migration's state can't do.
        ("contenttypes", "0002_remove_content_type_name"),
    ]

    operations = [
        # Before the models are renamed, so that renaming finds the table's name fixed.
        migrations.AlterModelTable("Annotation", "annotation_annotation"),
        migrations.AlterModelTable("AnnotationRevision", "annotation_annotationrevision"),
        migrations.RenameModel("Annotation", "Vote"),
        migrations.RenameModel("AnnotationRevision", "VoteRevision"),
    ]
