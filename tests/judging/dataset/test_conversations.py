"""Questions and responses that are lists of messages: read, refused by line, and kept."""

import csv
import hashlib
import json

import pytest

from annotation.results.delivery.gate import frozen_set
from judging.core.conversations import unpacked
from judging.dataset.models import Example
from judging.dataset.reading import check
from judging.dataset.records import IDENTITY_FIELDS
from judging.dataset.writing import import_files
from tests import other_tools as tools
from tests.factories import make_examples, make_project
from tests.judging.runs.judging import judged, loopback
from tests.loopback.judges import fixed_judge


def said(role, content, **more):
    return {"role": role, "content": content} | more


SYSTEM, USER = said("system", "Be brief."), said("user", "Why?")
FIRST, SECOND = said("assistant", "Because."), said("assistant", "No idea.")
AGAIN = said("user", "Really?")


def pair(**fields):
    return {"id": "p1", "question": "Why?", "response_1": "Because.", "response_2": "No."} | fields


def found(path, *rows, mapping=None):
    if path.suffix == ".csv":
        with path.open("w", encoding="utf-8", newline="") as stream:
            writer = csv.DictWriter(stream, rows[0])
            writer.writeheader()
            writer.writerows(rows)
    else:
        tools.lines(path, rows)
    return check([path], mapping=mapping)


@pytest.fixture
def path(tmp_path):
    return tmp_path / "rows.jsonl"


@pytest.fixture
def table(tmp_path):
    return tmp_path / "rows.csv"


def only(summary):
    assert [str(problem) for problem in summary.problems] == []
    (row,) = summary.rows
    return row


def test_lists_are_kept_beside_their_texts(path):
    question, response = [SYSTEM, USER], [FIRST, AGAIN, said("assistant", "Yes.", score=0.5)]
    row = only(found(path, pair(question=question, response_1=response)))
    assert row.question == "System:\nBe brief.\n\nUser:\nWhy?"
    assert row.response_1 == "Assistant:\nBecause.\n\nUser:\nReally?\n\nAssistant:\nYes."
    assert row.response_2 == "No."
    assert unpacked(row.conversation) == {"question": question, "response_1": response}


def test_a_plain_row_has_no_conversation(path):
    row = only(found(path, pair()))
    assert (row.conversation, row.notes) == (None, ())


def test_a_computed_id_is_that_of_the_texts(path):
    plain = only(found(path, pair(id="")))
    lists = only(found(path, pair(id="", question=[USER], response_1=[FIRST])))
    assert lists.external_id == plain.external_id


def test_responses_may_repeat_the_question(path):
    whole = pair(question=[USER], response_1=[USER, FIRST], response_2=[USER, SECOND])
    summary = found(path, whole)
    assert unpacked(only(summary).conversation)["response_1"] == [FIRST]
    assert "repeat the question's messages" in summary.notices[0].sentence
    of_text = only(found(path, pair(response_1=[USER, FIRST, AGAIN, SECOND])))
    assert unpacked(of_text.conversation) == {"response_1": [FIRST, AGAIN, SECOND]}


@pytest.mark.parametrize(
    ("fields", "column", "sentence"),
    [
        ({"question": []}, "question", "question is an empty list"),
        ({"question": [said("bot", "x")]}, "question", "unknown role 'bot'"),
        ({"response_1": [{"role": "assistant"}]}, "response_1", "Message 1 of response_1 has no"),
        (
            {"question": [said("user", [{"type": "image_url"}])]},
            "question",
            "a part of the type image_url",
        ),
        (
            {"question": [USER], "response_2": [AGAIN, SECOND]},
            "response_2",
            "response_2 begins with other messages than the question",
        ),
        ({"question": [said("user", "  ")]}, "question", "question is empty"),
        ({"question": [said("user", "a\0")]}, "question", "a NUL character"),
        ({"question": ["Why?"]}, "question", "should be text, found an array"),
    ],
)
def test_each_problem_is_named_by_its_line(path, fields, column, sentence):
    summary = found(path, pair(), pair(id="p2") | fields)
    (problem,) = summary.problems
    assert (problem.place.line, problem.column) == (2, column)
    assert sentence in problem.sentence


