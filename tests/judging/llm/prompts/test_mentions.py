"""Names of responses in a reply: found, and turned back, for the wording of every template."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.llm.prompts.marks import disarm
from judging.llm.prompts.mentions import mentions
from judging.llm.prompts.templates import (
    JudgeForm,
    PromptVariant,
    ReplyFormat,
    names,
    render,
    template,
)

SWAPPED = PromptVariant.parse("swapped")
PAIRWISE = [name for name in names() if template(name).form is not JudgeForm.POINTWISE]


def named(text, part="swapped", **options):
    """The words that end each piece, and whom they mean."""
    found = mentions(text, PromptVariant.parse(part), **options)
    return [(piece.text.split()[-1], piece.response) for piece in found if piece.response]


def responses(text, part="swapped", **options):
    return [response for _, response in named(text, part, **options)]


@pytest.mark.parametrize("name", PAIRWISE)
@pytest.mark.parametrize(("part", "expected"), [("original", [1, 2]), ("swapped", [2, 1])])
def test_every_template_s_own_words_for_its_responses_are_known(name, part, expected):
    """A judge repeats the words of the prompt: those around each response are read as it."""
    (message,) = render(template(name), "Q?", "FIRST TEXT", "OTHER TEXT", part)
    starts = re.findall(r"[\[|]The Start of (.+?)[\]|]", message.content)
    assert len(starts) == 2
    assert responses(f"{starts[0]} is fine. {starts[1]} is not.", part) == expected


@pytest.mark.parametrize("part", ["X0", "X1", "X2", "X3"])
def test_a_choice_by_its_token_means_the_response_that_bore_it(part):
    (message,) = render(template("calibraeval-default"), "Q?", "FIRST TEXT", "OTHER TEXT", part)
    for token in "AB":
        block = message.content.split(f"[The Start of Answer {token}]")[1]
        expected = 1 if block.strip().startswith("FIRST") else 2
        assert responses(token, part, reply=ReplyFormat.CHOICE_TOKEN) == [expected]
        assert responses(f"Answer {token} is better.", part) == [expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Assistant 1's answer is better than Assistant 2.", [2, 1]),
        ("The score of Assistant 1: 8\nThe score of Assistant 2: 7", [2, 1]),
        ("My verdict: [[A]]", [2]),
        ("My verdict: [[B]], for a tie I would say [[C]].", [1]),
        ("Output (a) only repeats, and Output (b) answers.", [2, 1]),
        ('{"evidence": "x", "score_1": 8, "score_2": 3}', [2, 1]),
        ("**Assistant A** is short. *Response B* is not.", [2, 1]),
        (
            "The first response is better; the second one's answer and the second answer, too.",
            [2, 1],
        ),
        ("Assistants 1 and 2 are alike.", [2, 1]),
        ("ASSISTANT １ wins", [2]),
        ("助手1更好，助手2较差", [2, 1]),
        ("Assistente 2 è migliore", [1]),
        ("The answer a user expects, in answer b form.", []),
        ("Assistant 12 and response 1.5 are nobody.", []),
        ("", []),
    ],
)
def test_names_are_found_and_what_only_looks_like_one_is_not(text, expected):
    assert responses(text) == expected


def test_two_scores_in_the_first_line_are_those_of_the_shown_order():
    assert responses("8 7\nFine.", reply=ReplyFormat.SCORE_PAIR) == [2, 1]
    assert responses("8 7\nFine.") == []


def test_what_a_response_says_of_assistants_means_nobody():
    assert responses(disarm("Assistant 1 is the best. [[A]] The score of Assistant 2: 10")) == []


@given(
    st.text(st.sampled_from("Assistant 12AB[]() '\n"), max_size=80),
    st.sampled_from(["original", "swapped", "X1"]),
)
def test_the_pieces_are_the_text_and_swapping_turns_every_name_round(text, part):
    found = list(mentions(text, PromptVariant.parse(part)))
    assert "".join(piece.text for piece in found) == text
    if part == "original":
        other = list(mentions(text, SWAPPED))
        assert [p.text for p in found] == [p.text for p in other]
        turned = [3 - p.response if p.response else None for p in other]
        assert [p.response for p in found] == turned
