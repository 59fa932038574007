"""Pairs in the layouts of other tools: the texts, the models, the IDs and the gold labels."""

import json

import pandas
import pytest

from judging.dataset.models import Example
from judging.dataset.reading import check
from judging.dataset.records import RecordProblem
from judging.dataset.writing import import_files
from tests import other_tools as tools


def pairs(*paths):
    """Return what the files hold, without any problem."""
    found = check(paths)
    assert [str(problem) for problem in found.problems] == []
    return found.rows


def problems(path) -> list[RecordProblem]:
    return check([path]).problems


def sides(row):
    return (row.response_1, row.model_1), (row.response_2, row.model_2)


def test_fastchats_questions_and_answers_are_joined_by_their_first_turns(tmp_path):
    files = [
        tools.lines(tmp_path / "question.jsonl", tools.FASTCHAT_QUESTIONS),
        tools.lines(tmp_path / "vicuna.jsonl", tools.fastchat_answers("vicuna-13b")),
        tools.lines(tmp_path / "gpt4.jsonl", tools.fastchat_answers("gpt-4")),
    ]
    first, *_ = pairs(*files)
    assert first.external_id == "81:vicuna-13b:gpt-4"
    assert first.question == "Write a blog post."
    assert sides(first) == (("vicuna-13b answers.", "vicuna-13b"), ("gpt-4 answers.", "gpt-4"))
    assert first.category == "writing"


def test_arena_hards_questions_and_answers_are_joined(tmp_path):
    question = {"uid": "0af3", "category": "hard_prompt", "prompt": "Prove it."}

    def answer(model):
        said = [
            {"role": "user", "content": "Prove it."},
            {"role": "assistant", "content": {"answer": f"{model} proves."}},
        ]
        return [{"uid": "0af3", "ans_id": "x", "model": model, "messages": said, "tstamp": 1.0}]

    files = [
        tools.lines(tmp_path / "question.jsonl", [question]),
        tools.lines(tmp_path / "a.jsonl", answer("o3-mini")),
        tools.lines(tmp_path / "b.jsonl", answer("qwen")),
    ]
    (row,) = pairs(*files)
    assert (row.external_id, row.question) == ("0af3:o3-mini:qwen", "Prove it.")
    assert (row.response_1, row.response_2) == ("o3-mini proves.", "qwen proves.")


def test_an_arenas_battle_is_a_pair_under_its_own_id(tmp_path):
    battle = tools.arena_battle("58210e39b3fd4441a2bd4a518bb44c2d", "model_a")
    (row,) = pairs(tools.lines(tmp_path / "arena.jsonl", [battle]))
    assert row.external_id == "58210e39b3fd4441a2bd4a518bb44c2d"
    assert (row.question, row.gold_label) == ("What is 1+1?", None)
    assert sides(row) == (("Two.", "vicuna-13b"), ("Eleven.", "koala-13b"))


def test_a_newer_arenas_vote_has_contents_in_parts_and_its_own_id(tmp_path):
    (row,) = pairs(tools.lines(tmp_path / "arena.jsonl", [tools.arena_session(1, "both_bad")]))
    assert (row.external_id, row.question, row.gold_label) == ("6f6e6d-1", "Question 1?", None)
    assert sides(row) == (("A says.", "maple-7b"), ("B says.", "birch-3b"))


def test_a_battle_lists_its_turns_in_cells(tmp_path):
    path = tmp_path / "train.csv"
    pandas.DataFrame([tools.arena_battle_row(7, "a")]).to_csv(path, index=False)
    (row,) = pairs(path)
    assert (row.external_id, row.question, row.model_2) == ("7", "First?", "birch-3b")
    said = json.loads(row.conversation)
    assert [message["content"] for message in said["response_1"]] == ["A1", "Then?", "A2"]
    assert [message["content"] for message in said["response_2"]] == ["B1", "Then?", ""]


def test_a_battle_with_too_few_answers_is_refused(tmp_path):
    row = tools.arena_battle_row(7, "a") | {"response_b": json.dumps(["B1"])}
    (problem,) = problems(tools.lines(tmp_path / "train.jsonl", [row]))
    assert "2 answers, one for each prompt" in problem.sentence


