import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from judging.dataset.uploads import discard, refused_path, store


@pytest.fixture(autouse=True)
def folder(settings, tmp_path):
    settings.MEDIA_ROOT = tmp_path


def stored(*names):
    return store(SimpleUploadedFile(name, name.encode()) for name in names)


def test_uploads_keep_their_names_and_none_replaces_another():
    paths = stored("pairs.csv", "pairs.csv")
    assert [path.name for path in paths] == ["pairs.csv", "2-pairs.csv"]
    discard(paths)
    assert not paths[0].parent.exists()


def test_names_that_collide_with_what_others_were_renamed_to_stay_apart():
    names = ["2-a.csv", "a.csv", "a.csv", "b.csv", "b.refused.csv"]
    paths = stored(*names)
    assert len({*paths, *map(refused_path, paths)}) == 2 * len(paths)
    assert [path.read_text() for path in paths] == names


@pytest.mark.parametrize("name", ["é" * 200 + ".csv", "x" * 251 + ".csv", "x." + "y" * 240])
def test_a_name_longer_than_file_systems_take_is_shortened_and_keeps_its_ending(name):
    first, second = stored(name, name)
    assert first.name[-4:] == ("yyyy" if "y" in name else ".csv")
    for path in (refused_path(first), refused_path(second)):
        path.touch()
