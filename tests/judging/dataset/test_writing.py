import hashlib
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from django.utils import timezone

from annotation.rounds.opening import RoundSettings, open_round
from judging.core.errors import UserError
from judging.core.leases import KeptRows
from judging.core.processes import stop_requested
from judging.dataset import writing
from judging.dataset.files import Source
from judging.dataset.models import Example, Import, n_judged, tags_of_examples
from judging.dataset.writing import import_files, undo
from judging.projects.models import AuditEvent
from judging.runs.models import Call, Run, Verdict
from judging.runs.verdicts.rebuild import rebuild_verdicts
from tests.factories import (
    make_annotator,
    make_examples,
    make_import,
    make_project,
    make_run,
    make_verdict,
    make_vote,
)

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def project():
    return make_project("vicuna")


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    monkeypatch.setattr(writing, "CHUNK", 10)


def pair(number, **fields):
    row = {"id": number, "question": f"q{number}", "response_1": "a", "response_2": "b"}
    return json.dumps(row | fields) + "\n"


@pytest.fixture
def pairs(tmp_path):
    def write(*rows, name="pairs.jsonl"):
        path = tmp_path / name
        path.write_text("".join(rows), encoding="utf-8")
        return [path]

    return write


def visible(project):
    return list(
        Example.objects.filter(project=project)
        .visible()
        .order_by("number")
        .values_list("external_id", flat=True)
    )


class Killed(BaseException):
    """Stands for what no handler of ours expects."""


def killed_after(rows):
    seen = 0

    def advance(steps):
        nonlocal seen
        seen += steps
        if seen >= rows:
            raise Killed

    return advance


def test_rows_become_examples_in_the_order_of_the_file(project, pairs):
    imported = import_files(project, None, pairs(*(pair(n) for n in range(25))))
    assert imported.state == Import.State.DONE
    assert (imported.n_written, imported.n_known, imported.n_rows) == (25, 0, 25)
    assert visible(project) == [str(n) for n in range(25)]
    assert AuditEvent.objects.get().action == "examples imported"


def test_pairs_are_counted_once_at_the_end_of_their_import(
    project, pairs, django_assert_num_queries
):
    check = pair("check", is_check=True, gold_label="win")
    imported = import_files(project, None, pairs(*map(pair, range(5)), check))
    assert Import.objects.get(pk=imported.pk).n_judged == 5
    # Those of an import that an older release ended are counted each time.
    make_examples(project, 2)
    with django_assert_num_queries(1):
        assert n_judged(project.pk) == 7
    assert project.examples.judged().count() == 7
    undo(imported, None)
    assert n_judged(project.pk) == 2


def test_pairs_of_an_unfinished_import_do_not_count(project, pairs):
    with pytest.raises(Killed):
        import_files(project, None, pairs(*map(pair, range(30))), advance=killed_after(20))
    assert n_judged(project.pk) == project.examples.judged().count() == 0


def test_every_field_arrives(project, pairs):
    fields = {
        "model_1": "m",
        "model_2": "n",
        "category": "maths",
        "label": "lose",
        "is_check": True,
    }
    fields |= {"check_for": "training", "explanation": "So."}
    import_files(project, None, pairs(pair(1, response_1="Grüße\n🙂", **fields)))
    example = Example.objects.get()
    assert (example.check_for, example.explanation) == ("training", "So.")
    assert (example.question, example.response_1, example.response_2) == ("q1", "Grüße\n🙂", "b")
    assert (example.model_1, example.model_2, example.category) == ("m", "n", "maths")
    assert (example.gold_label, example.is_check) == ("lose", True)


def test_the_same_file_again_adds_nothing(project, pairs):
    # Of the two repeated, one is repeated among the rows that are written together.
    files = pairs(*(pair(n) for n in range(12)), pair(3), pair(11))
    import_files(project, None, files)
    again = import_files(project, None, files)
    assert (again.n_written, again.n_known, again.n_conflicts) == (0, 14, 0)
    assert len(visible(project)) == 12