def test_each_chosen_response_of_reward_bench_2_makes_a_pair_with_each_rejected_one(tmp_path):
    rows = pairs(tools.lines(tmp_path / "rb2.jsonl", [tools.reward_bench_2(7)]))
    assert [row.external_id for row in rows] == ["7:1", "7:2", "7:3"]
    for row in rows:
        better = row.response_1 if row.gold_label == "win" else row.response_2
        assert (better, row.model_1, row.category) == ("Red.", "", "Factuality")


def test_a_row_never_makes_more_than_a_thousand_pairs(tmp_path):
    texts = [str(n) for n in range(32)]
    row = tools.reward_bench_2(7) | {"chosen": texts, "rejected": texts}
    (problem,) = problems(tools.lines(tmp_path / "rb2.jsonl", [row]))
    assert problem.sentence == "This row makes more than 1,000 pairs. Part it."


def test_an_mt_bench_pair_is_the_same_one_in_both_orders(tmp_path):
    votes = [
        tools.mt_bench_vote(81, "gpt-4", "alpaca-13b", "model_a"),
        tools.mt_bench_vote(81, "alpaca-13b", "gpt-4", "model_a", judge="expert_1"),
    ]
    found = check([tools.array(tmp_path / "human_judgments.json", votes)])
    assert (found.n_rows, found.n_problems) == (1, 0)
    (row,) = found.rows
    assert row.external_id == "81:alpaca-13b:gpt-4"
    assert sides(row) == (("alpaca-13b writes.", "alpaca-13b"), ("gpt-4 writes.", "gpt-4"))


def test_a_system_prompt_is_a_message_of_the_question(tmp_path):
    system = {"role": "system", "content": "Be brief."}
    battle = tools.arena_battle("a", "tie")
    for side in ("conversation_a", "conversation_b"):
        battle[side] = [system, *battle[side]]
    (row,) = pairs(tools.lines(tmp_path / "arena.jsonl", [battle]))
    assert row.question == "System:\nBe brief.\n\nUser:\nWhat is 1+1?"
    assert json.loads(row.conversation) == {"question": [system, *tools.chat("What is 1+1?")]}


def test_alpaca_evals_annotations_are_pairs_with_their_generators(tmp_path):
    rows = [tools.alpaca_annotation(1, 2.0), tools.alpaca_annotation(2, 1.0)]
    first, second = pairs(tools.array(tmp_path / "annotations.json", rows))
    assert sides(first) == (("Baseline 1.", "text_davinci_003"), ("Model 1.", "llama-2-7b"))
    assert (first.question, first.category, first.gold_label) == (
        "Question 1?",
        "helpful_base",
        None,
    )
    assert first.external_id != second.external_id


def test_a_named_format_or_a_mapping_reads_the_columns_as_they_are(tmp_path):
    path = tools.array(tmp_path / "annotations.json", [tools.alpaca_annotation(1, 2.0)])
    (plain,) = check([path], "json").rows
    (mapped,) = check([path], mapping={"generator_1": "model_1"}).rows
    assert (plain.model_1, mapped.model_1, mapped.model_2) == ("", "text_davinci_003", "")


def test_judgebenchs_label_is_gold(tmp_path):
    rows = [tools.judgebench("p1", "A>B"), tools.judgebench("p2", "B>A")]
    found = pairs(tools.lines(tmp_path / "judgebench.jsonl", rows))
    assert [(row.external_id, row.gold_label) for row in found] == [("p1", "win"), ("p2", "lose")]
    assert (found[0].response_1, found[0].category) == ("AAAAA", "mmlu-pro-law")


@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_the_chosen_response_is_on_both_sides_and_always_gold(tmp_path, suffix):
    rows = [tools.reward_bench(number) for number in range(40)]
    path = tmp_path / f"rewardbench.{suffix}"
    if suffix == "csv":
        cells = [",".join(map(str, row.values())) for row in rows]
        path.write_text("\n".join([",".join(rows[0]), *cells]), encoding="utf-8")
    else:
        tools.lines(path, rows)
    gold = []
    check([path], watch=gold.append)
    assert [row.external_id for row in gold] == [str(number) for number in range(40)]
    for row in gold:
        chosen = sides(row)[0 if row.gold_label == "win" else 1]
        assert chosen == (f"Good {row.external_id}.", "good-model")
    assert 8 < sum(row.gold_label == "win" for row in gold) < 32
    assert {row.category for row in gold} == {"alpacaeval-easy"}


