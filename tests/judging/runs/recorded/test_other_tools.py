"""Judgments in the files of other tools: who wins in which order, and what the judge wrote."""

import json

import pytest

from judging.core.errors import UserError
from judging.dataset.writing import import_files
from judging.runs.models import Call, Parse, Verdict
from judging.runs.recorded.writing import import_judgments
from tests import other_tools as tools

pytestmark = [pytest.mark.django_db, pytest.mark.databases]


def samples(run):
    """Return every sample as its example's ID, the order and the outcome."""
    found = Parse.objects.filter(sample__call__run=run).order_by("pk")
    return list(
        found.values_list("sample__call__example__external_id", "sample__call__part", "outcome")
    )


@pytest.fixture
def fastchat(project, tmp_path):
    """Answers of gpt-4 and claude to three questions; gpt-4 gives response 1."""
    files = [
        tools.lines(tmp_path / "question.jsonl", tools.FASTCHAT_QUESTIONS),
        tools.lines(tmp_path / "gpt-4.jsonl", tools.fastchat_answers("gpt-4")),
        tools.lines(tmp_path / "claude.jsonl", tools.fastchat_answers("claude")),
    ]
    import_files(project, None, files)
    return project


def test_fastchats_games_are_samples_in_both_orders(fastchat, tmp_path):
    rows = [
        tools.fastchat_pair(81, "gpt-4", "claude", "model_1", "model_2"),
        # The other way round: claude is model 1 of the file, and response 2 of the project.
        tools.fastchat_pair(82, "claude", "gpt-4", "model_1", "tie"),
        tools.fastchat_pair(83, "gpt-4", "claude", "error", "model_1"),
        tools.fastchat_pair(83, "claude", "gpt-4", "model_2", "model_2", turn=2),
    ]
    run = import_judgments(fastchat, None, [tools.lines(tmp_path / "gpt-4_pair.jsonl", rows)])
    assert samples(run) == [
        ("81:gpt-4:claude", "original", "win"),
        ("81:gpt-4:claude", "swapped", "lose"),
        ("82:gpt-4:claude", "swapped", "lose"),
        ("82:gpt-4:claude", "original", "tie"),
        ("83:gpt-4:claude", "original", None),
        ("83:gpt-4:claude", "swapped", "win"),
        # A second turn is a pair of its own.
        ("83:gpt-4:claude:2", "swapped", "win"),
        ("83:gpt-4:claude:2", "original", "win"),
    ]
    assert (run.model, run.orders) == ("gpt-4", ("original", "swapped"))
    verdicts = Verdict.objects.filter(run=run)
    labels = dict(verdicts.values_list("example__external_id", "label"))
    # Winning once each is a tie.
    assert labels["81:gpt-4:claude"] == "tie"
    assert labels["82:gpt-4:claude"] == "lose"
    assert labels["83:gpt-4:claude:2"] == "win"
    first = Parse.objects.filter(sample__call__run=run).order_by("pk").first()
    assert first.sample.raw_text == "Game 1: model_1."


def test_a_call_that_failed_is_an_error_and_no_reply(fastchat, tmp_path):
    row = tools.fastchat_pair(81, "gpt-4", "claude", "error", "error") | {
        "g1_judgment": "$ERROR$",
        "g2_judgment": "I can't tell.",
    }
    run = import_judgments(fastchat, None, [tools.lines(tmp_path / "pair.jsonl", [row])])
    statuses = Parse.objects.filter(sample__call__run=run).order_by("pk")
    assert [parse.status for parse in statuses] == ["error", "unparsed"]


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"turn": "0"}, "line 2: turn should be a whole number from 1 to 1000"),
        ({"g2_winner": "model_3"}, "line 2: g2_winner should be model_1, model_2, tie or error"),
        ({"judge": ["claude-3", "pair-v2"]}, "The judge is claude-3, and on line 1 it is gpt-4"),
        ({"question_id": 99}, "has no example 99:claude:gpt-4"),
    ],
)
def test_a_wrong_row_is_refused_by_its_line(fastchat, tmp_path, change, sentence):
    right = tools.fastchat_pair(81, "gpt-4", "claude", "tie", "tie")
    wrong = tools.fastchat_pair(82, "gpt-4", "claude", "tie", "tie") | change
    with pytest.raises(UserError) as error:
        import_judgments(fastchat, None, [tools.lines(tmp_path / "pair.jsonl", [right, wrong])])
    assert sentence in str(error.value)
    assert not fastchat.runs.exists()


def test_alpaca_evals_preferences_are_outcomes(project, tmp_path):
    preferences = (1.0, 2.0, 1.5, 1.000072, 1.9, None, 0)
    rows = [tools.alpaca_annotation(n, preference) for n, preference in enumerate(preferences)]
    path = tools.array(tmp_path / "annotations.json", rows)
    import_files(project, None, [path])
    run = import_judgments(project, None, [path])
    outcomes = [outcome for *_, outcome in samples(run)]
    assert outcomes == ["win", "lose", "tie", "win", "lose", None, "tie"]
    assert run.model == "alpaca_eval_gpt4"
    assert {str(call.usd) for call in Call.objects.filter(run=run)} == {"0.0125000000"}
    wrong = tools.array(tmp_path / "wrong.json", [rows[0], rows[1] | {"preference": 3}])
    with pytest.raises(UserError, match="preference should be a number from 1 to 2"):
        import_judgments(project, None, [wrong])


