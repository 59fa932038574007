"""What holds for every reply, whatever it says."""

from dataclasses import replace
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judging.llm.parsing.parse import Parsed, Preferred, Status, parse, turn_back
from judging.llm.prompts.templates import JudgeForm, names, render, template
from judging.methods.calibration.probabilities import PERMUTATIONS
from judging.methods.verdicts.verdicts import Label

ONE_OF_EACH_FORMAT = list({template(name).reply: name for name in names()}.values())
PIECES = st.sampled_from(
    [
        *(
            "The score of Assistant 1",
            "Assistant 2",
            ": ",
            "8",
            "10",
            "85",
            "-",
            "/",
            ".",
            ",",
            "½",
        ),
        *("[[A]]", "[[B]]", "Same", "<think>", "</think>", "```", '"', "'", "“", "”", "> ", "**"),
        *(
            '{"score_1": ',
            '"score_2"',
            ": 7",
            "}",
            "{",
            "\\",
            "NaN",
            "I'm sorry, I can't",
            "\n",
            " ",
        ),
    ]
)
REPLIES = st.lists(PIECES | st.text(max_size=4), max_size=30).map("".join)
FINISH = st.sampled_from(["stop", "length", "content_filter", "", None])
SCORES = st.decimals(1, 10, places=2)
# Each would take hours if any parser looked at it more than in proportion to its length.
LONG = [
    *("The score of Assistant 1: ", "The score of Assistant 1:\n", "[[A]]", "[[", '"', "'a ", "“a"),
    *('{"', '{"score_1":', '{"score_1": 8, ', "8 ", "8", "8,", "a:", " ", "\t\n", "**", "> a\n"),
    *(
        "<think>",
        "</think>",
        "I'm sorry ",
        "as an AI ",
        '\\"',
        "score of ",
        "Assistant 1 ",
        "a. [[A]] ",
    ),
]


@pytest.mark.system
@pytest.mark.parametrize("name", ONE_OF_EACH_FORMAT)
@given(text=REPLIES, finish=FINISH, quoted=st.lists(REPLIES, max_size=2))
def test_parsing_never_raises_and_invents_no_value(name, text, finish, quoted):
    asked = template(name)
    parsed = parse(asked, text, finish, quoted=quoted)
    values = (parsed.first, parsed.second, parsed.verdict, parsed.rating)
    if parsed.status is not Status.VALID:
        assert values == (None, None, None, None)
        assert parsed.evidence == ""
        return
    scores = [value for value in (parsed.first, parsed.second, parsed.rating) if value is not None]
    assert all(value in asked.scale for value in scores)
    assert len([value for value in values if value is not None]) == (2 if parsed.first else 1)


@pytest.mark.parametrize("name", ONE_OF_EACH_FORMAT)
@given(text=REPLIES, finish=FINISH)
def test_a_reply_means_the_opposite_when_the_responses_have_changed_places(name, text, finish):
    asked = template(name)
    parsed = parse(asked, text, finish)
    one, other = (turn_back(parsed, asked, part) for part in ("original", "swapped"))
    if asked.form is JudgeForm.POINTWISE:
        assert one == other
        return
    assert (one.score_1, one.score_2) == (other.score_2, other.score_1)
    assert one.outcome == (other.outcome and other.outcome.turned)
    assert one.evidence == other.evidence
    if one.rating is not None:
        assert one.rating + other.rating == 8


@given(SCORES, SCORES)
def test_scores_are_turned_back_once(first, second):
    text = f"The score of Assistant 1: {first}\nThe score of Assistant 2: {second}"
    asked = template("faireval-table3")
    original = turn_back(parse(asked, text, "stop"), asked, "original")
    assert (original.score_1, original.score_2) == (first, second)
    assert original.outcome is (
        Label.WIN if first > second else Label.LOSE if first < second else Label.TIE
    )
    swapped = turn_back(parse(asked, text, "stop"), asked, "portia:length:swapped")
    assert (swapped.score_1, swapped.score_2) == (second, first)


@pytest.mark.parametrize(
    ("part", "outcome"), [("X0", "win"), ("X1", "lose"), ("X2", "lose"), ("X3", "win")]
)
def test_the_response_shown_first_is_response_2_in_x1_and_x2(part, outcome):
    parsed = Parsed(Status.VALID, p_first=0.75, mass=0.9)
    reading = turn_back(parsed, template("calibraeval-default"), part)
    assert reading.outcome == outcome
    assert reading.p_first == 0.75
    assert set(PERMUTATIONS) == {"X0", "X1", "X2", "X3"}


def test_a_band_makes_a_near_even_probability_a_tie():
    asked = template("calibraeval-default")
    near = Parsed(Status.VALID, p_first=0.53125)
    assert turn_back(near, asked, "X0").outcome is Label.WIN
    wide, narrow = (replace(asked, band=Fraction(band)) for band in ("0.03125", "0.03"))
    assert turn_back(near, wide, "X0").outcome is Label.TIE
    assert turn_back(near, narrow, "X0").outcome is Label.WIN


def test_a_rating_is_turned_back_once():
    asked = template("portia-table15")
    parsed = Parsed(Status.VALID, rating=Decimal(6))
    original, swapped = (turn_back(parsed, asked, part) for part in ("original", "swapped"))
    assert (original.rating, original.outcome) == (6, Label.WIN)
    assert (swapped.rating, swapped.outcome) == (2, Label.LOSE)


PAIRWISE = [name for name in names() if template(name).form is not JudgeForm.POINTWISE]


@pytest.mark.parametrize("name", PAIRWISE)
def test_a_judge_that_repeats_its_prompt_gives_no_verdict(name):
    prompt = render(template(name), "How many dwarves?", "7", "Same here: 8", "original")
    assert parse(template(name), prompt[0].content, "stop").status is Status.UNPARSED


def test_a_verdict_keeps_its_outcome_only():
    asked = template("portia-table13")
    reading = turn_back(Parsed(Status.VALID, verdict=Preferred.SECOND), asked, "swapped")
    assert (reading.outcome, reading.score_1, reading.rating) == (Label.WIN, None, None)


@pytest.mark.parametrize("piece", LONG)
def test_a_long_reply_is_read_in_linear_time(piece):
    text = piece * (100_000 // len(piece))
    for name in ("faireval-table3", "faireval-table3-json", "faireval-table1", "portia-table13"):
        assert parse(template(name), text, "stop", quoted=[text[:2_000]]).status in Status
