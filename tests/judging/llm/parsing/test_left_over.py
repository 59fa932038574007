"""No label from the probability that is left for an answer that the judge did not give."""

from dataclasses import replace
from decimal import Decimal
from math import log

import pytest

from judging.llm.client.messages import TokenLogprobs
from judging.llm.parsing.parse import Status, parse
from judging.llm.prompts.templates import Scale, template

CHOICE, POINT = template("calibraeval-default"), template("ohi-any")


def token(sampled, **shares):
    top = tuple((text.strip("_"), log(share)) for text, share in shares.items())
    return TokenLogprobs(sampled, dict(top).get(sampled, -0.1), top)


def written(text, *given):
    """The given tokens, and between and behind them what else the text has."""
    tokens, rest = [], text
    for one in given:
        before, found, rest = rest.partition(one.token)
        assert found
        tokens += [TokenLogprobs(before, -0.1, ())] * bool(before) + [one]
    return [*tokens, *[TokenLogprobs(rest, -0.1, ())] * bool(rest)]


def test_a_refusal_gives_no_label_and_shows_what_the_ids_had():
    text = "I'm sorry, but I can't help."
    tokens = written(text, token("I", A=2e-5, B=1e-6, I=0.9))
    found = parse(CHOICE, text, "stop", logprobs=tokens)
    assert (found.status, found.p_first) == (Status.REFUSED, None)
    assert found.mass == pytest.approx(2.1e-5)


@pytest.mark.parametrize("shares", [{"A": 0.01, "The": 0.9}, {"A": 0.6, "The": 0.3}])
def test_an_id_that_the_judge_writes_later_is_not_read_at_its_first_word(shares):
    text = "The better answer is B"
    tokens = written(text, token("The", **shares), token(" B", **{" B": 0.95, " A": 0.05}))
    found = parse(CHOICE, text, "stop", logprobs=tokens)
    assert (found.status, found.p_first) == (Status.UNPARSED, None)
    assert found.mass == pytest.approx(shares["A"])


def test_the_least_mass_belongs_to_the_template():
    tokens = [token("A", A=0.3, B=0.1, The=0.6)]
    found = parse(CHOICE, "A", "stop", logprobs=tokens)
    assert (found.status, found.mass) == (Status.UNPARSED, pytest.approx(0.4))
    loose = replace(CHOICE, least_mass=0.4)
    assert parse(loose, "A", "stop", logprobs=tokens).p_first == pytest.approx(0.75)
    assert parse(CHOICE, "A", "stop", logprobs=[token("A", A=0.4, B=0.1)]).status is Status.VALID


def test_tokens_that_spell_another_text_give_no_label():
    assert parse(CHOICE, "B", "stop", logprobs=[token("A", A=0.9)]).status is Status.UNPARSED


def test_the_score_is_read_where_it_is_announced():
    """The 4 of the reasoning is .9 sure; the score's own 4 and 1 are .5 each: 2.5."""
    text = "There are 4 facts.\nScore: 4"
    tokens = written(text, token("4", _4=0.9, _2=0.1), token("4", _4=0.5, _1=0.5))
    found = parse(POINT, text, "stop", logprobs=tokens)
    assert float(found.rating) == pytest.approx(2.5)
    thought = f"<think>It is 4.</think>\n{text}"
    tokens = written(thought, token("4", _5=1.0), token("4", _4=0.9), token("4", _4=0.5, _1=0.5))
    assert float(parse(POINT, text, "stop", logprobs=tokens).rating) == pytest.approx(2.5)
    assert float(parse(POINT, thought, "stop", logprobs=tokens).rating) == pytest.approx(2.5)


def test_a_score_off_the_scale_or_none_is_refused_whatever_else_was_likely():
    off = parse(POINT, "7", "stop", logprobs=[token("7", _7=0.4, _4=0.6)])
    assert (off.status, off.rating) == (Status.UNPARSED, None)
    assert off.mass == pytest.approx(0.6)
    text = "I'm sorry, but I can't rate this."
    none = parse(POINT, text, "stop", logprobs=written(text, token("I", I=0.9, _4=0.01)))
    assert (none.status, none.mass) == (Status.REFUSED, pytest.approx(0.01))


def test_a_score_that_was_unlikely_is_no_score():
    found = parse(POINT, "4", "stop", logprobs=[token("4", _4=0.2, _3=0.1, The=0.7)])
    assert (found.status, found.rating) == (Status.UNPARSED, None)
    assert found.mass == pytest.approx(0.3)


def test_tokens_that_do_not_spell_the_reply_leave_the_written_score():
    found = parse(POINT, "4", "stop", logprobs=[token("5", _5=0.9, _4=0.1)])
    assert (found.rating, found.bounded, found.mass) == (4, True, None)


