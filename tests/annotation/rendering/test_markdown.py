"""Markdown as people expect it, without anything that leads away from the page."""

import pytest

from annotation.rendering import render
from tests.annotation.rendering.reading import Reading


def test_paragraphs_emphasis_and_code():
    assert render("a **b** *c* ~~d~~ `e<f`\n\ng") == (
        '<p dir="auto">a <strong>b</strong> <em>c</em> <s>d</s> <code>e&lt;f</code></p>\n'
        '<p dir="auto">g</p>\n'
    )


def test_a_line_break_of_the_response_is_kept():
    assert Reading(render("The gutters hum\nand every roof")).tags == ["p", "br"]


@pytest.mark.parametrize(
    ("marks", "tag"), [("#", "h4"), ("##", "h5"), ("###", "h6"), ("######", "h6")]
)
def test_headings_rank_below_those_of_the_page(marks, tag):
    assert render(f"{marks} Title") == f'<{tag} dir="auto">Title</{tag}>\n'


def test_a_table_aligns_its_columns_through_classes():
    html = render("|a|b|c|\n|:-|-:|:-:|\n|1|2|3|")
    cells = [attributes for tag, attributes in Reading(html).elements if tag in ("th", "td")]
    assert cells == [{"class": f"to-{side}"} for side in ("left", "right", "center")] * 2


def test_a_list_keeps_its_first_number():
    assert '<ol start="7" dir="auto">' in render("7. a\n8. b")
    assert '<ol start="1969" dir="auto">' in render("1969. The Moon")


def test_a_link_shows_its_text_and_its_target():
    assert render('[here](https://a.example/x "t")') == (
        '<p dir="auto"><span class="link">here</span> '
        '<bdi class="target">(https://a.example/x "t")</bdi></p>\n'
    )


@pytest.mark.parametrize("text", ["<https://a.example>", "[https://a.example](https://a.example)"])
def test_a_target_that_is_the_text_is_shown_once(text):
    assert render(text) == '<p dir="auto"><span class="link">https://a.example</span></p>\n'


def test_the_target_of_a_link_is_shown_as_it_would_be_requested():
    assert "(https://a.example/%E2%80%AEmoc)" in render("[x](https://a.example/\u202emoc)")
    assert "https://a.example/%E2%80%AE" in render("<https://a.example/%E2%80%AE>")


def test_links_within_emphasis_and_two_in_a_row_keep_their_own_targets():
    text = Reading(render("*[a](u:1)*[b](u:2) [**c**](u:3) [](u:4)")).text.strip()
    assert text == "a (u:1)b (u:2) c (u:3)  (u:4)"


def test_an_image_is_its_description_and_address():
    assert render("![a *cat*](https://a.example/c.png)") == (
        '<p dir="auto"><span class="image">Image: a cat</span> '
        '<bdi class="target">(https://a.example/c.png)</bdi></p>\n'
    )


def test_raw_html_is_shown_as_text():
    assert "&lt;b onclick=x&gt;bold&lt;/b&gt;" in render("<b onclick=x>bold</b>")
    assert Reading(render("<div>\n\n<!-- a -->")).text.split() == ["<div>", "<!--", "a", "-->"]


def test_a_definition_of_a_link_does_not_vanish():
    assert Reading(render("see [1]\n\n[1]: https://a.example")).text.endswith(
        "[1]: https://a.example\n"
    )


def test_accents_emoji_and_entities_survive():
    text = "e\u0301 \U0001f469\u200d\U0001f52c \u0915\u094d\u0937 &copy;"
    assert Reading(render(text)).text == text + "\n"


def test_half_a_surrogate_pair_becomes_the_replacement_character():
    assert Reading(render("a\ud800b")).text == "a\ufffdb\n"


def test_an_unknown_way_is_refused():
    with pytest.raises(ValueError, match="how is markdown or plain, not 'html'"):
        render("x", "html")
