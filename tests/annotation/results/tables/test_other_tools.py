"""Tables for other tools, which their own exports bring back: labels, votes and orders."""

import json

import pytest
from django.core.management import CommandError, call_command

from annotation.models import Vote
from annotation.results.tables.exports import ExportRequest, export
from annotation.votes.imports import import_votes
from judging.dataset.models import Example
from judging.dataset.reading import check
from judging.runs.models import Verdict
from judging.runs.recorded.writing import import_judgments
from tests.factories import make_examples, make_project, make_run, make_verdict

LABELS = ["win", "lose", "tie"]


@pytest.fixture
def judged(project):
    run = make_run(project)
    for example, label in zip(make_examples(project, 3), LABELS, strict=True):
        make_verdict(run, example, 0.5, label=label, rank=example.number + 1)
    project.primary_run = run
    project.save()
    return run


def written(project, what, path):
    call_command("export", project.slug, what=what, output=path)
    return json.loads(path.read_text(encoding="utf-8"))


@pytest.mark.databases
def test_annotations_for_alpaca_eval_say_what_the_judge_prefers(project, judged, tmp_path):
    rows = written(project, "alpaca_eval", tmp_path / "annotations.json")
    assert [row["preference"] for row in rows] == [1.0, 2.0, 1.5]
    first = Example.objects.get(external_id="e0")
    assert rows[0] == {
        "instruction": first.question,
        "output_1": first.response_1,
        "generator_1": first.model_1,
        "output_2": first.response_2,
        "generator_2": first.model_2,
        "annotator": judged.name,
        "preference": 1.0,
    }
    made = project.exports.get()
    assert (made.what, made.format, made.n_rows) == ("alpaca_eval", "json", 3)


def test_they_come_back_as_the_same_pairs_and_labels(project, judged, tmp_path):
    path = tmp_path / "annotations.json"
    written(project, "alpaca_eval", path)
    other = make_project("other")
    call_command("import_examples", other.slug, path)
    run = import_judgments(other, None, [path])
    verdicts = Verdict.objects.filter(run=run).order_by("example__number")
    assert [verdict.label for verdict in verdicts] == LABELS


def test_annotations_need_a_run(project, tmp_path):
    make_examples(project, 1)
    with pytest.raises(CommandError, match="belong to a run"):
        written(project, "alpaca_eval", tmp_path / "annotations.json")


@pytest.mark.databases
def test_label_studios_tasks_come_back_as_votes(project, tmp_path):
    make_examples(project, 12)
    tasks = written(project, "label_studio", tmp_path / "tasks.json")
    assert {task["data"]["left_response"] for task in tasks} == {1, 2}
    for number, task in enumerate(tasks, start=1):
        example = Example.objects.get(external_id=task["data"]["external_id"])
        left = task["data"]["left_response"]
        assert task["data"]["response_a"] == getattr(example, f"response_{left}")
        assert example.model_1 not in json.dumps(task)
        value = {"type": "pairwise", "value": {"selected": "left"}}
        task |= {"id": number, "annotations": [{"completed_by": 1, "result": [value]}]}
    path = tmp_path / "annotated.json"
    path.write_text(json.dumps(tasks), encoding="utf-8")
    assert import_votes(project, None, path).added == 12
    # Whoever always chose the left side chose the response that stood there.
    for vote in Vote.objects.all():
        assert vote.label == ("win" if vote.left_response == 1 else "lose")
    assert {row.response_1 for row in check([path]).rows} <= set(
        Example.objects.values_list("response_1", flat=True)
    )


@pytest.mark.databases
def test_argillas_records_come_back_as_votes(project, tmp_path):
    make_examples(project, 12)
    records = written(project, "argilla", tmp_path / "records.json")
    assert list(records[0]) == "id fields metadata suggestions responses vectors".split()
    for record in records:
        example = Example.objects.get(external_id=record["id"])
        left = record["metadata"]["left_response"]
        assert record["fields"]["response_a"] == getattr(example, f"response_{left}")
        # The better response is response 1, wherever it stands.
        better = "response_a" if left == 1 else "response_b"
        record["responses"] = {"preference": [{"value": better, "user_id": "kim"}]}
    path = tmp_path / "answered.json"
    path.write_text(json.dumps(records), encoding="utf-8")
    import_votes(project, None, path)
    assert set(Vote.objects.values_list("label", flat=True)) == {"win"}
    assert Vote.objects.count() == 12


def test_the_page_sends_them_as_json(project, researcher, client):
    make_examples(project, 1)
    client.force_login(researcher)
    sent = client.post(f"/p/{project.slug}/export", {"what": "argilla", "format": "csv"})
    assert sent["Content-Type"] == "application/json"
    assert f"{project.slug}-argilla.json" in sent["Content-Disposition"]
    assert json.loads(b"".join(sent.streaming_content))[0]["id"] == "e0"


def test_an_empty_table_is_an_empty_array(project, tmp_path):
    assert written(project, "argilla", tmp_path / "records.json") == []
    assert project.exports.get().n_rows == 0


def test_labels_can_be_a_json_array_too(project, judged, tmp_path):
    rows = written(project, "labels", tmp_path / "labels.json")
    assert [row["judge_label"] for row in rows] == LABELS
    lines = b"".join(export(project, judged, None, ExportRequest(format="jsonl")))
    assert [json.loads(line) for line in lines.splitlines()] == rows


@pytest.mark.parametrize("more", [{"output": "a.csv"}, {"format": "parquet", "output": "a.json"}])
def test_a_table_for_another_tool_is_json(project, tmp_path, more):
    make_examples(project, 1)
    more["output"] = tmp_path / more["output"]
    with pytest.raises(CommandError, match="A table for argilla is JSON"):
        call_command("export", project.slug, what="argilla", **more)
    assert list(tmp_path.iterdir()) == []