def test_a_longer_file_adds_what_is_new_after_what_is_there(project, pairs):
    import_files(project, None, pairs(pair(5), pair(6)))
    import_files(project, None, pairs(pair(1), pair(6), pair(7)))
    assert visible(project) == ["5", "6", "1", "7"]


def test_an_id_with_other_content_is_listed_and_the_projects_example_stays(project, pairs):
    import_files(project, None, pairs(pair(1), pair(2)))
    make_verdict(make_run(project), Example.objects.get(external_id="1"), 0.5)
    found = import_files(project, None, pairs(pair(1, response_1="x", label="win"), pair(3)))
    assert (found.n_written, found.n_conflicts) == (1, 1)
    (sentence,) = found.summary["conflicts"]
    assert "line 1" in sentence
    assert "response_1 and gold_label" in sentence
    example = Example.objects.get(external_id="1")
    assert example.response_1 == "a"
    assert example.verdicts.count() == 1


def test_two_projects_may_hold_the_same_pairs(project, pairs):
    other = make_project()
    import_files(project, None, pairs(pair(1)))
    assert import_files(other, None, pairs(pair(1))).n_written == 1


def test_one_invalid_row_refuses_the_file(project, pairs):
    with pytest.raises(UserError, match="1 row is invalid"):
        import_files(project, None, pairs(pair(1), pair(2, response_1=None)))
    assert not Example.objects.exists()
    assert Import.objects.get().state == Import.State.FAILED


def test_invalid_rows_can_be_left_out_and_are_copied_unchanged(project, pairs):
    bad = '{"id": 2,   "question": 5, "response_1": "\\ud800", "response_2": "é"}\n'
    (path,) = pairs(pair(1), bad, pair(3))
    imported = import_files(project, None, [path], skip_invalid=True)
    assert visible(project) == ["1", "3"]
    assert imported.n_refused == 1
    assert path.with_name("pairs.refused.jsonl").read_text(encoding="utf-8") == bad


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16-le"])
def test_refused_rows_of_a_table_can_be_fixed_and_imported(project, tmp_path, encoding):
    header = "id;question;response_1;response_2\r\n"
    path = tmp_path / "pairs.csv"
    path.write_bytes((header + '1;q;a;b\r\n2;"q\r\nq";a\r\n').encode(encoding))
    import_files(project, None, [path], skip_invalid=True)
    copy = tmp_path / "pairs.refused.csv"
    assert copy.read_bytes() == (header + '2;"q\r\nq";a\r\n').encode(encoding)


def test_refused_objects_of_an_array_are_an_array(project, tmp_path):
    path = tmp_path / "pairs.json"
    rows = [json.loads(pair(n, response_2=[n] if n % 2 else "b")) for n in range(5)]
    path.write_text(json.dumps(rows, indent=2), encoding="utf-8")
    import_files(project, None, [path], skip_invalid=True)
    copy = json.loads((tmp_path / "pairs.refused.json").read_text(encoding="utf-8"))
    assert copy == [rows[1], rows[3]]


def test_a_file_that_ends_too_soon_is_refused_even_where_rows_may_be_left_out(project, tmp_path):
    path = tmp_path / "pairs.json"
    path.write_text("[" + pair(1) + "," + pair(2)[:20], encoding="utf-8")
    with pytest.raises(UserError, match="can't be read to its end"):
        import_files(project, None, [path], skip_invalid=True)
    assert not Example.objects.exists()


@pytest.mark.parametrize("rows", [0, 10, 20, 25])
def test_an_interrupted_import_is_hidden_and_goes_on_where_it_stopped(project, pairs, rows):
    files = pairs(*(pair(n) for n in range(25)))
    with pytest.raises(Killed):
        import_files(project, None, files, advance=killed_after(rows))
    assert Import.objects.get().state == Import.State.INTERRUPTED
    assert Example.objects.count() == rows
    assert visible(project) == []
    imported = import_files(project, None, files)
    assert imported.number == 1
    assert (imported.n_written, imported.n_known) == (25, 0)
    assert visible(project) == [str(n) for n in range(25)]


