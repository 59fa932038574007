"""Log-probabilities of a text are added up only if their tokens spell it."""

import pytest

from judging.llm.client.likelihoods import (
    UNSPELLED,
    TextScore,
    read_echo,
    read_forced,
    read_prompt_logprobs,
)

CONTEXT, TEXT = "Say it.\n\n", "It is so."


def echo(tokens, offsets=None):
    values = [None, *(-float(n) for n in range(1, len(tokens)))]
    starts = offsets or [sum(map(len, tokens[:n])) for n in range(len(tokens))]
    logprobs = {"tokens": tokens, "token_logprobs": values, "text_offset": starts}
    return {"choices": [{"text": "".join(tokens), "logprobs": logprobs}]}


def places(*tokens):
    listed = [{str(n): {"decoded_token": t, "logprob": -1.0}} for n, t in enumerate(tokens)]
    return {"choices": [{"prompt_logprobs": [None, *listed]}]}


def test_the_texts_own_tokens_are_added_up():
    found = read_echo(echo(["Say", " it", ".\n\n", "It", " is", " so", ".", " Yes"]), CONTEXT, TEXT)
    assert (found.log_likelihood, found.tokens) == (-(3 + 4 + 5 + 6), 4)


@pytest.mark.parametrize("sign", ["<s>", "<|begin_of_text|>", "[BOS]"])
def test_a_sign_for_the_beginning_shifts_nothing(sign):
    found = read_echo(echo([sign, "Say it", ".\n\n", "It", " is so", "."]), CONTEXT, TEXT)
    assert (found.log_likelihood, found.tokens) == (-(3 + 4 + 5), 3)


def test_offsets_in_bytes_shift_nothing():
    tokens = ["Día", ".\n\n", "Él", " es", "."]
    in_bytes = [len("".join(tokens[:n]).encode()) for n in range(5)]
    found = read_echo(echo(tokens, in_bytes), "Día.\n\n", "Él es.")
    assert (found.log_likelihood, found.tokens) == (-(2 + 3 + 4), 3)


def test_parts_of_a_letter_spell_it_together():
    tokens = ["A", "\n\n", "bytes:\\xe2\\x80", "bytes:\\x93", " b"]
    assert read_echo(echo(tokens), "A\n\n", "– b").log_likelihood == -(2 + 3 + 4)


@pytest.mark.parametrize(
    "tokens",
    [
        ["Say it", ".\n\n", "It", " is", "."],
        ["Say it", ".\n\nIt", " is so", "."],
        ["Say it", ".\n\n", "It", " is so", ".\n"],
        ["Say it", ".\n\n", "\ufffd", " is so", "."],
        ["Say", " ", " it", ".\n\n", "It", " is so", "."],
    ],
)
def test_tokens_that_do_not_spell_the_text_are_refused_with_the_reason(tokens):
    assert read_echo(echo(tokens), CONTEXT, TEXT).message == UNSPELLED


def test_places_of_a_prompt_must_spell_the_text():
    assert read_prompt_logprobs(places("Say it.", "\n\n", "It", " is so."), TEXT).tokens == 2
    for wrong in (["\n\nIt", " is so."], ["It", " was so."], ["It", " is so.", "</s>"], [TEXT[1:]]):
        assert read_prompt_logprobs(places(*wrong), TEXT).message == UNSPELLED


def test_what_a_grammar_forced_must_be_the_text():
    def forced(*tokens):
        content = [{"id": n, "token": t, "logprob": -1.0} for n, t in enumerate(tokens)]
        return {"choices": [{"logprobs": {"content": content}}]}

    assert isinstance(read_forced(forced(" It", " is so."), [0, 1], TEXT), TextScore)
    assert read_forced(forced("It", " was so."), [0, 1], TEXT).message == UNSPELLED


def test_a_letter_that_is_told_with_its_last_token_has_all_its_tokens():
    """At the border, empty tokens belong to the letter behind them, or the way is refused."""
    tokens = ["Say it", ".\n\n", "", "", "\u2713", "", "", "\u2713"]
    assert read_echo(echo(tokens), CONTEXT, "\u2713\u2713").log_likelihood == -(
        2 + 3 + 4 + 5 + 6 + 7
    )
    assert read_prompt_logprobs(places(*tokens), "\u2713\u2713").tokens == 6
    tokens = ["Say it", ".\n\n", "", "It", " is so."]
    assert read_echo(echo(tokens), CONTEXT, TEXT).message == UNSPELLED
    assert read_prompt_logprobs(places(*tokens), TEXT).message == UNSPELLED


@pytest.mark.parametrize("wrong", [0.5, True, None, float("nan"), float("-inf"), "-1"])
def test_what_is_no_log_probability_is_never_added_up(wrong):
    answer = echo(["Say it", ".\n\n", "It is", " so."])
    answer["choices"][0]["logprobs"]["token_logprobs"][2] = wrong
    assert not isinstance(read_echo(answer, CONTEXT, TEXT), TextScore)
