"""Programs and pages take the files of other tools, as commands do."""

import json

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.urls import reverse

from annotation.models import Vote
from judging.dataset.models import Example, Import
from judging.dataset.writing import import_files, write
from judging.runs.models import Run
from tests import other_tools as tools

pytestmark = pytest.mark.django_db


@pytest.fixture
def as_owner(project, owner, token_for):
    return token_for(owner)


def body(*rows):
    return "".join(json.dumps(row) + "\n" for row in rows).encode()


def test_votes_of_an_arena_are_taken_and_a_wrong_row_is_named(project, as_owner, tmp_path):
    battle = tools.arena_battle("a1", "model_a")
    import_files(project, None, [tools.lines(tmp_path / "arena.jsonl", [battle])])
    address = f"projects/{project.slug}/votes"
    sent = as_owner.post(address, body(battle))
    assert (sent.status_code, sent.json()["added"]) == (201, 1)
    assert Vote.objects.get().annotator.name == "arena_user_973"
    wrong = as_owner.post(address, body(battle, battle))
    assert wrong.status_code == 422
    assert "line 2: arena_user_973 voted on a1 in line 1 already" in wrong.content.decode()


def test_judgments_of_alpaca_eval_are_taken(project, as_owner, tmp_path):
    row = tools.alpaca_annotation(1, 2.0)
    import_files(project, None, [tools.lines(tmp_path / "annotations.jsonl", [row])])
    sent = as_owner.post(f"projects/{project.slug}/judgments", body(row))
    assert sent.status_code == 201
    assert Run.objects.get().model == "alpaca_eval_gpt4"


def test_documents_and_arrays_of_other_tools_are_taken_as_json(project, as_owner):
    def sent(what, document):
        kind = {"Content-Type": "application/json"}
        address = f"projects/{project.slug}/{what}"
        answer = as_owner.post(address, json.dumps(document, indent=2).encode(), **kind)
        assert answer.status_code in (201, 202), answer.content
        return answer.json()

    results = tools.promptfoo_results([("Short.", "Long.", 0)])
    task = tools.label_studio_task(1, (10, "left"))
    for document in (results, [task]):
        write(Import.objects.get(number=sent("examples", document)["number"]).pk)
    assert sent("judgments", results)["state"] == "done"
    assert sent("votes", [task])["added"] == 1


def test_pairs_of_another_tool_are_taken(project, as_owner):
    rows = [tools.reward_bench(1), tools.reward_bench(2)]
    sent = as_owner.post(f"projects/{project.slug}/examples", body(*rows))
    assert sent.status_code in (201, 202), sent.content
    assert Import.objects.get().n_rows == 2


def test_rows_whose_ids_or_files_tell_the_models_are_shown_once_asked_for(
    project, owner, client, tmp_path
):
    client.force_login(owner)
    files = [tools.lines(tmp_path / "question.jsonl", tools.FASTCHAT_QUESTIONS)]
    files += [
        tools.lines(tmp_path / f"{model}.jsonl", tools.fastchat_answers(model))
        for model in ("gpt-4", "claude")
    ]
    sent = [SimpleUploadedFile(path.name, path.read_bytes()) for path in files]
    client.post(reverse("imports", args=[project.slug]), {"files": sent, "file_format": "auto"})
    address = reverse("import_detail", args=[project.slug, 1])
    page = client.get(address).text
    assert "Import 6 pairs" in page
    assert "The rows are hidden" in page
    assert "claude answers." not in page
    client.post(reverse("look", args=[project.slug]), {"next": address})
    assert "claude answers." in client.get(address).text


def test_the_page_shows_what_was_read_and_a_mapping_changes_it(project, owner, client):
    client.force_login(owner)
    text = body(tools.alpaca_annotation(1, 2.0), tools.alpaca_annotation(2, 1.0))
    upload = SimpleUploadedFile("annotations.jsonl", text)
    sent = {"files": upload, "file_format": "auto"}
    client.post(reverse("imports", args=[project.slug]), sent)
    imported = Import.objects.get()
    assert (imported.n_rows, imported.n_refused) == (2, 0)
    address = reverse("import_detail", args=[project.slug, imported.number])
    page = client.get(address).text
    # The models are named once somebody asks for it.
    assert "text_davinci_003" not in page
    client.post(reverse("look", args=[project.slug]), {"next": address})
    assert "text_davinci_003" in client.get(address).text
    columns = {column: field for field, column in imported.summary["columns"].items()}
    assert columns["model_1"] == "model_1"
    client.post(reverse("import_begin", args=[project.slug, imported.number]), {})
    assert not Example.objects.filter(project=project, model_1="").exists()