def test_arena_hards_games_show_the_baseline_first_and_then_the_model(project, tmp_path):
    questions = [{"uid": f"u{n}", "category": "hard_prompt", "prompt": f"{n}?"} for n in range(3)]

    def answers(model):
        return [
            {
                "uid": question["uid"],
                "model": model,
                "messages": [{"role": "assistant", "content": {"answer": f"{model} says."}}],
            }
            for question in questions
        ]

    files = [
        tools.lines(tmp_path / "question.jsonl", questions),
        tools.lines(tmp_path / "qwen.jsonl", answers("qwen")),
        tools.lines(tmp_path / "o3-mini.jsonl", answers("o3-mini")),
    ]
    import_files(project, None, files)
    rows = [
        # The model wins both games: first as B, then as A.
        tools.arena_hard("u0", "B>>A", "A>B"),
        tools.arena_hard("u1", "A=B", "A<<B"),
        tools.arena_hard("u2", None, "B>A") | {"games": [None, {"score": "B>A", "judgment": {}}]},
    ]
    run = import_judgments(project, None, [tools.lines(tmp_path / "judged.jsonl", rows)])
    # Response 1 is qwen's, so that the game with the baseline first is the swapped one.
    assert samples(run) == [
        ("u0:qwen:o3-mini", "swapped", "win"),
        ("u0:qwen:o3-mini", "original", "win"),
        ("u1:qwen:o3-mini", "swapped", "tie"),
        ("u1:qwen:o3-mini", "original", "lose"),
        ("u2:qwen:o3-mini", "swapped", None),
        ("u2:qwen:o3-mini", "original", "lose"),
    ]
    statuses = Parse.objects.filter(sample__call__run=run).order_by("pk")
    assert [parse.status for parse in statuses][4] == "error"
    assert run.model == "gpt-4.1"


def test_arena_hards_older_rows_need_their_baseline(project, tmp_path):
    row = tools.arena_hard("u0", "A>B", "B>A")
    del row["baseline"]
    with pytest.raises(UserError, match="doesn't name its baseline"):
        import_judgments(project, None, [tools.lines(tmp_path / "judged.jsonl", [row])])


def test_a_judgment_of_judgebench_that_failed_is_an_error_of_the_same_judge(project, tmp_path):
    failed = tools.judgebench("p1", "A>B", "A>B", "B>A")
    failed["judgments"][1] = None
    path = tools.lines(tmp_path / "a.jsonl", [failed, tools.judgebench("p2", "B>A", "A>B", "A>B")])
    import_files(project, None, [path])
    run = import_judgments(project, None, [path])
    statuses = Parse.objects.filter(sample__call__run=run).order_by("pk")
    assert [parse.status for parse in statuses] == ["valid", "error", "valid", "valid"]
    assert run.model == "o1-mini"


def test_what_is_cut_out_of_a_reply_need_be_no_verdict(project, tmp_path):
    path = tools.lines(tmp_path / "pairs.jsonl", [tools.judgebench("p1", "A>B", "A", "B>A")])
    import_files(project, None, [path])
    run = import_judgments(project, None, [path])
    assert samples(run) == [("p1", "original", None), ("p1", "swapped", "win")]
    wrong = tools.lines(tmp_path / "wrong.jsonl", [tools.judgebench("p1", "A>B", "first")])
    with pytest.raises(UserError, match="decision should be A>>B, A>B, A=B, B>A or B>>A"):
        import_judgments(project, None, [wrong])


def test_judgebenchs_second_decision_is_about_the_swapped_pair(project, tmp_path):
    rows = [
        tools.judgebench("p1", "A>B", "A>B", "B>A"),
        tools.judgebench("p2", "B>A", "A>B", "A>B"),
        tools.judgebench("p3", "B>A", "A=B"),
    ]
    path = tools.lines(tmp_path / "judgebench.jsonl", rows)
    import_files(project, None, [path])
    run = import_judgments(project, None, [path])
    assert samples(run) == [
        ("p1", "original", "win"),
        ("p1", "swapped", "win"),
        ("p2", "original", "win"),
        ("p2", "swapped", "lose"),
        ("p3", "original", "tie"),
    ]
    assert run.model == "o1-mini"


def test_what_promptfoo_selected_as_best_wins(project, tmp_path):
    tests = [("Short.", "Long.", 0), ("Red.", "Blue.", 1)]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(tools.promptfoo_results(tests), indent=2), encoding="utf-8")
    import_files(project, None, [path])
    run = import_judgments(project, None, [path])
    assert [outcome for *_, outcome in samples(run)] == ["win", "lose"]


def test_promptfoos_second_version_numbers_nothing(project, tmp_path):
    tests = [("Short.", "Long.", 0), ("Red.", "Blue.", 1)]
    results = tools.promptfoo_version_2(tools.promptfoo_results(tests))
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results, indent=2), encoding="utf-8")
    import_files(project, None, [path])
    assert project.examples.filter(model_1="openai:a", model_2="openai:b").count() == 2
    run = import_judgments(project, None, [path])
    assert [outcome for *_, outcome in samples(run)] == ["win", "lose"]


def test_an_output_that_only_select_best_graded_has_its_result_alone(project, tmp_path):
    results = tools.promptfoo_results([("Short.", "Long.", 1)])
    for row in results["results"]["results"]:
        del row["gradingResult"]["componentResults"]
    path = tmp_path / "results.json"
    path.write_text(json.dumps(results), encoding="utf-8")
    import_files(project, None, [path])
    run = import_judgments(project, None, [path])
    assert [outcome for *_, outcome in samples(run)] == ["lose"]


def test_a_file_that_holds_no_judgments_says_what_it_holds(project, tmp_path):
    path = tools.lines(tmp_path / "arena.jsonl", [tools.arena_battle("a", "tie")])
    with pytest.raises(UserError, match="holds pairs and votes, and no judgments"):
        import_judgments(project, None, [path])
