import json

import pytest

from judging.core.errors import UserError
from judging.dataset.reading import Reader, check


@pytest.fixture
def files(tmp_path):
    def write(questions=(1, 2), first=(1, 2), second=(1, 2)):
        answer = {"answer_a": first, "answer_b-7b": second}
        for name, numbers in {"question": questions, **answer}.items():
            lines = [{"question_id": n, "text": f"{name} {n}"} for n in numbers]
            text = "\n".join(json.dumps(line) for line in lines)
            (tmp_path / f"{name}.jsonl").write_text(text, encoding="utf-8")
        return [tmp_path / f"{name}.jsonl" for name in ("question", *answer)]

    return write


def test_questions_and_answers_are_joined_and_named(files):
    row = next(iter(Reader(files())))
    assert row.external_id == "1:a:b-7b"
    assert row.texts == ("question 1", "answer_a 1", "answer_b-7b 1")
    assert (row.model_1, row.model_2) == ("a", "b-7b")


def test_the_order_in_which_the_answer_files_are_named_decides_who_is_response_1(files):
    questions, first, second = files()
    row = next(iter(Reader([second, questions, first])))
    assert (row.external_id, row.response_1) == ("1:b-7b:a", "answer_b-7b 1")


def test_questions_without_an_answer_and_answers_without_a_question_are_told(files):
    found = check(files(questions=(1, 2, 2, 3), first=(1, 2, 3, 3, 4), second=(1, 2)))
    assert found.n_rows == 2
    assert [str(problem.place) for problem in found.problems] == [
        "answer_a.jsonl, line 4",
        "question.jsonl, line 3",
        "question.jsonl, line 4",
        "answer_a.jsonl, line 5",
    ]
    assert "b-7b has no answer to question 3" in found.problems[2].sentence


def test_it_takes_three_files(files):
    with pytest.raises(UserError, match="three files"):
        list(Reader(files()[:2], "faireval"))


def test_the_real_files(test_data):
    names = ("question.jsonl", "answer_gpt35.jsonl", "answer_vicuna-13b.jsonl")
    found = check([test_data / "faireval" / name for name in names])
    assert (found.format, found.n_rows, found.n_problems) == ("faireval", 80, 0)
    assert found.rows[0].external_id == "1:gpt35:vicuna-13b"
