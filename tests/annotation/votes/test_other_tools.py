"""Votes in the exports of other tools: who voted, what wins, in which order it was shown."""

import json

import pandas
import pytest

from annotation.models import Vote
from annotation.votes.imports import import_votes
from judging.core.errors import UserError
from judging.dataset.models import Example
from judging.dataset.writing import import_files
from tests import other_tools as tools

pytestmark = [pytest.mark.databases]
ARENA = ["5f2c9f7ab0", "6a01b2c3d4", "7b12c3d4e5", "8c23d4e5f6"]


def votes(project):
    """Return every vote as its example's ID, the person's name and the label."""
    found = Vote.objects.filter(example__project=project).order_by("pk")
    return list(found.values_list("example__external_id", "annotator__name", "label"))


def imported(project, path):
    """Import a file's pairs and its votes, the votes twice: the second time adds nothing."""
    import_files(project, None, [path])
    done = import_votes(project, None, path)
    again = import_votes(project, None, path)
    assert (again.added, again.known, again.conflicts) == (0, done.added, ())
    return votes(project)


def test_a_newer_arenas_votes_are_by_session(project, tmp_path):
    winners = ("model_a", "both_bad")
    rows = [tools.arena_session(n, winner) for n, winner in enumerate(winners)]
    path = tools.lines(tmp_path / "arena.jsonl", rows)
    expected = [("6f6e6d-0", "session-0", "win"), ("6f6e6d-1", "session-1", "tie")]
    assert imported(project, path) == expected


def test_a_battle_names_no_annotator(project, tmp_path):
    rows = [tools.arena_battle_row(n, who) for n, who in enumerate(("a", "b", "tie"))]
    path = tools.lines(tmp_path / "train.jsonl", rows)
    import_files(project, None, [path])
    with pytest.raises(UserError, match="--annotator"):
        import_votes(project, None, path)
    assert import_votes(project, None, path, annotator="kaggle").added == 3
    assert set(Vote.objects.values_list("label", flat=True)) == {"win", "lose", "tie"}


def test_an_arenas_votes_keep_their_people_ties_and_times(project, tmp_path):
    winners = ("model_a", "model_b", "tie", "tie (bothbad)")
    rows = [
        tools.arena_battle(number, winner) for number, winner in zip(ARENA, winners, strict=True)
    ]
    path = tools.lines(tmp_path / "arena.jsonl", rows)
    labels = ("win", "lose", "tie", "tie")
    expected = [(n, "arena_user_973", label) for n, label in zip(ARENA, labels, strict=True)]
    assert imported(project, path) == expected
    answers = list(Vote.objects.order_by("pk").values_list("answer", flat=True))
    assert answers == [{}, {}, {}, {"overall": "both_bad"}]
    first = Vote.objects.order_by("pk").first().submitted_at
    assert first.isoformat() == "2023-04-24T15:53:11.132200+00:00"


def test_mt_benchs_votes_are_turned_to_the_pairs_own_order(project, tmp_path):
    rows = [
        tools.mt_bench_vote(81, "alpaca-13b", "gpt-4", "model_b"),
        tools.mt_bench_vote(81, "gpt-4", "alpaca-13b", "model_a", judge="expert_1"),
        tools.mt_bench_vote(82, "gpt-4", "alpaca-13b", "model_b", judge="author_2"),
    ]
    path = tools.array(tmp_path / "human_judgments.json", rows)
    assert imported(project, path) == [
        ("81:alpaca-13b:gpt-4", "expert_0", "lose"),
        ("81:alpaca-13b:gpt-4", "expert_1", "lose"),
        ("82:alpaca-13b:gpt-4", "author_2", "win"),
    ]


def test_votes_on_a_second_turn_belong_to_its_own_pair(project, tmp_path):
    rows = [tools.mt_bench_vote(81, "alpaca-13b", "gpt-4", "model_b", turn=turn) for turn in (1, 2)]
    assert imported(project, tools.array(tmp_path / "human_judgments.json", rows)) == [
        ("81:alpaca-13b:gpt-4", "expert_0", "lose"),
        ("81:alpaca-13b:gpt-4:2", "expert_0", "lose"),
    ]


def test_the_projects_own_order_of_the_models_counts(project, tmp_path):
    files = [
        tools.lines(tmp_path / "question.jsonl", tools.FASTCHAT_QUESTIONS),
        tools.lines(tmp_path / "gpt-4.jsonl", tools.fastchat_answers("gpt-4")),
        tools.lines(tmp_path / "alpaca-13b.jsonl", tools.fastchat_answers("alpaca-13b")),
    ]
    import_files(project, None, files)
    rows = [tools.mt_bench_vote(81, "alpaca-13b", "gpt-4", "model_b")]
    import_votes(project, None, tools.array(tmp_path / "votes.json", rows))
    assert votes(project) == [("81:gpt-4:alpaca-13b", "expert_0", "win")]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"turn": "last"}, "line 2: turn should be a whole number from 1 to 1000"),
        ({"judge": "gpt4_pair"}, "line 2: This verdict is by a judge model"),
        ({"winner": "nobody"}, "line 2: winner should be model_a, model_b, tie"),
        ({"tstamp": "yesterday"}, "line 2: tstamp should be seconds since 1970"),
        ({"question_id": "f00"}, "line 2: external_id should be the ID of an example"),
        ({"judge": None}, "line 2: annotator should be"),
    ],
)
def test_a_wrong_row_is_refused_by_its_line(project, tmp_path, change, sentence):
    rows = [tools.arena_battle(ARENA[0], "tie"), tools.arena_battle(ARENA[1], "tie")]
    import_files(project, None, [tools.lines(tmp_path / "arena.jsonl", rows)])
    path = tools.lines(tmp_path / "votes.jsonl", [rows[0], rows[1] | change])
    with pytest.raises(UserError) as error:
        import_votes(project, None, path)
    assert sentence in str(error.value)
    assert votes(project) == []


