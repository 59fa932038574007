import json
from io import StringIO

import pytest
from django.core.management import CommandError, call_command

from judging.dataset.models import Example, Import
from judging.projects.models import Project, Role
from tests.factories import make_project, make_user

pytestmark = [pytest.mark.django_db(transaction=True), pytest.mark.databases]


@pytest.fixture
def root(transactional_db):
    return make_user("root", is_superuser=True)


@pytest.fixture
def run(root):
    """The command's standard output, and standard error after it."""

    def run(*arguments):
        out, err = StringIO(), StringIO()
        call_command("import_examples", *arguments, stdout=out, stderr=err)
        return out.getvalue() + err.getvalue()

    return run


@pytest.fixture
def pairs(tmp_path):
    def write(*rows, name="pairs.jsonl"):
        path = tmp_path / name
        base = {"question": "q", "response_1": "a", "response_2": "b"}
        path.write_text("".join(json.dumps(base | row) + "\n" for row in rows), encoding="utf-8")
        return str(path)

    return write


def test_a_new_project_is_made_and_owned_by_the_only_superuser(run, pairs, root):
    text = run("vicuna", pairs({"id": 1}, {"id": 2}))
    project = Project.objects.get(slug="vicuna")
    assert project.memberships.get(role=Role.OWNER).user == root
    assert Example.objects.filter(project=project).visible().count() == 2
    assert "2 examples imported into vicuna (import 1)." in text


def test_a_dry_run_says_what_is_in_the_file_and_writes_nothing(run, pairs):
    text = run("vicuna", pairs({"id": 1, "prompt": "p", "label": "lose"}), "--dry-run")
    assert "1 row can be imported (jsonl)." in text
    assert "gold labels: 0 win, 0 tie, 1 lose" in text
    assert "not read: prompt" in text
    assert not Project.objects.exists()


@pytest.mark.parametrize("name", ["/proc/self/mem", f"{'x' * 300}.csv"])
@pytest.mark.parametrize("command", ["import_examples", "import_judgments", "import_votes",
                                     "import_scores"])  # fmt: skip
def test_a_file_that_cannot_be_read_is_told_in_a_sentence(root, command, name):
    make_project("vicuna")
    with pytest.raises(CommandError, match=r"can't be read \(.+\)\. Nothing was imported\.$"):
        call_command(command, "vicuna", name)


def test_problems_are_listed_by_line_and_nothing_is_imported(run, pairs):
    path = pairs({"id": 1}, {"id": 2, "response_1": None})
    out, err = StringIO(), StringIO()
    with pytest.raises(CommandError, match="1 problem was found") as failed:
        call_command("import_examples", "vicuna", path, stdout=out, stderr=err)
    assert f"{path}, line 2: response_1 should be text, found null." in err.getvalue()
    assert failed.value.returncode != 0
    assert not Project.objects.exists()


def test_invalid_rows_are_left_out_on_request(run, pairs, tmp_path):
    text = run("vicuna", pairs({"id": 1}, {"id": 2, "response_1": None}), "--skip-invalid")
    assert "1 example imported" in text
    assert f"1 refused: {tmp_path / 'pairs.refused.jsonl'}" in text


def test_columns_are_mapped_without_case_and_punctuation(run, pairs):
    run("vicuna", pairs({"id": 1, "mine": "x"}), "--map", "mine=Response 1", "--map", "id=ignore")
    example = Example.objects.get()
    assert example.response_1 == "x"
    assert len(example.external_id) == 16


@pytest.mark.parametrize("text", ["mine", "mine=nonsense"])
def test_a_mapping_that_can_not_be_meant_is_refused(run, pairs, text):
    with pytest.raises(CommandError, match=f"{text} is not COL=FIELD"):
        run("vicuna", pairs({"id": 1}), "--map", text)


def test_conflicts_are_listed_and_the_rest_is_imported(run, pairs):
    run("vicuna", pairs({"id": 1}))
    text = run("vicuna", pairs({"id": 1, "response_1": "x"}, {"id": 2}))
    assert "the ID '1' is in the project with another response_1" in text
    assert "already in the project with different content: 1" in text


