import re

import pytest
from django.core.management import CommandError, call_command
from django.db import OperationalError

from judging.runs.engine import pump, recording
from judging.runs.models import Parse, Run
from tests.factories import make_examples
from tests.judging.runs.judging import every_slot_once, loopback
from tests.loopback import Answer, completion, error

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def project(project):
    make_examples(project, 3)
    return project


def judge(*arguments: str) -> None:
    call_command("judge", "vicuna", *arguments)


def test_judge_runs_to_the_end_and_says_what_it_cost(project, settings, capsys):
    with loopback(settings):
        judge(
            "--endpoint", "loop", "--price", "1,2", "--budget", "5", "--k", "2", "--name", "first"
        )
    assert every_slot_once(Run.objects.get(name="first"))
    printed = capsys.readouterr().out
    assert "Run 1 (first): loopback-judge at loop." in printed
    assert "Samples: 12 valid, of 12." in printed
    assert "USD" in printed


def test_estimate_prints_and_starts_nothing(project, settings, capsys):
    with loopback(settings) as server:
        judge("--endpoint", "loop", "--estimate", "--price", "1,2")
    assert server.requests == 0
    assert not Run.objects.exists()
    printed = capsys.readouterr().out
    assert "3 examples, 6 calls" in printed
    assert re.search(r"Cost: about [\d.]+ USD; at most [\d.]+ USD\.", printed)


def test_a_cost_that_is_unknown_is_said_once(project, settings, capsys):
    with loopback(settings):
        judge("--endpoint", "loop", "--estimate")
    assert "Cost: unknown, because the price is unknown.\n" in capsys.readouterr().out


def test_a_paused_run_ends_with_the_reason_and_a_failure(project, settings):
    no_money = error(429, "You exceeded your current quota.", code="insufficient_quota")
    with loopback(settings, [no_money]), pytest.raises(CommandError, match="quota"):
        judge("--endpoint", "loop")
    assert Run.objects.get().state == Run.State.PAUSED


def test_what_was_cut_off_is_said_beside_the_cost(project, settings, capsys):
    unread = Answer(200, "<html>Please log in</html>")
    with loopback(settings, [completion("8\n6"), unread]):
        judge("--endpoint", "loop", "--price", "1,2", "--concurrency", "1")
    held = Run.objects.get().reserved_usd
    assert held > 0
    assert f"USD. Up to {held:.6f} USD more may still be billed." in capsys.readouterr().out


def test_resume_asks_again_what_is_named(project, settings, capsys):
    cut = error(400, "Something is wrong.")
    with loopback(settings, [cut]) as server:
        judge("--endpoint", "loop")
        assert Parse.objects.filter(status="error").count() == 3
        judge("--resume", "latest")
        assert server.requests == 7
        judge("--resume", "1", "--reparse")
        assert server.requests == 7
    assert "0 replies read again" in capsys.readouterr().out


def test_an_estimate_writes_all_its_numbers_one_way(project, settings, capsys):
    make_examples(project, 1000)
    with loopback(settings):
        judge("--endpoint", "loop", "--estimate")
    printed = capsys.readouterr().out
    assert "1\u202f003 examples, 2\u202f006 calls" in printed


@pytest.mark.parametrize(
    ("changing", "flags"),
    [
        (["--model", "another"], "--model"),
        (["--k", "5", "--temperature", "0.5"], "--k and --temperature"),
        (["--price", "1,2"], "--price"),
        (["--concurrency", "2"], "--concurrency"),
        (["--estimate"], "--estimate"),
    ],
)
def test_a_resume_says_what_it_would_not_change(project, settings, changing, flags):
    with loopback(settings) as server:
        judge("--endpoint", "loop")
        asked = server.requests
        with pytest.raises(CommandError, match=f"{flags} .* Nothing was sent"):
            judge("--resume", "latest", *changing)
        assert server.requests == asked
        judge("--resume", "latest", "--endpoint", "loop", "--model", "loopback-judge", "--k", "3")