# What both exports of the same four annotations say.
LABEL_STUDIO = [("1", "10", "win"), ("1", "11", "lose"), ("e2", "10", "tie"), ("3", "10", "lose")]


def test_label_studios_annotations_are_votes(project, tmp_path):
    tasks = [
        tools.label_studio_task(1, (10, "left"), (11, "right"), (12, "cancelled")),
        tools.label_studio_task(2, (10, "tie"), external_id="e2"),
        # Response 2 stood left, so that left is a win of response 2.
        tools.label_studio_task(3, (10, "left"), left_response=2),
        tools.label_studio_task(4),
    ]
    path = tools.array(tmp_path / "label_studio.json", tasks)
    assert imported(project, path) == LABEL_STUDIO
    assert Example.objects.get(external_id="3").response_1 == "Two 3."
    first, *_, last = Vote.objects.order_by("pk")
    assert (first.active_seconds, first.left_response, last.left_response) == (4.288, 1, 2)
    assert first.submitted_at.isoformat() == "2024-03-09T22:16:08.728353+00:00"


@pytest.mark.parametrize("ending", ["json", "csv", "tsv"])
def test_label_studios_short_exports_have_a_row_for_each_annotation(project, tmp_path, ending):
    rows = [
        tools.label_studio_row(1, 10, "left"),
        tools.label_studio_row(1, 11, "right"),
        tools.label_studio_row(2, 10, "tie", external_id="e2"),
        tools.label_studio_row(3, 10, "left", left_response=2),
    ]
    path = tmp_path / f"export.{ending}"
    if ending == "json":
        tools.array(path, rows)
    else:
        cells = [
            {k: json.dumps(v) if isinstance(v, list) else v for k, v in row.items()} for row in rows
        ]
        separator = "," if ending == "csv" else "\t"
        pandas.DataFrame(cells).to_csv(path, index=False, sep=separator)
    assert imported(project, path) == LABEL_STUDIO
    assert Example.objects.get(external_id="3").response_1 == "Two 3."
    assert Vote.objects.order_by("pk")[0].active_seconds == 4.288


def test_an_annotation_without_an_answer_is_refused(project, tmp_path):
    tasks = [tools.label_studio_task(1, (10, "left")), tools.label_studio_task(2, (10, "neither"))]
    path = tools.lines(tmp_path / "tasks.jsonl", tasks)
    import_files(project, None, [path])
    with pytest.raises(UserError, match="line 2: An annotation has no answer"):
        import_votes(project, None, path)


def test_argillas_responses_are_votes(project, tmp_path):
    names = {"model_1": "maple", "model_2": "birch"}
    left_2 = {"left_response": 2} | names
    records = [
        tools.argilla_record("r1", ("kim", "response_1"), ("lou", "response_2"), metadata=names),
        tools.argilla_record("r2", ("kim", "Tie"), ("lou", "both_bad")),
        tools.argilla_record("r3", ("kim", ["response_2", "response_1"]), ("lou", "left")),
        tools.argilla_record("r4", ("kim", "left"), ("lou", "Birch"), metadata=left_2),
        tools.argilla_record("r5"),
    ]
    path = tools.array(tmp_path / "argilla.json", records)
    assert imported(project, path) == [
        ("r1", "kim", "win"),
        ("r1", "lou", "lose"),
        ("r2", "kim", "tie"),
        ("r2", "lou", "tie"),
        ("r3", "kim", "lose"),
        ("r3", "lou", "win"),
        ("r4", "kim", "lose"),
        ("r4", "lou", "lose"),
    ]
    assert Vote.objects.get(example__external_id="r2", annotator__name="lou").answer == {
        "overall": "both_bad"
    }


def flat_records():
    sent, lou = "submitted", ("response_2", "lou", "draft")
    return [
        tools.argilla_flat(
            "r1", ("response_1", "kim", sent), lou, model_1="maple", model_2="birch"
        ),
        tools.argilla_flat("r2", ("tie", "kim", sent), ("birch", "lou", "discarded")),
        tools.argilla_flat("r3", ("response_1", "kim", sent), left_response=2),
        tools.argilla_flat("r4"),
    ]


@pytest.mark.parametrize("ending", ["json", "parquet"])
def test_records_that_argilla_flattened_are_votes_without_drafts(project, tmp_path, ending):
    path = tools.array(tmp_path / "argilla.json", flat_records())
    if ending == "parquet":
        path = tmp_path / "argilla.parquet"
        pandas.DataFrame(flat_records()).to_parquet(path)
    expected = [("r1", "kim", "win"), ("r2", "kim", "tie"), ("r3", "kim", "lose")]
    assert imported(project, path) == expected
    pair = Example.objects.get(external_id="r3")
    # What stood left was response 2.
    assert (pair.response_1, pair.response_2) == ("Two r3.", "One r3.")


def test_which_of_several_questions_is_the_vote_must_be_clear(project, tmp_path):
    given = [{"value": "5", "user_id": "kim"}]
    clear = tools.argilla_record("r1", ("kim", "tie"), quality=given)
    unclear = tools.argilla_record("r2", style=given, quality=given)
    import_files(project, None, [tools.lines(tmp_path / "pairs.jsonl", [clear, unclear])])
    import_votes(project, None, tools.lines(tmp_path / "clear.jsonl", [clear]))
    assert votes(project) == [("r1", "kim", "tie")]
    with pytest.raises(UserError, match="answers the questions style, quality"):
        import_votes(project, None, tools.lines(tmp_path / "unclear.jsonl", [unclear]))