def test_a_cell_of_messages_is_read_as_one_and_it_is_said(table):
    cells = pair(question=json.dumps([SYSTEM, USER]), response_1=json.dumps([FIRST]))
    summary = found(table, cells)
    assert unpacked(only(summary).conversation) == {
        "question": [SYSTEM, USER],
        "response_1": [FIRST],
    }
    assert "holds messages as JSON" in summary.notices[0].sentence
    mapping = {"question": "question:text", "response_1": "response_1:text"}
    kept = only(found(table, cells, mapping=mapping))
    assert (kept.question, kept.conversation) == (cells["question"], None)


@pytest.mark.parametrize("cell", ['["a", "b"]', "[]", '[{"role": "user"}, 5]', '{"role": "user"}'])
def test_other_json_in_a_cell_is_a_text(table, cell):
    summary = found(table, pair(question=cell))
    assert (only(summary).question, only(summary).conversation) == (cell, None)
    (problem,) = found(
        table, pair(question=cell), mapping={"question": "question:messages"}
    ).problems
    assert problem.place.line == 2


def test_a_text_of_json_in_a_json_file_stays_a_text(path):
    assert only(found(path, pair(question=json.dumps([USER])))).conversation is None


def test_a_cell_with_an_unknown_role_is_refused_with_the_way_out(table):
    (problem,) = found(table, pair(question=json.dumps([said("bot", "x")]))).problems
    assert "unknown role 'bot'" in problem.sentence
    assert "Map the column to question:text" in problem.sentence


@pytest.mark.django_db(transaction=True)
@pytest.mark.databases
def test_the_same_lists_are_known_and_others_are_a_conflict(path):
    project = make_project()
    question = [said("user", "Why?", z=1, a={"n": 0.10})]
    for fields, expected in (
        ({"question": question}, (1, 0, 0)),
        ({"question": question}, (0, 1, 0)),
        ({}, (0, 0, 1)),
    ):
        tools.lines(path, [pair(**fields)])
        done = import_files(project, None, [path])
        assert (done.n_written, done.n_known, done.n_conflicts) == expected
    assert "another conversation" in done.summary["conflicts"][0]
    example = Example.objects.get(project=project)
    # The keys keep their order in both databases.
    assert example.conversation == (
        '{"question":[{"role":"user","content":"Why?","z":1,"a":{"n":0.1}}]}'
    )


@pytest.mark.django_db(transaction=True)
@pytest.mark.databases
def test_a_judge_is_shown_whole_conversations_from_a_file(settings, path):
    project = make_project()
    response = [FIRST, AGAIN, said("assistant", "Yes. [[B]]")]
    tools.lines(path, [pair(question=[SYSTEM, USER], response_1=response)])
    import_files(project, None, [path])
    with loopback(settings, judge=fixed_judge("Fine. [[A]]")) as server:
        run = judged(project, form="relation", template="mt-bench-multi-turn", k=1)
    assert run.state == "done"
    prompts = [entry.body["messages"][-1]["content"] for entry in server.log]
    for name in ("A", "B"):
        (shown,) = [prompt for prompt in prompts if f"### Assistant {name}:\nBecause." in prompt]
        assert f"### User:\nReally?\n\n### Assistant {name}:\nYes. [·[B]]" in shown
        assert shown.count("### System:\nBe brief.\n\n### User:\nWhy?") == 2


def test_a_frozen_set_is_hashed_as_before_unless_it_has_conversations(db):
    project = make_project()
    (example,) = make_examples(project, 1, reference="")
    values = [getattr(example, name) for name in IDENTITY_FIELDS[:-2]]
    before = hashlib.sha256(json.dumps([example.external_id, *values]).encode()).hexdigest()
    assert frozen_set(project) == before
    Example.objects.update(conversation='{"question":[]}')
    assert frozen_set(project) != before


def test_an_arenas_conversation_is_parted_where_it_diverges(path):
    battle = tools.arena_battle("a", "tie", turn=2)
    battle["conversation_a"] = tools.chat("What is 1+1?", "Two.", "Still two.")
    battle["conversation_b"] = tools.chat("What is 1+1?", "Two.", "Eleven.")
    row = only(found(path, battle))
    assert row.external_id == "a"
    assert row.question.startswith("User:\nWhat is 1+1?\n\nAssistant:\nTwo.\n\nUser:")
    assert (row.response_1, row.response_2) == ("Still two.", "Eleven.")