def test_an_import_is_undone_by_its_number(run, pairs):
    run("vicuna", pairs({"id": 1}))
    run("vicuna", "--undo", "1")
    assert not Example.objects.exists()
    assert Import.objects.get().state == Import.State.UNDONE
    with pytest.raises(CommandError, match="has no import 9"):
        run("vicuna", "--undo", "9")


def test_a_file_that_is_not_there_is_the_users_to_solve(run):
    with pytest.raises(CommandError, match="no file"):
        run("vicuna", "nowhere.csv")


def test_with_several_superusers_the_owner_is_named(run, pairs):
    other = make_user("other", is_superuser=True)
    with pytest.raises(CommandError, match="--owner"):
        run("vicuna", pairs({"id": 1}))
    run("vicuna", pairs({"id": 1}), "--owner", "other")
    assert Project.objects.get().memberships.get().user == other


def test_faireval_pandalm_and_llmbar_as_published(run, test_data):
    folder = test_data / "faireval"
    names = ("question.jsonl", "answer_gpt35.jsonl", "answer_vicuna-13b.jsonl")
    run("faireval", *(str(folder / name) for name in names))
    run("pandalm", str(test_data / "pandalm" / "testset-v1.json"), "--format", "pandalm")
    llmbar = [
        str(test_data / "llmbar" / "Natural" / judge / "Swap" / "result.json")
        for judge in ("GPT-4", "ChatGPT")
    ]
    for path in llmbar:
        run("llmbar", path, "--format", "llmbar")
    counts = {project.slug: project.examples.visible().count() for project in Project.objects.all()}
    assert counts == {"faireval": 80, "pandalm": 999, "llmbar": 100}
    first = Example.objects.get(external_id="1:gpt35:vicuna-13b")
    assert (first.model_1, first.category, first.number) == ("gpt35", "generic", 0)


def test_an_existing_project_needs_no_owner(run, pairs):
    make_user("other", is_superuser=True)
    make_project("vicuna")
    assert "1 example imported" in run("vicuna", pairs({"id": 1}))


def test_codes_are_asked_about_and_what_they_were_read_as_is_printed(run, pairs):
    path = pairs(*({"id": n, "question": f"q{n}", "label": n} for n in range(3)))
    with pytest.raises(CommandError, match="--labels 0=tie,1=win,2=lose or --labels 0=win,1=lose"):
        run("vicuna", path)
    assert not Project.objects.exists()
    text = run("vicuna", path, "--labels", "0=win,1=lose,2=tie")
    assert "codes of gold labels are read as 0=win,1=lose,2=tie, of response 1" in text
    labels = Example.objects.order_by("number").values_list("gold_label", flat=True)
    assert list(labels) == ["win", "lose", "tie"]
    other = pairs(*({"id": n, "question": f"q{n}", "label": n} for n in (1, 2)))
    text = run("other", other, "--dry-run")
    assert "can mean 1=win,2=lose or 1=lose,2=tie or 1=win,2=tie, of response 1" in text
    text = run("other", other, "--dry-run", "--labels", "1=win,2=lose")
    assert "codes of gold labels are read as 1=win,2=lose, of response 1" in text


def test_responses_that_name_their_own_model_are_counted_and_can_be_hidden(run, pairs, root):
    models = {"model_1": "vicuna-13b", "model_2": "gpt-4"}
    path = pairs(
        models | {"question": "1", "response_1": "I am Vicuna."},
        models | {"question": "2", "response_2": "I'm GPT-4!"},
        models | {"question": "3", "response_1": "GPT-4 is good.", "response_2": "Vicuna is."},
    )
    said = run("own", path, "--owner", "root")
    assert "2 rows in which a response names its own model. Lines 1, 2" in said
    assert "--hide-models hides them" in said
    assert not Project.objects.get(slug="own").hide_models
    said = run("own", path, "--owner", "root", "--hide-models")
    project = Project.objects.get(slug="own")
    assert project.hide_models
    assert project.audit_events.filter(action="settings changed", subject="hide_models").exists()
    assert "Annotators see" not in said
