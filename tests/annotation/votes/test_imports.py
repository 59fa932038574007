"""Votes given elsewhere: read by line, all or nothing, the same ones once."""

import json
from decimal import Decimal

import pytest
from django.core.management import call_command

from annotation.models import Item, Round, Slot, Vote
from annotation.people.annotators import annotator_named
from annotation.rounds.opening import RoundSettings, open_round
from annotation.votes.imports import import_votes
from judging.core.errors import UserError
from judging.dataset.models import Example
from tests.factories import make_examples, make_run, make_verdict


@pytest.fixture
def votes_file(tmp_path):
    def write(text, name="votes.csv"):
        path = tmp_path / name
        path.write_text(text, encoding="utf-8")
        return path

    return write


def test_csv_votes_are_votes_like_any_others(project, votes_file):
    make_examples(project, 3)
    path = votes_file(
        "external_id,annotator,label,comment,active_seconds\n"
        "e0,kim,win,clear,12.5\ne0,lou,maple-7b,,\ne1,kim,Birch 3B,,\ne2,kim,TIE,,\n"
    )
    done = import_votes(project, None, path)
    assert (done.added, done.known, done.conflicts) == (4, 0, ())
    labels = Vote.objects.order_by("pk").values_list("example__external_id", "label")
    assert list(labels) == [("e0", "win"), ("e0", "win"), ("e1", "lose"), ("e2", "tie")]
    assert Vote.objects.first().active_seconds == 12.5
    assert Slot.objects.filter(vote=None).count() == 0
    assert set(Item.objects.values_list("state", flat=True)) == {"complete"}


def test_the_same_file_again_adds_nothing_and_another_label_is_a_conflict(project, votes_file):
    make_examples(project, 1)
    path = votes_file("external_id,annotator,label\ne0,kim,win\n")
    import_votes(project, None, path)
    assert import_votes(project, None, path).known == 1
    other = votes_file("external_id,annotator,label\ne0,kim,lose\n", "other.csv")
    conflicts = import_votes(project, None, other).conflicts
    assert "line 2" in conflicts[0]
    assert Vote.objects.get().label == "win"
    assert Round.objects.count() == 1


def test_seconds_that_nobody_can_have_spent_are_refused(project, votes_file):
    make_examples(project, 1)
    path = votes_file("external_id,annotator,label,active_seconds\ne0,kim,win,1e308\n")
    with pytest.raises(UserError, match="active_seconds"):
        import_votes(project, None, path)


def test_a_list_is_nobodys_name(project, votes_file):
    make_examples(project, 1)
    line = '{"external_id": "e0", "annotator": ["kim"], "label": "win"}\n'
    with pytest.raises(UserError, match="annotator"):
        import_votes(project, None, votes_file(line, "votes.jsonl"))


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("nobody,kim,win,", "external_id"),
        ("e0,kim,better,", "win, tie, lose"),
        ("e0,,win,", "annotator"),
        ("e0,kim,win,0001-01-01T00:00:00+14:00", "a date and time"),
    ],
)
def test_a_wrong_row_refuses_the_file_by_line(project, votes_file, line, said):
    make_examples(project, 1)
    path = votes_file(f"external_id,annotator,label,submitted_at\ne0,lou,win,\n{line}\n")
    with pytest.raises(UserError, match=said) as refused:
        import_votes(project, None, path)
    assert "line 3" in str(refused.value)
    assert not Vote.objects.exists()


def test_a_person_votes_once_an_example(project, votes_file):
    make_examples(project, 1)
    path = votes_file("external_id,annotator,label\ne0,kim,win\ne0,kim,win\n")
    with pytest.raises(UserError, match="line 2 already"):
        import_votes(project, None, path)


def test_imported_votes_fill_the_slots_of_a_round_that_asks_the_same(project, votes_file):
    run = make_run(project)
    for example in make_examples(project, 5):
        make_verdict(run, example, example.number / 10)
    everyone = "".join(f"e{n},kim,lose\n" for n in range(5))
    import_votes(project, None, votes_file("external_id,annotator,label\n" + everyone))
    round_ = open_round(project, None, run, RoundSettings(beta=Decimal(40), votes=1))
    assert Item.objects.filter(round=round_, state="complete").count() == 2


def test_votes_that_come_later_fill_open_rounds(project, votes_file):
    make_examples(project, 2)
    round_ = open_round(project, None, None, RoundSettings(everything=True, votes=1))
    path = votes_file("external_id,annotator,label\ne0,kim,lose\n")
    assert import_votes(project, None, path).filled == 1
    assert Item.objects.filter(round=round_, state="complete").count() == 1


def test_faireval_labels_go_by_line(project, test_data, capsys):
    folder = test_data / "faireval"
    lines = (folder / "question.jsonl").read_text().splitlines()
    make_examples(project, len(lines), model_1="gpt35", model_2="vicuna-13b")
    call_command(
        "import_votes",
        project.slug,
        str(folder / "review_gpt35_vicuna-13b_human.txt"),
        "--map=CHATGPT=gpt35",
        "--map=Vicuna13B=vicuna-13b",
    )
    counts = [Vote.objects.filter(label=label).count() for label in ("win", "lose", "tie")]
    assert counts == [41, 25, 14]
    assert "80 votes added" in capsys.readouterr().out
    assert Vote.objects.order_by("example__number").first().label == "win"


def test_a_map_of_one_model_keeps_the_pairs_that_it_is_in(project, tmp_path):
    make_examples(project, 2, model_1="gpt35", model_2="vicuna-13b")
    path = tmp_path / "labels.txt"
    path.write_text("CHATGPT\nvicuna-13b\n")
    import_votes(project, None, path, maps=["CHATGPT=gpt35"])
    assert sorted(Vote.objects.values_list("label", flat=True)) == ["lose", "win"]


