"""`open_round --route learned`: what it opens, says and refuses."""

import pytest
from django.core.management import call_command
from django.core.management.base import CommandError

from annotation.models import Item, Round
from tests.factories import make_annotator, make_examples, make_run, make_verdict


@pytest.fixture
def run(project):
    make_annotator(project)
    run = make_run(project)
    for example in make_examples(project, 400):
        make_verdict(run, example, example.number / 400)
    return run


def opened(project, run, *options):
    call_command("open_round", project.slug, "--run", run.name, "--votes", "1", *options)


@pytest.mark.system
def test_the_round_learns_first_and_says_how_it_goes_on(project, run, capsys):
    opened(project, run, "--route", "learned", "--learn", "60", "--beta", "20", "--audit", "30")
    round_ = Round.objects.get()
    assert round_.stage == Round.Stage.LEARN
    assert Item.objects.filter(round=round_).count() == 60
    said = capsys.readouterr().out
    assert "60 items, 1 vote each" in said
    # 20 more make β, and 30 are the audit
    assert "FairJudge selects 50 more by what it learned about the judge" in said


def test_large_numbers_are_all_written_one_way(project, run, capsys):
    make_examples(project, 1001)
    call_command("open_round", project.slug, "--all", "--votes", "2")
    said = capsys.readouterr()
    assert "1\u202f401 items, 2 votes each" in said.out
    assert "Only 1 annotator can vote, so 1\u202f401 items can't get all votes." in said.err


def test_the_sample_has_a_default_size(project, run):
    opened(project, run, "--route", "learned", "--beta", "20")
    assert Round.objects.get().parameters["learn"] == 60


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--learn", "60", "--beta", "20"], "--learn needs --route learned"),
        (["--route", "learned", "--learn", "0", "--beta", "20"], "at least 1 example"),
        (["--route", "learned", "--learn", "80", "--beta", "20"], "smallest β that works is 20.13"),
        (["--route", "learned", "--all"], "no learning sample is needed"),
    ],
)
def test_what_cannot_be_is_refused_in_a_sentence(project, run, options, says):
    with pytest.raises(CommandError, match=says):
        opened(project, run, *options)
    assert not Round.objects.exists()
