"""Questions about a person of a panel: how an owner writes them, and whom they screen out."""

import pytest

from annotation.people.background import (
    MOST,
    are_screened_out,
    questions_of,
    read_questions,
    written,
)
from judging.core.errors import UserError

LINES = """\
text: What do you work as?
text?: Is there anything we should know?
choice: Do you read English every day? | yes | sometimes | no!
number: How old are you? | 18 | 99
number?: How many papers have you read?"""


def test_what_an_owner_wrote_comes_back_as_it_was():
    questions = read_questions(LINES)
    assert "\n".join(map(str, questions)) == LINES
    assert questions_of(written(questions)) == questions
    assert [question.optional for question in questions] == [False, True, False, False, True]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("What do you work as?", "begin with a kind"),
        ("date: When?", "begin with a kind"),
        ("text:", "begin with a kind"),
        ("text: Why? | yes | no", "in words"),
        ("choice: Why?", "two different answers"),
        ("choice: Why? | yes | yes", "two different answers"),
        ("choice: Why? | yes | yes!", "two different answers"),
        ("choice: Why? | yes | ", "two different answers"),
        ("choice: Why? | yes! | no!", "everybody"),
        ("number: How old? | old", "lowest and a highest"),
        ("number: How old? | 99 | 18", "lowest and a highest"),
        ("number: How old? | 1 | 2 | 3", "lowest and a highest"),
        ("number: How old? | NaN", "lowest and a highest"),
        ("text: " + "x" * 301, "1 to 300"),
        ("text: Why?\ntext: Why?", "asked twice"),
        ("\n".join(f"text: {n}?" for n in range(MOST + 1)), "at most"),
    ],
)
def test_what_cannot_be_asked_is_told(line, said):
    with pytest.raises(UserError, match=said):
        read_questions(line)


@pytest.mark.parametrize(
    ("answers", "out"),
    [
        ({}, False),
        ({"Do you read English every day?": "yes"}, False),
        ({"Do you read English every day?": "no"}, True),
        ({"How old are you?": "18"}, False),
        ({"How old are you?": "17.5"}, True),
        ({"How old are you?": "100"}, True),
        ({"What do you work as?": "no"}, False),
    ],
)
def test_who_is_screened_out(answers, out):
    assert are_screened_out(read_questions(LINES), answers) is out
