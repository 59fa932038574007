"""What is written to a file is whole or not there, and nothing is left beside it."""

from pathlib import Path

import pytest
from django.core.management import CommandError, call_command

from annotation.results.tables.exports import whole_file
from judging.core.errors import UserError
from tests.factories import make_examples, make_run, make_verdict


def test_the_file_comes_with_its_end(tmp_path):
    path = tmp_path / "labels.csv"
    path.write_text("before")
    with whole_file(path) as partial:
        partial.write_text("after")
        assert path.read_text() == "before"
    assert path.read_text() == "after"
    assert [one.name for one in tmp_path.iterdir()] == ["labels.csv"]


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError(28, "No space left on device"), UserError),
        (KeyboardInterrupt(), KeyboardInterrupt),
        (UserError("Votes came in."), UserError),
    ],
)
def test_what_breaks_off_leaves_what_was_there_and_nothing_else(tmp_path, error, told):
    path = tmp_path / "labels.csv"
    path.write_text("before")

    def write():
        with whole_file(path) as partial:
            partial.write_text("half")
            raise error

    with pytest.raises(told):
        write()
    assert path.read_text() == "before"
    assert [one.name for one in tmp_path.iterdir()] == ["labels.csv"]


@pytest.mark.parametrize("command", ["export", "report"])
@pytest.mark.parametrize("place", ["", "/", "folder.zip", "folder.json"])
def test_a_folder_is_no_file_to_write(project, tmp_path, monkeypatch, command, place):
    monkeypatch.chdir(tmp_path)
    for name in ("folder.json", "folder.zip"):
        (tmp_path / name).mkdir()
    project.primary_run = make_run(project)
    project.save()
    make_verdict(project.primary_run, *make_examples(project, 1), 0.5, rank=1)
    with pytest.raises(CommandError, match=r"is a folder\.|written as \.html"):
        call_command(command, project.slug, output=Path(place))
    assert {one.name for one in tmp_path.iterdir()} == {"folder.json", "folder.zip"}