def test_mt_benchs_second_turn_is_a_pair_of_its_own(path):
    votes = [
        tools.mt_bench_vote(81, "gpt-4", "alpaca-13b", "model_a"),
        tools.mt_bench_vote(81, "gpt-4", "alpaca-13b", "model_a", turn=2),
    ]
    first, second = found(path, *votes).rows
    assert (first.external_id, first.conversation) == ("81:alpaca-13b:gpt-4", None)
    assert second.external_id == "81:alpaca-13b:gpt-4:2"
    assert second.response_1.startswith("Assistant:\nalpaca-13b writes.\n\nUser:\n")


def test_fastchats_later_turns_are_pairs_of_their_own(tmp_path):
    files = [
        tools.lines(tmp_path / "question.jsonl", tools.FASTCHAT_QUESTIONS[:1]),
        tools.lines(tmp_path / "a.jsonl", tools.fastchat_answers("vicuna-13b")[:1]),
        tools.lines(tmp_path / "b.jsonl", tools.fastchat_answers("gpt-4")[:1]),
    ]
    first, second = check(files).rows
    assert (first.external_id, first.conversation) == ("81:vicuna-13b:gpt-4", None)
    assert second.external_id == "81:vicuna-13b:gpt-4:2"
    assert (second.question, second.category) == ("Write a blog post.", "writing")
    assert second.response_2 == (
        "Assistant:\ngpt-4 answers.\n\nUser:\nRewrite it.\n\nAssistant:\ngpt-4 goes on."
    )


def test_helpsteers_turns_are_messages(path):
    marked = "Hello\n<extra_id_1>Assistant\nHi\n\n<extra_id_1>User\nSo?"
    row = only(found(path, tools.helpsteer(1, 1, prompt=marked)))
    assert [message["content"] for message in unpacked(row.conversation)["question"]] == [
        "Hello",
        "Hi\n",
        "So?",
    ]
    (problem,) = found(path, tools.helpsteer(2, 1, prompt="Hi\n<extra_id_1>User\nSo?")).problems
    assert "name no turns in order" in problem.sentence


def test_helpsteer3s_context_is_the_question(path):
    row = {
        "domain": "code",
        "language": "python",
        "context": [USER, FIRST, AGAIN],
        "response1": "Yes.",
        "response2": "No.",
        "overall_preference": -2,
        "individual_preference": [
            {"score": -2, "reasoning": "…", "feedback1": "", "feedback2": ""}
        ],
    }
    single = row | {"context": [USER], "overall_preference": 0}
    several, one = found(path, row, single).rows
    assert (several.gold_label, several.category) == ("win", "code")
    assert unpacked(several.conversation) == {"question": [USER, FIRST, AGAIN]}
    assert (one.question, one.gold_label, one.conversation) == ("Why?", "tie", None)


def test_a_preference_of_several_turns_is_a_conversation(path):
    row = tools.ultrafeedback(1)
    row["chosen"] = tools.chat("Question 1?", "Good.", "Better.")
    row["rejected"] = tools.chat("Question 1?", "Good.", "Worse.")
    read = only(found(path, row))
    assert {read.response_1, read.response_2} == {"Better.", "Worse."}
    assert read.question.startswith("User:\nQuestion 1?\n\nAssistant:\nGood.")
    (problem,) = found(path, row | {"prompt": "Another?"}).problems
    assert "no message that both conversations begin with" in problem.sentence


def test_a_logs_messages_are_the_question_although_their_ids_differ(tmp_path):
    files = []
    for number, model in enumerate(("openai/gpt-4o", "google/gemini")):
        log = tools.inspect_log(model, {1: f"Hello {number}!"})
        log["samples"][0]["input"] = [SYSTEM, said("user", "Say hello", id=f"m{number}")]
        files.append(tools.array(tmp_path / f"{number}.json", log))
    row = only(check(files))
    assert row.question == "System:\nBe brief.\n\nUser:\nSay hello"
