"""Any text is rendered in a time that grows no faster than its length."""

import gc
from time import process_time

import pytest

from annotation.rendering import differences, render
from annotation.rendering.responses import MARKDOWN_CHARACTERS
from tests.annotation.rendering.reading import Reading

PATTERNS = [
    "[", "![", "![[]()", "[a](", "[a](<b", "](", "[]", "*a **a ", "**", "*a_ ", "~~a ", "`a", "`",
    "<", "<a href=", "<!-- ", "<http://a.example>", "&", "&amp;", "&#x41;", "\\", "$a ", "$x$ ",
    "$$ ", "$$ a\n", "\\[\n", "\\[ a\n", "\\(", "\\begin{align}\n", "$\\frac", "${", "a\n=\n",
    "> ", "> > > > a\n", "- ", "1. a\n", "***\n", "# a\n", "|a|\n|-|\n", "|", "a|b\n", "```\n",
    "```c\n\n\n\n", "[a]: b\n", "\n", " ", "\t- ", "\u202e", "\u2066\u202ea", "\u0301", "\x00",
]  # fmt: skip


def seconds(call, *arguments):
    """CPU, the better of two, and none of what a long test session left to collect."""
    gc.disable()
    try:
        return min(timed(call, *arguments) for _ in range(2))
    finally:
        gc.enable()


def timed(call, *arguments):
    started = process_time()
    call(*arguments)
    return process_time() - started


@pytest.mark.parametrize("pattern", PATTERNS, ids=ascii)
def test_no_repeated_pattern_takes_more_than_its_share(pattern):
    """Were the time quadratic, a text four times as long would take sixteen times as long."""
    short, long = (pattern * (length // len(pattern)) for length in (3_000, 12_000))
    render(short)
    # Most are read too quickly for a comparison to tell anything.
    if timed(render, long) >= 0.5:
        assert seconds(render, long) < max(8 * seconds(render, short), 0.5)


@pytest.mark.parametrize("how", ["markdown", "plain"])
def test_a_megabyte_is_shown_whole(how):
    text = "<b>\u202e[$`\n" * 125_000
    shown = []
    assert timed(lambda: shown.append(render(text, how))) < 5
    assert Reading(shown[0]).text.count("<b>") == 125_000


def test_a_text_beyond_the_bound_is_shown_as_written():
    assert render("*a* " + "x" * (MARKDOWN_CHARACTERS - 4)).startswith('<p dir="auto"><em>a</em>')
    text = "*a* " + "x" * MARKDOWN_CHARACTERS
    assert render(text) == render(text, "plain")
    assert "*a*" in render(text)


@pytest.mark.parametrize(
    "text",
    [
        "".join("  " * level + f"- item {level}\n" for level in range(100)),
        ">" * 100 + " last",
        "> - " * 50 + "last",
    ],
)
def test_what_is_nested_too_deeply_is_shown_as_written_with_nothing_lost(text):
    html = render(text)
    assert html.startswith('<p class="note"')
    assert html.endswith(render(text, "plain"))


def test_what_is_nested_as_deeply_as_people_do_is_laid_out():
    text = "".join("  " * level + f"- item {level}\n" for level in range(12))
    assert Reading(render(text)).tags.count("ul") == 12


@pytest.mark.system
def test_many_formulas_are_set_up_to_a_bound_and_then_shown_as_written():
    reading = Reading(render("$x$ " * 12_000))
    assert 0 < reading.tags.count("math") < 40_000
    many = Reading(render(("$" + "x+" * 900 + "1$\n") * 25))
    assert 0 < many.tags.count("math") < 25
    assert many.tags.count("math") + many.tags.count("code") == 25


def test_differences_of_very_long_texts_take_seconds_at_most():
    assert seconds(differences, "a b " * 100_000, "b a " * 100_000) < 5