def test_another_import_waits_until_an_interrupted_one_is_resumed_or_undone(project, pairs):
    with pytest.raises(Killed):
        import_files(project, None, pairs(*(pair(n) for n in range(25))), advance=killed_after(10))
    with pytest.raises(UserError, match="Import 1 of this project is unfinished"):
        import_files(project, None, pairs(pair(90), name="other.jsonl"))
    undo(Import.objects.get(number=1), None)
    assert not Example.objects.exists()
    import_files(project, None, pairs(pair(90), name="other.jsonl"))
    assert visible(project) == ["90"]


def test_a_file_that_changed_since_it_was_checked_is_not_written(project, pairs):
    files = pairs(*(pair(n) for n in range(25)))
    with pytest.raises(Killed):
        import_files(project, None, files, advance=killed_after(10))
    pairs(pair(1))
    imported = Import.objects.get()
    writing.begin(imported, background=False)
    with pytest.raises(UserError, match="has changed"):
        writing.write(imported.pk)
    imported.refresh_from_db()
    assert (imported.state, Example.objects.count()) == (Import.State.INTERRUPTED, 0)


def test_rows_of_a_changed_file_are_not_taken_for_those_of_the_checked_one(project, pairs):
    files = pairs(*(pair(n) for n in range(25)))
    with pytest.raises(Killed):
        import_files(project, None, files, advance=killed_after(10))
    pairs(*(pair(n, response_1="other") for n in range(25)))
    imported = Import.objects.get()
    writing.begin(imported, background=False)
    with pytest.raises(UserError, match="has changed"):
        writing.write(imported.pk)
    pairs(*(pair(n) for n in range(25)))
    assert import_files(project, None, files).n_written == 25
    assert not Example.objects.filter(response_1="other").exists()


@pytest.mark.parametrize("bad", [0, 1])
def test_a_file_is_read_once_and_again_for_the_text_of_bad_rows(project, pairs, monkeypatch, bad):
    opened = []
    text = Source.text
    monkeypatch.setattr(Source, "text", lambda *args, **kw: opened.append(1) or text(*args, **kw))
    # 25 rows fill two blocks of the temporary file, and 5 wait for the next one.
    monkeypatch.setattr(KeptRows, "BLOCK", 10)
    rows = [pair(n, gold_label="1", tags="a, b", reference="R ü") for n in range(25)]
    (path,) = pairs(*rows, *[pair(99, gold_label="?")] * bad)
    imported = import_files(project, None, [path], skip_invalid=True)
    assert len(opened) == 1 + bad
    of_file = hashlib.sha256(path.read_bytes()).digest()
    assert imported.sha256 == hashlib.sha256(of_file).hexdigest()
    examples = list(project.examples.order_by("number"))
    assert [one.external_id for one in examples] == [str(n) for n in range(25)]
    assert {(one.gold_label, one.reference) for one in examples} == {("win", "R ü")}
    assert tags_of_examples([examples[24].pk])[examples[24].pk] == ["a", "b"]


def test_a_writer_notices_that_its_import_was_undone_and_leaves_nothing(project, pairs):
    def undone(steps):
        imported = Import.objects.get()
        if steps and imported.state == Import.State.WRITING:
            undo(imported, None)

    with pytest.raises(UserError):
        import_files(project, None, pairs(*(pair(n) for n in range(25))), advance=undone)
    assert Import.objects.get().state == Import.State.UNDONE
    assert not Example.objects.exists()


def test_a_worker_that_is_asked_to_end_leaves_the_import_to_be_resumed(project, pairs):
    files = pairs(*(pair(n) for n in range(25)))
    try:
        with pytest.raises(UserError, match="stopped before the end"):
            import_files(project, None, files, advance=lambda _: stop_requested.set())
    finally:
        stop_requested.clear()
    assert Import.objects.get().state == Import.State.INTERRUPTED
    assert import_files(project, None, files).n_written == 25


def test_only_one_writer_has_an_import(project):
    imported = make_import(project, state=Import.State.WRITING)
    assert writing.take(imported.pk, "one:1:1:x")
    assert not writing.take(imported.pk, "two:2:2:y")