OTHER_WORDS = {
    ("A", "B"): (
        *("Both are good", "Assistant B", "Applied", "A or B", "A/B", "A and B are", "A = B"),
        *("A detailed comparison shows", "A very good question"),
    ),
    ("Alice", "Bob"): ("Albert", "Alicia"),
    ("1", "2"): ("10", "1.5", "1st", "1 and 2", "1/2"),
}
THE_ID = {
    ("A", "B"): (
        *("A", "A.", "A\n\nB said so", "A is better", "A's is better", "A > B", "A, not B"),
        *("A provides more", "A gave more", "A clearly", "A\u66f4\u597d", "**A**", "\uff21"),
    ),
    ("Alice", "Bob"): ("Al", "Alice", "Alice's"),
    ("1", "2"): ("1", "1.", "1 is better", "1, since 2 errs"),
}


@pytest.mark.parametrize(
    ("ids", "text", "status"),
    [(ids, text, Status.UNPARSED) for ids, texts in OTHER_WORDS.items() for text in texts]
    + [(ids, text, Status.VALID) for ids, texts in THE_ID.items() for text in texts],
)
def test_an_id_that_only_begins_another_word_or_names_both_is_no_label(ids, text, status):
    """Tokens may be parts of words: "B" of "Both", "1" of "10", "Al" of "Albert"."""
    first = text[:2] if ids[0] == "Alice" else text[: 3 if text[0] == "*" else 1]
    tokens = written(text, token(first, **{first: 0.9}))
    asked = replace(CHOICE, ids=ids)
    assert parse(asked, text, "stop", logprobs=tokens).status is status


@pytest.mark.parametrize("text", [None, "", "  \n"])
def test_tokens_without_a_text_are_those_of_the_thinking(text):
    assert parse(CHOICE, text, "length", logprobs=[token("A", A=0.9, B=0.1)]).p_first is None


@pytest.mark.parametrize(("one", "other"), [(0.35, 0.15), (0.3, 0.2), (0.15, 0.35)])
def test_half_is_enough_however_its_parts_are_rounded(one, other):
    tokens = [token("A", A=one, B=other)]
    assert parse(CHOICE, "A", "stop", logprobs=tokens).status is Status.VALID
    assert parse(CHOICE, "A", "stop", logprobs=[token("A", A=one, B=other - 0.01)]).p_first is None


def test_what_is_left_counts_from_the_least_mass_of_the_template():
    tokens = written("The answer", token("The", The=0.55, A=0.3, B=0.15))
    assert parse(CHOICE, "The answer", "stop", logprobs=tokens).status is Status.UNPARSED
    loose = replace(CHOICE, least_mass=0.4)
    found = parse(loose, "The answer", "stop", logprobs=tokens)
    assert found.p_first == pytest.approx(2 / 3)


@pytest.mark.parametrize(
    ("scale", "text", "given", "expected"),
    [
        # 100 has .9 x .8 = .72 of 10, which has .9 of 1: (100 x .72 + 10 x .18 + 1 x .1) / 1.
        ((0, 100), "100", [{"1": 1.0}, {"0": 0.9, "\n": 0.1}, {"0": 0.8, "\n": 0.2}], 73.9),
        ((0, 100), "100", [{"10": 1.0}, {"0": 0.8, "\n": 0.2}], 82.0),
        ((0, 100), "100", [{"1": 1.0}, {"00": 0.8, "0": 0.2}], 82.0),
        ((0, 100), "100", [{"100": 0.8, "90": 0.2}], 98.0),
        ((50, 100), "100", [{"1": 1.0}, {"0": 1.0}, {"0": 1.0}], 100.0),
        ((0, 1000), "250", [{"2": 1.0}, {"5": 1.0}, {"0": 0.5, "5": 0.5}], 252.5),
        ((1, 10), "10", [{"1": 1.0}, {"0": 0.5, "\n": 0.5}], 5.5),
    ],
)
def test_a_score_of_several_tokens_takes_its_share_of_each(scale, text, given, expected):
    asked = replace(POINT, scale=Scale(*map(Decimal, scale)))
    tokens, rest = [], text
    for top in given:
        sampled = next(one for one in sorted(top, key=len, reverse=True) if rest.startswith(one))
        rest = rest.removeprefix(sampled)
        pairs = tuple((one, log(share)) for one, share in top.items())
        tokens.append(TokenLogprobs(sampled, log(top[sampled]), pairs))
    found = parse(asked, text, "stop", logprobs=[*tokens, TokenLogprobs("\n", -0.1, ())])
    assert float(found.rating) == pytest.approx(expected)
    assert not found.bounded
