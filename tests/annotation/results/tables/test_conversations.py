"""Conversations in exports: written back as they came, and no change for projects without any."""

import csv
import io
import json

import pytest

from annotation.results.tables.exports import ExportRequest, export, rows_as_json
from judging.core.conversations import dumped, text_of
from judging.dataset.models import Example
from judging.dataset.reading import check
from judging.dataset.records import CONVERSATION, OTHER_KEYS
from judging.dataset.writing import import_files
from tests.factories import make_examples, make_project, make_run, make_verdict

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]
LISTS = {
    "question": [{"role": "user", "content": "=1+1?", "id": 7, "x": {"b": 1, "a": [0.5]}}],
    "response_1": [
        {"role": "assistant", "content": 'Two, "so"\n'},
        {"role": "user", "content": "Really?"},
        {"role": "assistant", "content": "Yes."},
    ],
}


def with_conversation(project, lists=LISTS, **more):
    texts = {name: text_of(messages, name) for name, messages in lists.items()}
    return make_examples(project, 1, **texts, conversation=dumped(lists), **more)


def exported(project, **how):
    return b"".join(export(project, None, None, ExportRequest(**how)))


@pytest.mark.parametrize("kind", ["csv", "jsonl", "json"])
def test_a_round_trip_changes_nothing(tmp_path, kind):
    project, again = make_project(), make_project()
    with_conversation(project)
    # A text that looks like messages, beside real ones, stays a text.
    make_examples(project, 1, question='[{"role": "user", "content": "x"}]')
    make_examples(project, 1)
    first = exported(project, format=kind)
    path = tmp_path / f"labels.{kind}"
    path.write_bytes(first)
    done = import_files(again, None, [path])
    assert exported(again, format=kind) == first
    kept = list(Example.objects.filter(project=again).values_list("question", "conversation"))
    assert kept == list(
        Example.objects.filter(project=project).values_list("question", "conversation")
    )
    assert [notice["kind"] for notice in done.summary["notices"]] == [OTHER_KEYS]
    assert import_files(again, None, [path]).n_known == 3


def test_tables_hold_the_lists_as_json_and_json_files_as_values():
    project = make_project()
    with_conversation(project)
    (row,) = csv.DictReader(io.StringIO(exported(project).decode(), newline=""))
    assert json.loads(row[CONVERSATION]) == LISTS
    assert json.loads(exported(project, format="jsonl"))[CONVERSATION] == LISTS
    assert rows_as_json(project, None, ExportRequest(), 0, 1)[0][CONVERSATION] == LISTS


@pytest.mark.parametrize("escape", [True, False])
def test_a_project_of_texts_has_no_column_of_messages_and_gets_its_texts_back(tmp_path, escape):
    project, again = make_project(), make_project()
    (example,) = make_examples(project, 1, question='[{"role": "user", "content": "x"}]')
    first = exported(project, escape=escape)
    assert CONVERSATION not in first.decode()
    path = tmp_path / "labels.csv"
    path.write_bytes(first)
    import_files(again, None, [path])
    kept = Example.objects.get(project=again)
    assert (kept.question, kept.conversation) == (example.question, None)


def test_a_text_that_was_changed_without_its_messages_is_refused_by_its_line(tmp_path):
    project, path = make_project(), tmp_path / "labels.jsonl"
    with_conversation(project)
    row = json.loads(exported(project, format="jsonl"))
    path.write_text(json.dumps(row | {"response_1": "Two."}) + "\n", encoding="utf-8")
    (problem,) = check([path]).problems
    assert (problem.place.line, problem.column) == (1, "response_1")
    assert "differs from its messages in fairjudge_conversation" in problem.sentence
    path.write_text(json.dumps(row | {CONVERSATION: {"answer": []}}) + "\n", encoding="utf-8")
    (problem,) = check([path]).problems
    assert problem.column == CONVERSATION


def test_preferences_of_conversations_are_lists_for_trainers(tmp_path):
    project = make_project()
    run = make_run(project)
    (example,) = with_conversation(project)
    outcomes = {"original": ["win"], "swapped": ["win"]}
    make_verdict(run, example, 0, label="win", outcomes=outcomes, rank=1)
    request = ExportRequest(what="preferences")
    (line,) = b"".join(export(project, run, None, request)).splitlines()
    row = json.loads(line)
    assert (row["prompt"], row["chosen"]) == (LISTS["question"], LISTS["response_1"])
    assert row["rejected"] == [{"role": "assistant", "content": example.response_2}]
    path = tmp_path / "preferences.jsonl"
    path.write_bytes(line)
    (again,) = check([path]).rows
    assert (again.question, again.reference) == (example.question, "")
    assert {again.response_1, again.response_2} == {example.response_1, example.response_2}