def test_an_import_that_was_never_judged_can_be_undone(project, pairs):
    make_examples(project, 2)
    imported = import_files(project, None, pairs(pair(1)))
    assert undo(imported, None)
    assert visible(project) == ["e0", "e1"]
    imported.refresh_from_db()
    assert not undo(imported, None)


def test_examples_that_were_judged_stay(project, pairs):
    imported = import_files(project, None, pairs(pair(1), pair(2)))
    make_verdict(make_run(project), Example.objects.get(external_id="2"), 0.5)
    with pytest.raises(UserError, match="so they stay"):
        undo(imported, None)
    assert visible(project) == ["1", "2"]


def test_a_verdict_that_waits_for_its_first_sample_goes_with_its_example(project, pairs):
    """A run that was paused or cancelled early has a row for each example that it did not reach."""
    make_examples(project, 1)
    run = make_run(project, state=Run.State.PAUSED)
    make_verdict(run, Example.objects.get(), 0.5)
    imported = import_files(project, None, pairs(pair(1), pair(2)))
    assert rebuild_verdicts(run).pending == 3
    assert undo(imported, None)
    assert visible(project) == ["e0"]
    assert Verdict.objects.filter(run=run).count() == 1


@pytest.mark.parametrize("use", ["call", "item", "vote"])
def test_examples_that_were_worked_on_stay(project, pairs, use):
    imported = import_files(project, None, pairs(pair(1), pair(2)))
    example = Example.objects.get(external_id="2")
    if use == "call":
        run, now = make_run(project), timezone.now()
        Call.objects.create(run=run, example=example, part="original", slots=[0], claimed_at=now)
    else:
        round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
        if use == "vote":
            make_vote(round_.items.get(example=example), make_annotator(project), "win")
    with pytest.raises(UserError, match="selected for a round, or voted on, so they stay"):
        undo(imported, None)
    assert visible(project) == ["1", "2"]


@pytest.mark.parametrize("state", ["queued", "running", "pausing", "cancelling"])
def test_while_a_run_is_at_work_no_example_is_taken_from_it(project, pairs, state):
    imported = import_files(project, None, pairs(pair(1)))
    run = make_run(project, state=state, name="maple")
    with pytest.raises(UserError, match="“maple” is working through"):
        undo(imported, None)
    Run.objects.filter(pk=run.pk).update(state=Run.State.PAUSED)
    assert undo(imported, None)


def test_what_an_undo_left_behind_is_removed_before_the_next_import(project, pairs):
    imported = import_files(project, None, pairs(pair(1, response_1="old")))
    Import.objects.filter(pk=imported.pk).update(state=Import.State.UNDONE)
    import_files(project, None, pairs(pair(1)))
    assert Example.objects.get().response_1 == "a"


KILLED = """
import os, signal, sys
from pathlib import Path
import django
django.setup()
from judging.dataset import writing
from judging.dataset.models import Example, Import
from judging.projects.models import Project
project, _ = Project.objects.get_or_create(slug="p", name="p")
settled = 0
def advance(steps):
    global settled
    settled += steps
    if settled >= int(sys.argv[2]):
        os.kill(os.getpid(), signal.SIGKILL)
writing.CHUNK = 50
imported = writing.import_files(project, None, [Path(sys.argv[1])], advance=advance)
print(imported.number, imported.n_written, Example.objects.visible().count())
"""


@pytest.mark.system
def test_kill_minus_nine_in_the_middle_loses_nothing(pairs, environment_with_tables):
    (path,) = pairs(*(pair(n) for n in range(400)))
    ours = {"DATABASE_URL": "", "PYTHONPATH": str(Path(__file__).parents[3])}

    def run(limit):
        command = [sys.executable, "-c", KILLED, str(path), str(limit)]
        environment = environment_with_tables | ours
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)

    assert run(150).returncode == -signal.SIGKILL
    ended = run(1000)
    assert ended.stdout.split() == ["1", "400", "400"], ended.stderr
