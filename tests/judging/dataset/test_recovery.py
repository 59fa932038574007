"""What becomes of imports whose writer died, and of uploads that nobody confirms."""

import os
from datetime import timedelta

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.utils import timezone

from judging.core.leases import new_holder
from judging.dataset import writing
from judging.dataset.models import Example, Import
from judging.dataset.uploads import record_import, store
from judging.dataset.writing import (
    MOST_RESUMED,
    UNCONFIRMED_FOR,
    import_files,
    resume_imports,
    tidy_uploads,
    write,
)
from tests.factories import uploads_of

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
PAIRS = b"question,response_1,response_2\nWhich?,An oak,An elm\n"


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path / "uploads"


@pytest.fixture
def uploaded(project):
    return record_import(project, None, store([SimpleUploadedFile("pairs.csv", PAIRS)]))


def died(imported):
    """Begun, taken by a worker, and not heard of since."""
    writing.begin(imported, background=False)
    writing.take(imported.pk, new_holder())
    long_ago = timezone.now() - 2 * writing.LEASE.length
    Import.objects.filter(pk=imported.pk).update(lease_until=long_ago)


def state_of(imported):
    imported.refresh_from_db()
    return imported.state


def test_an_import_whose_worker_died_goes_on_by_itself(uploaded):
    died(uploaded)
    assert resume_imports() == 1
    assert state_of(uploaded) == Import.State.WRITING
    assert resume_imports() == 0
    assert write(uploaded.pk)
    assert Example.objects.visible().count() == 1


def test_what_ends_its_worker_each_time_waits_for_a_person_in_the_end(uploaded):
    for _ in range(MOST_RESUMED):
        died(uploaded)
        assert resume_imports() == 1
    died(uploaded)
    assert resume_imports() == 0
    assert state_of(uploaded) == Import.State.INTERRUPTED
    assert writing.begin(uploaded, background=False)


def test_an_import_of_a_command_waits_for_the_command(project, tmp_path):
    path = tmp_path / "pairs.csv"
    path.write_bytes(PAIRS)
    imported = record_import(project, None, [path])
    died(imported)
    assert resume_imports() == 0
    assert state_of(imported) == Import.State.INTERRUPTED


def test_what_was_known_already_is_settled_before_an_interruption_too(
    project, tmp_path, monkeypatch
):
    monkeypatch.setattr(writing, "CHUNK", 2)
    path = tmp_path / "pairs.csv"

    def stop(rows):
        if rows:
            raise OSError("No space left on device")

    for rows, tree in ((2, "oak"), (8, "ash")):
        lines = (f"{n},Which?,An {tree if n != 1 else 'oak'},An elm\n" for n in range(rows))
        path.write_text("id,question,response_1,response_2\n" + "".join(lines))
        with pytest.raises(OSError, match="No space"):
            import_files(project, None, [path], advance=stop)
        done = import_files(project, None, [path])
    assert (done.n_written, done.n_known, done.n_conflicts) == (6, 1, 1)
    assert "'0' is in the project with another response_1" in done.summary["conflicts"][0]
    assert Example.objects.visible().count() == 8


def test_an_import_that_failed_for_a_reason_is_left_alone(uploaded):
    died(uploaded)
    Import.objects.update(state=Import.State.INTERRUPTED, reason="The file has changed.")
    assert resume_imports() == 0


def test_uploads_that_nobody_confirms_are_deleted_after_a_week(project, uploaded, tmp_path):
    recent = record_import(project, None, store([SimpleUploadedFile("new.csv", PAIRS)]))
    cut_off = store([SimpleUploadedFile("lost.csv", PAIRS)])[0]
    old = timezone.now() - UNCONFIRMED_FOR - timedelta(minutes=1)
    Import.objects.filter(pk=uploaded.pk).update(created_at=old)
    under_way = store([SimpleUploadedFile("coming.csv", PAIRS)])[0]
    # A command's file is the user's own, and waits for as long as they like.
    own = tmp_path / "own.csv"
    own.write_bytes(PAIRS)
    Import.objects.filter(pk=record_import(project, None, [own]).pk).update(created_at=old)
    for file in (*uploads_of(uploaded), cut_off):
        os.utime(file.parent, (old.timestamp(), old.timestamp()))
    assert tidy_uploads() == 2
    assert own.exists()
    assert under_way.exists()
    assert state_of(uploaded) == Import.State.UNDONE
    assert not cut_off.parent.exists()
    assert not uploads_of(uploaded)[0].exists()
    assert state_of(recent) == Import.State.CHECKED
    assert uploads_of(recent)[0].exists()
    assert tidy_uploads() == 0
