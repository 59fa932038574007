"""A cache that can't be written or read costs time, and no page."""

import pytest
from django.core.cache.backends.filebased import FileBasedCache

from judging.core import caching
from judging.core.caching import Keeping, kept_a_while
from tests.factories import make_examples, make_run, make_verdict


@pytest.fixture
def folder(tmp_path, monkeypatch):
    cache = FileBasedCache(str(tmp_path / "cache"), {})
    monkeypatch.setattr(caching, "caches", {"reports": cache})
    return tmp_path / "cache"


def full(*arguments, **more):
    raise OSError(28, "No space left on device")


def test_a_full_disk_is_logged_and_nothing_is_kept(folder, monkeypatch, caplog):
    monkeypatch.setattr("tempfile.mkstemp", full)
    kept = Keeping("reports")
    kept.set("a", 1)
    assert kept.get("a", "none") == "none"
    assert kept.add("a", 1) is True
    assert "The cache reports failed at set: [Errno 28] No space left" in caplog.text


@pytest.mark.parametrize("content", [b"", b"spoilt", b"\x80\x04K\x01.spoilt"])
def test_a_spoilt_file_is_as_good_as_none(folder, content):
    kept = Keeping("reports")
    kept.set("a", 1)
    assert kept.get("a") == 1
    (file,) = folder.iterdir()
    file.write_bytes(content)
    assert kept.get("a", "none") == "none"
    kept.clear()
    kept.delete("a")


@pytest.mark.parametrize("path", ["", "results/verdict", "people", "runs/1"])
def test_pages_are_shown_on_a_full_disk(as_owner, project, folder, monkeypatch, path):
    run = make_run(project)
    for example in make_examples(project, 3):
        make_verdict(run, example, 0.5, rank=example.number + 1)
    monkeypatch.setattr("tempfile.mkstemp", full)
    assert as_owner.get(f"/p/{project.slug}/{path}").status_code == 200


def test_what_is_large_is_counted_again_only_if_its_state_changes(project):
    made = []

    def kept(state, *, is_large=True):
        return kept_a_while(
            "n", project, state, lambda: made.append(1) or len(made), is_large=is_large
        )

    assert [kept("open"), kept("open"), kept("closed"), kept("closed")] == [1, 1, 2, 2]
    assert [kept("closed", is_large=False) for _ in range(2)] == [3, 4]


def test_what_is_large_is_kept_for_a_while_only(project, monkeypatch):
    monkeypatch.setattr(caching, "LONGEST_KEPT", 0)
    made = []
    for _ in range(2):
        kept_a_while("n", project, "", lambda: made.append(1), is_large=True)
    assert len(made) == 2