@pytest.mark.system
def test_pandalm_has_three_annotators_an_item(project, test_data):
    path = test_data / "pandalm" / "testset-v1.json"
    items = json.loads(path.read_text())
    for example, item in zip(make_examples(project, len(items)), items, strict=True):
        example.external_id = str(item["idx"])
        example.number = item["idx"]
        example.save()
    done = import_votes(project, None, path)
    assert (done.added, len(done.annotators)) == (2997, 3)
    assert Example.objects.filter(annotations__isnull=False).distinct().count() == 999
    assert import_votes(project, None, path, file_format="pandalm").known == 2997


def test_pandalm_is_known_by_its_columns_alone(project, tmp_path):
    """A label or one person's name of its own makes it a file of votes, one a row."""
    make_examples(project, 1)
    Example.objects.update(external_id="7")
    path = tmp_path / "votes.json"
    item = {"idx": 7, "annotator1": 2, "annotator2": 0}
    path.write_text(json.dumps([item | {"annotator": "olga", "label": "win"}]))
    assert import_votes(project, None, path).annotators == ("olga",)
    path.write_text(json.dumps([item]))
    assert import_votes(project, None, path).annotators == ("annotator1", "annotator2")
    labels = Vote.objects.order_by("pk").values_list("label", flat=True)
    assert list(labels) == ["win", "lose", "tie"]


def test_a_name_longer_than_its_column_is_one_person_however_often_it_comes(project):
    first = annotator_named(project, "a" * 201)
    assert annotator_named(project, "a" * 201) == first


@pytest.mark.parametrize("name", ["kim\nlou", "x" * 201, " "])
def test_an_annotator_has_a_name_on_one_line_in_every_format(project, votes_file, name):
    make_examples(project, 1)
    row = json.dumps({"external_id": "e0", "label": "win", "annotator": name})
    numbered = json.dumps([{"idx": "e0", f"annotator{name}": 1, "annotator1": 1}])
    files = [votes_file(row, "votes.jsonl")]
    files += [] if name == " " else [votes_file(numbered, "votes.json")]
    for path in files:
        with pytest.raises(UserError, match="line 1: annotator should be one line of at most 200"):
            import_votes(project, None, path)
    with pytest.raises(UserError, match="--annotator should be one line"):
        import_votes(project, None, votes_file("win", "votes.txt"), annotator=name)
    assert not Vote.objects.exists()


def test_a_side_that_no_response_has_is_refused_by_line(project, votes_file):
    make_examples(project, 1)
    path = votes_file("external_id,annotator,label,left_response\ne0,kim,win,7\n")
    with pytest.raises(UserError, match="line 2: left_response should be 1, 2 or nothing"):
        import_votes(project, None, path)
    path = votes_file("external_id,annotator,label,left_response\ne0,kim,win,2.0\n")
    import_votes(project, None, path)
    assert Vote.objects.get().left_response == 2


@pytest.mark.parametrize("text", ["\ud800", "a\x00"])
@pytest.mark.parametrize("column", ["comment", "annotator", "raw_answer", "external_id"])
def test_what_no_database_stores_is_refused_by_line(project, tmp_path, column, text):
    make_examples(project, 1)
    path = tmp_path / "votes.jsonl"
    vote = {"external_id": "e0", "label": "win", "annotator": "kim"} | {column: text}
    path.write_text(json.dumps(vote))
    with pytest.raises(UserError, match=r"line 1: .* holds (the lone surrogate|a NUL)"):
        import_votes(project, None, path)


def test_a_time_without_its_offset_is_refused_by_naming_the_offset(project, votes_file):
    make_examples(project, 1)
    path = votes_file("external_id,annotator,label,submitted_at\ne0,kim,win,2024-05-01T10:00:00\n")
    with pytest.raises(UserError, match=r"line 2: submitted_at .* lacks its offset from UTC"):
        import_votes(project, None, path)


def test_a_table_program_may_have_made_floats_of_ids_sides_and_flags(project, votes_file):
    for number, example in enumerate(make_examples(project, 2)):
        example.external_id = ("7", "8.0")[number]
        example.save()
    path = votes_file(
        "external_id,annotator,label,left_response,unblinded\n"
        "7.0,kim,model_a,1.0,TRUE\n8,kim,tie (bothbad),2.0,0.0\n"
    )
    import_votes(project, None, path)
    first, second = Vote.objects.order_by("pk")
    assert (first.label, first.left_response, first.unblinded) == ("win", 1, True)
    assert (second.label, second.answer, second.unblinded) == (
        "tie", {"overall": "both_bad"}, False,
    )  # fmt: skip


def test_codes_of_votes_mean_what_is_said_and_nothing_otherwise(project, votes_file):
    make_examples(project, 3)
    path = votes_file("external_id,annotator,label\ne0,kim,0\ne1,kim,1.0\ne2,kim,2\n")
    with pytest.raises(UserError, match=r"line 2: label should be .* a code that --labels names"):
        import_votes(project, None, path)
    call_command("import_votes", project.slug, str(path), "--labels=0=win,1=lose,2=tie")
    assert list(Vote.objects.order_by("pk").values_list("label", flat=True)) == [
        "win", "lose", "tie",
    ]  # fmt: skip


def test_a_column_twice_in_other_letters_is_refused(project, votes_file):
    make_examples(project, 1)
    path = votes_file("External ID,annotator,Label,LABEL\ne0,kim,win,lose\n")
    with pytest.raises(UserError, match="Label, LABEL are the same column"):
        import_votes(project, None, path)
    path = votes_file("external_id,annotator,label,Label\ne0,kim,win,lose\n")
    with pytest.raises(UserError, match="label, Label are the same column"):
        import_votes(project, None, path)