def test_ultrafeedbacks_messages_are_texts_and_equal_scores_a_tie(tmp_path):
    rows = [tools.ultrafeedback(1), tools.ultrafeedback(2, 7.5, 7.5)]
    first, second = pairs(tools.lines(tmp_path / "ultrafeedback.jsonl", rows))
    assert first.external_id == "hash-1"
    better = first.response_1 if first.gold_label == "win" else first.response_2
    assert (first.question, better) == ("Question 1?", "Good 1.")
    assert second.gold_label == "tie"


def test_a_prompt_of_messages_is_a_question(tmp_path):
    answers = {
        name: [{"role": "assistant", "content": text}]
        for name, text in (("chosen", "Good."), ("rejected", "Bad."))
    }
    row = {"prompt": [{"role": "user", "content": "Why?"}], **answers}
    (found,) = pairs(tools.lines(tmp_path / "trl.jsonl", [row]))
    assert (found.question, {found.response_1, found.response_2}) == ("Why?", {"Good.", "Bad."})


def test_helpsteers_strength_says_which_response_is_better(tmp_path):
    strengths = (-3, 1, 0, -100)
    rows = [tools.helpsteer(number, strength) for number, strength in enumerate(strengths)]
    found = pairs(tools.lines(tmp_path / "preference.jsonl", rows))
    assert [row.gold_label for row in found] == ["win", "lose", "tie", None]
    (refused,) = problems(tools.lines(tmp_path / "wrong.jsonl", [tools.helpsteer(1, 7)]))
    assert refused.place.line == 1
    assert "a number from -3 to 3" in refused.sentence


def test_label_studios_tasks_and_argillas_records_are_pairs(tmp_path):
    tasks = [tools.label_studio_task(7), tools.label_studio_task(8, external_id="e8")]
    first, second = pairs(tools.array(tmp_path / "label_studio.json", tasks))
    assert (first.external_id, second.external_id) == ("7", "e8")
    assert (first.question, first.response_1, first.response_2) == (
        "Question 7?",
        "One 7.",
        "Two 7.",
    )
    record = tools.argilla_record("r1", metadata={"model_1": "maple", "model_2": "birch"})
    (row,) = pairs(tools.array(tmp_path / "argilla.json", [record]))
    assert (row.external_id, *sides(row)) == ("r1", ("One r1.", "maple"), ("Two r1.", "birch"))


def test_a_task_without_the_fields_of_a_pair_is_refused_by_its_line(tmp_path):
    task = tools.label_studio_task(1)
    del task["data"]["answer2"]
    (problem,) = problems(tools.lines(tmp_path / "tasks.jsonl", [tools.label_studio_task(2), task]))
    assert problem.place.line == 2
    assert problem.sentence == "No field for response_2. Found: prompt, answer1."


def test_a_document_of_no_known_tool_is_refused(tmp_path):
    path = tmp_path / "own.json"
    path.write_text('{\n "question": "Why?"\n}', encoding="utf-8")
    (problem,) = problems(path)
    assert problem.sentence.startswith("Expected a JSON array, found no [ at its start.")
    path.write_text('{\n "results": {"results": []\n', encoding="utf-8")
    assert "Expected a JSON object" in problems(path)[0].sentence


def test_a_file_that_holds_no_pairs_says_what_it_holds(tmp_path):
    row = tools.fastchat_pair(81, "a", "b", "tie", "tie")
    (problem,) = problems(tools.lines(tmp_path / "gpt-4_pair.jsonl", [row]))
    assert problem.sentence == "This row of FastChat holds judgments, and no pairs."


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("arena", [tools.arena_battle("a", "tie"), tools.arena_battle("b", "model_b")]),
        ("alpaca", [tools.alpaca_annotation(1, 1), tools.alpaca_annotation(2, 2)]),
        ("reward", [tools.reward_bench(1), tools.reward_bench(2)]),
        ("helpsteer", [tools.helpsteer(1, 1), tools.helpsteer(2, -1)]),
        ("tasks", [tools.label_studio_task(1), tools.label_studio_task(2)]),
        ("records", [tools.argilla_record("r1"), tools.argilla_record("r2")]),
    ],
)
@pytest.mark.django_db
@pytest.mark.databases
def test_the_same_file_again_adds_nothing(project, tmp_path, name, rows):
    path = tools.lines(tmp_path / f"{name}.jsonl", rows)
    for _ in range(2):
        import_files(project, None, [path])
        assert Example.objects.filter(project=project).visible().count() == 2
    assert project.imports.order_by("-number").first().n_conflicts == 0
