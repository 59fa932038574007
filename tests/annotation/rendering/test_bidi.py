"""Bidirectional controls end where their line ends, and stay where they are balanced."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from annotation.rendering import render
from annotation.rendering.gate import balance, balance_parts
from tests.annotation.rendering.reading import Reading

LRE, RLE, PDF, LRO, RLO = "\u202a\u202b\u202c\u202d\u202e"
LRI, RLI, FSI, PDI = "\u2066\u2067\u2068\u2069"
texts = st.text(alphabet=[*"ab\n", LRE, RLE, PDF, LRO, RLO, LRI, RLI, FSI, PDI], max_size=40)


def depth_at_ends(line: str) -> list[str]:
    """What is still open at the end of a line, with every closer matching its opener."""
    opened = []
    for character in line:
        if character in (LRE, RLE, LRO, RLO):
            opened.append(PDF)
        elif character in (LRI, RLI, FSI):
            opened.append(PDI)
        elif character in (PDF, PDI):
            assert opened
            assert opened.pop() == character
    return opened


@pytest.mark.parametrize(
    ("written", "balanced"),
    [
        ("abc", "abc"),
        (f"a{RLO}b", f"a{RLO}b{PDF}"),
        (f"a{RLI}b", f"a{RLI}b{PDI}"),
        (f"a{PDF}b{PDI}", "ab"),
        (f"{RLI}{RLO}a{PDI}b", f"{RLI}{RLO}a{PDF}{PDI}b"),
        (f"{RLO}{RLI}a{PDF}b", f"{RLO}{RLI}ab{PDI}{PDF}"),
        (f"{FSI}{LRE}a{PDF}{PDI}", f"{FSI}{LRE}a{PDF}{PDI}"),
        (f"{RLO}a\nb{PDF}", f"{RLO}a{PDF}\nb"),
    ],
)
def test_controls_are_balanced_within_a_line(written, balanced):
    assert balance(written) == balanced


@given(texts)
def test_every_line_closes_what_it_opens_and_nothing_else_changes(text):
    balanced = balance(text)
    assert all(depth_at_ends(line) == [] for line in balanced.split("\n"))
    assert balance(balanced) == balanced
    assert [c for c in balanced if c in "ab\n"] == [c for c in text if c in "ab\n"]


@given(texts)
def test_what_is_balanced_stays(text):
    once = balance(text)
    assert balance(once) is once or balance(once) == once
    for line in text.split("\n"):
        try:
            closed = depth_at_ends(line) == []
        except AssertionError:
            closed = False
        if closed:
            assert balance(line) == line


@given(st.lists(texts.map(lambda text: text.replace("\n", "")), min_size=1, max_size=5))
def test_parts_of_a_line_are_balanced_together(parts):
    balanced = balance_parts(parts)
    assert len(balanced) == len(parts)
    assert "".join(balanced) == balance("".join(parts))


@pytest.mark.parametrize(
    "text",
    [
        f"a{RLO}b",
        f"a {RLO}**b** c",
        f"|a{RLO}|b{PDF}|\n|-|-|\n|c|{RLI}d|",
        f"# {RLE}a\n\nb",
        f"`{RLO}a` b",
        f"```\n{RLO}a\n{RLI}b\n```",
        f"$\\text{{{RLO}a}}$ b",
        f"![{RLO}a](x) b",
        f"- {RLO}a\n- b{PDF}",
    ],
)
def test_no_block_of_a_rendered_text_leaves_a_control_open(text):
    assert {RLO, RLI, RLE} & set(render(text))
    for how in ("markdown", "plain"):
        html = render(text, how)
        for block in html.replace("</td>", "\n").replace("</th>", "\n").split("\n"):
            assert depth_at_ends(Reading(_without_tags(block)).text) == []


def _without_tags(html: str) -> str:
    return "".join(piece.partition(">")[2] for piece in ("x>" + html).split("<"))


def test_balanced_controls_across_bold_text_survive():
    assert render(f"{RLI}a **b** c{PDI}") == (
        f'<p dir="auto">{RLI}a <strong>b</strong> c{PDI}</p>\n'
    )


def test_each_top_block_finds_its_own_direction():
    html = render("שלום\n\nhello\n\n- مرحبا\n\n> سلام\n\n|ا|\n|-|\n|ب|\n\n# ا\n\n    code")
    directions = [(tag, attributes.get("dir")) for tag, attributes in Reading(html).elements]
    for tag in ("ul", "blockquote", "table", "h4"):
        assert (tag, "auto") in directions
    assert directions.count(("p", "auto")) == 2
    assert ("pre", "ltr") in directions
