"""A text in which nothing can be seen is known as one, and nothing that was written vanishes."""

import pytest

from annotation.rendering import has_visible, render

BLANK = ["", " \n\t", "\u200b\u200b", "\u2060\ufeff", "\u202e\u2069", "\u00ad", "\u3164", "\u2800"]


@pytest.mark.parametrize("text", BLANK, ids=ascii)
def test_what_leaves_no_trace_on_the_page_is_blank(text):
    assert not has_visible(text)
    assert has_visible(text + "." + text)


@pytest.mark.parametrize("text", ["#", "##", "> #", "# \u200b", "```\n```", "***"])
@pytest.mark.parametrize("how", ["markdown", "plain"])
def test_marks_of_markdown_around_nothing_are_shown_as_they_were_written(text, how):
    html = render(text, how)
    assert html.startswith('<div class="plain"')
    assert text.split()[0].replace(">", "&gt;") in html


@pytest.mark.parametrize("text", ["a", "![](x.png)", "[](x)", "$x$", "`a`", "- a", "|a|\n|-|"])
def test_what_shows_something_stays_rendered(text):
    assert '<div class="plain"' not in render(text)
