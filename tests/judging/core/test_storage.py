"""Uploads and figures that every machine of a site finds."""

import secrets
from datetime import timedelta
from pathlib import Path

import pytest
from django.core.cache import caches
from django.core.files.base import ContentFile
from django.core.files.storage import storages
from django.utils import timezone

from fairjudge_site.environment import Environment
from judging.core import storage
from judging.core.models import KeptFigure, StoredFile, StoredPiece
from judging.core.storage import PIECE, StoreAway
from tests.loopback.object_storage import ACCESS_KEY, SECRET_KEY, ObjectStorage

pytestmark = [pytest.mark.django_db, pytest.mark.databases]
DATABASE = {"BACKEND": "judging.core.storage.DatabaseStorage"}
CACHE = {"BACKEND": "judging.core.storage.DatabaseCache"}


@pytest.fixture
def shared(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path / "here"
    settings.MEDIA_ROOT.mkdir()
    settings.STORAGES = settings.STORAGES | {"files": DATABASE}
    return storages["files"]


@pytest.fixture
def kept(settings):
    settings.CACHES = settings.CACHES | {"shared": CACHE}
    return caches["shared"]


def folder_of(settings, **files):
    folder = Path(settings.MEDIA_ROOT, "imports", "abc")
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / f"{name}.csv").write_text(content)
    return folder


def test_a_folder_is_brought_back_on_a_machine_that_never_had_it(shared, settings, tmp_path):
    folder = folder_of(settings, pairs="a,b")
    (folder / "unpacked").mkdir()
    (folder / "unpacked" / "x.csv").write_text("inside")
    storage.share(folder)
    assert not folder.exists()
    settings.MEDIA_ROOT = tmp_path / "another"
    with storage.at_hand(["imports/abc/pairs.csv"]) as root:
        assert (root / "imports/abc/pairs.csv").read_text() == "a,b"
        assert (root / "imports/abc/unpacked/x.csv").read_text() == "inside"
        refused = root / "imports/abc/pairs.refused.csv"
        refused.write_text("bad")
        storage.share(refused.parent, storage.REFUSED, [refused])
    assert [*settings.MEDIA_ROOT.iterdir()] == []
    storage.forget("imports/abc", (storage.CONTENT,))
    with storage.at_hand(["imports/abc/pairs.csv"]) as root:
        assert sorted(p.name for p in (root / "imports/abc").iterdir()) == ["pairs.refused.csv"]
    assert storage.holds("imports/abc")
    storage.forget("imports/abc")
    assert not storage.holds("imports/abc")
    assert not StoredPiece.objects.exists()


def test_what_is_still_here_from_earlier_is_read_here_and_moves_after_a_day(shared, settings):
    folder = folder_of(settings, pairs="old")
    with storage.at_hand(["imports/abc/pairs.csv"]) as root:
        assert root == settings.MEDIA_ROOT
    storage.tidy()
    assert folder.exists()
    storage.share_all(timezone.now() + timedelta(days=1))
    assert not folder.exists()
    with storage.at_hand(["imports/abc/pairs.csv"]) as root:
        assert (root / "imports/abc/pairs.csv").read_text() == "old"


def test_a_file_of_several_pieces_replaces_the_earlier_one_once_it_is_whole(shared):
    shared.save("imports/a/content.zip", ContentFile(b"first"))
    long = bytes(range(256)) * (PIECE // 256) * 2 + b"end"
    shared.save("imports/a/content.zip", ContentFile(long))
    assert StoredFile.objects.count() == 1
    with shared.open("imports/a/content.zip") as stream:
        assert stream.read() == long
    assert shared.size("imports/a/content.zip") == len(long)

    class CutOff(ContentFile):
        def chunks(self, chunk_size=None):
            yield b"half"
            raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        shared.save("imports/a/content.zip", CutOff(b""))
    with shared.open("imports/a/content.zip") as stream:
        assert stream.read() == long
    assert shared.listdir("imports") == (["a"], [])
    with pytest.raises(FileNotFoundError):
        shared.open("imports/b/content.zip")


def test_figures_are_kept_added_once_and_forgotten(kept):
    assert kept.get("a", "none") == "none"
    kept.set("a", {"x": [1, 2]}, 60)
    kept.set("a", {"x": [1, 3]}, 60)
    assert kept.get("a") == {"x": [1, 3]}
    assert kept.add("a", 1, 60) is False
    assert kept.add("b", 1, 60) is True
    KeptFigure.objects.update(until=timezone.now() - timedelta(seconds=1))
    assert kept.get("a") is None
    assert kept.add("b", 2, 60) is True
    assert kept.get("b") == 2
    storage.tidy()
    assert KeptFigure.objects.count() == 1
    assert kept.delete("b")
    assert not kept.delete("b")


def test_a_figure_that_somebody_else_wrote_is_not_unpickled(kept, settings):
    kept.set("a", 1, None)
    settings.SECRET_KEY = "another" * 10
    assert kept.get("a", "none") == "none"


@pytest.fixture
def bucket(settings, tmp_path):
    with ObjectStorage() as made:
        settings.MEDIA_ROOT = tmp_path / "here"
        settings.MEDIA_ROOT.mkdir()
        place = Environment({"FAIRJUDGE_FILES": made.url}).files("FAIRJUDGE_FILES", "folder")
        keys = {"access_key": ACCESS_KEY, "secret_key": SECRET_KEY}
        backend = "storages.backends.s3.S3Storage"
        files = {"BACKEND": backend, "OPTIONS": place.options | keys}
        settings.STORAGES = settings.STORAGES | {"files": files}
        yield made


def test_an_object_storage_keeps_folders_small_and_large(bucket, settings):
    # Beyond 8 MiB the client sends parts.
    large = secrets.token_hex(10 * PIECE)
    storage.share(folder_of(settings, pairs="a,b", large=large))
    assert [name for _, name in bucket.objects] == ["site/imports/abc/content.zip"]
    assert any(asked.startswith("POST ") for asked in bucket.asked)
    assert [folder for folder, _ in storage.stored()] == ["imports/abc"]
    with storage.at_hand(["imports/abc/pairs.csv"]) as root:
        assert (root / "imports/abc/pairs.csv").read_text() == "a,b"
        assert (root / "imports/abc/large.csv").read_text() == large
    with storage.at_hand(["imports/none/pairs.csv"]) as root:
        assert not (root / "imports/none/pairs.csv").exists()
    assert storage.holds("imports/abc")
    assert not storage.holds("imports/none")
    storage.forget("imports/abc")
    assert bucket.objects == {}


def test_an_object_storage_that_refuses_is_told_in_a_sentence(bucket, settings):
    bucket.is_away = True
    with pytest.raises(StoreAway, match=r"The object storage of FAIRJUDGE_FILES failed: .*"):
        storage.share(folder_of(settings, pairs="a,b"))
    assert (settings.MEDIA_ROOT / "imports/abc/pairs.csv").exists()
    with pytest.raises(StoreAway), storage.at_hand(["imports/other/pairs.csv"]):
        pass
