"""Importing people's scores of single responses: whole or nothing, by line, and taken back."""

from decimal import Decimal

import pytest
from django.core.management import CommandError, call_command

from judging.core.errors import UserError
from judging.dataset.models import HumanScore, Import, PointItem
from judging.dataset.scores import import_scores, undo_scores
from judging.projects.models import Project
from judging.runs.models import Call
from tests.factories import make_project, make_run

HEADER = "input,output,criterion,rater,score,model\n"
ROWS = HEADER + (
    "<x>1</x>,It is one.,fluency,ana,4,T5\n"
    "<x>1</x>,It is one.,fluency,ben,3.5,T5\n"
    "<x>1</x>,It is one.,correctness,ana,5,T5\n"
    "<x>2</x>,Two it is.,fluency,ana,2,T5\n"
)

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


@pytest.fixture
def file(tmp_path):
    def write(text, name="scores.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_rows_become_items_and_scores(project, researcher, file):
    found = import_scores(project, researcher, file(ROWS))
    assert (found.items, found.scores, found.known, found.conflicts) == (2, 4, 0, ())
    item = PointItem.objects.get(output="It is one.")
    assert (item.number, item.input, item.model) == (0, "<x>1</x>", "T5")
    assert item.scores.get(criterion="fluency", rater="ben").value == Decimal("3.5")
    assert project.imports.get().kind == Import.Kind.POINTS


def test_the_same_file_again_adds_nothing(project, file):
    path = file(ROWS)
    import_scores(project, None, path)
    again = import_scores(project, None, path)
    assert (again.items, again.scores, again.known) == (0, 0, 4)
    assert HumanScore.objects.count() == 4


def test_two_projects_may_hold_the_same_scores(project, file):
    for each in (project, make_project()):
        found = import_scores(each, None, file(ROWS))
        assert (found.items, found.scores, found.known) == (2, 4, 0)
        numbers = PointItem.objects.filter(project=each).order_by("number")
        assert list(numbers.values_list("number", flat=True)) == [0, 1]


def test_another_score_by_the_same_rater_is_listed_and_the_earlier_stays(project, file):
    import_scores(project, None, file(ROWS))
    found = import_scores(project, None, file(ROWS.replace(",ben,3.5", ",ben,1")))
    name = PointItem.objects.get(number=0).external_id
    assert found.conflicts == (
        f"scores.csv, line 3: ben scored fluency of {name} 3.5 before, now 1. "
        "The earlier score stays.",
    )
    assert HumanScore.objects.get(rater="ben").value == Decimal("3.5")


def test_json_lines_and_other_names_of_columns_are_read(project, file):
    line = '{"source": "a", "hypothesis": "b", "metric": "m", "value": 3, "id": "w-1"}\n'
    import_scores(project, None, file(line, "scores.jsonl"), rater="mean")
    score = HumanScore.objects.get()
    assert (score.rater, score.point_item.external_id) == ("mean", "w-1")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (HEADER + "i,o,fluency,ana,good,\n", "line 2: score should be a number"),
        (HEADER + "i,o,fluency,ana,NaN,\n", "score should be a number"),
        (HEADER + "i,o,fluency,ana,1e9,\n", "score should be a number"),
        (HEADER + "i,o,fluency,ana,1.12345678,\n", "six decimals"),
        (HEADER + "i,o,fluency,ana,1000000,\n", "to 999999.999999"),
        (HEADER + "i,,fluency,ana,1,\n", "output is empty"),
        (HEADER + "i,o,,ana,1,\n", "criterion is empty"),
        (
            HEADER + f"i,o,{'c' * 51},ana,1,\n",
            "criterion should be one line of at most 50 characters",
        ),
        (HEADER + "i,o,fluency,,1,\n", "rater is empty"),
        ("input,output,criterion,score\ni,o,c,1\n", "There is no column rater"),
        (HEADER + "i,o,c,ana,1,\ni,o,c,ana,2,\n", "line 3: ana scored c of"),
        ("id,output,criterion,rater,score\n1,a,c,r,1\n1,b,c,r,1\n", "line 2 with other texts"),
        ("input,output,criterion,rater,score,Score\ni,o,c,r,1,2\n", "score, Score are the same"),
        (HEADER, "No score was found"),
    ],
)
def test_a_bad_file_is_refused_by_line_with_nothing_written(project, file, text, sentence):
    good = "<x>1</x>,It is one.,fluency,zoe,4,T5\n" if text != HEADER and "rater" in text else ""
    whole = text + good if text.startswith(HEADER) else text
    with pytest.raises(UserError, match=sentence):
        import_scores(project, None, file(whole))
    assert not PointItem.objects.exists()
    assert not Import.objects.exists()


