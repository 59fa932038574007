"""The line that says how far something is."""

import io
import sys

import pytest
from fairjudge_client.progress import Progress, bar, in_words


class Screen(io.StringIO):
    def isatty(self):
        return True


def test_one_line_is_written_again_and_ends(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress(None) as line:
        line.show("run 1", 1, 4, "queued")
        line.show("run 1", 1, 4, "queued")
        line.show("run 1", 4, 4, "")
    first, second, third = screen.getvalue().split("\r")
    assert first == ""
    assert second == "run 1 [#####               ] 25 % · 1 of 4 · queued"
    assert third.rstrip(" \n") == "run 1 [####################] 100 % · 4 of 4"
    # Nothing of the longer line before stays on the screen.
    assert len(third) - 1 == len(second)
    assert third.endswith("\n")


@pytest.mark.parametrize(("wanted", "is_shown"), [(None, False), (False, False), (True, True)])
def test_a_file_or_a_pipe_gets_no_line_unless_you_want_one(monkeypatch, wanted, is_shown):
    pipe = io.StringIO()
    monkeypatch.setattr(sys, "stderr", pipe)
    with Progress(wanted) as line:
        line.show("run 1", 1, 4)
    assert bool(pipe.getvalue()) == is_shown


def test_a_line_fits_a_terminal(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(sys, "stderr", screen)
    with Progress(None) as line:
        line.show("run 1", 1, 4, "x" * 200)
    assert len(screen.getvalue().strip()) <= 79


@pytest.mark.parametrize(
    ("done", "total", "said"),
    [(None, None, "[    "), (0, 0, "100 %"), (0, 9, "0 % · 0 of 9"), (9, 8, "100 %")],
)
def test_the_bar_says_what_is_known(done, total, said):
    assert said in bar(done, total)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(None, ""), (5, "less than 1 min left"), (130, "about 2 min left"), (7200, "about 2 h left")],
)
def test_times_are_said_in_words(seconds, said):
    assert in_words(seconds) == said