def test_background_leaves_the_run_to_a_worker(project, settings, monkeypatch):
    woken = []
    monkeypatch.setattr("judging.core.waking.wake_on_commit", lambda task, run: woken.append(run))
    with loopback(settings) as server:
        judge("--endpoint", "loop", "--background")
    assert server.requests == 0
    assert woken == [Run.objects.get().pk]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--resume", "7"], "has no run 7"),
        (["--retry", "truncated"], "go with --resume"),
        (["--resume", ""], "--resume is given without a value"),
        (["--model", " "], "--model is given without a value"),
        (["--name", ""], "--name is given without a value"),
        (["--estimate", "--concurrency", "4097"], "from 1 to 4096"),
        (["--estimate", "--temperature", "9"], "temperature must be"),
        (["--k", "none"], "not a whole number"),
        (["--price", "3"], "two prices"),
    ],
)
def test_a_users_mistake_is_told_in_a_sentence(project, settings, arguments, sentence):
    with loopback(settings), pytest.raises(CommandError, match=sentence):
        judge("--endpoint", "loop", *arguments)


@pytest.mark.parametrize(
    "arguments",
    [
        "--budget 1e999999", "--budget -1", "--price 1e12,1", "--price 1", "--temperature nan",
        "--seed 2147483648", "--seed -1", "--rpm 1000000000", "--k 0", "--tpm " + "9" * 5000,
    ],
)  # fmt: skip
def test_numbers_that_no_column_holds_are_refused(project, settings, arguments):
    with loopback(settings) as server, pytest.raises(CommandError, match="argument --"):
        judge("--endpoint", "loop", "--background", *arguments.split())
    assert server.requests == 0
    assert not Run.objects.exists()


def test_a_database_that_fails_under_a_run_is_told_in_a_sentence(project, settings, monkeypatch):
    def full(*values):
        raise OperationalError("database or disk is full")

    monkeypatch.setattr(recording, "record", full)
    monkeypatch.setattr(pump, "DATABASE_PATIENCE", 0.1)
    monkeypatch.setattr(pump, "DATABASE_WAIT", 0.02)
    sentence = r"The database failed \(database or disk is full\)"
    with loopback(settings), pytest.raises(CommandError, match=sentence):
        judge("--endpoint", "loop")
    assert Run.objects.get().state == Run.State.RUNNING


def test_a_key_that_can_not_be_one_is_told_in_a_sentence(project, settings):
    with loopback(settings):
        settings.FAIRJUDGE_ENDPOINTS["loop"]["key_variable"] = "LOOP_KEY"
        settings.FAIRJUDGE_ENDPOINT_KEYS = {"LOOP_KEY": "sk-secret\n-42"}
        with pytest.raises(CommandError, match="The key in LOOP_KEY") as told:
            judge("--endpoint", "loop")
        with pytest.raises(CommandError, match="The key in LOOP_KEY"):
            judge("--endpoint", "loop", "--model", "loopback-judge")
    assert "secret" not in str(told.value)
    assert Run.objects.get().state == Run.State.FAILED


def test_a_reading_asks_again_only_what_is_named(project, settings, capsys):
    with loopback(settings, [completion("8 or so", finish_reason="length")]) as server:
        judge("--endpoint", "loop", "--k", "1")
        for asking in (["--max-tokens", "1200"], ["--budget", "0"], ["--background"]):
            with pytest.raises(CommandError, match=f"sends no requests, .* {asking[0]}"):
                judge("--resume", "latest", "--reparse", *asking)
        assert (server.requests, Run.objects.get().max_tokens) == (6, 1024)
        judge("--resume", "1", "--reparse", "--retry", "truncated", "--max-tokens", "1200")
    assert (server.requests, Run.objects.get().max_tokens) == (7, 1200)
    assert "0 replies read again" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("budget", "price", "sentence"),
    [
        ("5", [], "The price is unknown, so a run with a budget can't start."),
        ("5", ["--price", "1,2"], "The budget of $5.00 covers the whole run."),
        ("0.01", ["--price", "1,2"], "covers the expected cost. If the run costs more, it pauses."),
        (
            "0.001",
            ["--price", "1,2"],
            "The budget of $0.0010 covers about 12\u202f% of the expected cost.",
        ),
    ],
)
def test_an_estimate_says_how_far_a_budget_reaches(
    project, settings, capsys, budget, price, sentence
):
    with loopback(settings):
        judge("--endpoint", "loop", "--estimate", "--budget", budget, *price)
    assert sentence in capsys.readouterr().out


def test_a_project_that_is_not_there_is_told(db):
    with pytest.raises(CommandError, match="There is no project"):
        call_command("judge", "nope")