def test_an_id_with_other_texts_than_in_the_project_is_refused(project, file):
    head = "id,output,criterion,rater,score\n"
    import_scores(project, None, file(head + "1,a,c,r,1\n"))
    with pytest.raises(UserError, match="is in the project with other texts"):
        import_scores(project, None, file(head + "1,b,c,q,1\n"))


def test_an_undo_takes_back_what_this_file_added_and_no_more(project, file):
    import_scores(project, None, file(ROWS))
    more = HEADER + "<x>1</x>,It is one.,fluency,zoe,1,T5\n<x>3</x>,New.,fluency,zoe,1,T5\n"
    second = import_scores(project, None, file(more))
    with pytest.raises(UserError, match="Undo that one first"):
        undo_scores(project.imports.get(number=1), None)
    assert undo_scores(project.imports.get(number=second.number), None)
    assert PointItem.objects.count() == 2
    assert not HumanScore.objects.filter(rater="zoe").exists()
    assert undo_scores(project.imports.get(number=1), None)
    assert not PointItem.objects.exists()
    assert not undo_scores(project.imports.get(number=1), None)


def test_an_undo_takes_any_number_of_scores_of_earlier_items_back(project, file, monkeypatch):
    monkeypatch.setattr("judging.dataset.scores.CHUNK", 2)
    import_scores(project, None, file(ROWS))
    more = "".join(f"<x>1</x>,It is one.,fluency,zoe {n},1,T5\n" for n in range(5))
    second = import_scores(project, None, file(HEADER + more))
    with pytest.raises(UserError, match="Undo that one first"):
        undo_scores(project.imports.get(number=1), None)
    assert undo_scores(project.imports.get(number=second.number), None)
    assert HumanScore.objects.count() == 4


@pytest.mark.parametrize("rater", ["r" * 201, "ana\nben", "a\0"])
def test_a_rater_who_is_no_short_line_is_refused(project, file, rater):
    with pytest.raises(UserError, match="one line of at most 200 characters"):
        import_scores(project, None, file("output,criterion,score\no,c,1\n"), rater=rater)
    assert not Import.objects.exists()


def test_judged_items_stay(project, file):
    import_scores(project, None, file(ROWS))
    item = PointItem.objects.first()
    imported = project.imports.get()
    Call.objects.create(
        run=make_run(project), point_item=item, part="item:c", claimed_at=imported.created_at
    )
    with pytest.raises(UserError, match="have been judged, so they stay"):
        undo_scores(imported, None)
    assert PointItem.objects.count() == 2


def test_a_dry_run_of_the_command_writes_nothing_and_a_bad_file_makes_no_project(
    file, capsys, django_user_model
):
    django_user_model.objects.create_superuser("root")
    call_command("import_scores", "fresh", file(ROWS), "--dry-run")
    assert "2 new items, 4 new scores" in capsys.readouterr().out
    with pytest.raises(CommandError, match="score should be"):
        call_command("import_scores", "fresh", file(HEADER + "i,o,c,r,x,\n"))
    assert not Project.objects.exists()
    call_command("import_scores", "fresh", file(ROWS))
    assert Project.objects.get().point_items.count() == 2
    call_command("import_scores", "fresh", "--undo", "1")
    assert not PointItem.objects.exists()


def test_the_page_imports_refuses_and_takes_back(client, project, researcher, file):
    client.force_login(researcher)
    address = f"/p/{project.slug}/scores/"
    with file(HEADER + "i,o,c,r,x,\n", "bad.csv").open("rb") as bad:
        refused = client.post(address, {"file": bad, "file_format": "auto"})
    assert refused.status_code == 422
    assert "line 2" in refused.content.decode()
    with file(ROWS).open("rb") as good:
        assert client.post(address, {"file": good, "file_format": "auto"}).status_code == 302
    with file(ROWS).open("rb") as text:
        named = client.post(address, {"file": text, "file_format": "auto", "sheet": "scores"})
    assert "is no Excel workbook, so it has no sheet scores" in named.content.decode()
    page = client.get(address).content.decode()
    assert "fluency" in page
    assert "correctness" in page
    unnamed = client.post(f"{address}1/undo", {"confirm": "yes"})
    assert unnamed.status_code == 422
    assert client.post(f"{address}1/undo", {"confirm": "import 1"}).status_code == 302
    assert not PointItem.objects.exists()
